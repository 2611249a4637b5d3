"""Traps of result files, and headroom held against arithmetic done by hand."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.measured import KernelHeadroom, Measurement
from roofline.measured.work_bounds import bounds_of_request, decode_step, prefill_of

DATA = Path(__file__).parent / "data" / "results"
SERVE = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
SMALL = rl.Deployment(rl.get_model("gpt-2"), rl.get_accelerator("h100-sxm"))


def raw(name):
    return json.loads((DATA / name).read_text("utf-8"))


def read(data, folder):
    path = folder / "file.json"
    path.write_text(json.dumps(data) if not isinstance(data, str) else data)
    [run] = rl.measured.read(path)
    return run


# --- traps -----------------------------------------------------------------------------------------------------------


def test_inference_perf_of_two_stamps_is_repaired_and_says_so():
    [run] = rl.measured.read(DATA / "inference_perf/v0.2_two_stamps_a_token/stage_0_lifecycle_metrics.json")
    assert run.tpot_mean_s == pytest.approx((0.4657872096115802 - 0.026754291660800376) / 59.375)
    assert run.tpot_median_s is None, "the written median is halved as well and can't be repaired"
    [repair] = run.repaired
    assert "3.697 ms is 0.5 times" in repair


def test_inference_perf_of_0_6_is_taken_as_written():
    [run] = rl.measured.read(DATA / "inference_perf/v0.6_right/stage_0_lifecycle_metrics.json")
    assert (run.repaired, run.tpot_mean_s) == ((), 0.007394804863905902)


def test_doubled_tokens_show_against_the_configuration(tmp_path):
    name = "inference_perf/v0.5_bos_counted_a_chunk/stage_0_lifecycle_metrics.json"
    [run] = rl.measured.read(DATA / name)
    assert (run.output_tokens, run.tokens_per_s, run.tpot_s) == (None, None, None)
    assert any("counts each token twice" in doubt for doubt in run.doubts)
    alone = read(raw(name), tmp_path)
    assert alone.model is None
    assert any("gaps of 0 between tokens" in doubt for doubt in alone.doubts)
    found = rl.headroom(SERVE, alone).phase("decode")
    assert found.beats_floor, "3.7 ms under the 4.49 ms that one sequence takes"
    assert found.reasons[0].startswith("reading: ")


def test_event_gaps_are_not_taken_for_tpot():
    [run] = rl.measured.read(DATA / "vllm_serve/v0.12_speculative.json")
    assert run.itl_mean_s == pytest.approx(2.1 * run.tpot_mean_s, rel=1e-3)
    assert run.step.seconds == run.tpot_median_s
    assert run.accepted_tokens_per_step == 2.1


def test_itl_of_guidellm_and_genai_perf_is_a_tpot():
    [guide] = rl.measured.read(DATA / "guidellm/v0.5_benchmarks.json")
    metrics = raw("guidellm/v0.5_benchmarks.json")["benchmarks"][0]["metrics"]
    assert guide.itl_mean_s is None
    assert guide.tpot_mean_s != pytest.approx(metrics["time_per_output_token_ms"]["successful"]["mean"] / 1e3, rel=0.01)
    [genai] = rl.measured.read(next((DATA / "genai_perf").rglob("*.json")))
    assert (genai.itl_mean_s, genai.tpot_mean_s) == (None, pytest.approx(7.395047158361561e-3))


def test_empty_answers_are_dropped_where_lists_show_them():
    [run] = rl.measured.read(DATA / "vllm_serve/v0.6.3_empty_answers.json")
    assert run.repaired == ("8 of 24 completed answers are empty; the values cover the other 16",)
    lists = raw("vllm_serve/v0.6.3_empty_answers.json")
    full = [ttft for ttft, tokens in zip(lists["ttfts"], lists["output_lens"], strict=True) if tokens]
    assert run.ttft_mean_s == pytest.approx(np.mean(full))
    assert run.ttft_median_s == pytest.approx(np.median(full))
    assert "ttft_p99_s" not in run.percentiles


def test_lists_of_a_new_release_need_no_repair(tmp_path):
    data = raw("vllm_serve/v0.6.3_empty_answers.json") | {"completed": 16, "failed": 8}
    assert read(data, tmp_path).repaired == ()


def test_zeros_of_a_failed_run_are_no_figures():
    [run] = rl.measured.read(DATA / "vllm_serve/v0.11_all_failed.json")
    assert (run.requests, run.failed, run.ttft_s, run.tpot_s, run.tokens_per_s, run.statistic) == (0, 12, *[None] * 4)
    with pytest.raises(rl.InvalidInput, match="has no time that can be compared"):
        rl.headroom(SERVE, run)


def test_a_run_that_did_not_stream_has_no_ttft():
    [run] = rl.measured.read(DATA / "sglang_serving/v0.5_non_streaming.jsonl")
    assert (run.ttft_s, run.tpot_s) == (None, None)
    assert run.total_mean_s == pytest.approx(0.5029488142997014)
    assert any("did not stream" in words for words in run.repaired)


def test_rate_asked_is_not_rate_reached(tmp_path):
    [run] = rl.measured.read(DATA / "vllm_serve/v0.11_open_loop.json")
    assert (run.request_rate, run.concurrency) == (3.0, None)
    assert any("3 requests/s were requested and 2.37 finished" in doubt for doubt in run.doubts)
    for unpaced in ("inf", float("inf"), None, 1000):
        assert read(raw("vllm_serve/v0.11_open_loop.json") | {"request_rate": unpaced}, tmp_path).request_rate is None


def test_tokens_that_do_not_agree_are_doubted(tmp_path):
    run = read(raw("vllm_serve/v0.11_open_loop.json") | {"output_throughput": 737.8}, tmp_path)
    assert any("one of the three has another meaning" in doubt for doubt in run.doubts)


def test_the_old_key_with_a_colon_and_goodput_do_not_disturb():
    for name in ("v0.6.6_goodput_key_with_colon.json", "v0.11_goodput.json"):
        [run] = rl.measured.read(DATA / "vllm_serve" / name)
        assert run.tpot_mean_s > 0


def test_ramp_and_failures_are_doubted():
    [ramp] = rl.measured.read(DATA / "vllm_serve/v0.11_ramp_up.json")
    assert any("no steady state" in doubt for doubt in ramp.doubts)
    [partly] = rl.measured.read(DATA / "vllm_serve/v0.11_partly_failed.json")
    assert any("2 of 12 requests failed" in doubt for doubt in partly.doubts)


def test_queue_in_concurrency_of_trtllm_is_doubted(tmp_path):
    data = raw("trtllm_bench/report_v1.2_streaming_machine.json")
    data["request_info"]["avg_num_concurrent_requests"] = 505
    data["world_info"]["max_batch_size"] = 10
    assert any("include queued ones; at most 10 ran" in doubt for doubt in read(data, tmp_path).doubts)


def test_units_are_read_where_a_metric_states_one(tmp_path):
    data = raw("aiperf/v0.13_concurrency/profile_export_aiperf.json")
    ttft = data["time_to_first_token"]
    ttft |= {"unit": "us", "avg": ttft["avg"] * 1e3}
    assert read(data, tmp_path).ttft_mean_s == pytest.approx(0.02602146993930057)


def test_a_latency_without_a_unit_is_left_out(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("concurrency,ttft,tpot_ms\n4,26,7.4\n")
    [run] = rl.measured.read(path)
    assert run.ttft_s is None
    assert any("column 'ttft' has no unit" in doubt for doubt in run.doubts)
    assert any("does not state whether it is a mean or a median" in doubt for doubt in run.doubts)


def test_invalid_mlperf_result_is_doubted(tmp_path):
    text = (DATA / "mlperf/server/mlperf_log_summary.txt").read_text().replace("VALID", "INVALID", 1)
    path = tmp_path / "summary.txt"
    path.write_text(text)
    [run] = rl.measured.read(path)
    assert any("the result is INVALID" in doubt for doubt in run.doubts)


def test_inferencex_lengths_are_those_that_came(tmp_path):
    data = raw("inferencex/agg_single_node.json") | {"isl": 285, "osl": 71}
    run = read(data, tmp_path)
    assert (run.output_tokens, run.prompt_tokens) == (pytest.approx(64), pytest.approx(256))
    del data["mean_e2el"]
    asked = read(data, tmp_path)
    assert (asked.output_tokens, asked.prompt_tokens) == (71, 285)
    assert any("longest lengths asked for" in doubt for doubt in asked.doubts)


# --- headroom --------------------------------------------------------------------------------------------------------


def test_decode_by_hand():
    """Llama 3.1 8B in bf16: 7.504e9 weights times 2 bytes, 131,072 bytes of cache a token, 3.35 TB/s."""
    run = Measurement("hand", "notes", kind="decode", batch=8, context_tokens=4000, tpot_median_s=0.010)
    row = rl.headroom(SERVE, run).phase("decode")
    least = (7_504_924_672 * 2 + 8 * 4000 * 131_072) / 3.35e12
    assert row.floor_s == pytest.approx(least, rel=2e-3)
    assert row.share_of_floor == pytest.approx(least / 0.010, rel=2e-3)
    assert row.mbu == pytest.approx(least / 0.010, rel=1e-2)
    assert row.mfu == pytest.approx(8 * (2 * 7_504_924_672 + 4 * 32 * 4096 * 4000) / (989.4e12 * 0.010), rel=1e-2)
    assert (row.limit, row.beats_floor, row.reasons) == ("memory", False, ())
    under_the_roof = row.intensity_flops_per_byte * 3.35e12
    assert row.attained_flops_per_s == pytest.approx(under_the_roof * row.mbu)
    assert row.to_win_s == pytest.approx(0.010 - least, rel=1e-2)
    assert sum(row.gaps_s.values()) == pytest.approx(row.to_win_s)


def test_batch_of_a_run_is_little_s_law():
    [run] = rl.measured.read(DATA / "vllm_serve/v0.11_closed_loop.json")
    found = rl.headroom(SERVE, run)
    assert [row.name for row in found.phases] == ["prefill", "decode", "run"]
    sequences = 7.044131984100425 * 64.5 * 7.404586482967175e-3
    assert f"{sequences:.3g} sequences" in found.phase("decode").basis
    assert sequences < run.concurrency
    assert 0.5 < found.phase("decode").share_of_floor < 1
    assert found.phase("run").share_of_floor < 1


def test_speculation_multiplies_the_step():
    [run] = rl.measured.read(DATA / "vllm_serve/v0.12_speculative.json")
    row = rl.headroom(SERVE, run).phase("decode")
    assert row.measured_s == pytest.approx(2.1 * run.tpot_median_s)


def test_cached_prompts_are_not_computed():
    [run] = rl.measured.read(DATA / "sglang_serving/v0.5_speculative_cache_report.jsonl")
    assert run.cached_share == pytest.approx(0.333)
    assert "161 tokens after 80 cached" in rl.headroom(SERVE, run).phase("prefill").basis


@pytest.mark.parametrize(
    ("run", "phase", "order"),
    [
        (
            Measurement("hand", "x", kind="decode", batch=4, context_tokens=100, tpot_mean_s=0.003),
            "decode",
            ["speculation", "wrong batch", "wrong deployment"],
        ),
        (
            Measurement("hand", "x", prompt_tokens=8000, output_tokens=2, ttft_mean_s=0.05, tpot_mean_s=1.0),
            "prefill",
            ["prefix cache", "wrong deployment"],
        ),
        (
            Measurement("hand", "x", prompt_tokens=2000, output_tokens=100, requests_per_s=50, concurrency=8),
            "run",
            ["speculation", "prefix cache", "wrong batch", "wrong deployment"],
        ),
    ],
)
def test_reasons_come_in_order_where_a_floor_is_beaten(run, phase, order):
    row = rl.headroom(SERVE, run).phase(phase)
    assert row.beats_floor
    assert [reason.split(":")[0] for reason in row.reasons] == order
    assert "beats its floor" in row.sentence


def test_a_cache_can_not_explain_less_than_a_read_of_the_weights():
    run = Measurement("hand", "x", prompt_tokens=241, output_tokens=2, ttft_mean_s=0.003)
    [first, *_] = rl.headroom(SERVE, run).phase("prefill").reasons
    assert "prefix cache: not an explanation" in first


def test_how_much_speculation_would_explain():
    run = Measurement("hand", "x", kind="decode", batch=1, context_tokens=0, tpot_mean_s=0.0022405)
    row = rl.headroom(SERVE, run).phase("decode")
    assert (
        row.reasons[0] == f"speculation: {row.floor_s / 0.0022405:.2f} or more tokens per step would explain the time"
    )
    assert row.floor_s / 0.0022405 == pytest.approx(2.0, rel=1e-2)


def test_the_caller_names_what_the_file_does_not_say():
    runs = rl.measured.read(DATA / "vllm_latency/latency.txt")
    with pytest.raises(rl.InvalidInput, match=r"give the load: prompt tokens, output tokens and batch"):
        rl.headroom(SERVE, runs)
    [found] = rl.headroom(SERVE, runs, load=rl.Workload(256, 64, batch=4))
    row = found.phase("generation")
    exact = rl.generate(SERVE, rl.Workload(256, 64, batch=4), time="roofline_s")
    assert row.roofline_s == pytest.approx(exact.total_s, rel=1e-3)
    assert row.measured_s == 0.48784


def test_contradictions_are_said():
    [run] = rl.measured.read(DATA / "llama_bench/two_gpus.jsonl")
    notes = " ".join(rl.headroom(SERVE, run).notes)
    assert "states accelerators 2, the deployment has 1" in notes
    assert "states 'NVIDIA GeForce RTX 3090', the deployment has 'h100-sxm'" in notes
    assert "42.51 GB of weights, the deployment has 16.06 GB" in notes
    [same] = rl.measured.read(DATA / "trtllm_bench/report_v1.2_streaming_machine.json")
    assert not rl.headroom(SERVE, same).notes


def test_a_quantized_checkpoint_on_its_own_card():
    serve = rl.Deployment(
        rl.get_model("llama-3.1-8b"), rl.get_accelerator("rtx-4090"), precision=rl.Precision(weights="q4_k_m")
    )
    found = rl.headroom(serve, rl.measured.read(DATA / "llama_bench/bench.json"))
    assert not any(each.notes for each in found)
    decode = found[1].phase("decode")
    by_hand = (4913021952 - 128256 * 4096 * 4.5 / 8) / 1.008e12  # the embedding, in Q4_K, is looked up
    assert decode.share_of_floor == pytest.approx(by_hand / 0.0067431, rel=0.01)


def test_every_measured_row_is_its_derivation():
    [run] = rl.measured.read(DATA / "vllm_serve/v0.11_closed_loop.json")
    found = rl.headroom(SERVE, run)
    for step in found.explain():
        assert eval(step.formula, {"__builtins__": {}}, dict(step.inputs)) == pytest.approx(step.value, rel=1e-12)
    frame = found.to_frame()
    assert list(frame["name"]) == ["prefill", "decode", "run"]
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["phases"][1]["name"] == "decode"
    assert "<td>decode</td>" in found._repr_html_()
    with pytest.raises(rl.InvalidInput, match="it has prefill, decode, run"):
        found.phase("mixed")


@pytest.mark.parametrize("parallel", [rl.Parallel(tensor=4), rl.Parallel(pipeline=2), rl.Parallel(data=4)])
def test_shares_are_of_all_accelerators(parallel):
    """Half the time of a data-sheet machine is twice the share, however many accelerators there are."""
    serve = SERVE.replace(parallel=parallel)
    run = Measurement("hand", "x", prompt_tokens=1000, output_tokens=101, requests_per_s=1.0, concurrency=16,
                      tpot_mean_s=0.02, ttft_mean_s=0.2)  # fmt: skip
    found = rl.headroom(serve, run)
    for row in found.phases:
        assert 0 < row.share_of_floor < 1
        assert row.mfu * row.measured_s * row.bounds.peak_flops_per_s == pytest.approx(row.bounds.flops)
        assert row.mfu <= row.share_of_roofline * (1 + 1e-9) or row.name == "run"
    assert found.phase("run").bounds.peak_bytes_per_s == pytest.approx(parallel.accelerators * 3.35e12)


@given(
    batch=st.integers(1, 64), prompt=st.integers(1, 4000), output=st.integers(1, 400), data=st.sampled_from([1, 2, 4])
)
@settings(max_examples=40, deadline=None)
def test_floor_of_a_request_is_no_more_than_of_a_batch_alone(batch, prompt, output, data):
    """One batch that starts together is one way to serve its requests, so a request's share of it bounds the floor."""
    serve = SERVE.replace(parallel=rl.Parallel(data=data))
    alone = rl.generate(serve, rl.Workload(prompt, output, batch=batch * data), time="floor_s").total_s / (batch * data)
    first = prefill_of(serve, data, prompt, 0.0)
    step = decode_step(serve, batch * data, prompt + max(output - 2, 0) / 2)
    assert bounds_of_request(first, step, output - 1, batch * data).floor_s <= alone * (1 + 1e-9)


