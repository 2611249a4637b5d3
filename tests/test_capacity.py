"""Plans and fleets, held against sums by hand, against orders that must hold, and against the phases themselves."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.capacity import layouts

LLAMA_70B, LLAMA_8B = rl.get_model("llama-3.1-70b"), rl.get_model("llama-3.1-8b")
MIXTRAL, GPT_OSS = rl.get_model("mixtral-8x7b"), rl.get_model("gpt-oss-120b")
H100, L40S, MI300X = (rl.get_accelerator(name) for name in ("h100-sxm", "l40s", "mi300x"))
CHAT = rl.Workload(prompt_tokens=1500, output_tokens=300)
SLO = rl.SLO(ttft_s=0.5, tpot_s=0.03)
PRICES = {"h100-sxm": 2.5, "h200-sxm": 5.0, "l40s": 0.7}


@pytest.fixture(scope="module")
def plan():
    hardware = ["h100-sxm", "h200-sxm", "l40s"]
    return rl.plan(LLAMA_70B, hardware, CHAT, slo=SLO, precisions=("bf16", "fp8"), prices=PRICES)


def test_layouts_of_a_dense_model_are_tensor_times_pipeline():
    found = layouts(LLAMA_70B, (8,))
    names = {tuple(int(degree[row, 0]) for degree in found.degrees[:4]) for row in range(len(found.tensor))}
    assert names == {(1, 8, 1, 1), (2, 4, 1, 1), (4, 2, 1, 1), (8, 1, 1, 1)}


def test_layouts_of_experts_lie_whole_on_accelerators_too():
    found = layouts(MIXTRAL, (8,))
    names = {tuple(int(degree[row, 0]) for degree in found.degrees[:4]) for row in range(len(found.tensor))}
    assert {(8, 1, 1, 1), (8, 1, 8, 1), (1, 1, 8, 8), (2, 1, 8, 4)} <= names
    assert all(expert == tensor * data for tensor, _, expert, data in names if data > 1)


def test_layouts_end_at_heads_and_layers():
    found = layouts(rl.get_model("gpt-2"), (16, 32))
    assert np.max(found.tensor) <= 12
    assert np.max(found.pipeline) <= 12


def test_every_row_is_what_its_deployment_gives(plan):
    for row in (0, len(plan) // 3, len(plan) - 1):
        alone = plan.steady_state(row)
        assert str(alone.case.serve.parallel) == str(plan.deployment(row).parallel)
        assert plan.ttft_s[row] == pytest.approx(alone.ttft_s, rel=1e-9)
        assert plan.tpot_s[row] == pytest.approx(alone.tpot_s, rel=1e-9)
        fits = rl.memory(plan.deployment(row), plan.workload(row)).fits
        assert fits is not plan.reason[row].startswith("does not fit")


def test_what_holds_the_levels_holds_them_and_the_others_say_what_they_break(plan):
    held = plan.take(plan.feasible)
    assert len(held)
    assert np.all(held.ttft_s <= 0.5)
    assert np.all(held.tpot_s <= 0.03)
    assert np.all(held.batch <= held.max_batch)
    assert set(held.reason) == {""}
    broken = plan.take(~plan.feasible)
    assert "" not in set(broken.reason)
    late = np.char.startswith(broken.reason.astype(str), "TTFT")
    assert late.any()
    assert np.all(broken.ttft_s[late] > 0.5)


def test_headroom_is_what_is_left_of_the_tightest_level(plan):
    left = np.minimum(1 - plan.ttft_s / 0.5, 1 - plan.tpot_s / 0.03)
    assert plan.headroom == pytest.approx(left)


def test_no_row_beats_the_best(plan):
    assert plan.best.usd_per_request[0] == np.min(plan.usd_per_request[plan.feasible])
    gap = np.diff(plan.usd_per_request[plan.feasible])
    assert np.all(gap >= -1e-15)


def test_every_candidate_is_there_once(plan):
    rows = zip(plan.accelerator, plan.precision, plan.layout, plan.gpus, plan.batch, strict=True)
    assert len(set(rows)) == len(plan) == 3 * 2 * len(layouts(LLAMA_70B).tensor) * len(set(plan.batch))


def test_costs_of_input_and_output_are_the_cost_of_the_request(plan):
    """The first output token comes with the prompt: decode steps generate 299."""
    whole = (plan.usd_per_million_input_tokens * 1500 + plan.usd_per_million_output_tokens * 299) / 1e6
    assert whole == pytest.approx(plan.usd_per_request, rel=1e-9)
    hour = plan.requests_per_s * 3600 * plan.usd_per_request
    assert hour == pytest.approx(np.array([PRICES[name] for name in plan.accelerator]) * plan.gpus, rel=1e-9)


@given(st.floats(1.01, 50), st.sampled_from(sorted(PRICES)))
@settings(max_examples=10, deadline=None)
def test_a_higher_price_never_ranks_better(times, dearer):
    before, after = (
        rl.plan(LLAMA_70B, sorted(PRICES), CHAT, slo=SLO, batches=[1, 8, 32], precisions=("fp8",), prices=prices)
        for prices in (PRICES, PRICES | {dearer: PRICES[dearer] * times})
    )
    places = [np.flatnonzero(each.accelerator[each.feasible] == dearer) for each in (before, after)]
    assert np.all(places[1] >= places[0])


def test_without_prices_the_fewest_accelerator_seconds_come_first():
    found = rl.plan(LLAMA_70B, ["h100-sxm", "h200-sxm"], CHAT, slo=SLO)
    assert np.all(np.diff((found.gpus * found.busy_s)[found.feasible]) >= 0)
    assert np.isnan(found.usd_per_request).all()
    assert found.rows()[0]["usd_per_request"] is None


def test_what_has_no_price_comes_behind():
    found = rl.plan(LLAMA_70B, ["h100-sxm", "h200-sxm"], CHAT, slo=SLO, prices={"h100": rl.Price(90.0)})
    assert (
        np.flatnonzero(found.accelerator[found.feasible] == "h100-sxm").max()
        < np.flatnonzero(found.accelerator[found.feasible] == "h200-sxm").min()
    )
    assert any("90.00 USD/h" in note for note in found.assumptions)


def test_more_promises_leave_no_more_candidates(plan):
    looser = rl.plan(LLAMA_70B, ["h100-sxm"], CHAT, slo=SLO)
    for more, says in (
        ({"total_s": 6.0}, "E2E"),
        ({"gap_s": 0.1}, "gap"),
        ({"tokens_per_s": 1e3}, "tok"),
    ):
        tighter = rl.plan(LLAMA_70B, ["h100-sxm"], CHAT, slo=rl.SLO(ttft_s=0.5, tpot_s=0.03, **more))
        assert 0 < tighter.feasible.sum() < looser.feasible.sum()
        assert any(text.startswith(says) for text in tighter.reason)


def test_70b_in_16_bits_needs_two_h100(plan):
    bf16 = (plan.accelerator == "h100-sxm") & (plan.precision == "bf16")
    assert plan.gpus[bf16 & plan.feasible].min() == 2
    one = plan.take(bf16 & (plan.gpus == 1))
    assert set(one.reason) == {"does not fit: 141 GB of weights per accelerator, 77 GB available"}


def test_the_frontier_is_not_beaten(plan):
    front = plan.frontier
    fits = plan.take(~np.char.startswith(plan.reason.astype(str), "does not fit"))
    for user, gpu in zip(front.tokens_per_s_per_user, front.tokens_per_s_per_gpu, strict=True):
        beats = (fits.tokens_per_s_per_user > user) & (fits.tokens_per_s_per_gpu > gpu)
        assert not beats.any()
    assert np.all(np.diff(front.tokens_per_s_per_user) < 0)
    assert np.all(np.diff(front.tokens_per_s_per_gpu) > 0)


def test_bound_by_is_what_the_next_batch_breaks(plan):
    row = 0
    pick = (
        (plan.accelerator == plan.accelerator[row])
        & (plan.precision == plan.precision[row])
        & (plan.layout == plan.layout[row])
        & (plan.gpus == plan.gpus[row])
    )
    larger = plan.take(pick & (plan.batch > plan.batch[row]))
    nearest = int(np.argmin(larger.batch))
    first = larger.reason[nearest].split()[0]
    assert plan.bound_by[row] == {"does": "memory"}.get(first, first)


def test_tokens_a_joule_are_more_than_at_full_board_power(plan):
    rows = plan.take((plan.accelerator == "h100-sxm") & plan.feasible)
    assert np.all(rows.tokens_per_joule >= rows.tokens_per_s_per_gpu / 700 * (1 - 1e-9))
    assert np.all(rows.tokens_per_joule <= rows.tokens_per_s_per_gpu / 70)  # idle: stages of a pipeline wait for others


def test_an_accelerator_without_links_is_planned_alone():
    alone = L40S.replace(name="alone", scale_up=None, host_bytes_per_s=None)
    found = rl.plan(LLAMA_8B, [alone], CHAT)
    assert set(found.gpus) == {1}
    assert "no layouts beyond 1" in found.assumptions[0]


def test_an_order_of_10_000_candidates_in_one_expression():
    found = rl.plan(LLAMA_8B, ["h100-sxm", "l40s"], CHAT, batches=np.arange(1, 501), accelerators=(1, 2, 4, 8))
    assert len(found) == 2 * 10 * 500
    assert found.to_frame().shape == (10_000, len(found.columns))


def test_every_row_has_its_interval_and_what_it_rests_on(plan):
    alone = plan.steady_state(0)
    for name in ("ttft", "tpot"):
        ends = [getattr(alone.at(time), f"{name}_s") for time in ("estimate_low_s", "estimate_s", "estimate_high_s")]
        row = [getattr(plan, column)[0] for column in (f"{name}_low_s", f"{name}_s", f"{name}_high_s")]
        assert row == pytest.approx(ends)
        assert row == sorted(row)
    assert set(plan.basis) == {"calibrated"}
    assert set(plan.engine) == {"any"}
    roof = rl.plan(LLAMA_8B, L40S, CHAT, time="roofline_s")
    assert np.array_equal(roof.ttft_low_s, roof.ttft_high_s)


def test_a_target_can_be_held_by_the_upper_end_of_the_estimate():
    middle, high = (
        rl.plan(LLAMA_70B, H100, CHAT, slo=SLO, time=time).best for time in ("estimate_s", "estimate_high_s")
    )
    assert high.tpot_s[0] == high.tpot_high_s[0] <= 0.03
    assert middle.tpot_high_s[0] > 0.03 >= middle.tpot_s[0]


@pytest.mark.parametrize(
    ("chip", "basis"),
    [("h100-sxm", "calibrated"), ("rtx-4090", "borrowed"), ("mi300x", "typical"), ("gaudi3", "typical")],
)
def test_what_estimates_rest_on(chip, basis):
    """Kernels were timed on H100; those of an RTX 4090 are an L40S's; of MI300X and Gaudi shares of peak are known."""
    found = rl.plan(LLAMA_8B, chip, CHAT, accelerators=[1])
    assert set(found.basis) == {basis}


