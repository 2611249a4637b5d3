"""Result files of 22 tools: every fixture is read, and its figures are those that the file prints."""

import csv
import gzip
import json
import math
import re
from pathlib import Path

import pytest

import roofline as rl
from roofline.measured import Measurement

DATA = Path(__file__).parent / "data" / "results"
EXPECTED = [json.loads(line) for line in (DATA / "expected.jsonl").read_text("utf-8").splitlines()]
CONFIGS = set(DATA.rglob("config.yaml"))
FILES = sorted(path for path in DATA.rglob("*") if path.is_file() and path.name not in ("README.md", "expected.jsonl"))
RESULTS = [path for path in FILES if path not in CONFIGS]

NAMES = {
    "requests": "requests",
    "prompt_tokens": "prompt_tokens",
    "output_tokens": "output_tokens",
    "concurrency": "concurrency",
    "request_rate": "request_rate",
    "requests_per_s": "requests_per_s",
    "ttft_mean_s": "ttft_mean_s",
    "tpot_mean_s": "tpot_mean_s",
    "output_tokens_per_s": "tokens_per_s",
}


def read(name):
    return rl.measured.read(DATA / name)


def one(name):
    [found] = read(name)
    return found


def label(path):
    return str(path.relative_to(DATA))


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: row["file"])
def test_a_file_reads_as_worked_out_apart(row):
    run = one(row["file"])
    for theirs, ours in NAMES.items():
        found, wanted = getattr(run, ours), row[theirs]
        if wanted is not None:
            assert found == pytest.approx(wanted, rel=2e-4), ours
        elif ours != "requests_per_s":
            # A rate of requests that the file lacks follows from its rate of tokens and their number.
            assert found is None, ours


@pytest.mark.parametrize("path", RESULTS, ids=label)
def test_every_result_file_is_read(path):
    found = rl.measured.read(path)
    assert found
    for run in found:
        assert run.source.startswith(path.name)
        as_json = json.dumps(run.to_dict(), allow_nan=False)
        assert run.source in as_json
        assert repr(run).startswith(type(run).__name__)


@pytest.mark.parametrize("path", RESULTS, ids=label)
def test_every_figure_is_a_time_a_count_or_a_rate_that_can_be(path):
    for run in rl.measured.read(path):
        if isinstance(run, Measurement):
            figures = [getattr(run, name) for name in run.columns[3:]]
            assert all(value is None or (math.isfinite(value) and value >= 0) for value in figures)
            times = [run.ttft_s, run.tpot_s, run.itl_mean_s, run.itl_median_s]
            assert all(value is None or 1e-4 < value < 10 for value in times), "milliseconds are not seconds"


@pytest.mark.parametrize("path", RESULTS, ids=label)
def test_derived_figures_follow_from_their_formula(path):
    for run in rl.measured.read(path):
        for step in run.explain():
            by_hand = eval(step.formula, {"__builtins__": {}}, dict(step.inputs))
            assert by_hand == pytest.approx(step.value, rel=1e-12)
            if isinstance(run, Measurement):
                assert getattr(run, step.name) == pytest.approx(step.value, rel=1e-12)


@pytest.mark.parametrize("path", sorted(CONFIGS), ids=label)
def test_a_configuration_is_no_result(path):
    with pytest.raises(rl.SpecError, match="configuration of an inference-perf run; read its stage_N"):
        rl.measured.read(path)


# --- each format against the figures as printed ----------------------------------------------------------------------


def test_vllm_serve_keeps_mean_and_median_apart():
    run, raw = (
        one("vllm_serve/v0.11_with_e2el.json"),
        json.loads((DATA / "vllm_serve/v0.11_with_e2el.json").read_text()),
    )
    for ours, theirs in {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "total": "e2el"}.items():
        for statistic in ("mean", "median"):
            assert getattr(run, f"{ours}_{statistic}_s") == pytest.approx(raw[f"{statistic}_{theirs}_ms"] / 1e3)
        assert run.percentiles[f"{ours}_p99_s"] == pytest.approx(raw[f"p99_{theirs}_ms"] / 1e3)
    assert (run.statistic, run.ttft_s, run.tpot_s) == ("mean", run.ttft_mean_s, run.tpot_mean_s)
    assert run.total_tokens_per_s == raw["total_token_throughput"] > run.tokens_per_s == raw["output_throughput"]


