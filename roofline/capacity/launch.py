"""Commands that start an engine for a deployment.

==========  ======================================================================================================
vLLM        https://docs.vllm.ai/en/latest/cli/serve.html; the world has TP x prefill context parallel devices, and
            ``--decode-context-parallel-size`` divides the cache within a tensor-parallel group
SGLang      https://docs.sglang.io/advanced_features/server_arguments.html; with attention in data parallel,
            ``--tp-size`` counts all accelerators of the group
TensorRT    https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve
==========  ======================================================================================================
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ..arrays import FrozenMapping
from ..errors import InvalidInput, unknown
from ..formats import get_format
from ..hardware import Accelerator
from ..model import Model
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..serving.sources import serves
from ..techniques.adapters import MultiLoRA
from ..techniques.technique import Technique

Options = Mapping[str, int | str | float | bool]
"""Option -> value; True for a flag."""


def launch_command(
    serve: Deployment,
    load: Workload,
    *,
    engine: str | None = None,
    pool: str = "",
    longest_tokens: int | None = None,
) -> str:
    """The shell command that starts an engine for a deployment.

    Settings without an option, such as a format that needs another checkpoint, follow in a ``#`` comment.

    Parameters
    ----------
    serve : Deployment
        Deployment with scalar settings.
    load : Workload
        The batch becomes the limit on running sequences.
    engine : str, optional
        ``vllm``, ``sglang`` or ``trtllm``; None uses the deployment's engine, or ``vllm``.
    pool : str
        ``prefill`` or ``decode`` for a worker of disaggregated pools, an option of vLLM and SGLang.
    longest_tokens : int, optional
        Limit on the context: prompt and output of the longest request. By default, those of the workload.

    Returns
    -------
    str
        Command in one line.

    Raises
    ------
    UnknownName
        There is no launcher for this engine.
    InvalidInput
        The layout or the workload is an array.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment("llama-3.1-8b", "h100-sxm", parallel=rl.Parallel(tensor=2))
    >>> print(launch_command(serve, rl.Workload(2000, 256, batch=64)))
    vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2 --max-num-seqs 64 --max-model-len 2256 \
