"""An example of every plot, and what must hold of each: texts that can be read, on nothing, inside the figure."""

import itertools
from functools import cache, partial

import numpy as np
from matplotlib.text import Text

import roofline as rl
from roofline.advisor import phase_map
from roofline.measured import Measurement
from roofline.plot.style import background, contrast

LLAMA8, LLAMA70 = (rl.Deployment(name, "h100-sxm") for name in ("llama-3.1-8b", "llama-3.1-70b"))
BATCHES = 2.0 ** np.arange(0, 9)
LOAD = rl.Workload(1500, 300, batch=16)
FP8 = rl.quantize(LLAMA8, weights="fp8", activations="fp8", kv="fp8")
CHOSEN = (rl.techniques.Quantization(weights="fp8"), rl.techniques.Speculation(acceptance=0.7))
RUN = Measurement("by hand", "notes", kind="batch", batch=16, prompt_tokens=1500, output_tokens=300,
                  ttft_median_s=0.9, tpot_median_s=0.0095)  # fmt: skip
RANKING = ("llama-3.1-8b", "qwen3-8b", "gemma-2-9b", "phi-4", "mixtral-8x7b", "llama-3.1-70b", "gpt-2", "deepseek-v3")

EIGHT_SMALL = (*RANKING[:4], "gpt-2", "qwen3-14b", "llama-2-7b", "mistral-7b")


@cache
def plan():
    return rl.plan("llama-3.1-8b", ["h100-sxm", "l4"], LOAD, slo=rl.SLO(tpot_s=0.03), accelerators=(1, 2))


@cache
def priced_fleet():
    prices = {"h100-sxm": 2.5, "l4": 0.8}
    found = rl.plan("llama-3.1-8b", list(prices), LOAD, slo=rl.SLO(tpot_s=0.05), accelerators=(1, 2), prices=prices)
    return rl.fleet(found, requests_per_s=20, utilization=0.6)


@cache
def steps(**formats):
    return rl.decode(rl.quantize(LLAMA8, **formats), rl.Workload(batch=BATCHES), context_tokens=2048)


def both(serve=LLAMA8, load=LOAD):
    return rl.prefill(serve, load), rl.decode(serve, load)


def sharded(tensor):
    return LLAMA70.replace(parallel=rl.Parallel(tensor=tensor))


@cache
def techniques():
    return rl.technique_table(LLAMA8, LOAD, time="roofline_s")


@cache
def served(data=1, **settings):
    serve = LLAMA8.replace(engine=rl.Engine("vllm", max_sequences=8, **settings), parallel=rl.Parallel(data=data))
    return rl.simulate(serve, rl.Workload(1500, 300), requests_per_s=9.0, burstiness=4.0, requests=150, seed=1)


def drawing(function, *results, **how):
    """A plot function with what it draws."""
    return partial(function, *results, **how)


EXAMPLES = {
    "by_year": lambda: drawing(rl.plot.by_year, rl.ridge_table(vendor="AMD")),
    "cost": lambda: drawing(rl.plot.cost, priced_fleet(), api=0.3),
    "curves": lambda: drawing(rl.plot.curves, steps(), measured={1: 6.9e-3, 64: 9.8e-3}),
    "curves, tokens/s": lambda: drawing(rl.plot.curves, steps(), column="tokens_per_s"),
    "curves, served": lambda: drawing(
        rl.plot.curves,
        rl.serve(LLAMA8, LOAD, requests_per_s=[1, 4, 16, 64], method="closed-form"),
        column="ttft_s",
    ),
    "curves, eight": lambda: drawing(
        rl.plot.curves,
        *[
            rl.serve(rl.Deployment(name, "h100-sxm"), LOAD, requests_per_s=[1, 2, 4, 8, 16], method="closed-form")
            for name in EIGHT_SMALL
        ],
        column="ttft_s",
    ),
    "heatmap": lambda: drawing(rl.plot.heatmap, LLAMA8, tpot_s=0.02),
    "hierarchy": lambda: drawing(rl.plot.hierarchy, rl.memory_hierarchy(4096, 4096, 4096, "a100-sxm-80gb")),
    "hierarchy, one token": lambda: drawing(rl.plot.hierarchy, rl.memory_hierarchy(1, 4096, 4096, "a100-sxm-80gb")),
    "kv": lambda: drawing(rl.plot.kv, *RANKING[:4]),
    "memory_stack": lambda: drawing(rl.plot.memory_stack, *[rl.memory(sharded(tp), LOAD) for tp in (1, 2, 4)]),
    "memory_stack, one": lambda: drawing(rl.plot.memory_stack, rl.memory(LLAMA8, LOAD)),
    "memory_stack, eight": lambda: drawing(
        rl.plot.memory_stack, *[rl.memory(rl.Deployment(name, "h100-sxm"), LOAD) for name in RANKING]
    ),
    "pareto": lambda: drawing(rl.plot.pareto, plan()),
    "phase_map": lambda: drawing(rl.plot.phase_map, phase_map(LLAMA8, time="roofline_s")),
    "roofline": lambda: drawing(rl.plot.roofline, "h100-sxm", *both()),
    "roofline, empty": lambda: drawing(rl.plot.roofline, "groq-3-lpu"),
    "roofline, misfit": lambda: drawing(rl.plot.roofline, "h100-sxm", *both(LLAMA70)),
    "roofline, measured": lambda: drawing(rl.plot.roofline, "h100-sxm", *both(), rl.headroom(LLAMA8, RUN)),
    "roofline, eight": lambda: drawing(
        rl.plot.roofline, "h100-sxm", *[rl.decode(rl.Deployment(name, "h100-sxm"), LOAD) for name in RANKING]
    ),
    "roofline, eight sweeps": lambda: drawing(
        rl.plot.roofline,
        "h100-sxm",
        *[rl.decode(rl.Deployment(name, "h100-sxm"), rl.Workload(batch=BATCHES)) for name in RANKING],
    ),
    "rooflines": lambda: drawing(rl.plot.rooflines, "h100-sxm", "h200-sxm", "mi300x", "l4"),
    "throughput": lambda: drawing(rl.plot.throughput, steps(), steps(weights="fp8", activations="fp8")),
    "throughput, eight": lambda: drawing(
        rl.plot.throughput,
        *[rl.decode(rl.Deployment(name, "h100-sxm"), rl.Workload(batch=BATCHES)) for name in RANKING],
    ),
    "queue": lambda: drawing(rl.plot.queue, served()),
    "techniques": lambda: drawing(rl.plot.techniques, techniques()),
    "timeline": lambda: drawing(rl.plot.timeline, served(), start_s=4.0),
    "timeline, stalls": lambda: drawing(rl.plot.timeline, served(scheduler="prefill_first"), start_s=4.0),
    "timeline, replicas": lambda: drawing(rl.plot.timeline, served(data=2), start_s=4.0, span_s=0.5),
    "waterfall": lambda: drawing(rl.plot.waterfall, rl.compare(both()[1], both(FP8)[1])),
    "waterfall, slower": lambda: drawing(rl.plot.waterfall, rl.compare(both(FP8)[0], both()[0]), column="roofline_s"),
    "waterfall, memory": lambda: drawing(rl.plot.waterfall, rl.compare(rl.memory(LLAMA8, LOAD), rl.memory(FP8, LOAD))),
    "waterfall, techniques": lambda: drawing(rl.plot.waterfall, rl.apply(LLAMA8, LOAD, CHOSEN, time="roofline_s")),
    "time_breakdown": lambda: drawing(rl.plot.time_breakdown, *both(), *both(LLAMA70)),
    "time_breakdown, eight": lambda: drawing(
        rl.plot.time_breakdown, *[step for name in RANKING[:4] for step in both(rl.Deployment(name, "h100-sxm"))]
    ),
    "tornado": lambda: drawing(rl.plot.tornado, rl.sensitivity(rl.decode(LLAMA8, LOAD), time="roofline_s")),
}
"""Plot function, and what is special about the example -> how it is drawn."""


