"""Checkpoints with the layers of another model: what differs is known by name, and the rest is said."""

import pytest
from command_line import text

import roofline as rl
from roofline.files import parse_yaml
from roofline.specs.model_schema import ModelSpec, variants_of
from roofline.specs.variants import Variant

LONGER = [
    ("glm-4.6v", "glm-4.6v", 131072, "zai-org/GLM-4.6V"),
    ("zai-org/GLM-4.6V-FP8", "glm-4.6v", 131072, "zai-org/GLM-4.6V-FP8"),
    ("GLM 4.6V", "glm-4.6v", 131072, "zai-org/GLM-4.6V"),
    ("glm-4.5v", "glm-4.5v", 65536, "zai-org/GLM-4.5V"),
    ("zai-org/GLM-4.6V-Flash", "glm-4.6v-flash", 131072, "zai-org/GLM-4.6V-Flash"),
    ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b-2507", 262144, "Qwen/Qwen3-4B-Instruct-2507"),
    ("Qwen/Qwen3-30B-A3B-Thinking-2507", "qwen3-30b-a3b-2507", 262144, "Qwen/Qwen3-30B-A3B-Thinking-2507"),
    ("qwen3-4b-instruct", "qwen3-4b", 40960, "Qwen/Qwen3-4B"),
    ("deepseek-r1:8b", "deepseek-r1-8b", 131072, "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B"),
    ("phi-4", "phi-4", 16384, "microsoft/phi-4"),
    ("phi-4-reasoning-plus", "phi-4-reasoning-plus", 32768, "microsoft/Phi-4-reasoning-plus"),
    ("phi-3-medium-4k-instruct", "phi-3-medium-4k", 4096, "microsoft/Phi-3-medium-4k-instruct"),
    ("kimi-k2-instruct-0905", "kimi-k2-0905", 262144, "moonshotai/Kimi-K2-Instruct-0905"),
    ("glm-4.6", "glm-4.7", 202752, "zai-org/GLM-4.7"),
]


@pytest.mark.parametrize(("asked", "name", "context", "repository"), LONGER, ids=[row[0] for row in LONGER])
def test_a_checkpoint_has_its_own_context_and_repository(asked, name, context, repository):
    found = rl.get_model(asked)
    assert (found.name, found.max_context_tokens, found.repository) == (name, context, repository)


def test_a_variant_keeps_the_shapes_and_says_what_differs():
    model, variant = rl.get_model("glm-4.5v"), rl.get_model("glm-4.6v")
    assert variant.parameters.total == model.parameters.total
    assert variant.layers == model.layers
    assert variant.tower_parameters == model.tower_parameters
    assert any(
        "glm-4.6v has the shapes of glm-4.5v and a context of 131,072 tokens" in note for note in variant.assumptions
    )
    assert rl.get_model("zai-org/GLM-4.6V-FP8").precision.weights == "fp8"


@pytest.mark.parametrize(
    "name", ["gte-qwen2-7b", "qwen3-reranker-4b", "qwen3-reranker-8b", "hunyuan-mt-7b", "granite-3.1-8b"]
)
def test_what_was_not_compared_is_said(name):
    assert any("vocabulary" in note for note in rl.get_model(name).assumptions)


@pytest.mark.parametrize(
    ("name", "full"), [("medgemma-27b-text-it", "gemma-3-27b"), ("magistral-small-2506", "mistral-small-3.1-24b")]
)
def test_a_checkpoint_of_text_alone_has_no_tower(name, full):
    found, whole = rl.get_model(name), rl.get_model(full)
    assert found.tower_parameters == 0 < whole.tower_parameters
    assert found.parameters.total == whole.parameters.total


def test_a_vocabulary_changes_the_tables_alone():
    model = rl.get_model("llama-3.1-8b")
    found = Variant("tuned", vocab=model.vocab + 8, source="a card").of(model)
    assert found.parameters.total - model.parameters.total == 2 * 8 * model.hidden
    assert found.assumptions[-1] == "tuned has the shapes of llama-3.1-8b and a vocabulary of 128,264 (a card)"


SPEC = """\
name: tiny
sources: {config: {title: A config, url: "https://huggingface.co/acme/Tiny"}}
hidden: 64
vocab: 1000
layers:
  - count: 2
    attention: {query_heads: 4, kv_heads: 2, head_dim: 16}
    mlp: {intermediate: 128}
variants:
  tiny-long: {%s}
"""


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("title: Tiny Long", "nothing differs; list it in aliases"),
        ("max_context_tokens: 4096", "source '' is not among config"),
        ("vocab: 900, source: card", "source 'card' is not among config"),
        ("without: [vision], source: config", "'vision' is not among apart"),
        ("max_context_tokens: 4096, source: config, layers: 3", "layers"),
    ],
)
def test_a_wrong_variant_is_caught(tmp_path, fields, says):
    path = tmp_path / "tiny.yaml"
    path.write_text(SPEC % fields)
    with pytest.raises(rl.SpecError, match=says):
        rl.get_model(path)


