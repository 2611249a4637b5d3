"""A point by the three ways it can be computed: as written, compiled, and as an element of a sweep."""

import itertools

import numpy as np
import pytest

import roofline as rl
from roofline.phases.scheduling import pass_of
from roofline.phases.single_points import _fixed_and_varied, _segments, estimates_at, sums_at
from roofline.tracing import OFTEN, compiled

TP8, EP8 = rl.Parallel(tensor=8), rl.Parallel(expert=8, data=8)
FP8, INT4 = rl.Precision("fp8", "fp8", "fp8"), rl.Precision("int4_g128")

DEPLOYMENTS = [
    ("llama-3.1-8b", "h100-sxm", {}),
    ("llama-3.1-70b", "h200-sxm", {"parallel": rl.Parallel(tensor=2, pipeline=2), "precision": FP8}),
    ("llama-3.1-70b", "a100-sxm-80gb", {"precision": INT4, "engine": "vllm"}),
    ("llama-4-scout", "h100-sxm", {"parallel": TP8}),
    ("gemma-3n-e2b", "l40s", {}),
    ("gpt-oss-120b", "mi300x", {"parallel": rl.Parallel(data=2)}),
    ("minimax-m3", "b200", {"parallel": TP8}),
    ("deepseek-v3", "h200-sxm", {"parallel": TP8, "engine": "sglang"}),
    ("deepseek-v3.2", "b200", {"parallel": EP8}),
    ("deepseek-v4-flash", "h200-sxm", {"parallel": TP8}),
    ("kimi-k3", "b200", {"parallel": TP8}),
    ("qwen3-next-80b-a3b", "h100-sxm", {"parallel": TP8}),
    ("minimax-text-01", "h200-sxm", {"parallel": TP8}),
    ("jamba-v0.1", "mi300x", {}),
    ("codestral-mamba-7b", "rtx-4090", {}),
    ("lfm2-1.2b", "l40s", {}),
    ("llama-3.2-11b-vision", "h100-sxm", {}),
    ("flan-t5-xl", "l40s", {}),
    ("bert-base", "l40s", {}),
    ("deberta-v3-large", "t4", {}),
]
"""Every kind of block, of layout and of kernel."""

POINTS = [(64, 2048), (1, 2048), (7, 1), (300.0, 511.0), (2, 131_072), (1000, 5000)]


def phases(name, gpu, options, batch, length):
    """The passes of a deployment over a batch."""
    serve = rl.Deployment(name, gpu, **options)
    if serve.model.encodes:
        return [rl.encode(serve, rl.Workload(prompt_tokens=length, batch=batch))]
    load = rl.Workload(prompt_tokens=length, batch=batch)
    return [rl.prefill(serve, load), rl.decode(serve, load)]


@pytest.mark.parametrize(("name", "gpu", "options"), DEPLOYMENTS, ids=lambda value: value if type(value) is str else "")
@pytest.mark.parametrize("of", ["sums", "estimates"])
def test_a_compiled_point_equals_the_written_one_and_an_element_of_a_sweep(name, gpu, options, of):
    batches, lengths = (np.array(column, dtype=float) for column in zip(*POINTS, strict=True))
    sweeps = phases(name, gpu, options, batches, lengths)
    fast = {}
    for at, point in enumerate(POINTS):
        for sweep, phase in zip(sweeps, phases(name, gpu, options, *point), strict=True):
            serve, fixed, varied = phase.deployment, *_fixed_and_varied(phase.segments)

            def written(*numbers, serve=serve, kind=phase.name, fixed=fixed):
                return getattr(pass_of(serve, kind, _segments(fixed, numbers)), of)

            expected = written(*varied)
            if (phase.name, fixed) not in fast:
                fast[phase.name, fixed] = compiled(written, varied)
            # None on another path, such as the other way to compute latent attention.
            assert fast[phase.name, fixed](*varied) in (expected, None)
            elements = [np.broadcast_to(column, batches.shape)[at] for column in getattr(sweep, of)]
            assert expected == pytest.approx(elements, rel=1e-12)


@pytest.mark.parametrize("of", [sums_at, estimates_at])
def test_points_after_many_others_are_compiled_and_equal(of):
    serve, counter = rl.Deployment("gpt-2", "l40s"), itertools.count(2)
    for _ in range(2 * OFTEN):
        step = rl.decode(serve, rl.Workload(batch=next(counter)), context_tokens=900)
        assert of(serve, "decode", step.segments) == getattr(step.scheduled, of.__name__.removesuffix("_at"))


def test_a_power_limit_is_computed_as_written():
    serve = rl.Deployment("gpt-2", "h100-sxm", power_limit_watts=400.0)
    for batch in range(2, 2 * OFTEN):
        step = rl.decode(serve, rl.Workload(batch=batch), context_tokens=900)
        assert step.estimate_s == step.scheduled.estimate_s


@pytest.mark.parametrize("batch", [np.float64(5.0), np.int64(5), 5])
def test_any_kind_of_number_gives_the_same_point(batch):
    serve = rl.Deployment("gpt-2", "l40s")
    step, plain = (rl.decode(serve, rl.Workload(batch=each), context_tokens=900) for each in (batch, 5.0))
    assert [*map(type, _fixed_and_varied(step.segments)[1])] == [float, float]
    assert (step.sums, step.estimates) == (plain.sums, plain.estimates)
