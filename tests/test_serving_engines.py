"""Engines: every default with its source, resolved by device and version; unknown ones refused at construction."""

import copy
import pickle

import pytest

import roofline as rl
from roofline.specs.engine_settings import FIELDS, release
from roofline.specs.engines import GENERIC, Engine, facts

H100 = rl.get_accelerator("h100-sxm")
L4 = rl.get_accelerator("l4")


@pytest.fixture(scope="module")
def model():
    return rl.get_model("llama-3.1-8b")


@pytest.mark.parametrize("name", [*rl.list_engines(), GENERIC])
def test_every_setting_is_known_on_a_device_and_has_a_source(name):
    engine = Engine(name).on(H100)
    for field in FIELDS:
        assert getattr(engine, field) is not None, field
        assert engine.source_of(field) not in ("", "given"), field


# vLLM EngineArgs.get_batch_defaults (API server), SGLang server_args and TensorRT-LLM llm_args, read 2026-11-29.
@pytest.mark.parametrize(
    ("name", "accelerator", "step_tokens"),
    [
        ("vllm", "h100-sxm", 8192),
        ("vllm", "mi300x", 8192),
        ("vllm", "a100-sxm-80gb", 2048),
        ("vllm", "l4", 2048),
        ("sglang", "b200-sxm", 16384),
        ("sglang", "h200-sxm", 8192),
        ("sglang", "l4", 2048),
        ("trtllm", "h100-sxm", 8192),
    ],
)
def test_step_budgets_are_those_of_the_engines_source(name, accelerator, step_tokens):
    assert Engine(name).on(rl.get_accelerator(accelerator)).step_tokens == step_tokens


def test_a_version_has_its_own_defaults():
    assert Engine("vllm", version="0.6.3.post2").on(H100).step_tokens == 512
    assert Engine("vllm", version="0.19.0").on(H100).step_tokens == 8192
    assert release("0.10.0") > release("0.9.2")


def test_vllm_captures_two_tokens_for_each_sequence_that_it_takes():
    """CompilationConfig: ``max_cudagraph_capture_size`` is ``min(max_num_seqs * 2, 512)`` unless it is given."""
    assert Engine("vllm").on(H100).captured_tokens == 512
    assert Engine("vllm", max_sequences=32).on(H100).captured_tokens == 64
    assert Engine("vllm", max_sequences=32, graph_tokens=2048).on(H100).captured_tokens == 2048
    assert Engine("vllm", eager=True).on(H100).captured_tokens == 0
    assert Engine("trtllm").on(H100).captured_tokens == 0


def test_what_is_given_goes_before_the_default():
    engine = Engine("vllm", step_tokens=1024, admission="reserve").on(H100)
    assert (engine.step_tokens, engine.admission, engine.max_sequences) == (1024, "reserve", 1024)
    assert engine.source_of("step_tokens") == "given"


def test_an_engine_is_a_value():
    engine = Engine("sglang", receive_interval=30)
    assert pickle.loads(pickle.dumps(engine)) == copy.deepcopy(engine) == engine
    assert len({engine, Engine("sglang", receive_interval=30), Engine("sglang")}) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scheduler": "mixd"}, "no scheduler named 'mixd'; did you mean 'mixed'"),
        ({"step_tokens": 0}, "step_tokens must be a number >= 1: 0"),
        ({"step_tokens": "many"}, "step_tokens must be a number >= 1: 'many'"),
        ({"max_sequences": 2.5}, "max_sequences must be an integer: 2.5"),
        ({"launch_share": 1.5}, "launch_share must be a number >= 0 and <= 1: 1.5"),
        ({"chunked": 1}, "chunked must be true or false: 1"),
        ({"step_s": float("nan")}, "step_s must be a number >= 0: nan"),
    ],
)
def test_settings_that_make_no_sense_are_one_line(settings, message):
    with pytest.raises(rl.RooflineError, match=message):
        Engine("vllm", **settings)


def test_a_deployment_takes_a_name_or_an_engine_and_refuses_others(model):
    named = rl.Deployment(model, H100, engine="vllm")
    assert named == rl.Deployment(model, H100, engine=Engine("vllm"))
    assert named.kernels == "vllm"
    assert rl.Deployment(model, H100).server == Engine(GENERIC).on(H100)
    with pytest.raises(rl.UnknownName, match="no engine named 'vlm'; did you mean 'vllm'"):
        rl.Deployment(model, H100, engine="vlm")


def test_an_engine_whose_kernels_were_never_timed_takes_the_middle_of_all(model):
    serve, plain = (rl.Deployment(model, L4, engine=engine) for engine in ("tgi", None))
    load = rl.Workload(batch=4)
    assert serve.kernels is None
    assert rl.decode(serve, load).estimate_s == rl.decode(plain, load).estimate_s


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("settings: {step_tokns: {value: 1, source: a}}", "step_tokns is not a setting of an engine"),
        ("settings: {step_tokens: {value: 1, source: b}}", "source 'b' is not among a"),
        ("settings: {scheduler: {value: fast, source: a}}", "no scheduler named 'fast'"),
        ("settings: {step_s: {value: 1, unit: GB, source: a}}", "step_s holds s, but 1 GB is in bytes"),
    ],
)
def test_faults_of_an_engine_file_are_named(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(f"name: mine\ntitle: Mine\nsources: {{a: {{title: A}}}}\n{text}\n", encoding="utf-8")
    (line,) = rl.check_specs(path)
    assert message in line


def test_an_engine_of_ones_own_is_found_and_inherits(tmp_path, monkeypatch):
    folder = tmp_path / "engine_specs"
    folder.mkdir()
    settings = "settings: {page_tokens: {value: 64, source: a}}"
    text = f"name: mine\ntitle: Mine\nlike: sglang\nsources: {{a: {{title: A}}}}\n{settings}\n"
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("ROOFLINE_SPECS", str(tmp_path))
    engine = Engine("mine").on(H100)
    assert (engine.page_tokens, engine.scheduler, engine.title) == (64, "prefill_first", "Mine")
    assert facts("mine").like == "sglang"