@cache
def example(name):
    """The example of that name, its results computed once."""
    return EXAMPLES[name]()


def texts_of(ax):
    """Every text of a plot that is shown."""
    low_high = [(axis, axis.get_view_interval()) for axis in (ax.xaxis, ax.yaxis)]
    ticks = [
        tick.label1
        for axis, (low, high) in low_high
        for tick in axis.get_major_ticks()
        if min(low, high) * (1 - 1e-9) <= tick.get_loc() <= max(low, high) * (1 + 1e-9)
    ]
    legend = ax.get_legend()
    named = [] if legend is None else [legend.get_title(), *legend.get_texts()]
    texts = [*ax.texts, ax._left_title, ax.xaxis.label, ax.yaxis.label, *ticks, *named]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def boxes_of(ax):
    """Text -> its box, arrows of annotations left out, once everything is laid out."""
    ax.figure.draw_without_rendering()
    return {text: Text.get_window_extent(text) for text in texts_of(ax)}


def corners(text, box):
    """``[4, 2]``: the corners of a text, which lie inside its box where it is slanted."""
    angle = np.radians(text.get_rotation() % 180)
    size = np.array([box.width, box.height])
    if abs(np.sin(2 * angle)) > 1e-9:
        size = np.linalg.solve([[np.cos(angle), np.sin(angle)], [np.sin(angle), np.cos(angle)]], size)
    else:
        angle = 0.0
    half = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * (size / 2 - 0.5)
    turned = half @ [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return turned + np.array([box.x0 + box.x1, box.y0 + box.y1]) / 2


def apart(one, other):
    """Whether a line separates two rectangles: one along a side of either (separating axes)."""
    for sides in (one, other):
        for axis in (sides[1] - sides[0], sides[3] - sides[0]):
            first, second = one @ axis, other @ axis
            if first.max() <= second.min() or second.max() <= first.min():
                return True
    return False


def overlaps(boxes):
    """Pairs of texts that have more than a pixel in common."""
    shapes = {text: corners(text, box) for text, box in boxes.items()}
    pairs = itertools.combinations(shapes, 2)
    return [(a.get_text(), b.get_text()) for a, b in pairs if not apart(shapes[a], shapes[b])]


def outside(boxes):
    """Texts that leave their figure."""
    pages = {text: text.figure.figure.bbox.padded(1) for text in boxes}
    return [text.get_text() for text, box in boxes.items() if pages[text].count_contains(box.corners()) < 4]


def hard_to_read(ax, least=4.5):
    """Texts whose contrast to the background is below ``least``, those on a patch of their own aside."""
    paper = background(ax)
    plain = [
        text for text in texts_of(ax) if text.get_bbox_patch() is None and text not in getattr(ax, "bar_texts", ())
    ]
    return [text.get_text() for text in plain if contrast(text.get_color(), paper) < least]


def sizes(ax):
    """Sizes of the texts, in points."""
    return {text.get_fontsize() for text in texts_of(ax)}
