"""Passes that differ in the length of the past share the operators that do not depend on it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import roofline as rl
from roofline.model.blocks import Attention, Block
from roofline.model.layer import OnCache
from roofline.model.rewriting import rewritten
from roofline.operators.operator import Segment
from roofline.techniques.shared_prefix import Cascade

PASTS = (0.0, 700.0, 100_000.0)


def figures(operator):
    """What an operator computes and moves, one point of a sweep or none."""
    message_bytes = 0.0 if operator.message is None else operator.message.message_bytes
    numbers = [operator.count, message_bytes]
    for work in (operator.work, operator.least):
        numbers += [work.flops, work.weight_bytes, work.activation_bytes, work.cache_bytes, work.exponentials]
    return [float(np.max(number)) for number in numbers]


def assert_follows_the_past(model, parallel, new):
    """Operators, kept from another past or not, are those of a sweep, which keeps none."""
    serve = rl.Deployment(model, "h100-sxm", parallel=parallel)
    for past in PASTS:
        kept = model.operators(serve.run(Segment(3.0, new, past)))
        sweep = model.operators(serve.run(Segment(3.0, new, np.array([past]))))
        assert [one.name for one in kept] == [one.name for one in sweep]
        for one, other in zip(kept, sweep, strict=True):
            assert figures(one) == pytest.approx(figures(other), rel=1e-12)


@pytest.mark.parametrize("name", rl.list_models())
def test_operators_kept_from_another_past_are_those_of_this_one(name):
    model = rl.get_model(name)
    assert_follows_the_past(model, rl.Parallel(), new=1.0)
    assert_follows_the_past(model, rl.Parallel(), new=48.0)
    assert_follows_the_past(model, rl.Parallel(tensor=2, decode_context=2), new=1.0)


@pytest.mark.parametrize("name", rl.list_models())
def test_operators_on_the_cache_run_by_themselves(name):
    model = rl.get_model(name)
    run = rl.Deployment(model, "h100-sxm").run(Segment(3.0, 2.0, 700.0))
    on_cache = [part for part in model.frame(model.frame_pass(run)) if isinstance(part, OnCache)]
    for operator in (operator for part in on_cache for operator in part.operators(run)):
        assert not operator.joins
        assert operator.kind != "experts"
        assert operator.message is None


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainBlock(Block):
    """Attention that does not tell its operators on the cache apart."""

    attention: Attention

    @property
    def kind(self):
        return self.attention.kind

    def weights(self):
        return self.attention.weights()

    def caches(self):
        return self.attention.caches()

    def operators(self, run):
        return self.attention.operators(run)


def test_a_block_with_a_cache_may_state_its_operators_in_one_piece():
    model = rl.get_model("llama-3.1-8b")
    (layer,) = model.layers
    attention, mlp = layer.blocks
    blocks = (PlainBlock(hidden=model.hidden, attention=attention), mlp)
    plain = model.replace(layers=(replace(layer, blocks=blocks),))
    assert_follows_the_past(plain, rl.Parallel(), new=1.0)
    load = rl.Workload(batch=8)
    for tokens in (1000, 2000):
        one, other = (
            rl.decode(rl.Deployment(each, "h100-sxm"), load, context_tokens=tokens) for each in (model, plain)
        )
        assert one.floor_s == pytest.approx(other.floor_s, rel=1e-12)
        assert one.estimate_s == pytest.approx(other.estimate_s, rel=1e-12)


def test_another_context_evaluates_attention_alone():
    serve = rl.Deployment("llama-3.1-8b", "h100-sxm", engine="vllm")
    one, other = (rl.decode(serve, rl.Workload(batch=8), context_tokens=tokens) for tokens in (1000, 2000))
    changed = [item.name for item, again in zip(one.operators, other.operators, strict=True) if item is not again]
    assert changed == ["attention"]


def test_rewritten_operators_follow_the_past():
    model = rewritten(rl.get_model("llama-3.1-8b"), Cascade(500.0))
    assert_follows_the_past(model, rl.Parallel(), new=1.0)