@pytest.mark.parametrize(
    ("name", "caps"),
    [("v0.11_append_result.json", [1, 2, 4]), ("blocks_three_in_one.txt", [1, 2, 4])],
)
def test_one_file_holds_many_runs(name, caps):
    runs = read(f"vllm_serve/{name}")
    assert [run.concurrency for run in runs] == caps
    assert len({run.source for run in runs}) == 3


def test_a_sweep_has_one_run_for_each_entry():
    assert len(read("vllm_serve/sweep/SERVE--max_num_seqs=8-BENCH--max_concurrency=4/summary.json")) == 2


def test_text_block_has_the_figures_of_the_json_rounded():
    block, run = one("vllm_serve/block_new.txt"), one("vllm_serve/v0.11_closed_loop.json")
    assert block.ttft_mean_s == pytest.approx(run.ttft_mean_s, abs=5e-6)
    assert block.tokens_per_s == pytest.approx(run.tokens_per_s, abs=5e-3)
    assert (block.requests, block.failed, block.concurrency, block.model) == (12, 0, 4, None)


def test_metadata_is_stated_and_not_relied_on():
    run = one("vllm_serve/v0.11_metadata_gpu_tp.json")
    assert run.stated["accelerator"] == "H100-SXM-80GB"
    assert run.stated["tensor"] == 1
    assert run.model == "meta-llama/Llama-3.1-8B-Instruct"


def test_pytorch_list_is_one_run():
    run = one("vllm_serve/result.pytorch.json")
    assert run.ttft_mean_s == pytest.approx(0.02602146993930057)
    assert run.stated["tensor"] == 1


def test_vllm_throughput_counts_all_tokens():
    run = one("vllm_throughput/throughput.json")
    assert run.total_tokens_per_s == 2594.383583152611
    assert run.tokens_per_s is None
    assert any("includes prompt and output tokens" in doubt for doubt in run.doubts)
    text = one("vllm_throughput/throughput.txt")
    assert text.tokens_per_s == 518.88
    assert (text.prompt_tokens, text.output_tokens) == (pytest.approx(4096 / 16, rel=1e-3), pytest.approx(64, rel=1e-3))


@pytest.mark.parametrize("name", ["Llama-3.1-8B_latency_bs4_in256_out64.json", "latency.txt"])
def test_vllm_latency_is_a_batch_of_unknown_shape(name):
    run = one(f"vllm_latency/{name}")
    assert (run.kind, run.batch, run.prompt_tokens) == ("batch", None, None), "the file's name is not read"
    assert (run.total_mean_s, run.total_median_s) == (0.48784, 0.4871)


def test_sglang_lines_with_infinity():
    runs = read("sglang_serving/v0.5_two_lines_infinity.jsonl")
    assert [(run.request_rate, run.concurrency) for run in runs] == [(None, 4), (None, 2)]
    assert runs[0].in_flight == pytest.approx(3.5428378291739118)


def test_sglang_of_2024_has_medians():
    runs = read("sglang_serving/v0.4_medians_only.jsonl")
    assert [run.statistic for run in runs] == ["median", "median"]
    run = runs[1]
    assert (run.ttft_mean_s, run.tpot_mean_s, run.tpot_median_s) == (None, None, None)
    assert run.ttft_median_s == pytest.approx(0.026614262895149583)
    assert run.requests_per_s == pytest.approx(24 / 10.116040338498216)
    assert run.step.seconds == pytest.approx((0.46578720961158024 - 0.026614262895149583) / 59.375)


def test_sglang_one_batch():
    run = one("sglang_one_batch/bench_one_batch.jsonl")
    assert (run.kind, run.batch, run.prompt_tokens, run.output_tokens) == ("batch", 4, 256, 64)
    assert (run.ttft_median_s, run.tpot_median_s) == (0.0282, 0.00741)
    assert run.tokens_per_s == pytest.approx(4 * 64 / 0.49503)
    server = one("sglang_one_batch/bench_one_batch_server.jsonl")
    assert server.tpot_mean_s == pytest.approx((0.50703 - 0.0402) / 63)
    assert server.accepted_tokens_per_step is None
    offline = one("sglang_one_batch/bench_offline_throughput.jsonl")
    assert (offline.requests, offline.tokens_per_s) == (16, 518.8767166305222)
    assert offline.total_tokens_per_s == 2594.383583152611