def test_a_chip_without_timings_is_ranked_apart_unless_allowed():
    prices = {"h100-sxm": 2.5, "mi300x": 1.0}
    asked = (LLAMA_8B, [MI300X, H100], CHAT)
    apart, together = (rl.plan(*asked, prices=prices, allow_uncalibrated=allowed) for allowed in (False, True))
    assert apart.best.accelerator[0] == "h100-sxm"
    assert list(apart.by_accelerator.basis) == ["calibrated", "typical"]
    assert together.best.accelerator[0] == "mi300x"
    assert len(together) == len(apart)
    fleets = [rl.fleet(each, requests_per_s=500, method="closed-form") for each in (apart, together)]
    assert [each.accelerator[0] for each in fleets] == ["h100-sxm", "mi300x"]


def test_what_the_intervals_leave_open_is_a_tie():
    def rows(usd):
        found = rl.plan(LLAMA_8B, [H100, L40S], CHAT, prices={"h100-sxm": 2.5, "l40s": usd})
        return found.by_accelerator, rl.fleet(found, requests_per_s=2000, method="closed-form")

    at_a_dollar, _ = rows(1.0)
    usd = dict(zip(at_a_dollar.accelerator, at_a_dollar.usd_per_request, strict=True))
    even = usd["h100-sxm"] / usd["l40s"]
    for times, tie in ((1.02, True), (4.0, False)):
        for found in rows(even * times):
            assert list(found.accelerator) == ["h100-sxm", "l40s"]
            assert list(found.tie) == [False, tie]