def test_headroom_of_a_file():
    found = rl.measured.headroom_of_file(DATA / "vllm_serve/v0.11_append_result.json", SERVE)
    assert len(found) == 3
    assert all(each.phase("decode").mbu > 0.5 for each in found)
    with pytest.raises(rl.InvalidInput, match="shares of the peaks already"):
        rl.measured.headroom_of_file(DATA / "dcgm/dmon.txt", SERVE)
    with pytest.raises(rl.InvalidInput, match=r"what rl.measured.read returns: 3"):
        rl.headroom(SERVE, 3)


# --- kernels ---------------------------------------------------------------------------------------------------------


def profile():
    [found] = rl.measured.read(DATA / "kernels/nsys_cuda_gpu_kern_sum.csv")
    return found


def test_kernels_under_the_roof_of_their_kind():
    load = rl.Workload(prompt_tokens=256, batch=4)
    found = rl.headroom(SMALL, profile(), load=load, steps=2)
    assert isinstance(found, KernelHeadroom)
    rows = found.to_frame().set_index("kind")
    step = rl.decode(SMALL, load)
    for kind, seconds in (("matmul", 123300e-9), ("attention", 18160e-9), ("elementwise", 6275e-9)):
        own = [item for item in step.operators if item.operator.kind == kind]
        assert rows.loc[kind, "measured_s"] == pytest.approx(seconds / 2)
        assert rows.loc[kind, "roofline_s"] == pytest.approx(sum(item.roofline_s for item in own))
        moved = sum(item.moved_bytes for item in own)
        assert rows.loc[kind, "mbu"] == pytest.approx(moved / 3.35e12 / (seconds / 2))
    assert any("no kernel was matched to lookup" in note for note in found.assumptions)
    assert any("matmul takes 61.65 us and its floor is 74.3" in note for note in found.assumptions)


