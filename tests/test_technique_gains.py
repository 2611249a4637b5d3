"""Techniques against gains that were measured: rows of ``tests/data/measurements/technique_gains.csv``."""

import csv
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline import techniques as t
from roofline.model.draft_heads import draft_head
from roofline.operators.operator import Segment
from roofline.phases.passes import run_pass

GAINS = Path(__file__).parent / "data/measurements/technique_gains.csv"
ROWS = {row["id"]: row for row in csv.DictReader(GAINS.read_text("utf-8").splitlines())}


def measured(name):
    return float(ROWS[name]["gain"])


def estimated(serve, load, technique):
    """Before and after, as a request in steady state sees it."""
    return rl.apply(serve, load, technique, time="estimate_s")


def verification(serve, sequences, new, past, kind=""):
    """A pass that verifies ``new`` tokens of each sequence, or its operators of one kind."""
    found = run_pass(serve, "decode", Segment(sequences, new, past, new))
    if not kind:
        return found.estimate_s
    return sum(item.estimate_s for item in found.operators if item.operator.kind == kind)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-2-7b", "deepseek-v2-lite"])
def test_verification_reads_the_cache_once(h100, model):
    """Two to five tokens a sequence are rows of one tile: at 131,072 tokens the cache decides, not the drafts.

    A kernel for prompts, which walks the whole cache with few blocks, takes five times as long.
    """
    serve = rl.Deployment(model, h100)
    step, *wider = (verification(serve, 1.0, new, 131_072.0, "attention") for new in (1.0, 2.0, 4.0))
    assert step <= wider[0] <= wider[1] < 1.2 * step


def test_verification_of_many_rows_takes_the_faster_kernel(h100):
    """Beyond a tile of 128 rows (32 tokens of a group of four) either kernel may be the faster one."""
    serve = rl.Deployment("llama-3.1-8b", h100)
    widths = np.array([1.0, 8.0, 32.0, 33.0, 128.0, 512.0])
    times = verification(serve, 1.0, widths, 32_768.0)
    assert np.all(np.diff(times) >= -1e-9 * times[1:])
    alone = [verification(serve, 1.0, float(width), 32_768.0) for width in widths]
    np.testing.assert_allclose(times, alone)
    prompt = run_pass(serve, "decode", Segment(1.0, 512.0, 32_768.0, 1.0)).estimate_s
    assert times[-1] < 1.05 * prompt  # the logits of all its tokens on top


def test_a_tile_of_rows_is_computed_whole(h100):
    """The products of a tile of 16 rows cost what one row costs: attention is bound by memory up to the ridge."""
    serve = rl.Deployment("llama-2-7b", h100)

    step, tile = (verification(serve, 64.0, new, 8192.0, "attention") for new in (1.0, 16.0))
    assert tile < 1.2 * step
    assert step >= 64 * 8192 * 32 * 2 * 32 * 128 * 2 / h100.memory_bytes_per_s


def test_draft_heads_are_as_large_as_published():
    """MTP layers as the checkpoint counts them; EAGLE-3 for Llama 3.1 8B: 850 MB in 16 bits (its model card)."""
    v3 = rl.get_model("deepseek-v3")
    mtp = draft_head(v3, "mtp").parameters
    assert mtp.total - mtp.by_part["lm_head"] - mtp.embedding == pytest.approx(
        v3.apart["multi_token_prediction"], rel=1e-4
    )
    eagle = draft_head(rl.get_model("llama-3.1-8b"), "eagle3")
    assert 2 * eagle.parameters.active == pytest.approx(850e6, rel=0.02)
    with pytest.raises(rl.UnknownName, match="no draft head named 'medusa'"):
        draft_head(v3, "medusa")


EAGLE3_LENGTHS = {2: 2.36, 3: 2.79, 4: 3.08, 5: 3.32, 6: 3.46, 7: 3.54}
"""Acceptance length by drafts: github.com/vllm-project/vllm/issues/20780, Llama 3.1 8B on an H100."""


def test_a_draft_pass_of_an_eagle_head_costs_a_seventh_of_a_step(h100):
    """The same source: a step with K drafts over a plain one is 1.16 + 0.14 K, and four drafts are best."""
    serve, load = rl.Deployment("llama-3.1-8b", h100, engine="vllm"), rl.Workload(128, 256, 1)
    plain = estimated(serve, load, t.Speculation(drafts=0)).after.step_s
    speedups = {}
    for drafts, length in EAGLE3_LENGTHS.items():
        effect = estimated(serve, load, t.Speculation(drafts=drafts, acceptance_length=length))
        assert effect.after.step_s / plain == pytest.approx(1.16 + 0.14 * drafts, rel=0.05)
        assert effect.tpot_speedup == pytest.approx(measured(f"v20780-E3-K{drafts}"), rel=0.15)
        speedups[drafts] = effect.tpot_speedup
    assert max(speedups, key=speedups.get) in (4, 5)
    assert speedups[4] > 0.99 * speedups[5]