def test_variants_are_found_in_a_folder_of_ones_own(tmp_path, monkeypatch):
    folder = tmp_path / "model_specs"
    folder.mkdir()
    text = SPEC % "max_context_tokens: 4096, source: config"
    (folder / "tiny.yaml").write_text(text)
    monkeypatch.setenv("ROOFLINE_SPECS", str(tmp_path))
    assert rl.get_model("tiny-long").max_context_tokens == 4096
    [variant] = variants_of(parse_yaml(text, folder / "tiny.yaml"))
    assert (variant.name, variant.repository, variant.source) == ("tiny-long", "acme/Tiny", "A config")
    assert set(ModelSpec.model_validate(parse_yaml(text, folder / "tiny.yaml")).variants) == {"tiny-long"}


def test_nemotron_ultra_has_the_size_of_its_gguf_file():
    """llama.cpp's pull request 12843 prints 140.56 GiB at 4.76 bits per weight, and 64 of 162 layers with attention."""
    model = rl.get_model("nvidia/Llama-3_1-Nemotron-Ultra-253B-v1")
    assert model.parameters.total == pytest.approx(140.56 * 2**30 * 8 / 4.76, rel=0.005 / 4.76 + 0.005 / 140.56)
    assert sum(layer.count for layer in model.layers if layer.blocks) <= 162
    assert model.cache_bytes(1) == 64 * 2 * 8 * 128 * 2


def test_a_release_with_another_date_is_not_a_variant():
    """Magistral Small 2509 has the tower that 2506 and 2507 lack."""
    assert rl.get_model("mistralai/Magistral-Small-2509").tower_parameters > 0
    assert rl.get_model("mistralai/Magistral-Small-2507").tower_parameters == 0


def test_qwen3_omni_has_the_parameters_that_transformers_counts():
    """The thinker with its encoders, as printed in achatbot's pull request 196: 31719.205488 M."""
    model = rl.get_model("Qwen/Qwen3-Omni-30B-A3B-Instruct")
    assert model.parameters.total + model.tower_parameters == 31_719_205_488
    hears = rl.Deployment(model, "h100-sxm")
    assert rl.prefill(hears, rl.Workload(1000, audio_s=30.0)).flops > rl.prefill(hears, rl.Workload(1000)).flops


def test_lists_show_the_variant_that_is_asked_for():
    shown = text("list", "models", "glm-4.6v").split()
    assert {"glm-4.6v", "glm-4.6v-flash", "131k"} <= set(shown)
    assert "glm-4.5v" not in shown


def test_phi_4_multimodal_has_its_adapters():
    """Its report has adapters of 370 M and 460 M parameters beside 3.8 B of text, and 5.6 B in all."""
    model = rl.get_model("microsoft/Phi-4-multimodal-instruct")
    assert model.apart["vision_lora"] == pytest.approx(370e6, abs=5e6)
    assert model.apart["speech_lora"] == pytest.approx(460e6, abs=5e6)
    assert model.parameters.total == rl.get_model("phi-4-mini").parameters.total
    assert model.parameters.total + model.tower_parameters == pytest.approx(5.6e9, abs=0.05e9)


@pytest.mark.parametrize(("name", "billions"), [("InternVL3_5-8B", 8.5), ("InternVL3_5-38B", 38.4)])
def test_internvl_3_5_has_its_stated_size(name, billions):
    """The 8B model is listed with 8.5 B parameters, and 5.5 B of the 38B model are InternViT-6B."""
    model = rl.get_model(f"OpenGVLab/{name}")
    assert model.parameters.total + model.tower_parameters == pytest.approx(billions * 1e9, abs=0.05e9)
    assert rl.prefill(rl.Deployment(model, "h200-sxm"), rl.Workload(1000, images=1)).flops > 0


def test_the_text_model_of_internvl_3_5_is_that_of_qwen3():
    for name, text_model in (("8b", "qwen3-8b"), ("30b-a3b", "qwen3-30b-a3b"), ("38b", "qwen3-32b")):
        assert rl.get_model(f"internvl3.5-{name}").parameters == rl.get_model(text_model).parameters