def test_kernels_need_a_workload_and_a_number_of_passes():
    with pytest.raises(rl.InvalidInput, match="which contains no shapes; give the load"):
        rl.headroom(SMALL, profile())
    with pytest.raises(
        rl.InvalidInput, match="2 attention kernels, which is not a multiple of 12 layers; give steps, "
    ):
        rl.headroom(SMALL, profile(), load=rl.Workload())
    with pytest.raises(rl.UnknownName, match="no phase named 'both'"):
        rl.headroom(SMALL, profile(), load=rl.Workload(), phase="both")


def test_passes_are_counted_by_attention_calls():
    kernels = [
        dataclasses.replace(kernel, calls=24) if kernel.kind == "attention" else kernel for kernel in profile().kernels
    ]
    found = rl.headroom(SMALL, dataclasses.replace(profile(), kernels=tuple(kernels)), load=rl.Workload())
    assert found.steps == 2


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nvjet_tst_128x8_64x12_4x1_v_bz_TNN", "matmul"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64", "matmul"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>", "matmul"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV", "matmul"),
        ("void mul_mat_vec_q<(ggml_type)12, 1>", "matmul"),
        ("void marlin::Marlin<half>", "matmul"),
        ("fused_moe_kernel", "experts"),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", "attention"),
        ("kernel_unified_attention_2d", "attention"),
        ("fmhaSm100fKernel_QkvBfloat16", "attention"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "collective"),
        ("void vllm::cross_device_reduce_1stage<bf16, 8>", "collective"),
        ("void vllm::fused_add_rms_norm_kernel<bf16>", "elementwise"),
        ("void vllm::act_and_mul_kernel<bf16, silu>", "elementwise"),
        ("_selective_scan_update_kernel", "scan"),
        ("void indexSelectLargeIndex", None),
        ("mystery", None),
    ],
)
def test_kinds_of_kernels(name, kind):
    assert rl.measured.ProfiledKernel(name, 1, 1e-6).kind == kind