--gpu-memory-utilization 0.9
    """
    name = engine or (str(serve.engine) if serve.engine else "vllm")
    if name not in LAUNCHERS:
        raise unknown("engine with a launch command", name, LAUNCHERS)
    if any(np.ndim(value) for value in (*serve.parallel.degrees, load.batch, load.sequence_tokens)):
        raise InvalidInput("a launch command needs a single layout and workload, not arrays")
    start, options = LAUNCHERS[name]
    length = int(load.sequence_tokens if longest_tokens is None else longest_tokens)
    words = [start.format(model=shlex.quote(repository(serve.model)))]
    of_pool = OPTIONS_OF_POOLS.get(name, {}).get(pool, {})
    for option, value in (dict(options(serve, load, length)) | dict(of_pool)).items():
        if value is True:
            words.append(option)
        elif value not in (False, ""):
            words.append(f"{option} {value}")
    notes = list(_notes(serve, name))
    return " ".join(words) + (f"  # {'; '.join(notes)}" if notes else "")


def repository(model: Model) -> str:
    """Hub id or name of a model's checkpoint or, if that is not known, of the source of its shapes; else its name.

    Examples
    --------
    >>> import roofline as rl
    >>> repository(rl.get_model("llama-3.1-8b"))
    'meta-llama/Llama-3.1-8B'
    """
    if model.repository:
        return model.repository
    found = re.search(r"huggingface\.co/([\w.-]+/[\w.-]+)", model.source)
    return found[1] if found else model.name


def _vllm(serve: Deployment, load: Workload, length: int) -> Options:
    layout = _degrees(serve)
    return {
        "--tensor-parallel-size": _many(layout.tensor),
        "--pipeline-parallel-size": _many(layout.pipeline),
        "--data-parallel-size": _many(layout.data),
        "--decode-context-parallel-size": _many(layout.decode_context),
        "--prefill-context-parallel-size": _many(layout.context),
        "--enable-expert-parallel": layout.expert > 1,
        "--quantization": "fp8" if _quantized_at_load(serve) else "",
        "--kv-cache-dtype": "fp8" if _fp8_cache(serve) else "",
        "--max-num-seqs": int(np.max(np.ceil(load.batch / layout.data))),
        "--max-model-len": length,
        "--gpu-memory-utilization": serve.engine_fraction,
    }


def _sglang(serve: Deployment, load: Workload, length: int) -> Options:
    layout = _degrees(serve)
    attention_in_data_parallel = layout.expert > 1 and layout.data > 1
    tensor = layout.tensor * layout.data if attention_in_data_parallel else layout.tensor
    return {
        "--tp-size": _many(tensor),
        "--pp-size": _many(layout.pipeline),
        "--dp-size": _many(layout.data),
        "--enable-dp-attention": attention_in_data_parallel,
        "--ep-size": _many(layout.expert),
        "--quantization": "fp8" if _quantized_at_load(serve) else "",
        "--kv-cache-dtype": "fp8_e4m3" if _fp8_cache(serve) else "",
        "--max-running-requests": int(np.max(load.batch)),
        "--context-length": length,
    }


def _trtllm(serve: Deployment, load: Workload, length: int) -> Options:
    layout = _degrees(serve)
    ranks = layout.tensor * layout.data if layout.expert > 1 else layout.tensor
    return {
        "--tp_size": _many(ranks),
        "--pp_size": _many(layout.pipeline),
        "--ep_size": _many(layout.expert),
        "--max_batch_size": int(np.max(np.ceil(load.batch / layout.data))),
        "--max_seq_len": length,
    }


LAUNCHERS: Mapping[str, tuple[str, Callable[[Deployment, Workload, int], Options]]] = FrozenMapping(
    {
        "vllm": ("vllm serve {model}", _vllm),
        "sglang": ("python -m sglang.launch_server --model-path {model}", _sglang),
        "trtllm": ("trtllm-serve {model}", _trtllm),
    }
)
"""Engine -> start of its command, and a function that returns its options."""


NIXL = """'{"kv_connector":"NixlConnector","kv_role":"kv_both"}'"""

OPTIONS_OF_POOLS: Mapping[str, Mapping[str, Options]] = FrozenMapping(
    {
        "vllm": {pool: {"--kv-transfer-config": NIXL} for pool in ("prefill", "decode")},
        "sglang": {pool: {"--disaggregation-mode": pool} for pool in ("prefill", "decode")},
    }
)
"""Engine -> pool -> options of the pool's workers: https://docs.vllm.ai/en/stable/features/nixl_connector_usage.html
and https://docs.sglang.io/advanced_features/pd_disaggregation.html; TensorRT-LLM uses files instead."""


DRAFTING = ("speculative", "mtp", "tree-drafting", "ngram-drafting", "parallel-drafting")
BY_DEFAULT = ("continuous-batching", "paged-attention", "prefix-caching", "chunked-prefill", "kv-cache", "cuda-graphs")
"""Techniques that the three engines use unless they are switched off."""

OPTIONS_OF_DRAFTING: Mapping[str, str] = FrozenMapping(
    {
        "vllm": "--speculative-config",
        "sglang": "--speculative-algorithm",
        "trtllm": "speculative_config in the --config file",
    }
)
"""Engine -> what switches speculative decoding on: https://docs.vllm.ai/en/latest/features/speculative_decoding,
https://docs.sglang.io/docs/advanced_features/server_arguments.md and
https://nvidia.github.io/TensorRT-LLM/features/speculative-decoding.html."""