def test_a_fleet_without_an_slo_by_hand():
    """Each deployment is loaded with 70 % of its throughput, or with the share that is asked for."""
    found = rl.plan(LLAMA_70B, sorted(PRICES), CHAT, precisions=["fp8"], prices=PRICES)
    for utilization, load in ((None, 0.7), (1.0, 1.0)):
        need = rl.fleet(found, requests_per_s=40, utilization=utilization, method="closed-form")
        for row in range(len(need)):
            pick = (found.accelerator == need.accelerator[row]) & found.feasible
            least = min(
                math.ceil(40 / rate / load - 1e-9) * gpus
                for rate, gpus in zip(found.requests_per_s[pick], found.gpus[pick], strict=True)
            )
            assert need.gpus[row] == least
            assert need.usd_per_hour[row] == pytest.approx(least * PRICES[need.accelerator[row]])
        assert np.all(np.diff(need.usd_per_hour) >= 0)
        assert np.all(need.load <= load + 1e-9)


def test_a_fleet_at_the_floor_is_no_larger_and_computes_what_has_to_be_computed(plan):
    need = rl.fleet(plan, requests_per_s=40, method="closed-form")
    assert np.all(need.gpus_at_floor <= need.gpus)
    in_layers, lm_head = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672), 8192 * 128_256
    flops_a_request = 2 * in_layers * (1500 + 299)
    assert in_layers + 2 * lm_head == pytest.approx(70.55e9, rel=1e-3)
    for row in range(len(need)):
        chip = rl.get_accelerator(need.accelerator[row])
        peak = chip.dense_flops_per_s["fp8" if need.precision[row] == "fp8" else "bf16"]
        assert need.gpus_at_floor[row] >= 40 * flops_a_request / peak


