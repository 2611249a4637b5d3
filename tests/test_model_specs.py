"""Every model of the library against the ``config.json`` beside it, and wrong specs that the check has to catch."""

import json
import re
import shutil
from pathlib import Path

import pytest
from oracle_data import BESIDE_SPECS, MODEL_SPECS

import roofline as rl
from roofline.specs.configuration import config_path, differences, read_config
from roofline.specs.writing import spec_text

NAMES = rl.list_models()


@pytest.mark.parametrize("name", NAMES)
def test_a_model_equals_the_configuration_beside_it(name):
    spec = MODEL_SPECS / f"{name}.yaml"
    beside = config_path(spec)
    assert beside is not None, f"{name} has no config.json next to it"
    model, config = rl.get_model(spec), read_config(beside, name)
    assert list(differences(model.replace(max_context_tokens=config.max_context_tokens), config)) == []
    assert rl.check_specs(spec) == []


def test_no_configuration_is_left_alone():
    assert set(BESIDE_SPECS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_spec_that_is_written_from_a_configuration_equals_it(tmp_path, name):
    built = read_config(MODEL_SPECS / f"{name}.config.json", name)
    text = spec_text(built, name="acme", title="Acme: one", hub_id="acme/Acme-7B", accessed="2026-11-29")
    path = tmp_path / "acme.yaml"
    path.write_text(text, encoding="utf-8")
    assert list(differences(rl.get_model(path), built)) == []


@pytest.mark.parametrize(
    ("name", "stored_bytes"),
    [
        ("deepseek-v4-pro", 849.7e9),  # the vendor's checkpoint: experts in FP4, the rest in FP8
        ("qwen3.6-27b", 53.79e9),  # 55.56 GB with tower and multi-token prediction
        ("minimax-m3", 854e9 - 2 * 865_567_232),  # 854 GB with a tower of 866 M parameters
        ("kimi-k2.6", 594e9),  # model card of Kimi K2.5, which has the same shapes and formats
    ],
)
def test_models_keep_the_formats_of_their_makers(name, stored_bytes):
    """A quantized copy is the source of the shapes; its formats, or none, would be the wrong ones."""
    model = rl.get_model(name)
    assert model.precision is not None
    assert model.weight_bytes(model.precision) == pytest.approx(stored_bytes, rel=5e-3)


@pytest.mark.parametrize(
    ("name", "tokens"), [("llama-4-scout", 10_485_760), ("gemma-3-4b", 131_072), ("gemma-3-12b", 131_072)]
)
def test_contexts_are_those_that_makers_state(name, tokens):
    """Model cards; the copies of the configurations say 131,072 and 163,840."""
    assert rl.get_model(name).max_context_tokens == tokens


MAKERS = """
qwen3-coder-480b-a35b 480 35
qwen3-coder-30b-a3b 30.5 3.3
mistral-small-3-24b 24 -
mistral-small-3.1-24b 24 -
mistral-small-4-119b 119 6.5
mistral-large-3-675b 675 41
mistral-medium-3.5-128b 128 -
devstral-small-2-24b 24 -
ministral-3-3b 3.8 -
ministral-3-8b 8.8 -
ministral-3-14b 13.9 -
granite-4.0-h-small 32 9
granite-4.0-h-tiny 7 1
granite-4.0-h-micro 3 -
granite-4.0-micro 3 -
granite-4.0-h-1b 1.5 -
olmo-3-7b 7 -
olmo-3-32b 32 -
command-a-111b 111 -
grok-1 314 -
grok-2 269.515497472 115
dbrx 132 36
gemma-3n-e2b 5.4 -
gemma-3n-e4b 7.8 -
longcat-flash 560 27
mimo-v2-flash 309 15
hunyuan-a13b 80 13
hunyuan-7b 7 -
hunyuan-4b 4 -
hunyuan-1.8b 1.8 -
falcon-h1-0.5b 0.52 -
falcon-h1-1.5b 1.55 -
falcon-h1-3b 3.15 -
falcon-h1-7b 7.59 -
falcon-h1-34b 33.6 -
exaone-3.5-2.4b 2.4 -
exaone-3.5-7.8b 7.8 -
exaone-3.5-32b 32.0 -
exaone-4.0-1.2b 1.28 -
exaone-4.0-32b 32.0 -
smollm3-3b 3.075098624 -
lfm2-350m 0.35 -
lfm2-700m 0.74 -
lfm2-1.2b 1.17 -
lfm2-8b-a1b 8.3 1.5
ernie-4.5-21b-a3b 21 3
ling-flash-2.0 103 6.1
step-3.5-flash 196 11
qwen3.5-9b 9.653 -
qwen3.5-4b 4.660 -
hunyuan-0.5b 0.5 -
lfm2-24b-a2b 24 2.3
command-r7b 8 -
qwen2.5-vl-7b 8.29 -
qwen3-embedding-0.6b 0.6 -
granite-3.3-8b 8 -
trinity-mini 26 3
apertus-70b 70.6 -
exaone-4.5-33b 33 -
moonlight-16b-a3b 16 3
glm-4-9b-0414 9.4 -
kimi-linear-48b-a3b 48 3
tinyllama-1.1b 1.1 -
codellama-7b 6.7 -
codellama-13b 13.0 -
starcoder2-7b 7.2 -
mimo-7b 7 -
solar-open-100b 102 12
olmo-hybrid-7b 7 -
mellum2-12b-a2.5b 12 2.5
youtu-llm-2b 1.96 -
laguna-xs.2 33 3
iquest-coder-40b 40 -
hy3-preview 295 21
a.x-k1 519 33
ling-3.0-flash 124 5.1
ling-2.6-flash 104 7.4
codestral-22b 22.2 -
lfm2-2.6b 2.6 -
glm-4-32b-0414 32 -
qwen2.5-vl-72b 73.4 -
qwen2-vl-7b 8.29 -
command-r-plus-104b 104 -
minimax-text-01 456 -
k-exaone-236b-a23b 236 23
nemotron-nano-9b-v2 8.89 -
nemotron-nano-12b-v2 12.31 -
qwen3-vl-2b 2 -
phi-2 2.7 -
olmo-2-13b 13.7 -
olmoe-1b-7b 6.9 1.3
glm-4.5v 106 12
starcoder2-3b 3 -
starcoder2-15b 15 -
mimo-v2.5-pro-1t 1020 42
opt-1.3b 1.3 -
opt-6.7b 6.7 -
opt-13b 13 -
opt-30b 30 -
opt-66b 66 -
granite-3.3-2b 2.5 -
deepseek-coder-33b 33 -
deepseek-coder-6.7b 6.7 -
llama-13b 13.0 -
llama-65b 65.2 -
smollm2-1.7b 1.7 -
falcon-40b 40 -
gemma-4-e2b 5.1 -
gemma-4-e4b 8 -
longcat-flash-lite 68.5 -
qwen3-embedding-8b 7.57 -
deepseek-ocr 3.34 -
phi-3.5-vision 4.15 -
llava-v1.6-mistral-7b 7.57 -
telechat3-36b 36 -
mpt-30b 30.0 -
"""
"""Billions of parameters, in all and active, as model cards, papers and the hub's metadata print them."""


@pytest.mark.parametrize("row", MAKERS.strip().splitlines())
def test_a_model_is_as_large_as_its_maker_says(row):
    """Makers count the embedding and a tower or leave them out, and round or cut: one unit of the last digit."""
    name, *printed = row.split()
    have = rl.get_model(name)
    parameters, towers = have.parameters, sum(have.apart.values())
    ranges = (
        (parameters.total - parameters.embedding, parameters.total + towers),
        (parameters.active, parameters.active + parameters.embedding + towers),
    )
    for figure, (least, most) in zip(printed, ranges, strict=True):
        if figure != "-":
            unit = 10.0 ** -len(figure.partition(".")[2])
            assert least / 1e9 - unit <= float(figure) <= most / 1e9 + unit, figure


WRONG = {
    "layers one too many": ("llama-3.1-8b", "count: 32", "count: 33", "layers are 33, but 32"),
    "a KV head too many": ("llama-3.1-8b", "kv_heads: 8", "kv_heads: 16", "attention.kv_heads is 16, but 8"),
    "head width of another model": ("llama-3.1-8b", "head_dim: 128", "head_dim: 64", "attention.head_dim is 64, but"),
    "hidden width with a digit off": ("llama-3.1-8b", "hidden: 4096", "hidden: 4086", "hidden is 4086, but 4096"),
    "vocabulary of Llama 2": ("llama-3.1-8b", "vocab: 128256", "vocab: 32000", "vocab is 32000, but 128256"),
    "MLP width of the 70B": ("llama-3.1-8b", "intermediate: 14336", "intermediate: 28672", "mlp.intermediate is 28672"),
    "context of Llama 3": ("llama-3.1-8b", "131072", "8192", "max_context_tokens is 8192, but 131072"),
    "tied embeddings": (
        "llama-3.1-8b",
        "hidden: 4096",
        "hidden: 4096\ntied_embeddings: true",
        "tied_embeddings is True",
    ),
    "experts of another model": ("mixtral-8x7b", "experts: 8", "experts: 16", "moe.experts is 16, but 8"),
    "top k": ("mixtral-8x7b", "top_k: 2", "top_k: 4", "moe.top_k is 4, but 2"),
    "a rank of MLA": ("deepseek-v3", "kv_rank: 512", "kv_rank: 256", "mla.kv_rank is"),
    "the window of Gemma 3": ("gemma-3-27b", "window: 1024", "window: 4096", "attention.window is"),
    "a shared expert that is not there": (
        "qwen3-30b-a3b",
        "top_k: 8,",
        "top_k: 8, shared_intermediate: 768,",
        "shared",
    ),
    "dense layers for sparse ones": ("deepseek-v3", "count: 3\n", "count: 4\n", "layers are 62, but 61"),
    "formats of a quantized copy": ("kimi-k2.6", "precision:", "# precision:", "state the original precision"),
    "formats that the configuration contradicts": (
        *("deepseek-v3", "weights: fp8_block", "weights: nvfp4"),
        "precision is weights nvfp4",
    ),
    "an alias twice": ("llama-3.1-8b", "hidden:", "aliases: [llama3.1, llama-3.1]\nhidden:", "is listed twice"),
    "an alias that is the name": ("llama-2-7b", "hidden:", "aliases: [llama2-7b]\nhidden:", "or is the spec's"),
    "an alias with a format": ("llama-2-7b", "hidden:", "aliases: [llama2-awq]\nhidden:", "names a format"),
    "a date that is none": ("llama-3.1-8b", "2026-11-29", "2026-13-29", "no such date: '2026-13-29'"),
    "a format that is none": ("deepseek-v3", "weights: fp8_block", "weights: fp8_blok", "no number format named"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_model_is_caught(tmp_path, what):
    name, old, new, said = WRONG[what]
    text = (MODEL_SPECS / f"{name}.yaml").read_text(encoding="utf-8")
    if new.startswith("aliases") or "\naliases" in new:
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("aliases:"))
    assert old in text
    path = tmp_path / f"{name}.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    shutil.copy(MODEL_SPECS / f"{name}.config.json", tmp_path)
    faults = rl.check_specs(path)
    assert any(said in fault for fault in faults), faults
    assert not any("\n" in fault for fault in faults)


COUNTED = "counted: {total: 8030261248, active: 7504924672, source: config}\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("8030261248", "8030261249", "parameters are 8,030,261,248, but counted as 8,030,261,249"),
        ("7504924672", "8030261248", "active parameters are 7,504,924,672, but counted as 8,030,261,248"),
        ("source: config", "source: paper", "source 'paper' is not among config"),
    ],
)
def test_an_independent_count_is_held_against_the_shapes(tmp_path, old, new, said):
    """8,030,261,248: the tensors of the published checkpoint; without the 128,256 x 4,096 embedding one token uses."""
    text = (MODEL_SPECS / "llama-3.1-8b.yaml").read_text(encoding="utf-8")
    path = tmp_path / "llama-3.1-8b.yaml"
    path.write_text(text + COUNTED, encoding="utf-8")
    assert rl.check_specs(path) == []
    path.write_text(text + COUNTED.replace(old, new), encoding="utf-8")
    assert any(said in fault for fault in rl.check_specs(path))


