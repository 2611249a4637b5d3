"""Plans and fleets by power, energy and money, held against sums by hand and against the passes themselves."""

import json
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import roofline as rl
from roofline.capacity.plans import Plan
from roofline.serving.request_energy import request_energy

LLAMA_8B = rl.get_model("llama-3.1-8b")
CHAT = rl.Workload(prompt_tokens=1500, output_tokens=300)
SLO = rl.SLO(tpot_s=0.03)
PRICES = {"h100-sxm": 2.5, "l40s": 0.7}
METER = rl.Power(idle_w=80, host_w=120, wall=1.05, pue=1.2, usd_per_kwh=0.1, gco2_per_kwh=400)


def planned(**options) -> Plan:
    asked = {"slo": SLO, "prices": PRICES, "batches": [1, 8, 32, 64], "accelerators": (1, 2)} | options
    return rl.plan(LLAMA_8B, ["h100-sxm", "l40s"], CHAT, **asked)


@pytest.fixture(scope="module")
def metered():
    return planned(power=METER)


@pytest.fixture(scope="module")
def bare():
    return planned()


def row_of(plan, accelerator="h100-sxm", gpus=1, batch=32):
    return int(np.flatnonzero((plan.accelerator == accelerator) & (plan.gpus == gpus) & (plan.batch == batch))[0])


def test_power_of_a_deployment_follows_from_its_passes(bare):
    """In a second it computes the prompts and the steps of its requests, each with its own energy, beside idling."""
    row = row_of(bare)
    steady, rate = bare.steady_state(row), float(bare.requests_per_s[row])
    step = rl.decode(bare.deployment(row), rl.Workload(batch=32), context_tokens=1500 + 149).energy
    packed = rl.prefill(bare.deployment(row), rl.Workload(prompt_tokens=1500, batch=1)).energy
    spent = [each.busy_j + each.memory_j + each.compute_j for each in (step, packed)]
    by_hand = 70 + rate * (299 / 32 * spent[0] + spent[1])
    assert float(bare.watts[row]) == pytest.approx(by_hand, rel=0.03)  # packed prompts share their reads of weights
    assert 300 < bare.watts[row] < 700
    assert request_energy(steady).watts == pytest.approx(bare.watts[row])


def test_what_is_around_the_accelerators_is_added_as_far_as_it_is_given(bare, metered):
    """(board + 120) x 1.05 x 1.2, for every accelerator."""
    rows = row_of(bare), row_of(metered)
    assert metered.watts[rows[1]] == pytest.approx((bare.watts[rows[0]] + 120) * 1.26)
    two = row_of(bare, gpus=2), row_of(metered, gpus=2)
    assert metered.watts[two[1]] == pytest.approx((bare.watts[two[0]] + 240) * 1.26)
    assert any("without host, power supplies, data center (PUE)" in note for note in bare.assumptions)
    assert "power and energy cover accelerators, host, power supplies, data center (PUE)" in metered.assumptions


def test_energy_of_a_request_divides_into_prompt_and_steps(metered):
    parts = metered.joules_per_million_input_tokens * 1500e-6 + metered.joules_per_output_token * 299
    assert parts == pytest.approx(metered.joules_per_request)
    assert metered.joules_per_request == pytest.approx(metered.watts / metered.requests_per_s)
    assert metered.tokens_per_joule == pytest.approx(300 / metered.joules_per_request)
    kwh = metered.joules_per_request / 3.6e6
    assert metered.gco2_per_request == pytest.approx(400 * kwh)
    assert metered.electricity_usd_per_request == pytest.approx(0.1 * kwh)


def test_nothing_is_assumed_of_electricity(bare):
    assert np.isnan(bare.gco2_per_request).all()
    assert np.isnan(bare.electricity_usd_per_request).all()
    fleet = rl.fleet(bare, requests_per_s=30, utilization=0.6, method="closed-form")
    assert np.isnan(fleet.electricity_usd_per_month).all()
    assert bare.rows()[0]["gco2_per_request"] is None


def test_ranking_by_energy(bare):
    ranked = planned(rank="energy")
    joules = ranked.joules_per_request[ranked.feasible]
    assert np.all(np.diff(joules) >= 0)
    assert joules[0] == pytest.approx(np.nanmin(bare.joules_per_request[bare.feasible]))
    assert ranked.summary().startswith("Least energy per request")
    assert "J per request" in ranked.summary()
    with pytest.raises(rl.UnknownName, match="no ranking named 'watts'"):
        planned(rank="watts")


