"""Service-level objectives as arguments."""

import pytest

import roofline as rl
from roofline.serving.slo import as_slo

LOAD = rl.Workload(1000, 100)


def test_no_slo_is_one_without_targets():
    assert as_slo(None).targets() == ()


@pytest.mark.parametrize(
    "asked",
    [
        lambda slo: rl.plan("llama-3.1-8b", "h100-sxm", LOAD, slo=slo),
        lambda slo: rl.advise(rl.Deployment("llama-3.1-8b", "h100-sxm"), LOAD, slo),
        as_slo,
    ],
)
def test_a_dict_in_place_of_an_slo_is_one_line(asked):
    with pytest.raises(rl.InvalidInput, match=r"^slo must be an SLO, such as SLO\(ttft_s=1.0"):
        asked({"ttft_s": 1.0})


def test_requests_within_a_dict_are_one_line():
    found = rl.simulate(rl.Deployment("llama-3.1-8b", "h100-sxm"), LOAD, concurrency=2, requests=10)
    with pytest.raises(rl.InvalidInput, match="slo must be an SLO"):
        found.share_within({"ttft_s": 1.0})
    assert found.share_within(rl.SLO(ttft_s=10.0)) == 1.0