@given(st.floats(0.1, 500), st.floats(1.0, 4.0), st.floats(0.2, 1.0))
@settings(max_examples=4, deadline=None)
def test_more_requests_or_more_slack_never_take_fewer(plan, rate, times, utilization):
    less = rl.fleet(plan, requests_per_s=rate, method="closed-form")
    more = rl.fleet(plan, requests_per_s=rate * times, utilization=utilization, method="closed-form")
    assert min(more.usd_per_hour) >= min(less.usd_per_hour) - 1e-9


def test_printed_tables_say_what_people_ask_for(plan):
    for found in (plan.by_accelerator, rl.fleet(plan, requests_per_s=40, method="closed-form")):
        text, page = repr(found), found._repr_html_()
        assert "TPOT" in text
        assert "GPUs" in text
        assert "<table>" in page
        assert len(found.rows()) == len(found)
        assert set(found.rows()[0]) == set(found.columns)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hardware": []}, "a plan needs at least one accelerator"),
        ({"time": "roof_s"}, "no time named 'roof_s'"),
        (
            {"load": rl.Workload(np.array([1, 2]), 3)},
            "a plan takes a single prompt_tokens; pass a Traffic for a mix of lengths",
        ),
        ({"prices": {"h200-sxm": 1.0}}, "no accelerator of this plan named 'h200-sxm'"),
        ({"prices": {"h100-sxm": -1.0}}, "a price must be a finite number >= 0: -1.0"),
        ({"accelerators": (0,)}, "accelerators must be an integer >= 1: 0"),
        ({"batches": [0]}, "batches must be an integer >= 1: 0"),
        ({"precisions": ("fp9",)}, "no number format named 'fp9'"),
    ],
)
def test_plans_that_make_no_sense(change, says):
    asked = {"model": LLAMA_8B, "hardware": [H100], "load": CHAT} | change
    with pytest.raises(rl.RooflineError, match=says):
        rl.plan(asked.pop("model"), asked.pop("hardware"), asked.pop("load"), **asked)


def test_fleets_that_make_no_sense(plan):
    with pytest.raises(rl.InvalidInput, match="requests_per_s must be a finite number"):
        rl.fleet(plan, requests_per_s=0)
    with pytest.raises(rl.InvalidInput, match="utilization must be from"):
        rl.fleet(plan, requests_per_s=1, utilization=1.5)
    never = rl.plan(LLAMA_70B, [L40S], CHAT, slo=rl.SLO(tpot_s=1e-4))
    with pytest.raises(rl.InvalidInput, match="no candidate meets the SLO; the closest: TPOT"):
        rl.fleet(never, requests_per_s=1)


def test_tensor_parallelism_does_not_always_speed_up_a_small_model():
    """Two all-reduces a layer have a latency: a model of 0.6B gains nothing from a second H100, the floor does."""
    model = rl.get_model("qwen3-0.6b")
    one, two = (
        rl.decode(rl.Deployment(model, H100, parallel=rl.Parallel(tensor=ways)), rl.Workload(500)) for ways in (1, 2)
    )
    assert two.floor_s < 0.6 * one.floor_s
    assert two.estimate_s > 0.9 * one.estimate_s


def test_all_reduces_of_a_step_take_what_is_measured():
    """160 of a token's 16 kB at about 5 us each on eight H100: 0.8 ms that the floor does not claim."""
    step = rl.decode(rl.Deployment(LLAMA_70B, H100, parallel=rl.Parallel(tensor=8)), rl.Workload())
    reduces = [item for item in step.operators if item.name == "all_reduce"]
    assert sum(item.operator.count for item in reduces) == 160
    assert sum(item.estimate_s for item in reduces) == pytest.approx(0.8e-3, rel=0.35)
    assert sum(item.network_s for item in reduces) == pytest.approx(160 * 16_384 / 450e9)
    assert step.estimate_s > step.roofline_s + 0.5e-3


def test_integers_with_scales_of_groups_are_weights_alone():
    """GPTQ and AWQ kernels expand 4-bit groups to 16 bits, even on an A100, which has units for 4-bit integers."""
    found = rl.plan("llama-3.1-8b", "a100-sxm-80gb", rl.Workload(500, 50), precisions=["int4_g128"], accelerators=[1])
    assert {serve.precision.activations for serve in found.cases.values()} == {"bf16"}
    [serve] = found.cases.values()
    assert {item.math for item in rl.prefill(serve, rl.Workload(500)).operators if item.flops} == {"bf16"}