OPTIONS_OF_ADAPTERS: Mapping[str, str] = FrozenMapping(
    {
        "vllm": "--enable-lora --max-loras {adapters} --max-lora-rank {rank}",
        "sglang": "--enable-lora --max-loras-per-batch {adapters} --max-lora-rank {rank}",
        "trtllm": "lora_config in the --config file",
    }
)
"""Engine -> what switches adapters on: https://docs.vllm.ai/en/v0.8.5/features/lora.html,
https://docs.sglang.io/advanced_features/lora.html and https://nvidia.github.io/TensorRT-LLM/features/lora.html."""


def technique_notes(techniques: Iterable[Technique], engine: str) -> Iterator[str]:
    """Techniques of a plan that its launch command leaves out, with the option that switches them on, if known.

    Examples
    --------
    >>> from roofline.techniques import MultiLoRA, PrefixCaching, Speculation
    >>> list(technique_notes([PrefixCaching(), Speculation()], "vllm"))
    ['add --speculative-config for speculative decoding']
    >>> list(technique_notes([MultiLoRA(adapters=50)], "vllm"))
    ['add --enable-lora --max-loras 50 --max-lora-rank 16 for multi-LoRA serving']
    """
    for technique in techniques:
        if technique.slug in DRAFTING and engine in OPTIONS_OF_DRAFTING:
            yield f"add {OPTIONS_OF_DRAFTING[engine]} for {technique.name}"
        elif isinstance(technique, MultiLoRA) and engine in OPTIONS_OF_ADAPTERS:
            options = OPTIONS_OF_ADAPTERS[engine].format(adapters=technique.adapters, rank=technique.rank)
            yield f"add {options} for {technique.name}"
        elif technique.slug not in BY_DEFAULT:
            yield f"switch on {technique.name}"


def engines_on(accelerator: Accelerator, model: Model) -> tuple[str, ...]:
    """Engines with a launch command that run a model on an accelerator; TensorRT-LLM needs NVIDIA GPUs."""
    there = (name for name in LAUNCHERS if name != "trtllm" or accelerator.vendor == "NVIDIA")
    return tuple(name for name in there if serves(model, name))


class _Degrees(NamedTuple):
    """Degrees of parallelism as integers."""

    tensor: int
    pipeline: int
    expert: int
    data: int
    context: int
    decode_context: int


def _degrees(serve: Deployment) -> _Degrees:
    layout = serve.parallel
    return _Degrees(*(int(np.max(degree)) for degree in (*layout.degrees, layout.decode_context)))


def _many(degree: int) -> int | str:
    """Option for a degree of parallelism; empty for 1, the default of all engines."""
    return degree if degree > 1 else ""


def _of_checkpoint(serve: Deployment) -> str:
    """Format of the published weights."""
    return serve.model.precision.weights if serve.model.precision else "bf16"


def _quantized_at_load(serve: Deployment) -> bool:
    """Whether 16-bit weights are converted to fp8 at load time, which needs no other checkpoint."""
    return serve.precision.weights == "fp8" and get_format(_of_checkpoint(serve)).bits >= 16


def _fp8_cache(serve: Deployment) -> bool:
    return serve.precision.kv.startswith("fp8")


def _notes(serve: Deployment, engine: str) -> Iterator[str]:
    """Notes on settings without an option."""
    layout, weights = _degrees(serve), serve.precision.weights
    needs_checkpoint = engine == "trtllm" or not _quantized_at_load(serve)
    if weights != _of_checkpoint(serve) and needs_checkpoint:
        yield f"needs a checkpoint in {weights}"
    if engine == "trtllm" and _fp8_cache(serve):
        yield "set kv_cache_config.dtype to fp8 in the --config file"
    if engine == "trtllm" and layout.data > 1:
        replicas = f"start {layout.data} servers behind a load balancer"
        yield "set enable_attention_dp in the --config file" if layout.expert > 1 else replicas
    if engine != "vllm" and max(layout.context, layout.decode_context) > 1:
        yield "context parallelism: see the engine's documentation"
    kv = serve.precision.kv
    if get_format(kv).bits < 16 and not _fp8_cache(serve):
        yield f"check that the engine supports a KV cache in {kv}"
