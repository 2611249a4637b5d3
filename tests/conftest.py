"""Values that most tests start from."""

import os

import matplotlib as mpl
import pytest
from hypothesis import HealthCheck, settings

import roofline as rl

mpl.use("Agg")

settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("untimed")


@pytest.fixture
def h100():
    return rl.get_accelerator("h100-sxm")


@pytest.fixture
def llama_70b():
    return rl.get_model("llama-3.1-70b")


@pytest.fixture
def serve(llama_70b, h100):
    return rl.Deployment(llama_70b, h100)