@pytest.mark.parametrize(("drafts", "length"), [(1, 1.92), (2, 2.58), (3, 2.82), (4, 2.99), (5, 3.01)])
def test_mtp_on_deepseek_r1(drafts, length):
    """TensorRT-LLM technical blog 1: 111 tokens/s a user without, 253 with three drafts."""
    precision = rl.Precision(weights="nvfp4", activations="nvfp4", exceptions={"attention": "bf16"})
    parallel = rl.Parallel(tensor=8)
    serve = rl.Deployment("deepseek-r1", "b200-sxm", precision=precision, parallel=parallel, engine="trtllm")
    technique = t.MultiTokenPrediction(drafts=drafts, acceptance_length=length)
    effect = estimated(serve, rl.Workload(1024, 2048, 1), technique)
    assert effect.tpot_speedup == pytest.approx(measured(f"trtb1-mtp{drafts}"), rel=0.15)


@pytest.mark.parametrize("batch", [2, 4, 8, 16, 32, 64])
def test_one_pass_for_all_drafts_against_one_after_another(batch):
    """P-EAGLE over EAGLE-3 for gpt-oss-20b, acceptance lengths as the blog prints them."""
    serve, load = rl.Deployment("gpt-oss-20b", "b200-sxm", engine="vllm"), rl.Workload(128, 128, batch)
    chain = [t.Speculation(drafts=k, acceptance_length=length, captured=True) for k, length in ((3, 2.70), (7, 3.27))]
    parallel = t.ParallelDrafting(drafts=7, acceptance_length=3.70, captured=True)
    best = max(estimated(serve, load, each).after.tokens_per_s for each in chain)
    gain = estimated(serve, load, parallel).after.tokens_per_s / best
    assert gain == pytest.approx(measured(f"peagle-c{batch}"), rel=0.15)


def test_a_step_with_drafts_is_its_verification_and_its_passes(h100):
    """``T(w) + p t``: a tree of 16 in four levels, a chain, a lookup and a single pass, each by its parts."""
    serve, load = rl.Deployment("qwen3-30b-a3b", h100), rl.Workload(1000, 2, 8)

    def parts(technique):
        runs = rl.apply(serve, load, technique).after.passes.step.runs
        return [(float(count), float(phase.tokens) / 8) for count, phase in runs]

    assert parts(t.TreeDrafting(drafts=4, verify_width=16)) == [(1, 16), (4, 3.75), (1, 16)]
    assert parts(t.Speculation(drafts=4)) == [(1, 5), (4, 1), (1, 5)]
    assert parts(t.NgramDrafting(drafts=4)) == [(1, 5)]
    assert parts(t.ParallelDrafting(drafts=4)) == [(1, 5), (1, 4)]
    assert parts(t.MultiTokenPrediction(drafts=2)) == [(1, 3), (2, 1)]


def test_drafts_touch_more_experts(h100):
    """At one sequence five tokens of 8 of 128 experts each are expected to touch ``128 (1 - (1 - 8 / 128)^5)`` = 35."""
    serve, load = rl.Deployment("qwen3-30b-a3b", h100), rl.Workload(1000, 2, 1)
    plain, drafted = (
        rl.apply(serve, load, t.NgramDrafting(drafts=drafts)).after.passes.step.phase for drafts in (0, 4)
    )
    experts = [
        sum(o.operator.count * o.operator.work.weight_bytes for o in phase.operators if o.operator.kind == "experts")
        for phase in (plain, drafted)
    ]
    assert experts[1] / experts[0] == pytest.approx(128 * (1 - (1 - 8 / 128) ** 5) / 8)
    dense = rl.Deployment("llama-3.1-8b", h100)
    gains = [rl.apply(each, load, t.Speculation(drafts=4)).decode_speedup for each in (serve, dense)]
    assert gains[0] < 0.75 * gains[1]


def test_what_cannot_be_accepted_is_refused():
    with pytest.raises(rl.InvalidInput, match=r"acceptance_length must be at most drafts \+ 1: 3.5 > 3"):
        t.Speculation(drafts=2, acceptance_length=3.5)
    with pytest.raises(rl.InvalidInput, match="verify_width must be a whole number >= 1: 0"):
        t.TreeDrafting(verify_width=0)
