"""The sentence of a result says what its columns say."""

import re

import numpy as np
import pytest

import roofline as rl
from roofline import techniques as t
from roofline.units import bound_by, brief_speed, brief_time


def test_memory_says_what_would_make_it_fit(serve):
    found = rl.memory(serve, rl.Workload())
    said = found.summary()
    assert said.startswith("Does not fit on one h100-sxm: 141.8 GB needed, 76.97 GB available; ")
    fp8, two = rl.quantize(serve, weights="fp8"), serve.replace(parallel=rl.Parallel(tensor=2))
    assert "fits with fp8 weights, or on 2." in said
    assert rl.memory(fp8, rl.Workload()).fits
    assert rl.memory(two, rl.Workload()).fits
    assert rl.memory(two, rl.Workload()).summary().startswith("Fits on 2 h100-sxm: ")


def test_memory_says_how_many_sequences_queue(serve):
    two = serve.replace(parallel=rl.Parallel(tensor=2))
    found = rl.memory(two, rl.Workload(batch=1000))
    assert found.summary().startswith(f"Only {found.max_batch} of 1,000 sequences fit at once on 2 h100-sxm; the rest")


def test_memory_says_the_least_number_where_no_layout_fits_that_is_tried():
    huge = rl.Deployment("deepseek-v3", "l4", precision=rl.Precision(weights="fp32"))
    found = rl.memory(huge, rl.Workload(batch=1, prompt_tokens=100))
    assert f"at least {found.accelerators_needed} are needed." in found.summary()


def test_memory_of_a_sweep_counts_the_points(serve):
    two = serve.replace(parallel=rl.Parallel(tensor=2))
    found = rl.memory(two, rl.Workload(batch=np.array([1, 2, 1000])))
    assert found.summary() == "Fits at 2 of 3 points."


@pytest.mark.parametrize("time", ["floor_s", "roofline_s", "estimate_s"])
def test_a_pass_says_its_time_and_limit(serve, time):
    step = rl.decode(serve, rl.Workload())
    said = step.summary(time)
    assert f"takes {getattr(step, time) * 1e3:.3g} ms" in said
    assert said.endswith(f"is {step.limit}-bound.")
    assert ("[" in said) == (time == "estimate_s")


def test_a_sweep_says_both_ends(serve):
    step = rl.decode(serve, rl.Workload(batch=np.array([1, 4096])), context_tokens=1)
    assert step.summary("floor_s").endswith("and is memory-bound or compute-bound.")
    assert " to " in step.summary("floor_s")


def test_a_comparison_says_how_many_times_faster(serve):
    one, two = rl.decode(serve, rl.Workload()), rl.decode(rl.quantize(serve, weights="fp8"), rl.Workload())
    said = rl.compare(one, two).summary("floor_s")
    assert f"({one.floor_s / two.floor_s:.3g}x faster)" in said
    assert "(unchanged)" in rl.compare(one, one).summary()


def test_an_effect_says_what_a_request_sees(serve):
    """TPOT includes the stalls by prompts of others: chunks make it shorter; a step without prompts stays as it is."""
    effect = rl.apply(serve, rl.Workload(batch=32), t.ChunkedPrefill())
    said = effect.summary()
    assert effect.decode_speedup == pytest.approx(1)
    assert effect.tpot_speedup > 1
    after = brief_time(effect.after.tpot_s, effect.after.low.tpot_s, effect.after.high.tpot_s)
    assert f"TPOT {brief_time(effect.before.tpot_s)} -> {after} (" in said
    assert "[" not in rl.apply(serve, rl.Workload(batch=32), t.ChunkedPrefill(), time="roofline_s").summary()
    assert f"({effect.tpot_speedup:.3g}x faster), TTFT {brief_time(effect.before.ttft_s)} -> " in said


def test_a_plan_says_the_best_row_and_what_it_costs():
    load, slo = rl.Workload(1500, 300), rl.SLO(tpot_s=0.03)
    found = rl.plan("llama-3.1-8b", ["h100-sxm"], load, slo=slo, prices={"h100-sxm": 2.5})
    said, best = found.summary(), found.best
    hourly = 2.5 * best.gpus[0]
    assert said.startswith(f"Cheapest that meets the SLO: {best.gpus[0]:.0f} x h100-sxm")
    assert f"${hourly:.2f} per hour (${hourly * 365 * 24 / 12:,.0f} per month)" in said
    unpriced = rl.plan("llama-3.1-8b", ["h100-sxm"], load, slo=slo)
    assert "$" not in unpriced.summary()
    need = rl.fleet(found, requests_per_s=100)
    assert f"{need.gpus[0]:.0f} x h100-sxm" in need.summary()


def test_a_plan_that_finds_nothing_says_why():
    found = rl.plan("llama-3.1-8b", ["l4"], rl.Workload(1500, 300), slo=rl.SLO(tpot_s=0.0001))
    assert found.summary().startswith("No candidate meets the SLO; the closest (")
    assert found.reason[0] in found.summary()


def test_an_advice_says_the_verdict_and_the_technique():
    found = rl.advise(rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Traffic.of([(150, 400)]))
    assert found.summary().startswith("Decode first: ")
    assert f"{found.options[0].name}, {found.gain:.2f}x." in found.summary()


def test_summaries_are_on_top_of_the_html(serve):
    step = rl.decode(serve, rl.Workload())
    assert re.match(r"<p>A decode step takes .*</p><table>", step._repr_html_())


def test_times_have_three_digits_and_one_unit():
    assert brief_time(0.9996) == "1,000 ms"
    assert brief_time(0) == "0 s"
    assert brief_time(1.5, 0.5, 1200) == "1.5 s [0.5-1,200]"
    assert brief_time(np.array([0.001, 0.02])) == "1 ms to 20 ms"
    assert brief_speed(np.array([0.5, 1.0])) == "unchanged to 2x faster"
    assert bound_by(np.array(["memory", "compute", "memory"])) == "memory-bound or compute-bound"


def test_operators_crossovers_and_ridge_points_have_a_sentence(serve):
    """By hand: 67.1 M weights x 2 B / 3.35 TB/s = 40.1 us; 989.4 TFLOP/s / 3.35 TB/s = 295 FLOP/byte, which a batch
    reaches in 16 bits, where each weight is 2 bytes and 2 FLOPs per token, at some 300 tokens.
    """
    one = rl.bound(rl.matmul(1, 8192, 8192), "h100-sxm", name="q")
    assert one.summary("roofline_s") == "q takes 40.1 us by the roofline and is memory-bound."
    said = rl.crossovers(serve).summary()
    assert 295 < float(re.search(r"a batch of (\d+)", said)[1]) < 340
    assert "the KV cache is as large as the weights at a context of" in said
    table = rl.ridge_table(vendor="nvidia")
    low, high = np.nanmin(table.bf16_ridge_flops_per_byte), np.nanmax(table.bf16_ridge_flops_per_byte)
    assert table.summary() == f"{len(table)} accelerators, bf16 ridge points of {low:.0f} to {high:.0f} FLOP/byte."
