"""llama.cpp: ``llama-bench`` (JSON, JSONL, CSV, SQL, Markdown) and ``llama-batched-bench`` (JSONL, Markdown).

With ``n_gen`` 0, a test is a prefill of ``n_prompt`` tokens after ``n_depth`` cached ones; with ``n_prompt`` 0, it is
``n_gen`` decode steps at batch 1; with both, one rate over all tokens.  ``model_size`` is the size of the weights in
bytes, which is more precise than a nominal format.  With layers split over several GPUs, one GPU runs at a time.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .measurement import BATCH, DECODE, PREFILL, Measurement
from .record import Record, as_number, median

_NS = 1e-9


def is_bench(data: Mapping[str, Any]) -> bool:
    """Whether this is a test of ``llama-bench``."""
    return "avg_ts" in data and ("n_prompt" in data or "n_gen" in data)


def read_bench(record: Record) -> list[Measurement]:
    """A test of ``llama-bench``."""
    prompt, generated = record.count("n_prompt") or 0, record.count("n_gen") or 0
    depth = record.count("n_depth") or 0
    seconds = record.number("avg_ns", unit=_NS, positive=True)
    rate = record.number("avg_ts", positive=True)
    samples = record.numbers("samples_ns")
    middle = median(samples or [])
    middle_s = None if middle is None else middle * _NS
    _remarks(record)
    stated = _stated(record)
    if seconds is None and rate:
        seconds = (prompt + generated) / rate or None
    if prompt and generated:
        return [_both(record, stated, seconds, rate)]
    shape: dict[str, Any] = {"batch": 1, "context_tokens": float(depth)}
    if generated:
        return [
            record.finish(
                "llama-bench",
                kind=DECODE,
                stated=stated,
                output_tokens=float(generated),
                tpot_mean_s=seconds / generated if seconds else None,
                tpot_median_s=middle_s / generated if middle_s else None,
                tokens_per_s=rate,
                **shape,
            )
        ]
    return [
        record.finish(
            "llama-bench",
            kind=PREFILL,
            stated=stated,
            prompt_tokens=float(prompt) or None,
            ttft_mean_s=seconds,
            ttft_median_s=middle_s,
            prompt_tokens_per_s=rate,
            **shape,
        )
    ]


def _both(record: Record, stated: Mapping[str, Any], seconds: float | None, rate: float | None) -> Measurement:
    """A prompt and an answer with a single rate over both."""
    generated = record.number("n_gen", positive=True)
    output_rate = record.derive(
        "tokens_per_s",
        "batch * output_tokens / total_s",
        "avg_ts counts prompt and output tokens",
        batch=1,
        output_tokens=generated,
        total_s=seconds,
    )
    return record.finish(
        "llama-bench",
        kind=BATCH,
        stated=stated,
        batch=1,
        context_tokens=record.number("n_depth") or 0.0,
        prompt_tokens=record.number("n_prompt", positive=True),
        output_tokens=generated,
        total_mean_s=seconds,
        tokens_per_s=output_rate,
        total_tokens_per_s=rate,
    )


EVERY_LAYER = 99
"""``-ngl 99`` usually means "all layers"; fewer may leave weights in host memory."""


def _remarks(record: Record) -> None:
    gpus = _gpus(record)
    layers = record.at("n_gpu_layers")
    layers = as_number(layers) if layers is not None else None
    if len(gpus) > 1 and record.text("split_mode") == "layer":
        record.doubt(
            f"layers are split over {len(gpus)} GPUs, which run one at a time; compare with pipeline parallelism"
        )
    if layers is not None and 0 <= layers < EVERY_LAYER:
        record.doubt(f"{layers:g} layers were on the GPU; if the model has more, the others ran on the host")
    if record.number("n_cpu_moe", positive=True):
        record.doubt("experts of some layers ran on the host (n_cpu_moe)")


def _gpus(record: Record) -> list[str]:
    return [name.strip() for name in (record.text("gpu_info") or "").split(",") if name.strip()]


def _stated(record: Record) -> dict[str, Any]:
    gpus = _gpus(record)
    return {
        "model": record.text("model_type"),
        "file": record.text("model_filename"),
        "accelerator": gpus[0] if gpus else record.text("cpu_info"),
        "accelerators": len(gpus) or None,
        "weights_bytes": record.number("model_size", positive=True),
        "parameters": record.number("model_n_params", positive=True),
        "kv": record.text("type_k"),
        "engine": " ".join(
            word for word in ("llama.cpp", record.text("build_commit"), record.text("backends")) if word
        ),
    }


def is_batched(data: Mapping[str, Any]) -> bool:
    """Whether this is a row of ``llama-batched-bench``."""
    return {"pp", "tg", "pl", "t_tg"} <= data.keys()


def read_batched(record: Record) -> list[Measurement]:
    """A static batch; each decode step emits a token, so TPOT is the decode time divided by the number of steps."""
    batch = record.count("pl", positive=True)
    prompt, output = record.number("pp", positive=True), record.number("tg", positive=True)
    first, rest = record.number("t_pp", positive=True), record.number("t_tg", positive=True)
    if record.number("is_pp_shared", positive=True):
        record.doubt("the prompt is shared, so its time is that of one sequence, not of the batch")
    step = record.derive("tpot_mean_s", "decode_s / output_tokens", "T_TG / TG", decode_s=rest, output_tokens=output)
    total = record.number("t", positive=True)
    rate = record.derive(
        "tokens_per_s",
        "batch * output_tokens / total_s",
        "the whole batch including prefill; S_TG does not include prefill",
        batch=batch,
        output_tokens=output,
        total_s=total,
    )
    return [
        record.finish(
            "llama-batched-bench",
            kind=BATCH,
            batch=batch,
            prompt_tokens=prompt,
            output_tokens=output,
            ttft_mean_s=first,
            tpot_mean_s=step,
            total_mean_s=total,
            tokens_per_s=rate,
        )
    ]


# --- tables ----------------------------------------------------------------------------------------------------------


def markdown_tables(text: str) -> Iterator[list[dict[str, str]]]:
    """The tables of a Markdown text, each a list of rows by column name."""
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.strip().startswith("|"):
            table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        if len(table) > 2:
            head = table[0]
            yield [dict(zip(head, row, strict=False)) for row in table[1:] if not _is_rule(row)]
        table = []


def _is_rule(row: list[str]) -> bool:
    return all(cell and not cell.strip(":-") for cell in row)


_TEST = re.compile(
    r"^(?:pp ?(?P<prompt>\d+))?\+?(?:tg ?(?P<generated>\d+))?(?: ?@ ?d ?(?P<depth>\d+))?$",
)
_SIZE = re.compile(r"^(?P<number>[\d.]+) (?P<unit>KiB|MiB|GiB|TiB)$")
_BYTES = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_BUILD = re.compile(r"^build: (?P<commit>\w+)", re.MULTILINE)


def read_markdown(text: str, source: str) -> list[Measurement]:
    """The tests in Markdown tables of ``llama-bench``; columns vary, since only parameters that differ are shown."""
    build = _BUILD.search(text)
    rows = [row for table in markdown_tables(text) for row in table if {"test", "t/s"} <= row.keys()]
    found: list[Measurement] = []
    for number, row in enumerate(rows, 1):
        data = _markdown_row(row)
        if data is not None:
            data |= {"build_commit": build["commit"]} if build else {}
            found += read_bench(Record(data, f"{source}, row {number}"))
    return found


def _markdown_row(row: Mapping[str, str]) -> dict[str, Any] | None:
    test = _TEST.match(row["test"])
    rate = as_number(re.split(r"±|\+-|\+/-", row["t/s"])[0])
    if test is None or rate is None or not any(test.groups()):
        return None
    size = _SIZE.match(row.get("size", ""))
    number = as_number(size["number"]) if size else None
    return {
        "model_type": row.get("model"),
        "model_size": number * _BYTES[size["unit"]] if size and number else None,
        "backends": row.get("backend"),
        "n_gpu_layers": row.get("ngl"),
        "type_k": row.get("type_k"),
        "n_prompt": test["prompt"] or 0,
        "n_gen": test["generated"] or 0,
        "n_depth": test["depth"] or 0,
        "avg_ts": rate,
    }


_BATCHED = {"PP": "pp", "TG": "tg", "B": "pl", "T_PP s": "t_pp", "T_TG s": "t_tg", "T s": "t", "S_TG t/s": "speed_tg"}


def read_batched_markdown(text: str, source: str) -> list[Measurement]:
    """The rows in Markdown tables of ``llama-batched-bench``."""
    rows = [row for table in markdown_tables(text) for row in table if {"PP", "TG", "B", "T_TG s"} <= row.keys()]
    found: list[Measurement] = []
    for number, row in enumerate(rows, 1):
        data = {key: row.get(name) for name, key in _BATCHED.items()}
        found += read_batched(Record(data, f"{source}, row {number}"))
    return found


def read_csv(text: str, source: str) -> list[Measurement]:
    """The tests in a CSV of ``llama-bench``."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if "avg_ts" in line and "n_gen" in line), None)
    if start is None:
        return []
    rows = list(csv.DictReader(lines[start:]))
    return _rows(rows, source)


def _rows(rows: list[dict[str, Any]], source: str) -> list[Measurement]:
    found: list[Measurement] = []
    for number, row in enumerate(rows, 1):
        if as_number(row.get("avg_ts")) is not None:
            found += read_bench(Record(row, f"{source}, row {number}"))
    return found


_INSERT = re.compile(r"^INSERT INTO \w+ \((?P<names>[^)]*)\) VALUES \((?P<values>.*)\);?\s*$", re.MULTILINE)


def read_sql(text: str, source: str) -> list[Measurement]:
    """The tests in the INSERT statements that ``llama-bench -o sql`` writes."""
    rows = []
    for statement in _INSERT.finditer(text):
        names = [name.strip() for name in statement["names"].split(",")]
        values = next(csv.reader([statement["values"]], quotechar="'", skipinitialspace=True))
        rows.append(dict(zip(names, values, strict=False)))
    return _rows(rows, source)