def test_trtllm_states_the_deployment():
    run = one("trtllm_bench/report_v1.2_streaming_machine.json")
    wanted = {"accelerator": "NVIDIA H100 80GB HBM3", "tensor": 1, "pipeline": 1, "weights": "FP8", "kv": "FP8"}
    assert wanted.items() <= dict(run.stated).items()
    assert one("trtllm_bench/report_v1.1_no_streaming.json").ttft_s is None
    assert one("trtllm_bench/report_v1.2_speculative.json").accepted_tokens_per_step == 2.125


@pytest.mark.parametrize("name", ["aiperf/v0.13_concurrency/profile_export_aiperf.csv"])
def test_csv_export_agrees_with_the_json(name):
    table, run = one(name), one(name.replace(".csv", ".json"))
    for field in ("ttft_mean_s", "tpot_mean_s", "itl_mean_s", "total_median_s", "output_tokens", "tokens_per_s"):
        assert getattr(table, field) == pytest.approx(getattr(run, field), rel=2e-3)
    assert table.concurrency is None
    assert table.model is None


def test_thousands_separators():
    run = one("genai_perf/artifacts/queued-concurrency4/profile_export_genai_perf.csv")
    assert run.ttft_mean_s == pytest.approx(1.04086)
    assert run.concurrency is None, "the folder's name is not read"


def test_aiperf_telemetry_names_the_gpu():
    assert one("aiperf/v0.13_with_gpu_telemetry/profile_export_aiperf.json").accelerator == "NVIDIA H100 80GB HBM3"


def test_guidellm_sweep():
    runs = read("guidellm/v0.8_benchmarks.json")
    assert [(run.concurrency, run.request_rate) for run in runs[:2]] == [(1, None), (4, None)]
    assert runs[2].concurrency is None
    assert runs[2].request_rate > 0
    raw = json.loads((DATA / "guidellm/v0.8_benchmarks.json").read_text())["benchmarks"]
    for run, source in zip(runs, raw, strict=True):
        metrics = source["metrics"]
        assert run.tpot_mean_s == pytest.approx(metrics["inter_token_latency_ms"]["successful"]["mean"] / 1e3)
        assert run.total_mean_s == pytest.approx(metrics["request_latency"]["successful"]["mean"])
        assert run.total_tokens_per_s == pytest.approx(metrics["tokens_per_second"]["successful"]["mean"])


def test_guidellm_csv_has_three_headers():
    runs = read("guidellm/benchmarks.csv")
    assert [run.requests for run in runs] == [16, 24]
    assert runs[0].tpot_mean_s == pytest.approx(0.007395790001549503)
    assert runs[0].total_mean_s == pytest.approx(0.49329388572922317)
    assert runs[1].requests_per_s == pytest.approx(2.14709916850229)


def test_inferencex_on_pools_of_their_own():
    run = one("inferencex/agg_disagg.json")
    assert run.tokens_per_s == pytest.approx(2 * 259.4383583152611)
    assert run.prompt_tokens_per_s == pytest.approx(2075.506866522089)
    assert run.stated["accelerators"] == 3
    assert run.stated["disaggregated"] is True
    assert run.stated["speculation"] == "mtp"
    client = one("inferencex/client_medians_in_seconds.json")
    assert (client.statistic, client.tpot_s) == ("median", 0.007391201553893894)


@pytest.mark.parametrize("name", ["v0.1.yaml", "v0.2.yaml"])
def test_llm_d_honors_units(name):
    run = one(f"llm_d_report/{name}")
    assert run.total_mean_s == pytest.approx(0.465787, rel=1e-5)
    assert run.stated["accelerator"] == "H100"
    assert (run.stated["tensor"], run.stated["engine"]) == (1, "vllm")


@pytest.mark.parametrize("name", ["bench.json", "bench.jsonl", "bench.csv", "bench.sql", "bench.md"])
def test_llama_bench_in_every_output_format(name):
    runs = read(f"llama_bench/{name}")
    assert [run.kind for run in runs] == ["prefill", "decode", "prefill", "decode", "batch"]
    assert [run.context_tokens for run in runs] == [0, 0, 8192, 8192, 0]
    prefill, decode, _, deep, both = runs
    assert prefill.ttft_mean_s == pytest.approx(0.050426336, rel=1e-4)
    assert prefill.prompt_tokens_per_s == pytest.approx(10153.5)
    assert decode.tpot_mean_s == pytest.approx(1 / 148.33333, rel=1e-4)
    assert decode.tokens_per_s == pytest.approx(148.33333, rel=1e-4)
    assert deep.tpot_mean_s == pytest.approx(1.047178618 / 128, rel=1e-4)
    assert both.total_mean_s == pytest.approx(0.910255371, rel=1e-4)
    assert both.tokens_per_s == pytest.approx(128 / 0.910255371, rel=1e-4)
    assert both.total_tokens_per_s == pytest.approx(703.1, rel=1e-4)
    assert prefill.stated["weights_bytes"] == pytest.approx(4913021952, rel=2e-3), "the table rounds to 4.58 GiB"


