"""Operators state the kernel that runs them; nothing derives it from the widths of their heads."""

import numpy as np
import pytest

import roofline as rl
from roofline.efficiency.estimates import kind_of
from roofline.model.blocks import MLA, MLP, Attention, MoE
from roofline.operators.alternatives import resolve
from roofline.operators.operator import Pass, Segment
from roofline.operators.parallel import Parallel
from roofline.operators.precision import Precision

DECODE = Pass((Segment(4.0, 1.0, 1000.0),), Precision())
PREFILL = Pass((Segment(4.0, 1000.0, 0.0),), Precision())


def only(block, run, kind):
    """The operator of a kind; of alternatives the one with the fewest FLOPs."""
    operators = resolve(tuple(block.operators(run)), lambda item: item.work.flops)
    (found,) = (item for item in operators if item.kind == kind)
    return found


def mla(**ranks):
    return MLA(hidden=1024, heads=16, kv_rank=192, rope_dim=64, nope_dim=32, value_dim=32, **ranks)


def test_an_mla_of_unusual_ranks_runs_the_latent_kernel():
    """Its entry of 192 + 64 values is exactly two of the expanded heads' keys and values (96 + 32 each)."""
    block = mla()
    assert block.latent % (block.nope_dim + block.rope_dim + block.value_dim) == 0
    for run, kind in ((DECODE, "mla_decode.bf16"), (PREFILL, "mla_prefill.bf16")):
        operator = only(block, run, "attention")
        assert kind_of(operator) == kind
        assert operator.inputs["kv_heads"] == 1


@pytest.mark.parametrize(("groups", "key_dim", "value_dim"), [(4, 192, 128), (4, 128, 128), (2, 96, 160), (1, 64, 64)])
def test_grouped_queries_of_unequal_widths_keep_their_kv_heads(groups, key_dim, value_dim):
    block = Attention(hidden=1024, query_heads=8, kv_heads=groups, head_dim=key_dim, value_dim=value_dim)
    operator = only(block, DECODE, "attention")
    assert kind_of(operator) == "attention_decode.bf16"
    assert operator.inputs["kv_heads"] == groups


@pytest.mark.parametrize(("tensor", "heads"), [(2, 2), (4, 1), (8, 1)])
def test_kv_heads_are_those_of_one_accelerator(tensor, heads):
    block = Attention(hidden=1024, query_heads=8, kv_heads=4, head_dim=128)
    operator = only(block, Pass(DECODE.segments, Precision(), parallel=Parallel(tensor=tensor)), "attention")
    assert operator.inputs["kv_heads"] == heads


def joins(block):
    return {item.name: item.joins for item in block.operators(DECODE) if item.joins}


def test_products_say_which_product_engines_run_them_with():
    """q, k and v as one (vLLM's QKVParallelLinear), gate and up as one, q_a and kv_a as one (SGLang's fused_qkv_a)."""
    attention = Attention(hidden=1024, query_heads=8, kv_heads=4, head_dim=128)
    assert joins(attention) == {"k_proj": "q_proj", "v_proj": "q_proj"}
    assert joins(MLP(hidden=64, intermediate=128)) == {"gate_proj": "up_proj"}
    assert joins(mla(q_rank=256)) == {"kv_a_proj": "q_a_proj"}
    assert joins(mla()) == {"kv_a_proj": "q_proj"}
    mixture = MoE(hidden=64, experts=8, top_k=2, intermediate=128, shared_intermediate=256)
    assert joins(mixture) == {"shared_gate_proj": "shared_up_proj"}


def test_every_product_that_joins_another_has_that_other_beside_it():
    for name in rl.list_models():
        for layer in rl.get_model(name).layers:
            for block in layer.blocks:
                found = list(block.operators(DECODE))
                names = {item.name for item in found}
                assert all(item.joins in names for item in found if item.joins)


def test_experts_say_what_their_accelerator_has_of_them():
    """64 experts over 8 accelerators that share the tokens of 8 replicas: 8 experts, 8 x 4 x 2 / 8 rows."""
    block = MoE(hidden=64, experts=64, top_k=2, intermediate=128)
    run = Pass(DECODE.segments, Precision(), parallel=Parallel(expert=8, data=8))
    for operator in (item for item in block.operators(run) if item.kind == "experts"):
        assert operator.inputs["local_experts"] == 8
        assert operator.inputs["routed_rows"] == pytest.approx(8)
        assert np.isclose(2 * operator.inputs["routed_rows"] * 64 * 128, operator.work.flops)


def test_a_spec_file_gives_an_indexer_as_a_mapping_and_says_where_it_is_wrong(tmp_path):
    text = """
name: sparse
sources: {paper: {title: "DSA, arXiv:2512.02556"}}
hidden: 1024
vocab: 1000
layers:
  - count: 2
    mla: {heads: 8, q_rank: 256, kv_rank: 128, rope_dim: 32, nope_dim: 64, value_dim: 64, indexer: INDEXER}
    mlp: {intermediate: 2048}
"""
    path = tmp_path / "sparse.yaml"
    path.write_text(text.replace("INDEXER", "{heads: 4, dim: 32, topk: 64}"))
    block = rl.get_model(path).layers[0].blocks[0]
    indexer = 4 * 32 * 256 + 1024 * 32 + 1024 * 4 + 2 * 32  # queries, keys, head weights, norm of the keys
    assert sum(weight.parameters for weight in block.weights() if weight.name.startswith("indexer")) == indexer
    for wrong, said in (
        ("{heads: 4, width: 3}", "width"),
        ("{heads: 0}", "heads"),
        ("{heads: 4, scheme: odd}", "scheme"),
    ):
        path.write_text(text.replace("INDEXER", wrong))
        with pytest.raises(rl.SpecError, match=f"layers.0.mla.*{said}"):
            rl.get_model(path)