def test_a_configuration_that_can_not_be_read_is_named(tmp_path):
    shutil.copy(MODEL_SPECS / "llama-3.1-8b.yaml", tmp_path)
    (tmp_path / "llama-3.1-8b.config.json").write_text("{", encoding="utf-8")
    (fault,) = rl.check_specs(tmp_path / "llama-3.1-8b.yaml")
    assert "the config.json next to it can't be read: " in fault


def test_the_command_that_writes_a_spec(tmp_path, monkeypatch):
    from roofline.specs.writing import main

    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(BESIDE_SPECS["llama-3.1-8b"]), encoding="utf-8")
    main("config.json", "acme-8b", "Acme 8B", "acme/Acme-8B")
    assert rl.get_model(Path("acme-8b.yaml")).parameters.total == 8_030_261_248
    assert rl.check_specs("acme-8b.yaml") == []
    assert Path("acme-8b.config.json").is_file()


def test_the_example_of_the_readme_is_a_valid_spec(tmp_path):
    """Its shapes are those of Llama 3.1 8B, whose checkpoint has 8,030,261,248 parameters."""
    readme = (Path(__file__).parents[1] / "model_specs" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    path = tmp_path / "acme-7b.yaml"
    path.write_text(example, encoding="utf-8")
    assert rl.check_specs(path) == []
    assert rl.get_model(path).parameters.total == 8_030_261_248


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hidden: 8192", "hidden: 16384"),
        ("count: 80", "count: 160"),
        ("count: 80", "count: 32"),
        ("intermediate: 28672", "intermediate: 57344"),
    ],
)
def test_a_model_without_a_configuration_is_held_against_the_size_in_its_name(tmp_path, old, new):
    text = (MODEL_SPECS / "llama-3.1-70b.yaml").read_text(encoding="utf-8")
    path = tmp_path / "llama-3.1-70b.yaml"
    path.write_text(text, encoding="utf-8")
    assert rl.check_specs(path) == []
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    (said,) = rl.check_specs(path)
    assert re.search(r"parameters are [\d,]+, which 70B in the name does not say", said)


@pytest.mark.parametrize(("name", "parameters"), [("llama-4-scout", 871_932_416), ("muse-glimmer-30b", 1_921_845_760)])
def test_towers_are_beside_the_language_model(name, parameters):
    """Counts of transformers: 108,641,793,536 parameters of Scout, 29,776,626,688 of Muse Glimmer, tower included."""
    model = rl.get_model(name)
    assert model.apart["vision"] == parameters
    assert not rl.check_specs(Path(rl.__file__).parent.parent / f"model_specs/{name}.yaml")