def test_llama_bench_on_two_gpus():
    run = one("llama_bench/two_gpus.jsonl")
    assert run.stated["accelerators"] == 2
    assert run.stated["accelerator"] == "NVIDIA GeForce RTX 3090"
    assert any("run one at a time" in doubt for doubt in run.doubts)


@pytest.mark.parametrize("name", ["batched.jsonl", "batched.md"])
def test_llama_batched_bench(name):
    runs = read(f"llama_batched_bench/{name}")
    assert [run.batch for run in runs] == [1, 4, 16]
    for run, t_pp, t_tg in zip(runs, (0.052245, 0.208980, 0.835918), (0.88576, 0.93184, 1.11616), strict=True):
        assert run.ttft_mean_s == pytest.approx(t_pp, rel=6e-3)
        assert run.tpot_mean_s == pytest.approx(t_tg / 128, rel=6e-3)
        assert run.step.seconds == run.tpot_mean_s


def test_mlx():
    run = one("mlx_lm/benchmark_batch4.txt")
    assert (run.batch, run.prompt_tokens, run.output_tokens) == (4, 512, 128)
    assert run.ttft_mean_s + 128 * run.tpot_mean_s == pytest.approx(5.672, abs=1e-3), "the total that the log prints"
    assert one("mlx_lm/benchmark.txt").tpot_mean_s == pytest.approx(1 / 41.357, rel=1e-3)
    assert one("mlx_lm/generate.txt").ttft_mean_s == pytest.approx(512 / 1790.412)


@pytest.mark.parametrize("name", ["perf_plain.txt", "perf_ansi_colours.txt"])
def test_exllama(name):
    runs = read(f"exllamav3/{name}")
    assert [run.kind for run in runs] == ["prefill"] * 4 + ["decode"] * 3
    assert runs[0].ttft_mean_s == pytest.approx(256 / 4210.55)
    assert (runs[-1].context_tokens, runs[-1].tpot_mean_s) == (4096, pytest.approx(1 / 88.02))


def test_ollama():
    run, text = one("ollama/api_generate.json"), one("ollama/verbose.txt")
    assert run.ttft_mean_s == pytest.approx(0.04821)
    assert run.tpot_mean_s == pytest.approx(2.2213 / 298)
    assert text.tpot_mean_s == pytest.approx(1 / 134.16, rel=1e-4)
    cached = one("ollama/api_generate_cached_prompt.json")
    assert cached.ttft_s is None
    assert any("cached" in doubt for doubt in cached.doubts)
    minutes = one("ollama/verbose_minutes.txt")
    assert minutes.total_mean_s == pytest.approx(63.482)
    assert minutes.tpot_mean_s == pytest.approx(1 / 18.18, rel=1e-3)


def test_optimum():
    run = one("optimum_benchmark/benchmark.json")
    assert (run.ttft_mean_s, run.tpot_mean_s) == (0.031, pytest.approx(1.46 / 63))
    assert run.stated["accelerator"] == "NVIDIA A100-SXM4-80GB"
    assert run.stated["accelerators"] == 1, "the machine has three, display card included"


def test_mlperf():
    server = one("mlperf/server/mlperf_log_summary.txt")
    assert (server.requests_per_s, server.tokens_per_s, server.request_rate) == (13.92, 4092.35, 14.01)
    assert (server.ttft_mean_s, server.tpot_mean_s) == (pytest.approx(0.28104431), pytest.approx(0.04755102))
    assert server.percentiles["tpot_p99_s"] == pytest.approx(0.099857142)
    offline = one("mlperf/offline/mlperf_log_summary.txt")
    assert (offline.tokens_per_s, offline.requests_per_s) == (25320.6, 86.1245)
    assert offline.output_tokens == pytest.approx(294.0, rel=1e-3)


