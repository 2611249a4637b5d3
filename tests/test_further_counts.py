"""Counts of further configurations against an independent counter, towers included."""

import json
from pathlib import Path

import pytest
from command_line import run

import roofline as rl

FOLDER = Path(__file__).parent / "data" / "oracle"
RECORDS = [json.loads(line) for line in (FOLDER / "further_counts.jsonl").read_text(encoding="utf-8").splitlines()]

TOWERS_LEFT_OUT = {
    "class-default--apertus1p5": "tokenizers of images and sound",
    "step-3.7-flash": "the file has no vision_config",
    "step-3.7-flash-fp8": "the file has no vision_config",
}
"""Configurations whose towers are not counted; a note says so, or the file does not have them."""


@pytest.mark.parametrize("record", RECORDS, ids=[record["name"] for record in RECORDS])
def test_counts_equal_those_of_the_independent_counter(record):
    path, want = FOLDER / "further" / record["config"], record["parameters"]
    model = rl.get_model(path)
    have = {
        "language": model.parameters.total,
        "embedding": model.parameters.embedding,
        "active_language_without_embedding_lookup": model.parameters.active,
    }
    assert have == {name: have[name] if want[name] is None else want[name] for name in have}
    if want["total"] is not None and record["name"] not in TOWERS_LEFT_OUT:
        towers = sum(size for name, size in model.apart.items() if name != "multi_token_prediction")
        assert model.parameters.total + towers == want["total"]


def test_a_field_that_sounds_like_parameters_and_is_not_read_is_a_doubt():
    """Kimi K3 has 8.02 B parameters behind four fields; a reader that ignores one of them has to say so."""
    config = json.loads((FOLDER / "further" / "yi-34b.json").read_text(encoding="utf-8"))
    assert rl.get_model(config).doubts == ()
    odd = {"use_full_rank_gate": True, "value_residual_rank": 64, "norm_topk_prob": True, "rms_norm_eps": 1e-5}
    (doubt,) = rl.get_model({**config, **odd}).doubts
    assert doubt == "unsupported fields may add parameters: use_full_rank_gate=True, value_residual_rank=64"


def test_configurations_with_exact_counts_leave_no_such_doubt():
    for record in RECORDS:
        doubts = rl.get_model(FOLDER / "further" / record["config"]).doubts
        assert not any("unsupported fields" in doubt for doubt in doubts), record["name"]


def test_the_fields_of_kimi_k3_add_8_02_billion():
    with_them = rl.get_model("kimi-k3").parameters.total
    config = json.loads((Path(rl.__file__).parent.parent / "model_specs" / "kimi-k3.config.json").read_text())
    text = config["text_config"]
    for name in ("mla_use_output_gate", "attn_res_block_size", "latent_moe_use_norm"):
        del text[name]
    del text["linear_attn_config"]["use_full_rank_gate"]
    assert with_them - rl.get_model(config).parameters.total == pytest.approx(8.02e9, rel=1e-3)


def test_doubts_stand_in_the_first_lines(tmp_path):
    config = json.loads((FOLDER / "further" / "yi-34b.json").read_text(encoding="utf-8"))
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**config, "quantization_config": {"quant_method": "aqlm"}}))
    for command in ("analyze", "fit"):
        head = run(command, path, "--hardware", "8xh100-sxm").stdout.splitlines()[:6]
        assert any(line.startswith("Warning: unknown quantization") for line in head), head


def test_an_unknown_encoder_is_refused():
    config = json.loads((FOLDER / "further" / "llama-3.2-11b-vision.json").read_text(encoding="utf-8"))["text_config"]
    with pytest.raises(rl.SpecError, match="'AcmeModel' is not a causal language model"):
        rl.get_model({**config, "model_type": "acme", "architectures": ["AcmeModel"]})


def test_an_empty_text_config_is_refused():
    with pytest.raises(rl.SpecError, match="text_config is empty"):
        rl.get_model({"text_config": {}})
