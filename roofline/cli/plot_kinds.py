"""The kinds of plots that ``roofline plot`` draws, and how a command line without a kind is read."""

from __future__ import annotations

from collections.abc import Sequence

PLOTS = {
    "roofline": (
        "Draw prefill and decode under the roofs of an accelerator.",
        (
            "llama-3.1-70b --hardware 2xh100-sxm -o roofline.png",
            "llama-3.1-8b --hardware h100-sxm --batch 16 --measured bench.json -o roofline.svg",
        ),
    ),
    "rooflines": ("Draw the roofs of several accelerators.", ("h100-sxm mi300x b200-sxm -o rooflines.png",)),
    "time-breakdown": (
        "Draw where the time of prefill and decode goes.",
        ("llama-3.1-8b --hardware h100-sxm --batch 1,64 -o time.png",),
    ),
    "memory-stack": (
        "Draw memory use, one bar for each value of a list.",
        ("llama-3.1-70b --hardware h100-sxm --tp 1,2,4 -o memory.png",),
    ),
    "curves": (
        "Draw time or throughput over batch, context, prompt or load.",
        (
            "llama-3.1-8b --hardware h100-sxm --batch 1,8,64,256 -o curves.png",
            "llama-3.1-8b --hardware h100-sxm --phase prefill --prompt 500,1k,4k,16k -o prefill.png",
            "llama-3.1-8b --hardware h100-sxm --rate 1,2,4,8,16 --column ttft -o ttft.png",
        ),
    ),
    "throughput": (
        "Draw throughput per GPU against speed per user, one line per deployment.",
        ("llama-3.1-8b --hardware h100-sxm,l40s --weights bf16,fp8 -o throughput.png",),
    ),
    "cost": (
        "Draw the cost of tokens over the utilization of a fleet.",
        ("llama-3.1-8b --hardware h100-sxm --prices h100-sxm=$2.5 --rate 20 -o cost.png",),
    ),
    "hierarchy": (
        "Draw a matrix product under the roof of every level of the memory hierarchy.",
        ("4096 4096 4096 --hardware a100-sxm-80gb -o levels.png",),
    ),
    "kv": ("Draw the KV cache of models over the context.", ("llama-3.1-8b deepseek-v3 gemma-2-9b -o kv.png",)),
    "heatmap": (
        "Draw the time of a decode step over batch and context.",
        ("llama-3.1-8b --hardware h100-sxm --tpot 20ms -o heatmap.png",),
    ),
    "waterfall": (
        "Draw how a change leads from one time to another, part by part.",
        (
            "llama-3.1-70b --hardware h200-sxm --to-weights fp8 -o fp8.png",
            "llama-3.1-70b --hardware h200-sxm --technique quantization,speculative -o both.png",
        ),
    ),
    "techniques": (
        "Draw the effect of every technique on a deployment.",
        ("llama-3.1-70b --hardware 4xh100-sxm --batch 32 -o techniques.png",),
    ),
    "tornado": (
        "Draw what the time of a pass depends on.",
        ("llama-3.1-70b --hardware 2xh100-sxm --phase decode -o tornado.png",),
    ),
    "timeline": (
        "Draw a simulated second of a server: decode steps, prompts, stalls.",
        ("llama-3.1-8b --hardware h100-sxm --engine vllm --rate 12 --requests 400 -o second.png",),
    ),
    "queue": (
        "Draw the waiting and running requests of a simulation over time.",
        ("llama-3.1-8b --hardware h100-sxm --rate 20 --burstiness 4 --requests 1000 -o queue.png",),
    ),
    "pareto": (
        "Draw throughput against speed for every candidate of a plan.",
        ("llama-3.1-8b --hardware h100-sxm,l4 --tpot 30ms -o pareto.png",),
    ),
    "phase-map": (
        "Draw whether prefill or decode takes most of the time, over prompt and output lengths.",
        ("llama-3.1-8b --hardware h100-sxm --batch 16 -o map.png",),
    ),
    "by-year": ("Draw a property of all accelerators by year.", ("--vendor NVIDIA -o years.png",)),
}
"""Kinds of plots, each drawn by a function of that name in ``commands/pictures.py``, with examples."""

OF_SERVERS = ("timeline", "queue")
"""Kinds whose functions are in ``commands/server_pictures.py``."""

PLOT_HELP = (
    "Draw a plot: roofline, curves, memory, queue and more.",
    "The file extension selects PNG, SVG or PDF. Without a kind, the roofline is drawn.",
    ("roofline llama-3.1-70b --hardware 2xh100-sxm -o roofline.png", "curves --help"),
)
"""Summary, description and examples of ``roofline plot``."""


def with_kind(arguments: Sequence[str]) -> list[str]:
    """The arguments, with ``roofline`` as the kind if ``plot MODEL`` names none.

    Examples
    --------
    >>> with_kind(["plot", "gpt-2", "--hardware", "l4"])
    ['plot', 'roofline', 'gpt-2', '--hardware', 'l4']
    >>> with_kind(["plot", "rofline", "gpt-2"])
    ['plot', 'rofline', 'gpt-2']
    """
    command, *rest = list(arguments) or [""]
    if command != "plot" or not rest or rest[0] in PLOTS or rest[0].startswith("-"):
        return list(arguments)
    named_twice = len(rest) > 1 and not rest[1].startswith("-")
    return list(arguments) if named_twice else [command, "roofline", *rest]
