"""What values and results print as: short, in one line where they are inputs, with the names that a reader needs."""

import numpy as np
import pytest

import roofline as rl

SERVE = rl.Deployment("llama-3.1-70b", "h100-sxm", parallel=rl.Parallel(tensor=8))


def test_a_phase_names_itself_its_model_its_accelerator_and_its_batch():
    phase = rl.decode(SERVE, rl.Workload(batch=16))
    assert repr(phase).startswith("Phase: decode of llama-3.1-70b on 8 x h100-sxm, batch 16\n")
    assert "<caption>Phase: decode of llama-3.1-70b on 8 x h100-sxm, batch 16</caption>" in phase._repr_html_()
    sweep = rl.prefill(SERVE, rl.Workload(batch=np.arange(1, 65)))
    assert repr(sweep).startswith("Phase: prefill of llama-3.1-70b on 8 x h100-sxm, batch 1 … 64\n")
    mixed = rl.mixed(SERVE, decode=rl.Workload(batch=32), prefill=rl.Workload(512))
    assert ", batch 1 + 32\n" in repr(mixed)


def test_a_deployment_is_one_line():
    assert repr(rl.Deployment("gpt-2", "l4")) == (
        "Deployment(gpt-2 on l4, weights bf16, activations bf16, KV cache bf16)"
    )
    served = SERVE.replace(engine="vllm", attention="unfused", memory_fraction=0.8)
    assert repr(served) == (
        "Deployment(llama-3.1-70b on 8 x h100-sxm, TP 8, weights bf16, activations bf16, KV cache bf16,"
        " attention unfused, memory_fraction 0.8, engine vllm)"
    )


@pytest.mark.parametrize("name", ["deepseek-v3", "gpt-oss-120b", "qwen3-next-80b-a3b"])
def test_no_deployment_takes_two_lines(name):
    assert "\n" not in repr(rl.Deployment(name, "h200-sxm"))
    assert len(repr(rl.Deployment(name, "h200-sxm"))) < 160


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (rl.Workload(), "Workload(prompt_tokens=2000, output_tokens=256, batch=1)"),
        (
            rl.Workload(batch=np.arange(1, 257), cached_tokens=64),
            "Workload(prompt_tokens=2000, output_tokens=256, batch=[1 … 256], cached_tokens=64)",
        ),
        (rl.SLO(ttft_s=0.5), "SLO(ttft_s=0.5)"),
        (rl.Engine("vLLM"), "Engine('vllm')"),
        (
            rl.Engine("vllm", version="0.9.0", step_tokens=512),
            "Engine('vllm', version='0.9.0', step_tokens=512)",
        ),
        (rl.Parallel(), "Parallel()"),
        (rl.Parallel(tensor=8, data=2, overlap=0.25), "Parallel(tensor=8, data=2, overlap=0.25)"),
        (rl.Parallel(tensor=[1, 2, 4]), "Parallel(tensor=[1 … 4])"),
        (rl.Precision(), "Precision(weights='bf16', activations='bf16', kv='bf16')"),
        (
            rl.Precision("fp8", kv="fp8", exceptions={"lm_head": "fp8"}),
            "Precision(weights='fp8', activations='bf16', kv='fp8', exceptions={'lm_head': 'fp8'})",
        ),
    ],
)
def test_inputs_print_as_the_call_that_makes_them(value, text):
    assert repr(value) == text
    if "…" not in text:
        assert eval(text, vars(rl) | {name: getattr(rl, name) for name in rl.__all__}) == value


def test_a_layer_prints_its_shapes_alone():
    attention = "Attention(hidden=4096, query_heads=32, kv_heads=8, head_dim=128)"
    blocks = f"({attention}, MLP(hidden=4096, intermediate=14336))"
    layer = rl.get_model("llama-3.1-8b").layers[0]
    assert repr(layer) == f"Layer(count=32, blocks={blocks}, norms=(4096, 4096))"


def test_words_for_layouts():
    assert str(rl.Parallel()) == "one accelerator"
    assert str(rl.Parallel(tensor=8, pipeline=2)) == "TP 8, PP 2"
    assert str(rl.Parallel(tensor=[1, 2, 4])) == "TP 1 … 4"


def test_other_results_say_what_they_are_of():
    assert repr(rl.bound(rl.matmul(1, 8, 8), "l4", name="q_proj")).startswith("Bound: q_proj on l4\n")
    assert repr(rl.memory(SERVE, rl.Workload(batch=4))).startswith("Memory: llama-3.1-70b on 8 x h100-sxm, batch 4\n")
    assert repr(rl.generate(SERVE, rl.Workload())).startswith("Generation\n")
