"""`read`: the runs in a file, whose format is detected from its content, never from its name."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import SpecError
from ..files import parse_yaml
from . import (
    counters,
    genai_perf,
    guidellm,
    inference_perf,
    inferencex,
    kernels,
    llama_cpp,
    llm_d,
    local_tools,
    mlperf,
    optimum,
    plain_tables,
    sglang,
    trtllm,
    vllm,
)
from .counters import DeviceCounters
from .document import Document, read_document
from .kernels import KernelProfile
from .measurement import Measurement
from .record import Record

Result = Measurement | KernelProfile | DeviceCounters
"""Kinds of results."""

KNOWN = (
    "vLLM bench serve, throughput and latency; SGLang bench_serving and one-batch; trtllm-bench; genai-perf; AIPerf; "
    "GuideLLM; InferenceMAX; llm-d; inference-perf; llama-bench and llama-batched-bench; mlx-lm; exllamav3; ollama; "
    "optimum-benchmark; MLPerf summaries; NIM tables; nsys, ncu and torch profiles; DCGM counters; "
    "a CSV with columns such as concurrency, ttft_ms, tpot_ms, tokens_per_s"
)
"""The formats, for messages."""

_OBJECTS: tuple[tuple[Callable[[Mapping[str, Any]], bool], Callable[[Record], list[Any]]], ...] = (
    (kernels.is_trace, kernels.read_profiler_trace),
    (guidellm.is_report, guidellm.read_report),
    (trtllm.is_report, trtllm.read_report),
    (genai_perf.is_export, genai_perf.read_export),
    (inferencex.is_run, inferencex.read_run),
    (llm_d.is_report, llm_d.read_report),
    (llama_cpp.is_bench, llama_cpp.read_bench),
    (llama_cpp.is_batched, llama_cpp.read_batched),
    (optimum.is_benchmark, optimum.read_benchmark),
    (local_tools.is_ollama, local_tools.read_ollama),
    (sglang.is_one_batch, sglang.read_one_batch),
    (sglang.is_one_batch_server, sglang.read_one_batch_server),
    (sglang.is_offline, sglang.read_offline),
    (sglang.is_serving, sglang.read_serving),
    (vllm.is_serve, vllm.read_serve),
    (vllm.is_throughput, vllm.read_throughput),
    (vllm.is_latency, vllm.read_latency),
)
"""JSON objects: how each is recognized and read, most specific first."""


def _has(*words: str) -> Callable[[str], bool]:
    """Return a test whether a text contains all of the words."""

    def found_in(text: str) -> bool:
        return all(word in text for word in words)

    return found_in


def _has_any(*words: str) -> Callable[[str], bool]:
    """Return a test whether a text contains one of the words."""

    def found_in(text: str) -> bool:
        return any(word in text for word in words)

    return found_in


def _is_exllama(text: str) -> bool:
    return "tokens/s" in text and ("Length " in text or "Context " in text)


_TEXTS: tuple[tuple[Callable[[str], bool], Callable[[str, str], list[Any]]], ...] = (
    (_has("Serving Benchmark Result", "E2E Latency (ms)"), sglang.read_blocks),
    (_has("Serving Benchmark Result"), vllm.read_blocks),
    (mlperf.is_summary, mlperf.read_summary),
    (guidellm.is_csv, guidellm.read_csv),
    (genai_perf.is_csv, genai_perf.read_csv),
    (kernels.is_nsys, kernels.read_nsys),
    (kernels.is_ncu, kernels.read_ncu),
    (kernels.is_torch_csv, kernels.read_torch_csv),
    (_has("DCGM_FI_"), counters.read_exporter),
    (_has("#Entity"), counters.read_dmon),
    (_has("INSERT INTO", "avg_ts"), llama_cpp.read_sql),
    (_has("avg_ts"), llama_cpp.read_csv),
    (_has("t/s", "test"), llama_cpp.read_markdown),
    (_has("S_TG t/s"), llama_cpp.read_batched_markdown),
    (plain_tables.is_nim, plain_tables.read_nim),
    (_has("Timing with prompt_tokens="), local_tools.read_mlx_benchmark),
    (_has("tokens-per-sec"), local_tools.read_mlx_generate),
    (_is_exllama, local_tools.read_exllama),
    (_has("eval duration:"), local_tools.read_ollama_text),
    (_has_any("percentile latency", "Avg latency:"), vllm.read_latency_text),
    (_has("Throughput:"), vllm.read_throughput_text),
    (_has_any(",", ";", "\t"), plain_tables.read_plain_csv),
)
"""Other texts: a marker and a reader for each, most specific first; the first that finds a run counts."""

MAX_DEPTH = 4
"""Depth to which objects and lists around results are searched."""


def read(path: str | Path) -> list[Result]:
    """Read the result file of a benchmark or a profiler.

    The format is detected from the content. What a file states about the deployment is kept in ``stated`` but not used;
    the caller gives the `Deployment`. Means and medians are kept separate, and each result lists corrections and
    warnings.

    Parameters
    ----------
    path : str or Path
        A regular file of at most 256 MiB, plain or gzipped.

    Returns
    -------
    list of Measurement, KernelProfile or DeviceCounters
        One for each run in the file, in its order.

    Raises
    ------
    SpecError
        The file can't be read, is truncated, or has an unknown format.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> run = {"avg_latency": 0.5, "latencies": [0.5, 0.5], "percentiles": {"50": 0.5}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "latency.json")
    ...     _ = file.write_text(json.dumps(run))
    ...     [found] = read(file)
    >>> found.tool, found.total_median_s, found.batch
    ('vllm bench latency', 0.5, None)
    """
    document = read_document(path)
    try:
        found = _from_json(document) or _from_text(document) or _from_yaml(document)
    except csv.Error as error:
        raise SpecError(f"{document.path} is a damaged CSV: {error}") from None
    except RecursionError:
        raise SpecError(f"{document.path} is nested too deeply") from None
    if not found:
        raise SpecError(_nothing(document))
    if document.faults:
        found = [_with_faults(result, document.faults) for result in found]
    return found


def _from_json(document: Document) -> list[Result]:
    found: list[Result] = []
    for place, value in document.values:
        source = f"{document.name}, {place}" if place else document.name
        found += _from_value(value, source, document.path, MAX_DEPTH)
    return found


def _from_value(value: Any, source: str, path: Path, depth: int) -> list[Result]:
    """The runs in a JSON value: a known object, or those in a list or wrapper."""
    if depth == 0:
        return []
    if isinstance(value, Mapping):
        return _from_object(value, source, path, depth)
    if not isinstance(value, list):
        return []
    if vllm.is_pytorch(value):
        return list(vllm.read_pytorch(value, source))
    found: list[Result] = []
    for number, item in enumerate(value, 1):
        if isinstance(item, Mapping | list):
            found += _from_value(item, f"{source}, item {number}", path, depth - 1)
    return found


def _from_object(value: Mapping[str, Any], source: str, path: Path, depth: int) -> list[Result]:
    record = Record(value, source)
    if inference_perf.is_stage(value):
        return list(inference_perf.read_stage(record, path))
    for recognizes, reader in _OBJECTS:
        if recognizes(value):
            return reader(record)
    inside: list[Result] = []
    for key, item in value.items():
        if isinstance(item, Mapping | list):
            inside += _from_value(item, f"{source}, {key}", path, depth - 1)
    return inside


def _from_text(document: Document) -> list[Result]:
    if document.values:
        return []
    for sign, reader in _TEXTS:
        if sign(document.text):
            found = reader(document.text, document.name)
            if found:
                return found
    return []


def _from_yaml(document: Document) -> list[Result]:
    if document.values or not llm_d.looks_like(document.text):
        return []
    data = parse_yaml(document.text, document.path)
    if llm_d.is_report(data):
        return list(llm_d.read_report(Record(data, document.name)))
    return []


def _with_faults(result: Result, faults: tuple[str, ...]) -> Result:
    """``result`` with warnings about the unreadable lines of its file."""
    if isinstance(result, DeviceCounters):
        return replace(result, assumptions=(*result.assumptions, *faults))
    return replace(result, doubts=(*result.doubts, *faults))


def _nothing(document: Document) -> str:
    """One line that says why a file contains no result."""
    path = document.path
    if not document.text.strip():
        return f"{path} is empty"
    if document.faults:
        return f"{path}: {'; '.join(document.faults)}"
    if any(isinstance(value, Mapping) and inference_perf.is_config(value) for _, value in document.values) or (
        "\nload:" in f"\n{document.text}" and "\nserver:" in f"\n{document.text}"
    ):
        return f"{path} is the configuration of an inference-perf run; read its stage_N_lifecycle_metrics.json"
    return f"{path} has an unknown format; known formats: {KNOWN}"