def test_nim_tables():
    runs = read("nim/performance.md")
    assert [(run.concurrency, run.tokens_per_s) for run in runs] == [(1, 172.5), (8, 1150.8), (64, 4337.6)]
    assert (runs[2].ttft_mean_s, runs[2].tpot_mean_s) == (pytest.approx(0.1903), pytest.approx(0.01192))
    assert runs[0].stated == {
        "model": "Llama 3.1 8B Instruct", "accelerator": "H100 SXM", "accelerators": 1, "weights": "FP8", "tensor": 1,
    }  # fmt: skip
    assert (runs[0].prompt_tokens, runs[0].output_tokens) == (256, 64)


@pytest.mark.parametrize("name", ["nsys_cuda_gpu_kern_sum.csv", "nsys_stats_stdout_with_preamble.csv"])
def test_nsys(name):
    profile = one(f"kernels/{name}")
    assert list(profile.kind) == ["matmul", "attention", "elementwise"]
    assert list(profile.calls) == [3, 2, 3]
    assert profile.total_s == pytest.approx([123300e-9, 18160e-9, 6275e-9])
    assert profile.kernels[1].median_s == pytest.approx(9080e-9)
    assert profile.share == pytest.approx([0.835, 0.123, 0.042], abs=1e-3)


def test_ncu_counters():
    profile = one("kernels/ncu_details.csv")
    gemm = profile.kernels[0]
    assert (gemm.total_s, gemm.memory_share, gemm.compute_share) == (41e-6, pytest.approx(0.8812), pytest.approx(0.214))
    assert gemm.moved_bytes == pytest.approx(2.95e12 * 41e-6)


def test_torch_trace_leaves_the_host_out():
    profile = one("kernels/torch_trace.json")
    assert profile.total_s == pytest.approx([41e-6, 9.05e-6, 2.1e-6])
    assert profile.stated["accelerator"] == "NVIDIA H100 80GB HBM3"


def test_torch_csv(tmp_path):
    path = tmp_path / "averages.csv"
    path.write_text("key,count,self_cuda_time_total\nampere_bf16_gemm,3,123.3\nmystery_kernel,1,10\naten::mm,3,0\n")
    [profile] = rl.measured.read(path)
    assert profile.total_s == pytest.approx([123.3e-6, 10e-6])
    assert [kernel.name for kernel in profile.unmatched] == ["mystery_kernel"]
    assert any("mystery_kernel" in note for note in profile.assumptions)


def test_dcgm():
    dmon, exporter = one("dcgm/dmon.txt"), one("dcgm/exporter.prom")
    assert dmon.memory_active == pytest.approx((0.871 + 0.874) / 2), "N/A is not a zero"
    assert (exporter.memory_active, exporter.tensor_active, exporter.power_watts) == (0.871, 0.213, 588.204)
    assert exporter.accelerator == "NVIDIA H100 80GB HBM3"


def test_plain_csv(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("Concurrency,TTFT (ms),median_tpot_ms,tokens/s\n4,26.0,7.4,461\n8,30,8.1,900\n")
    runs = rl.measured.read(path)
    assert [(run.concurrency, run.ttft_mean_s, run.tpot_median_s, run.tokens_per_s) for run in runs] == [
        (4, pytest.approx(0.026), pytest.approx(0.0074), 461),
        (8, pytest.approx(0.030), pytest.approx(0.0081), 900),
    ]


def test_results_have_frames():
    frame = one("vllm_serve/v0.11_closed_loop.json").to_frame()
    assert len(frame) == 1
    assert frame["tpot_mean_s"].iloc[0] == pytest.approx(0.007395047158361561)
    assert len(one("kernels/nsys_cuda_gpu_kern_sum.csv").to_frame()) == 3


def test_a_copy_fills_in_what_the_reader_knows():
    run = one("vllm_latency/latency.txt")
    assert run.replace(batch=4, prompt_tokens=256).batch == 4
    assert run.batch is None
    assert hash(run) == hash(rl.measured.read(DATA / "vllm_latency/latency.txt")[0])


# --- files as people have them ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RESULTS, ids=label)
def test_content_decides_and_not_the_name(path, tmp_path):
    beside = tmp_path / "noname"
    beside.write_bytes(path.read_bytes())
    again, first = rl.measured.read(beside), rl.measured.read(path)
    assert [type(run) for run in again] == [type(run) for run in first]
    assert [getattr(run, "tool", None) for run in again] == [run.tool for run in first]


@pytest.mark.parametrize(
    "name",
    ["vllm_serve/v0.11_closed_loop.json", "llama_bench/bench.csv", "vllm_serve/block_new.txt", "nim/performance.md"],
)
@pytest.mark.parametrize("form", ["gzip", "mark", "utf-16", "crlf"])
def test_packed_and_encoded_otherwise(name, form, tmp_path):
    text, path = (DATA / name).read_text("utf-8"), tmp_path / "file"
    packed = {
        "gzip": gzip.compress(text.encode()),
        "mark": text.encode("utf-8-sig"),
        "utf-16": text.encode("utf-16"),
        "crlf": text.replace("\n", "\r\n").encode(),
    }
    path.write_bytes(packed[form])
    plain, found = rl.measured.read(DATA / name), rl.measured.read(path)
    drop = {"source": "", "steps": ()}
    assert [run.replace(**drop) for run in found] == [run.replace(**drop) for run in plain]


def test_text_for_numbers_nan_and_fields_that_are_missing_or_new(tmp_path):
    raw = json.loads((DATA / "vllm_serve/v0.11_closed_loop.json").read_text())
    raw |= {"mean_ttft_ms": "26.02", "mean_itl_ms": float("nan"), "median_itl_ms": "soon", "news": {"a": [1]}}
    del raw["std_tpot_ms"], raw["p99_tpot_ms"], raw["failed"]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(raw))
    [run] = rl.measured.read(path)
    assert run.ttft_mean_s == pytest.approx(0.02602)
    assert (run.itl_mean_s, run.itl_median_s, run.failed) == (None, None, None)
    assert any("median_itl_ms holds 'soon', which is not a number" in doubt for doubt in run.doubts)


