"""Launch commands name the options of each engine's own documentation."""

import shlex

import numpy as np
import pytest

import roofline as rl
from roofline.capacity.launch import LAUNCHERS, launch_command
from roofline.cli.text import shell_line
from roofline.formats import get_format
from roofline.specs.names import stored_precision

LOAD = rl.Workload(2000, 256, batch=64)


def options(serve, engine, load=LOAD):
    """Option -> value of a command, its first words under ``start``."""
    words = shlex.split(launch_command(serve, load, engine=engine).split("  # ")[0])
    first = next(at for at, word in enumerate(words) if word.startswith("--") and word != "--model-path")
    found = {"start": " ".join(words[:first])}
    for at, word in enumerate(words[first:], first):
        if word.startswith("--"):
            value = words[at + 1] if at + 1 < len(words) and not words[at + 1].startswith("--") else ""
            found[word] = value
    return found


def test_tensor_and_pipeline_parallelism():
    serve = rl.Deployment("llama-3.1-70b", "h100-sxm", parallel=rl.Parallel(tensor=4, pipeline=2))
    vllm, sglang, trtllm = (options(serve, engine) for engine in LAUNCHERS)
    assert vllm["start"] == "vllm serve meta-llama/Llama-3.1-70B"
    assert (vllm["--tensor-parallel-size"], vllm["--pipeline-parallel-size"]) == ("4", "2")
    assert (vllm["--max-num-seqs"], vllm["--max-model-len"]) == ("64", "2256")
    assert sglang["start"] == "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-70B"
    assert (sglang["--tp-size"], sglang["--pp-size"], sglang["--max-running-requests"]) == ("4", "2", "64")
    assert trtllm["start"] == "trtllm-serve meta-llama/Llama-3.1-70B"
    assert (trtllm["--tp_size"], trtllm["--pp_size"], trtllm["--max_seq_len"]) == ("4", "2", "2256")


def test_experts_beside_attention_in_data_parallel():
    serve = rl.Deployment("deepseek-v3", "h200-sxm", parallel=rl.Parallel(expert=8, data=8))
    vllm, sglang, trtllm = (options(serve, engine) for engine in LAUNCHERS)
    assert (vllm["--data-parallel-size"], vllm["--enable-expert-parallel"]) == ("8", "")
    assert vllm["--max-num-seqs"] == "8"  # of each replica
    assert (sglang["--tp-size"], sglang["--dp-size"], sglang["--ep-size"]) == ("8", "8", "8")
    assert "--enable-dp-attention" in sglang
    assert (trtllm["--tp_size"], trtllm["--ep_size"]) == ("8", "8")
    assert launch_command(serve, LOAD, engine="trtllm").endswith("# set enable_attention_dp in the --config file")


def test_formats_are_options_or_notes():
    serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
    fp8 = rl.quantize(serve, weights="fp8", activations="fp8", kv="fp8")
    assert options(fp8, "vllm")["--quantization"] == "fp8"
    assert options(fp8, "vllm")["--kv-cache-dtype"] == "fp8"
    assert options(fp8, "sglang")["--kv-cache-dtype"] == "fp8_e4m3"
    assert "needs a checkpoint in fp8" in launch_command(fp8, LOAD, engine="trtllm")
    int4 = rl.quantize(serve, weights="int4_g128")
    assert launch_command(int4, LOAD).endswith("  # needs a checkpoint in int4_g128")
    assert "#" not in launch_command(serve, LOAD)


def test_the_engine_of_the_deployment_is_the_default():
    serve = rl.Deployment("llama-3.1-8b", "h100-sxm", engine="sglang")
    assert launch_command(serve, LOAD) == launch_command(serve, LOAD, engine="sglang")


def test_what_can_not_be_launched_is_refused():
    serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
    with pytest.raises(rl.UnknownName, match="no engine with a launch command named 'vlm'; did you mean 'vllm'"):
        launch_command(serve, LOAD, engine="vlm")
    with pytest.raises(rl.InvalidInput, match="a single layout and workload"):
        launch_command(serve, rl.Workload(batch=np.array([1, 2])))


def test_context_parallelism_of_both_phases():
    """vLLM: the world is tensor x prefill context parallel; decode context parallel lies within a tensor group."""
    serve = rl.Deployment("deepseek-v3", "h200-sxm", parallel=rl.Parallel(tensor=8, decode_context=8))
    assert options(serve, "vllm")["--decode-context-parallel-size"] == "8"
    serve = serve.replace(parallel=rl.Parallel(tensor=4, context=2))
    found = options(serve, "vllm")
    assert found["--prefill-context-parallel-size"] == "2"
    assert "--decode-context-parallel-size" not in found


def test_the_longest_request_of_a_traffic_is_accepted(tmp_path):
    """1,200 + 200 and 3,000 + 150 tokens: a server for both takes 3,150, not the mean of 2,275."""
    log = tmp_path / "log.csv"
    log.write_text("prompt_tokens,output_tokens\n1200,200\n3000,150\n")
    plan = rl.plan("llama-3.1-8b", "h100-sxm", rl.read_traffic(log))
    assert plan.longest_tokens == 3150
    command = launch_command(plan.best.deployment(), plan.best.workload(), longest_tokens=plan.longest_tokens)
    assert "--max-model-len 3150" in command


def test_commands_can_be_pasted_into_a_shell():
    """A comment comes before the command, since a backslash at its end does not continue the command."""
    serve = rl.Deployment("deepseek-v3", "h200-sxm", parallel=rl.Parallel(expert=8, data=8))
    lines = shell_line(launch_command(serve, LOAD, engine="trtllm"), ["add x"]).splitlines()
    assert [line for line in lines if "#" in line] == ["  # set enable_attention_dp in the --config file; add x"]
    assert not lines[0].endswith("\\")
    assert shlex.split("\n".join(lines[1:]).replace("\\\n", " "))[0] == "trtllm-serve"


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B"),
        ("glm-5.2", "zai-org/GLM-5.2"),
        ("kimi-k2.6", "moonshotai/Kimi-K2.6"),
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
    ],
)
def test_the_checkpoint_is_that_of_the_formats(name, repository):
    """Shapes may have been read from a copy in NVFP4, which is another checkpoint than the one that was planned."""
    serve = rl.Deployment(name, "h200-sxm")
    assert f"vllm serve {repository} " in launch_command(serve, LOAD)


def test_no_launch_command_names_a_copy_in_other_formats():
    for name in rl.list_models():
        model = rl.get_model(name)
        stated = stored_precision(model.repository)
        if stated is not None and model.precision is not None:
            bits = [get_format(precision.weights).bits for precision in (stated, model.precision)]
            assert abs(bits[0] - bits[1]) < 1, (name, model.repository)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "nvidia/Llama-3.1-8B-Instruct-FP8"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"),
        ("meta-llama/llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("unsloth/Qwen3-8B-GGUF:Q4_K_M", "unsloth/Qwen3-8B-GGUF:Q4_K_M"),
        ("qwen/qwen3-8b:free", "Qwen/Qwen3-8B"),
        ("qwen3-32b-awq", "qwen3-32b-awq"),
        ("Qwen3-8B 4-bit", "Qwen3-8B 4-bit"),
        ("llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B"),
    ],
)
def test_the_checkpoint_is_the_one_that_was_asked_for(name, word):
    """Another checkpoint of the same shapes has other weights, in other formats."""
    command = launch_command(rl.Deployment(name, "h100-sxm"), LOAD)
    assert shlex.split(command)[:3] == ["vllm", "serve", word]
