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
    generation = rl.generate(SERVE, rl.Workload(batch=np.arange(1, 65)))
    assert repr(generation).startswith("Generation: llama-3.1-70b on 8 x h100-sxm, batch 1 … 64\n")


def test_results_of_requests_name_their_deployment_and_load():
    on, load = "llama-3.1-70b on 8 x h100-sxm", rl.Workload(500, 20)
    served = rl.serve(SERVE, load, concurrency=[1, 8, 64])
    assert repr(served).startswith(f"Served: {on}, concurrency 1 … 64\n")
    run = rl.simulate(SERVE, load, requests_per_s=2.5, requests=4)
    assert repr(run).startswith(f"Simulation: {on}, open loop, 2.5 requests/s, burstiness 1\n")
    pools = rl.serve_pools(load, prefill=SERVE, decode=SERVE, concurrency=2, requests=4, decode_workers=3)
    assert repr(pools).startswith(f"Pools: prefill by 1 x {on}, decode by 3 x {on}, closed loop, 2 in the system\n")
    effect = rl.apply(SERVE, rl.Workload(batch=4), "speculative")
    assert repr(effect.before).startswith(f"Steady: {on}, 4 requests in the system\n")
    assert repr(effect).startswith(f"Effect: speculative decoding for {on}, 4 requests in the system\n")
    table = rl.technique_table(SERVE, load, techniques=[rl.techniques.KVQuantization()])
    assert repr(table).startswith(f"Techniques: {on}, 1 request in the system\n")


def test_results_of_questions_name_what_was_asked():
    steps = [rl.decode(SERVE, rl.Workload(batch=batch)) for batch in (1, 8)]
    of = [f"decode of llama-3.1-70b on 8 x h100-sxm, batch {batch}" for batch in (1, 8)]
    assert repr(rl.compare(*steps)).startswith(f"Comparison: {of[0]} → {of[1]}\n")
    assert repr(rl.sensitivity(steps[0], time="floor_s")).startswith(f"Sensitivity: floor_s of {of[0]}\n")
    assert repr(rl.solve(SERVE, find="batch", metric="fits")).startswith("Solution: batch for fits\n")


def test_equal_values_of_a_sweep_print_once():
    served = rl.serve(rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Workload(2000, 256), concurrency=[1, 2])
    lines = dict(line.strip().split("  ", 1) for line in repr(served).splitlines()[1:] if "note" not in line)
    assert lines["stable"].strip() == "yes"
    assert "…" not in lines["capacity_requests_per_s"]
    assert " … " in lines["tpot_s"]


def test_notes_of_layouts_with_and_without_messages_have_no_empty_part():
    one_or_two = rl.Deployment("llama-3.1-8b", "h100-sxm", parallel=rl.Parallel(tensor=[1, 2]))
    notes = rl.decode(one_or_two, rl.Workload(batch=4)).assumptions
    assert any("all_reduce" in note for note in notes)
    assert not any(note.strip().endswith(";") for note in notes)


def test_the_rate_of_a_pass_says_that_it_is_at_the_roofline():
    step = rl.decode(SERVE, rl.Workload(batch=16))
    [line] = [line for line in repr(step).splitlines() if line.strip().startswith("tokens_per_s")]
    assert line.split(maxsplit=1)[1] == f"{16 / step.roofline_s:,.0f} tokens/s at roofline_s"