# --- fuzz ------------------------------------------------------------------------------------------------------------

JSON_FILES = sorted(path for path in DATA.rglob("*.json*") if path.name != "expected.jsonl")
TEXT_FILES = sorted(
    path for path in DATA.rglob("*") if path.suffix in (".csv", ".txt", ".md", ".sql", ".prom", ".yaml")
)
FIXED = st.sampled_from([None, True, [], {}, 10**400, -1, 0, "inf", "1,000"])
ODD = st.one_of(FIXED, st.integers(), st.floats(), st.text(max_size=8))


def places(value, path=()):
    """Paths of everything in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def changed(value, path, new):
    """``value`` with what is at ``path`` replaced."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


def refusal(function):
    """The message of the library's own error that ``function`` raises; nothing if it does not."""
    try:
        function()
    except rl.RooflineError as error:
        return str(error)
    return ""


def look_at(path):
    """Read a file, print what is in it and hold it against a deployment."""
    for run in rl.measured.read(path):
        json.dumps(run.to_dict(), allow_nan=False)
        repr(run)
        assert "\n" not in refusal(lambda run=run: rl.headroom(SMALL, run, load=rl.Workload(128, 32, 2), steps=1))


def reads_or_refuses(path):
    """Only the library's own errors come out, a line each, and what is read is plain JSON."""
    assert "\n" not in refusal(lambda: look_at(path))


