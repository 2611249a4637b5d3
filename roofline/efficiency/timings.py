"""Kernel timings: tables of shapes and seconds, and the operators that the shapes describe.

A table has one row per timed kernel; its columns decide the kind:

============  =========================================================================================================
kind          columns beside ``accelerator``, ``engine``, ``dtype`` and ``latency_s``
============  =========================================================================================================
gemm          ``m n k``: ``[m, k] @ [k, n]``
attention     ``kv_dtype batch_size new_tokens past_tokens query_heads kv_heads head_dim window_size`` (0: no window)
mla           ``kv_dtype batch_size new_tokens past_tokens query_heads``: the shapes of DeepSeek-V3
moe           ``num_tokens hidden_size expert_intermediate_size topk num_experts moe_tp_size moe_ep_size distribution``
collective    ``collective num_gpus message_bytes library``; for gathers and scatters the whole buffer
============  =========================================================================================================

The rows of a `Batch` share all text columns (accelerator, formats, ...).  Its numbers are arrays, so one `Operator`
represents all rows.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .. import operators
from ..errors import MOST, SpecError, unknown
from ..files import as_path, read_bytes
from ..hardware import Accelerator
from ..operators.links import Message
from ..operators.operator import Operator, Pass, Segment
from ..operators.parallel import Parallel
from ..operators.precision import Precision
from ..operators.roofline import kernel_floor_s
from ..operators.softmax_attention import attention
from ..operators.weights import Linear
from ..specs.library import get_accelerator

MAX_BYTES = 256 * 2**20
WORDS = (
    "accelerator",
    "engine",
    "engine_version",
    "kernel_source",
    "dtype",
    "kv_dtype",
    "collective",
    "library",
    "distribution",
)
SIGNS = {"collective": "collective", "num_experts": "moe", "m": "gemm", "head_dim": "attention", "query_heads": "mla"}
"""Column that only one kind of table has -> the kind; the first column present decides."""

MLA_RANK, MLA_ROPE, MLA_NOPE, MLA_VALUE = 512, 64, 128, 128
"""Latent rank and widths of a head in DeepSeek-V3 (arXiv:2412.19437, section 4.2)."""

_SHAPE = "batch_size new_tokens past_tokens query_heads"
COLUMNS = {
    "gemm": "accelerator engine dtype m n k",
    "attention": f"accelerator engine dtype kv_dtype {_SHAPE} kv_heads head_dim window_size",
    "mla": f"accelerator engine dtype kv_dtype {_SHAPE}",
    "moe": "accelerator engine dtype num_tokens hidden_size expert_intermediate_size topk num_experts moe_tp_size"
    " moe_ep_size distribution",
    "collective": "accelerator library collective num_gpus message_bytes",
}
"""Kind of a table -> the columns that it has to have beside ``latency_s``."""

VALUE_DIMS = {192: 128}
"""Key width -> value width, for heads whose values are narrower: models with keys of 192 have values of 128."""

NON_GATED = frozenset({(1024, 2688), (2048, 5120), (2688, 1856), (4096, 2688), (8192, 5120)})
"""(hidden, intermediate) of experts with two matrices instead of three: those of Nemotron 3 use a squared ReLU."""

GEMM_FORMATS = {
    "bfloat16": ("bf16", "bf16"),
    "bf16": ("bf16", "bf16"),
    "fp8": ("fp8", "fp8"),
    "fp8_block": ("fp8_block", "fp8"),
    "nvfp4": ("nvfp4", "nvfp4"),
    "int8_wo": ("int8_g128", "bf16"),
    "int4_wo": ("int4", "bf16"),
    "sq": ("int8", "int8"),
    "w4a16_mxfp4": ("mxfp4", "bf16"),
    "w4a8_mxfp4_mxfp8": ("mxfp4", "mxfp8"),
    "w4afp8": ("int4", "fp8"),
}
"""``dtype`` in a table -> weight and activation formats; weight-only formats count no scales, as some lack them."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of one kind that share all text columns.

    Attributes
    ----------
    kind : str
        Kind of the table.
    words : mapping of str to str
        Text column (``accelerator``, ``dtype``, ...) -> value shared by all rows.
    columns : mapping of str to array
        Numeric column -> array with one value per row.
    rows : array
        Row numbers in the table.
    """

    kind: str
    words: Mapping[str, str]
    columns: Mapping[str, np.ndarray[Any, Any]]
    rows: np.ndarray[Any, Any]

    @property
    def latency_s(self) -> np.ndarray[Any, Any]:
        """Measured times in seconds, one per row."""
        return self.columns["latency_s"]

    @cached_property
    def operator(self) -> Operator:
        """One operator for all rows; its ``least`` is the work that an isolated kernel cannot avoid."""
        return _OPERATORS[self.kind](self)

    def take(self, chosen: np.ndarray[Any, Any]) -> Batch:
        """The rows that a mask or an index chooses."""
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return Batch(self.kind, self.words, columns, self.rows[chosen])


def read_timings(path: str | Path) -> list[Batch]:
    """Read the batches of a table from a CSV file, which may be gzipped.

    Raises
    ------
    SpecError
        The file cannot be read, is too large, lacks a column, or has an invalid number.
    """
    path = as_path(path)
    data = read_bytes(path, max_bytes=MAX_BYTES, what="a table of timings")
    if path.suffix == ".gz":
        try:
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise SpecError(f"{path} can't be read: {error}") from None
    if len(data) > MAX_BYTES:
        raise SpecError(f"{path} is too large; a table of timings may have at most {MAX_BYTES:,} bytes")
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig", "replace"))))
    except csv.Error as error:
        raise SpecError(f"{path} is not a CSV table: {error}") from None
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if len(rows) < 2:
        raise SpecError(f"{path} contains no timings; expected a line of column names, then one line per kernel")
    for at, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]):
            raise SpecError(f"{path}: row {at} has {len(row)} values for {len(rows[0])} columns")
    return batches(dict(zip(rows[0], np.array(rows[1:]).T, strict=True)), str(path))


def batches(table: Mapping[str, np.ndarray[Any, Any]], where: str = "table") -> list[Batch]:
    """The batches of a table of strings.

    Raises
    ------
    SpecError
        No kind of table has these columns, or a number is invalid.
    """
    kind = next((kind for sign, kind in SIGNS.items() if sign in table), None)
    if kind is None or "latency_s" not in table:
        raise SpecError(f"{where}: the columns match no kind of timing: {', '.join(table)}")
    missing = [name for name in COLUMNS[kind].split() if name not in table]
    if missing:
        raise SpecError(f"{where}: timings of kind {kind} lack {', '.join(missing)}")
    _check_words(kind, table, where)
    words = {name: values for name, values in table.items() if name in WORDS}
    numbers = {name: _numbers(name, v, where) for name, v in table.items() if name not in WORDS}
    keys, inverse = np.unique(np.stack(list(words.values())), axis=1, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    edges = np.searchsorted(inverse.ravel()[order], np.arange(keys.shape[1] + 1))
    found = []
    for at in range(keys.shape[1]):
        rows = order[edges[at] : edges[at + 1]]
        shared = {name: str(word) for name, word in zip(words, keys[:, at], strict=True)}
        found.append(Batch(kind, shared, {name: values[rows] for name, values in numbers.items()}, rows))
    return found


def _check_words(kind: str, table: Mapping[str, np.ndarray[Any, Any]], where: str) -> None:
    """Formats of products and distributions of tokens that are known; other columns may hold any word."""
    if kind in ("gemm", "moe"):
        for word in np.unique(table["dtype"]):
            if word not in GEMM_FORMATS:
                raise SpecError(f"{where}: {unknown('dtype', str(word), GEMM_FORMATS)}")
    for word in np.unique(table["distribution"]) if kind == "moe" else ():
        if not _DISTRIBUTION.fullmatch(str(word)):
            raise SpecError(
                f"{where}: distribution must be balanced, or a power law as in power_law_1.2: {str(word)!r}"
            )
    for word in np.unique(table["collective"]) if kind == "collective" else ():
        if str(word).replace("alltoall", "all_to_all") not in COLLECTIVES:
            raise SpecError(f"{where}: {unknown('collective', str(word), COLLECTIVES)}")


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")
_DISTRIBUTION = re.compile(r"[a-z]+|[a-z_]+_\d+(\.\d+)?")


def _numbers(name: str, values: np.ndarray[Any, Any], where: str) -> np.ndarray[Any, Any]:
    try:
        found = np.where(values == "", "0", values).astype(float)
    except ValueError as error:
        wrong = str(error).partition("np.str_(")[2].rstrip(")") or str(error)
        raise SpecError(f"{where}: {name} must be a number: {wrong}") from None
    is_time = name == "latency_s"
    wrong_rows = ~((found > 0 if is_time else found >= 0) & (found <= MOST))
    if np.any(wrong_rows):
        at = int(np.argmax(wrong_rows))
        wanted = "seconds above 0" if is_time else f"from 0 to {MOST:g}"
        raise SpecError(f"{where}: row {at + 2}: {name} must be {wanted}: {found[at]:g}")
    return found


def floors(batch: Batch, accelerators: Callable[[str], Accelerator] = get_accelerator) -> np.ndarray[Any, Any]:
    """`kernel_floor_s` of every row of a batch, allowing for operands that a timing loop finds in the last-level cache.

    A loop over operands much larger than the cache evicts each of them before its next use, whatever the replacement
    policy.  Operands of more than `STREAMS` times the cache are therefore read from memory.
    """
    accelerator = accelerators(batch.words["accelerator"])
    cache, operator = accelerator.l2_bytes or 0.0, batch.operator
    resident = np.where(operator.least.moved_bytes <= STREAMS * cache, cache, 0.0)
    return np.asarray(kernel_floor_s(operator, accelerator, resident_bytes=resident))


STREAMS = 3
"""Operands larger than this many times the last-level cache leave nothing in it."""


def _gemm(batch: Batch) -> Operator:
    """A dense product, including the bytes of its output."""
    weights, activations = GEMM_FORMATS[batch.words["dtype"]]
    m, n, k = (batch.columns[name] for name in "mnk")
    weight = Linear("gemm", k, n, "mlp")  # type: ignore[arg-type]
    run = _pass(Segment(m, 1.0, 0.0), weights=weights, activations=activations)
    found = operators.linear(weight, m, run)
    return replace(found, least=operators.matmul(m, k, n, weights=weights, activations=activations))


def _attention(batch: Batch) -> Operator:
    """Attention of one segment, including the bytes of queries, outputs and new keys and values."""
    columns = batch.columns
    width = columns["head_dim"]
    value = np.where(np.isin(width, list(VALUE_DIMS)), VALUE_DIMS[192], width)
    window = np.where(columns["window_size"] > 0, columns["window_size"], 1e15)
    kv_heads = columns["kv_heads"]
    kv_values = kv_heads * (width + value)
    return _fused(batch, key_dim=width, value_dim=value, kv_heads=kv_heads, kv_values=kv_values, window=window)


def _mla(batch: Batch) -> Operator:
    """MLA: decode on the latent (absorbed), prefill on expanded heads; each is ordinary attention of its own shape.

    In absorbed form, all query heads share one latent of width ``rank + rope``.  In expanded form, each head has its
    own keys of width ``nope + rope`` and its own values (DeepSeek-V2, arXiv:2405.04434, section 2.1).
    """
    heads = batch.columns["query_heads"]
    if np.all(batch.columns["new_tokens"] == 1):
        latent = MLA_RANK + MLA_ROPE
        found = _fused(batch, key_dim=latent, value_dim=MLA_RANK, kv_heads=1, kv_values=latent, window=None)
    else:
        key_dim, kv_values = MLA_NOPE + MLA_ROPE, heads * (MLA_NOPE + MLA_VALUE) + MLA_ROPE
        found = _fused(batch, key_dim=key_dim, value_dim=MLA_VALUE, kv_heads=heads, kv_values=kv_values, window=None)
    return replace(found, latent=True)


def _fused(batch: Batch, *, key_dim: Any, value_dim: Any, kv_heads: Any, kv_values: Any, window: Any) -> Operator:
    """Attention in the recorded format.  An 8-bit cache has a floor in 8-bit math, as kernels may convert queries."""
    columns = batch.columns
    math = "fp8" if batch.words["dtype"] == "fp8" else "bf16"
    kv = "fp8" if "fp8" in (batch.words["kv_dtype"], math) else "bf16"
    segment = Segment(columns["batch_size"], columns["new_tokens"], columns["past_tokens"])
    found = attention(
        segment,
        _pass(segment, kv=kv, attention=math),
        query_heads=columns["query_heads"],
        key_dim=key_dim,
        value_dim=value_dim,
        kv_values=kv_values,
        kv_heads=kv_heads,
        window=window,
    )
    activation_bytes = found.work.activation_bytes * (0.5 if kv == "fp8" else 1.0)
    return replace(found, least=replace(found.least, activation_bytes=activation_bytes, math=kv))


def _moe(batch: Batch) -> Operator:
    """All routed products of this GPU as one grouped operator over matrices of ``hidden * matrices`` rows.

    ``tp`` divides the width of each expert, ``ep`` the number of experts: of the ``topk`` experts that a token selects,
    ``topk / ep`` are on this GPU on average.  Each matrix reads its inputs and writes its results, as separate products
    do.  Intermediate results may stay on the chip, so ``least`` only moves weights.
    """
    columns = batch.columns
    weights, activations = GEMM_FORMATS[batch.words["dtype"]]
    hidden, inner = columns["hidden_size"], columns["expert_intermediate_size"]
    pairs = np.stack([hidden, inner], axis=-1)
    matrices = np.where(np.any(np.all(pairs[:, None] == np.array(sorted(NON_GATED)), axis=-1), axis=1), 2.0, 3.0)
    ways, width = columns["moe_ep_size"], matrices * inner / columns["moe_tp_size"]
    weight = Linear(
        "experts",
        hidden,  # type: ignore[arg-type]
        width,
        "experts",
        copies=columns["num_experts"],  # type: ignore[arg-type]
        used=columns["topk"],  # type: ignore[arg-type]
    )
    tokens = columns["num_tokens"]
    run = _pass(Segment(tokens, 1.0, 0.0), weights=weights, activations=activations)
    run = replace(run, parallel=Parallel(tensor=ways, expert=ways))
    found = operators.experts(weight, tokens, run, least_experts=_least_experts(batch))
    skew = float(batch.words["distribution"].rpartition("_")[2]) if "_" in batch.words["distribution"] else 0.0
    width_bytes = found.inputs["activation_bits"] / 8
    values = found.inputs["routed_rows"] * matrices * (hidden + inner / columns["moe_tp_size"])
    work = replace(found.work, activation_bytes=values * width_bytes)
    return replace(found, work=work, inputs={**found.inputs, "matrices": matrices, "skew": skew})


def _least_experts(batch: Batch) -> Any:
    """Smallest number of experts that the tokens of each row can use.

    Tables with ``balanced`` routing distribute rows evenly, so all ``E`` experts are used once there are as many rows.
    With fewer rows the distribution uses a stride and some rows share an expert, so at most the number under uniform
    routing is counted.  Kernels that restrict a token to some groups of experts (`EXPERT_GROUPS`) route differently.
    """
    columns = batch.columns
    top_k, every, tokens = columns["topk"], columns["num_experts"], columns["num_tokens"]
    if batch.words["distribution"] != "balanced":
        return top_k
    dealt = np.where(tokens * top_k >= every, every, operators.distinct_experts(every, top_k, tokens))
    grouped = (columns["hidden_size"] == EXPERT_GROUPS[0]) & (every == EXPERT_GROUPS[1])
    return np.where(grouped, top_k, np.maximum(dealt, top_k))


EXPERT_GROUPS = (7168, 256)
"""(hidden, experts) of DeepSeek-V3, where a token uses at most 4 of 8 groups (arXiv:2412.19437, section 2.1.2)."""


def _pass(segment: Segment, **formats: Any) -> Pass:
    return Pass((segment,), Precision(**formats))


def _collective(batch: Batch) -> Operator:
    columns = batch.columns
    name = batch.words["collective"].replace("alltoall", "all_to_all")
    size, gpus = columns["message_bytes"], columns["num_gpus"]
    return operators.collective(name, Message(name, size, gpus, size), _pass(Segment(1.0, 1.0, 0.0)))


_OPERATORS: dict[str, Callable[[Batch], Operator]] = {
    "gemm": _gemm,
    "attention": _attention,
    "mla": _mla,
    "moe": _moe,
    "collective": _collective,
}


def tables(folder: str | Path) -> Iterator[tuple[str, list[Batch]]]:
    """Names and batches of all tables of timings in a directory."""
    for path in sorted(Path(folder).glob("*.csv*")):
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            header = next(csv.reader(file), [])
        if "latency_s" in header:
            yield path.name.removesuffix(".gz").removesuffix(".csv"), read_timings(path)
