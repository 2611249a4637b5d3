"""Engines: how a server schedules, admits and pages, and the time that its host adds to a step.

An `Engine` is a value.  Its defaults come from the file of its name in ``engine_specs``, where each has a source, or in
the directories of ``ROOFLINE_SPECS``.  Some defaults depend on the device or the version; `Engine.on` resolves those
that depend on the device.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ..errors import InvalidInput, Number, SpecError, unknown
from ..files import read_yaml
from ..hardware import Accelerator
from ..values import Value
from .engine_settings import FIELDS, EngineFacts, Rule
from .folders import spec_folders

GENERIC = "default"
"""The engine that is used if none is named."""


@dataclass(frozen=True, eq=False)
class Engine(Value):
    """An inference engine and its settings; None stands for the engine's default.

    Attributes
    ----------
    name : str
        An engine with a file in ``engine_specs``, such as ``vllm``, ``sglang`` or ``trtllm``, or another name for one,
        such as ``TensorRT-LLM``.
    version : str
        Release, such as ``0.19.0``; the newest if empty.
    kernels : str
        Profile in ``efficiency_specs`` that describes its kernels; None for the median of all.
    scheduler : str
        ``mixed``: a step computes a token of every running sequence and as many prompt tokens as its budget has left
        (vLLM, TensorRT-LLM, llama.cpp). ``prefill_first``: prompts run in passes of their own while decoding waits
        (SGLang, TGI). ``static``: a batch runs until its last sequence ends (plain ``transformers``).
    chunked : bool
        Whether a prompt may be split to fill the budget of a step; otherwise only whole prompts run.
    step_tokens : int
        Largest number of tokens in a step, prompts and running sequences together (vLLM's ``max_num_batched_tokens``);
        for ``prefill_first``, of prompt tokens in a pass (SGLang's ``chunked_prefill_size``). If infinite, prompts are
        never split.
    max_sequences : int
        Largest number of running sequences (vLLM's ``max_num_seqs``).
    admission : str
        ``grow``: a sequence takes pages as it grows, and the last one admitted is preempted when they run out.
        ``reserve``: the pages of its full length are set aside before it starts.
    page_tokens : int
        Tokens of a page of the KV cache.
    receive_interval : int
        Steps between two checks for new requests (SGLang's ``--scheduler-recv-interval``).
    schedule_interval : int
        Decode steps that run before requests are scheduled again, unless prompts came in between (vLLM's
        ``--num-scheduler-steps``, SGLang's ``--num-continuous-decode-steps``).
    batch_wait_steps, batch_wait_share : int, float
        Steps for which prompts are held back at most until they fill that share of ``step_tokens``, while others
        generate (TensorRT-LLM's ``batch_wait_timeout_iters`` and ``batch_wait_max_tokens_ratio``); 0 for not at all.
    balance_wait_steps : int
        Steps for which prompts of one replica of attention wait at most until every replica that shares its experts
        has some (TensorRT-LLM's ``attention_dp_config``: ``enable_balance`` with ``timeout_iters``); 0 for not at all.
    balance_batching_steps : int
        Steps for which they then wait for more (``batching_wait_iters``).
    ranks_wait : bool
        Whether a prompt of one replica of attention makes the others that share its experts wait, as all take part in
        every step.
    prefix_caching : bool
        Whether prefixes of earlier prompts are kept in the cache.
    memory_fraction, memory_fraction_of : float, str
        Share of memory that the engine uses, and the memory that it refers to.
    sampler_bytes : float
        Bytes for each logit of each sequence while tokens are sampled.
    non_torch_bytes, non_torch_parallel_bytes : float
        Memory outside the framework's allocator, on one accelerator and under tensor parallelism.
    graph_bytes, graph_layer_bytes : float
        CUDA graphs: a fixed part, and that of each layer.
    graphs_in_fraction : bool
        Whether graphs come out of the engine's share of memory.
    sampler_rows : str
        What has logits in a step: running ``sequences``, or all ``tokens`` (llama.cpp).
    groups_layers : bool
        Whether layers with equal caches are padded to groups of one size (vLLM's hybrid cache manager).
    frees_windows : bool
        Whether layers with a window keep only its tokens (TensorRT-LLM keeps all unless ``max_attention_window`` is
        given).
    windows_of : str
        Beginnings of the names of models whose windowed layers keep only their windows, with spaces between (SGLang
        keeps the whole cache of others); empty if all models' do.
    stores_shared : bool
        Whether layers that use the keys and values of another one have room in the pool all the same (SGLang).
    window_share : float
        Tokens that layers with windows have room for, as a share of those of the other layers (SGLang's
        ``swa_full_tokens_ratio``); 0 if they have room for as many as they need.
    state_bits : float
        Bits of a value of recurrent state (vLLM's ``mamba_ssm_cache_dtype``).
    state_share, state_slots : float
        Share of the pool that is set aside for recurrent states (0 for one pool of states and tokens), and states that
        a running sequence takes if prefixes are cached (SGLang's ``mamba_full_memory_ratio`` / (1 + it), and the ratio
        of its states to its requests).
    index_bits : float
        Bits of a value of an index key of DeepSeek sparse attention, scales included; those of the KV cache if None.
    eager : bool
        Whether the engine runs without CUDA graphs (vLLM's ``enforce_eager``).
    loads_prediction : bool
        Whether layers for multi-token prediction are loaded, as engines do that speculate with them.
    step_s, layer_s : float
        Host time that is added to every step, and to every layer of it.
    rank_s : float
        Time per layer that accelerators wait for each other, to be multiplied by ``log2`` of their number.
    sparse_layer_s : float
        Time that selecting tokens adds to each layer with an indexer (DeepSeek sparse attention).
    latent_layer_s : float
        Time of the small kernels beside the products and the attention of a layer with latent attention (MLA).
    delta_layer_s : float
        Host time that a layer with a delta rule (Gated DeltaNet, Kimi Delta Attention) adds to a pass with prompts.
    launch_share : float
        Share of the kernels' fixed times that remains in a decode step (CUDA graphs hide the rest).
    eager_layer_s : float
        Host time per layer of a pass with prompts, which runs without a graph and in parallel with the device.
    quantization_kernels : float
        Kernels of a layer that quantize activations before a product, where they are launched by themselves.
    adapter_kernel_s : float
        Host time of launching one kernel of a low-rank adapter in such a pass.
    drafting_step_s : float
        Host time that speculation adds to a step if the scheduler waits for the accepted tokens.
    graph_tokens : int
        Largest number of tokens with which a pass with prompts runs in captured graphs; 0 for none.
    graph_tokens_of_sequence : int
        The same for each of ``max_sequences``, where that makes fewer and ``graph_tokens`` is the default; 0 for no
        such limit.
    shared_stream_tokens : int
        Largest number of tokens of a captured step in which shared experts run beside the routed ones; 0 for none.
    decode_factor, prefill_factor : float
        Time of a decode step, and of a pass with prompts, divided by the time of their kernels.
    first_token_steps, request_s : float
        Steps and seconds between the arrival of a request and its first token that belong to neither queue nor pass:
        a step that is scheduled ahead of the arrival, HTTP, detokenization.
    request_token_s : float
        The same for every token of the prompt: tokenization, copies between processes.
    receive_share : float
        Share of the receive interval that a request waits on average.
    basis : str
        Basis of the host times, if they were fitted to your own runs.

    Raises
    ------
    UnknownName
        There is no such engine, or a word is not among the choices.
    InvalidInput
        A number is out of range.

    Examples
    --------
    >>> Engine("vllm").scheduler, Engine("sglang").scheduler
    ('mixed', 'prefill_first')
    >>> Engine("vllm", step_tokens=2048).step_tokens
    2048
    >>> Engine("TensorRT-LLM").name
    'trtllm'
    """

    name: str
    version: str = ""
    kernels: str | None = None
    scheduler: str | None = None
    chunked: bool | None = None
    step_tokens: float | None = None
    max_sequences: float | None = None
    admission: str | None = None
    page_tokens: float | None = None
    receive_interval: float | None = None
    schedule_interval: float | None = None
    batch_wait_steps: float | None = None
    batch_wait_share: float | None = None
    balance_wait_steps: float | None = None
    balance_batching_steps: float | None = None
    ranks_wait: bool | None = None
    prefix_caching: bool | None = None
    memory_fraction: float | None = None
    memory_fraction_of: str | None = None
    sampler_bytes: float | None = None
    non_torch_bytes: float | None = None
    non_torch_parallel_bytes: float | None = None
    graph_bytes: float | None = None
    graph_layer_bytes: float | None = None
    graphs_in_fraction: bool | None = None
    sampler_rows: str | None = None
    groups_layers: bool | None = None
    frees_windows: bool | None = None
    windows_of: str | None = None
    stores_shared: bool | None = None
    window_share: float | None = None
    state_bits: float | None = None
    state_share: float | None = None
    state_slots: float | None = None
    index_bits: float | None = None
    eager: bool | None = None
    loads_prediction: bool | None = None
    step_s: float | None = None
    layer_s: float | None = None
    rank_s: float | None = None
    sparse_layer_s: float | None = None
    latent_layer_s: float | None = None
    delta_layer_s: float | None = None
    launch_share: float | None = None
    eager_layer_s: float | None = None
    quantization_kernels: float | None = None
    adapter_kernel_s: float | None = None
    drafting_step_s: float | None = None
    graph_tokens: float | None = None
    graph_tokens_of_sequence: float | None = None
    shared_stream_tokens: float | None = None
    decode_factor: float | None = None
    prefill_factor: float | None = None
    first_token_steps: float | None = None
    request_s: float | None = None
    request_token_s: float | None = None
    receive_share: float | None = None
    basis: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", engine_named(self.name))
        if not isinstance(self.version, str):
            raise InvalidInput(f"version must be text, such as '0.19.0': {self.version!r:.80}")
        if self.kernels is None:
            object.__setattr__(self, "kernels", facts(self.name).kernels or None)
        for field, kind in FIELDS.items():
            value = getattr(self, field)
            if value is not None:
                kind.check(field, value)
            elif (rule := self._rule(field, None)) is not None:
                object.__setattr__(self, field, rule.value)

    def _rule(self, field: str, accelerator: Accelerator | None) -> Rule | None:
        """Default of a field; None if it depends on the device and none is given."""
        rules = [rule for rule in _rules(self.name, field) if rule.holds(self.version)]
        if accelerator is not None:
            rules = [rule for rule in rules if rule.fits(accelerator)]
        elif any(rule.by_device for rule in rules):
            return None
        return rules[0] if rules else None

    @property
    def title(self) -> str:
        """Name as its makers write it."""
        return facts(self.name).title

    def on(self, accelerator: Accelerator) -> Engine:
        """A copy with the defaults for a device filled in."""
        found: dict[str, Any] = {}
        for field in FIELDS:
            rule = self._rule(field, accelerator) if getattr(self, field) is None else None
            if rule is not None:
                found[field] = rule.value
        return dataclasses.replace(self, **found)

    @property
    def captured_tokens(self) -> float:
        """Largest number of tokens with which a pass with prompts runs in captured graphs, as the settings have it."""
        most, each = self.graph_tokens or 0.0, self.graph_tokens_of_sequence or 0.0
        if self.eager:
            return 0.0
        if not each or self.max_sequences is None or self.source_of("graph_tokens") == "given":
            return float(most)
        return float(min(most, each * self.max_sequences))

    def handling_s(self, prompt_tokens: Number) -> Number:
        """Return the time from sending a request until its scheduler sees it, seconds."""
        return (self.request_s or 0.0) + (self.request_token_s or 0.0) * prompt_tokens

    def source_of(self, field: str) -> str:
        """Source of a field's default; ``given`` if it was set."""
        value = getattr(self, field)
        rules = [rule for rule in _rules(self.name, field) if rule.value == value]
        return rules[0].source if rules else "given"

    def replace(self, **changes: Any) -> Engine:
        """A copy with other settings."""
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    def __repr__(self) -> str:
        usual = Engine(self.name, self.version)
        shown = [repr(self.name)]
        for item in dataclasses.fields(self)[1:]:
            value = getattr(self, item.name)
            if (item.name == "version" and value) or value != getattr(usual, item.name):
                shown.append(f"{item.name}={value!r}")
        return f"Engine({', '.join(shown)})"


def list_engines() -> list[str]:
    """List the names of all engines with a file in ``engine_specs``.

    Examples
    --------
    >>> "vllm" in list_engines()
    True
    """
    return sorted(name for name in _paths(os.environ.get("ROOFLINE_SPECS", "")) if name != GENERIC)


def engine_named(name: str) -> str:
    """Return the canonical name of an engine; case and separators do not matter, and aliases are accepted.

    Raises
    ------
    UnknownName
        There is no such engine; the message offers the nearest.

    Examples
    --------
    >>> engine_named("vLLM"), engine_named("TensorRT-LLM"), engine_named("llama.cpp")
    ('vllm', 'trtllm', 'llamacpp')
    """
    paths = _paths(os.environ.get("ROOFLINE_SPECS", ""))
    if name in paths:
        return name
    wanted = _squeezed(str(name))
    for stem in paths:
        if wanted == _squeezed(stem):
            return stem
    for stem in paths:  # files are read only if the name is not that of a file
        known = facts(stem)
        if wanted in map(_squeezed, (known.title, *known.aliases)):
            return stem
    raise unknown("engine", name, [stem for stem in paths if stem != GENERIC])


def _squeezed(name: str) -> str:
    """A name in lower case, letters and digits only."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def facts(name: str) -> EngineFacts:
    """Read the file of an engine.

    Raises
    ------
    UnknownName
        There is no such engine; the message offers the nearest.
    SpecError
        The file cannot be read or is invalid.
    """
    return _facts(name, os.environ.get("ROOFLINE_SPECS", ""))


@lru_cache(maxsize=64)
def _facts(name: str, folders: str) -> EngineFacts:
    paths = _paths(folders)
    if name not in paths:
        raise unknown("engine", name, [known for known in paths if known != GENERIC])
    from .engine_schema import EngineSpec
    from .schema import value_of

    path = paths[name]
    return cast(EngineFacts, value_of(read_yaml(path), cast(Any, EngineSpec), path))


@lru_cache(maxsize=8)
def _paths(folders: str) -> dict[str, Path]:
    """Engine -> file; ``folders`` is the value of the environment variable, so that changes are noticed."""
    found: dict[str, Path] = {}
    for folder in spec_folders("engine_specs"):
        for path in sorted(folder.glob("*.y*ml")):
            if folder.name == "engine_specs":
                found[path.stem] = path
    return found


def _rules(name: str, field: str) -> tuple[Rule, ...]:
    """Defaults of a field: the engine's own, those of the engine it resembles, or the generic ones."""
    seen: list[str] = []
    while name and name not in seen:
        seen.append(name)
        known = facts(name)
        if field in known.rules:
            return known.rules[field]
        name = known.like or (GENERIC if name != GENERIC else "")
    if len(seen) > 1 and seen[-1] != GENERIC:
        raise SpecError(f"engine_specs: {' and '.join(seen)} refer to each other with like")
    return ()