@given(data=st.data(), file=st.sampled_from(JSON_FILES))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_mutated_json_is_read_or_refused(data, file, tmp_path_factory):
    first = file.read_text("utf-8").strip()
    whole = json.loads(first.splitlines()[0] if file.suffix == ".jsonl" or "append" in file.name else first)
    every = list(places(whole))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(every))
        try:
            whole = changed(whole, path, data.draw(ODD))
        except (KeyError, IndexError, TypeError):
            continue
    target = tmp_path_factory.mktemp("fuzz") / "file"
    target.write_text(json.dumps(whole))
    reads_or_refuses(target)


@given(data=st.data(), file=st.sampled_from([*TEXT_FILES, *JSON_FILES]))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_mutated_text_is_read_or_refused(data, file, tmp_path_factory):
    text = file.read_text("utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 60)))
    put = data.draw(st.text(max_size=10) | st.sampled_from(["1e999", "-1", "nan", "9" * 400, ",", '"', "\n"]))
    target = tmp_path_factory.mktemp("fuzz") / "file"
    target.write_bytes((text[:start] + put + text[end:]).encode("utf-8", "surrogatepass"))
    reads_or_refuses(target)


@given(content=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes_are_read_or_refused(content, tmp_path_factory):
    target = tmp_path_factory.mktemp("fuzz") / "file"
    target.write_bytes(content)
    reads_or_refuses(target)
