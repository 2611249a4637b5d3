"""Kernels borrowed from chips with faster matrix units."""

import pytest

import roofline as rl
from roofline.efficiency.lookup import kernels_for
from roofline.efficiency.matrix_rates import share_on_slower_units


def share(accelerator, kind):
    found = kernels_for(rl.get_accelerator(accelerator), kind, "vllm")
    return found.members["vllm"].parameters["compute"]


def test_slower_units_hide_the_rest_of_a_kernel():
    """A kernel whose FLOPs and rest take 1 each has 2^(-1/4) of the peak; with units of half the rate, 2 and 1."""
    even = 2 ** (-1 / 4)
    assert share_on_slower_units(even, 2.0) == pytest.approx((1 + 1 / 16) ** (-1 / 4))
    assert share_on_slower_units(0.4, 1.0) == pytest.approx(0.4)
    assert share_on_slower_units(0.4, 100.0) == 0.99


@pytest.mark.parametrize("kind", ["experts.bf16", "attention_prefill.bf16"])
def test_geforce_cards_reach_more_of_their_halved_rate(kind):
    """209.5 TFLOP/s on 170 multiprocessors beside 480 on 188: a rate of 0.48 (RTX Blackwell white paper, table 3)."""
    lent, own = share("rtx-pro-6000-server", kind), share("rtx-5090", kind)
    assert own == pytest.approx(share_on_slower_units(lent, (480 / 188) / (209.5 / 170)), rel=1e-6)
    assert 1.2 * lent < own < 1.0


@pytest.mark.parametrize("kind", ["experts.fp4", "attention_decode.bf16"])
def test_formats_at_the_full_rate_and_kernels_that_wait_for_memory_are_as_lent(kind):
    assert share("rtx-5090", kind) == pytest.approx(share("rtx-pro-6000-server", kind))


@pytest.mark.parametrize("accelerator", ["h200-nvl", "gb10-dgx-spark"])
def test_clocks_change_no_share(accelerator):
    lender = {"h200-nvl": "h100-sxm", "gb10-dgx-spark": "rtx-pro-6000-server"}[accelerator]
    assert share(accelerator, "attention_prefill.bf16") == pytest.approx(share(lender, "attention_prefill.bf16"))


def test_no_other_generation_is_corrected():
    """Ampere's GeForce cards borrow from Ada's L40S, whose other units differ too."""
    assert share("rtx-3090", "attention_prefill.bf16") == pytest.approx(share("l40s", "attention_prefill.bf16"))


def test_prompts_of_a_rtx_5090_take_what_was_measured():
    """Qwen3.6-35B-A3B in NVFP4 (weights alone) under vLLM 0.24, two clients of an agent's trace.

    github.com/anud18/qwen36-vllm-aiperf-benchmark, SUMMARY_tables.md: first tokens after 0.44 s with 9,426 tokens of
    which 17 % are cached, and after 0.15 s with 2,855 of which 56 % are: 44 us for each further token.
    """
    serve = rl.Deployment(
        "qwen3.6-35b-a3b",
        "rtx-5090",
        rl.Precision(weights="nvfp4", activations="bf16", exceptions={"attention": "bf16"}),
        engine="vllm",
    )
    long, short = 9426.5 * (1 - 0.17), 2855 * (1 - 0.556)
    times = [float(rl.prefill(serve, rl.Workload(round(tokens), 1)).estimate_s) for tokens in (long, short)]
    each_s = (times[0] - times[1]) / (long - short)
    assert each_s == pytest.approx((0.4403 - 0.1543) / (long - short), rel=0.35)