def test_a_power_limit_holds_and_slows(bare):
    limited = planned(power=rl.Power(limit_w=300))
    assert np.nanmax(limited.watts / limited.gpus) <= 300 * (1 + 1e-9)
    rows = row_of(bare), row_of(limited)
    assert limited.requests_per_s[rows[1]] < bare.requests_per_s[rows[0]]
    assert limited.ttft_s[rows[1]] > bare.ttft_s[rows[0]]
    assert "power limit: 300 W per accelerator" in limited.assumptions


def test_an_output_token_costs_what_its_decode_step_costs(bare):
    """Steps of 32 sequences at 2.5 USD an hour; the first token is the prompt's."""
    row = row_of(bare)
    step_s = float(bare.steady_state(row).step_s)
    assert bare.usd_per_million_output_tokens[row] == pytest.approx(2.5 / 3600 * step_s / 32 * 1e6)


def test_there_is_no_split_at_the_floor():
    floor = planned(time="floor_s")
    for name in ("input", "cached", "output"):
        assert np.isnan(getattr(floor, f"usd_per_million_{name}_tokens")).all()
    assert np.isfinite(floor.usd_per_request).all()
    assert np.isnan(floor.watts).all()
    assert any(note.startswith("at the floor, prefill and decode overlap") for note in floor.assumptions)
    assert "nan" not in floor.summary()


def test_cached_tokens_cost_what_attention_to_them_adds():
    found = planned(hit_rate=0.5)
    row = row_of(found)
    serve = found.deployment(row)
    alone, behind = (rl.prefill(serve, rl.Workload(750, 300, 1, cached)).estimate_s for cached in (0, 750))
    ratio = found.usd_per_million_cached_tokens[row] / found.usd_per_million_input_tokens[row]
    assert ratio == pytest.approx(behind / alone - 1, rel=1e-6)
    assert 0 < ratio < 0.2
    parts = 750 * (found.usd_per_million_input_tokens + found.usd_per_million_cached_tokens)
    parts = parts + 299 * found.usd_per_million_output_tokens
    assert parts / 1e6 == pytest.approx(found.usd_per_request)
    assert np.isnan(planned().usd_per_million_cached_tokens).all()


def test_power_of_a_fleet_with_its_idle_time(metered):
    """Three quarters of the time loaded, a quarter idle at (80 + 120) x 1.26 W for each accelerator."""
    row = row_of(metered)
    one = metered.take(np.array([row]))
    rate = 0.75 * float(one.requests_per_s[0])
    fleet = rl.fleet(one, requests_per_s=rate, method="closed-form")
    assert fleet.replicas[0] == 1
    assert fleet.load[0] == pytest.approx(0.75)
    assert fleet.watts[0] == pytest.approx(0.75 * one.watts[0] + 0.25 * 200 * 1.26)
    assert fleet.joules_per_request[0] == pytest.approx(fleet.watts[0] / rate)
    assert fleet.gco2_per_request[0] == pytest.approx(fleet.joules_per_request[0] / 3.6e6 * 400)
    assert fleet.electricity_usd_per_month[0] == pytest.approx(fleet.watts[0] / 1000 * 730 * 0.1)


def test_bill_of_a_fleet(metered):
    fleet = rl.fleet(metered, requests_per_s=40, utilization=0.7, method="closed-form")
    assert fleet.usd_per_month == pytest.approx(730 * fleet.usd_per_hour)
    assert fleet.usd_per_million_tokens == pytest.approx(fleet.usd_per_hour / (40 * 3600 * 300) * 1e6)
    parts = 1500 * fleet.usd_per_million_input_tokens + 299 * fleet.usd_per_million_output_tokens
    assert parts / 300 == pytest.approx(fleet.usd_per_million_tokens)
    assert np.all(fleet.load <= 0.7 * (1 + 1e-9))
    assert fleet.usd_per_million_tokens_at(fleet.load / 2) == pytest.approx(2 * fleet.usd_per_million_tokens)


def test_break_even_by_hand(bare):
    """1,500 tokens at 0.1 and 300 at 0.4 are 270 USD per million requests."""
    fleet = rl.fleet(bare, requests_per_s=40, method="closed-form")
    rates = fleet.break_even(0.1, 0.01, 0.4)
    by_hand = fleet.usd_per_hour / 3600 / 270e-6
    possible = by_hand <= fleet.replicas / fleet.plan.busy_s
    assert possible.any()
    assert rates[possible] == pytest.approx(by_hand[possible])
    assert np.isinf(rates[~possible]).all()
    half = rl.fleet(planned(hit_rate=0.5), requests_per_s=40, method="closed-form")
    bill = (750 * 0.1 + 750 * 0.01 + 300 * 0.4) * 1e-6
    assert half.break_even(0.1, 0.01, 0.4)[0] == pytest.approx(half.usd_per_hour[0] / 3600 / bill)
    assert np.isinf(fleet.break_even(0.0001, 0.0, 0.0001)).all()
    assert np.isnan(
        rl.fleet(planned(prices=None), requests_per_s=40, method="closed-form").break_even(0.1, 0.01, 0.4)
    ).all()
    with pytest.raises(rl.InvalidInput, match="a request must cost something at the API"):
        fleet.break_even(0, 0, 0)
    with pytest.raises(rl.InvalidInput, match="api_out must be a finite number >= 0: -1"):
        fleet.break_even(0.1, 0.1, -1)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("limit_w", 0, "limit_w must be above 0: 0"),
        ("idle_w", -1, "idle_w must be a finite number >= 0: -1"),
        ("pue", 0.9, "pue must be a finite number >= 1: 0.9"),
        ("wall", [1.1, 1.2], "wall must be one number"),
        ("usd_per_kwh", "0.1", "usd_per_kwh must be a finite number >= 0"),
    ],
)
def test_power_of_nonsense(field, value, said):
    with pytest.raises(rl.InvalidInput, match=said):
        rl.Power(**{field: value})