def test_a_line_cut_off_is_said_and_the_others_are_read(tmp_path):
    lines = (DATA / "sglang_serving/v0.5_two_lines_infinity.jsonl").read_text().splitlines()
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join([lines[0], lines[1][:200], lines[1]]))
    runs = rl.measured.read(path)
    assert [run.concurrency for run in runs] == [4, 2]
    for run in runs:
        assert any(re.match(r"line 2 is not JSON \(.*\): left out", doubt) for doubt in run.doubts)


def test_a_file_cut_off_is_an_error_of_one_line(tmp_path):
    path = tmp_path / "run.json"
    path.write_text((DATA / "vllm_serve/v0.11_closed_loop.json").read_text()[:300])
    with pytest.raises(rl.SpecError, match=r"run.json: line 1 is not JSON") as error:
        rl.measured.read(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"   \n", "is empty"),
        (b'{"a": 1}', "has an unknown format; known formats: vLLM bench serve"),
        (b"hello, world\n", "has an unknown format"),
        (b"\x1f\x8b\x08\x00damaged", "is a"),
        (gzip.compress(b"a" * 1000, mtime=0)[:-12], "truncated gzip file"),
        (b"a\0b", "is not a text file"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b'{"avg_ts": ' + b"9" * 5000 + b"}", "too many digits"),
    ],
)
def test_what_is_no_result_gets_one_line(content, words, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(rl.SpecError) as error:
        rl.measured.read(path)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_only_regular_files(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(rl.SpecError, match="is not a regular file"):
        rl.measured.read(tmp_path / "pipe")
    with pytest.raises(rl.SpecError, match="is a directory"):
        rl.measured.read(tmp_path)
    with pytest.raises(rl.SpecError, match="can't be read"):
        rl.measured.read(tmp_path / "missing")
    with pytest.raises(rl.SpecError, match="is not a path"):
        rl.measured.read(3.5)


def test_a_bomb_does_not_unpack(tmp_path, monkeypatch):
    monkeypatch.setattr("roofline.measured.document.MAX_BYTES", 10_000)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b" " * 1_000_000))
    with pytest.raises(rl.SpecError, match="decompresses to more than 10,000 bytes"):
        rl.measured.read(path)


def test_a_csv_cell_too_long_is_refused(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("concurrency,ttft_ms\n1," + "9" * (csv.field_size_limit() + 10) + "\n")
    with pytest.raises(rl.SpecError, match="damaged CSV"):
        rl.measured.read(path)


def test_wrapped_results_are_found(tmp_path):
    raw = json.loads((DATA / "inferencex/agg_single_node.json").read_text())
    path = tmp_path / "wrapped.json"
    path.write_text(json.dumps({"date": "today", "results": [raw, {"note": 1}, raw]}))
    assert [run.concurrency for run in rl.measured.read(path)] == [4, 4]