def test_plot_of_cost_over_utilization(bare):
    fleet = rl.fleet(bare, requests_per_s=40, utilization=0.7, method="closed-form")
    axes = rl.plot.cost(fleet, api=0.5)
    lines = axes.get_lines()
    curve, mark, across = lines[0], lines[1], lines[-1]
    shares, costs = curve.get_data()
    assert costs * shares == pytest.approx(np.full(len(shares), costs[-1]))
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (fleet.load[0], fleet.usd_per_million_tokens[0])
    assert set(across.get_ydata()) == {0.5}
    assert axes is rl.plot.cost(fleet, ax=axes)
    plt.close("all")
    with pytest.raises(rl.InvalidInput, match="cost needs prices"):
        rl.plot.cost(rl.fleet(planned(prices=None), requests_per_s=40, method="closed-form"))


def command(*words):
    done = subprocess.run([sys.executable, "-m", "roofline", *words], capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


def test_command_line_has_power_and_break_even():
    asked = ["fleet", "llama-3.1-8b", "--hardware", "h100-sxm", "--prices", "h100-sxm=2.5", "--rate", "20"]
    power = ["--host-watts", "120W", "--pue", "1.2", "--usd-per-kwh", "$0.1", "--gco2-per-kwh", "400"]
    out, _ = command(*asked, *power, "--rank", "energy", "--api", "0.1,0.01,0.4", "--json")
    found = json.loads(out)
    options = {"host_w": 120, "pue": 1.2, "usd_per_kwh": 0.1, "gco2_per_kwh": 400}
    plan = rl.plan(
        LLAMA_8B, "h100-sxm", rl.Workload(), prices={"h100-sxm": 2.5}, power=rl.Power(**options), rank="energy"
    )
    fleet = rl.fleet(plan, requests_per_s=20)
    assert found["fleets"][0]["watts"] == pytest.approx(fleet.watts[0])
    assert found["fleets"][0]["gco2_per_request"] == pytest.approx(fleet.gco2_per_request[0])
    assert found["break_even_requests_per_s"] == pytest.approx(list(fleet.break_even(0.1, 0.01, 0.4)))
    _, error = command(*asked, "--api", "0.1,0.4")
    assert "--api takes the prices of input, cached and output tokens" in error


def test_what_if_with_a_power_limit():
    asked = ["what-if", "llama-3.1-8b", "--hardware", "h100-sxm", "--prompt", "8000", "--power-limit", "400"]
    found = json.loads(command(*asked, "--json")[0])
    assert found["after"]["power_limit_watts"] == 400
    serve = rl.Deployment(LLAMA_8B, "h100-sxm", power_limit_watts=400)
    expected = rl.prefill(serve, rl.Workload(8000)).estimate_s
    assert found["prefill"]["after"]["estimate_s"] == pytest.approx(expected)


def test_prices_of_different_markets_are_not_compared_silently():
    """An H100 of AWS costs 2.8 times as much as one of Vast.ai, so that markets decide more than chips."""
    chips = ["h100-sxm", "l40s"]

    def notes(**markets):
        prices = {name: rl.get_price(name, market=markets.get(name.partition("-")[0])) for name in chips}
        found = rl.plan(LLAMA_8B, chips, CHAT, slo=SLO, prices=prices, batches=[8], accelerators=(1,))
        return [note for note in found.assumptions if "different" in note]

    dear, cheap = (rl.get_price("h100-sxm", **which).usd_per_hour for which in ({}, {"provider": "Vast.ai"}))
    assert dear / cheap > 2.5
    assert notes(h100="hyperscaler", l40s="hyperscaler") == []
    (mixed,) = notes(h100="hyperscaler", l40s="marketplace")
    assert mixed.startswith("prices come from different markets (hyperscaler, marketplace)")
