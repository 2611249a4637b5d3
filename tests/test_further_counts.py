"""Counts of further configurations against an independent counter, towers included."""

import json
from pathlib import Path

import pytest

import roofline as rl

FOLDER = Path(__file__).parent / "data" / "oracle"
RECORDS = [json.loads(line) for line in (FOLDER / "further_counts.jsonl").read_text(encoding="utf-8").splitlines()]

NOT_READ = {
    "arctic": "no field gives the width of the MLP beside its experts",
    "class-default--inkling2": "relative positions",
    "class-default--inkling2_loop": "relative positions",
    "class-default--inkling2_loop_text": "relative positions",
    "class-default--mistral_large4": "caches that groups of layers share",
}
"""Configurations that are refused, in one line that says why."""

TOWERS_LEFT_OUT = {
    "class-default--apertus1p5": "tokenizers of images and sound",
    "step-3.7-flash": "the file has no vision_config",
    "step-3.7-flash-fp8": "the file has no vision_config",
}
"""Configurations whose towers are not counted; a note says so, or the file does not have them."""


@pytest.mark.parametrize("record", RECORDS, ids=[record["name"] for record in RECORDS])
def test_counts_equal_those_of_the_independent_counter(record):
    path, want = FOLDER / "further" / record["config"], record["parameters"]
    if record["name"] in NOT_READ:
        with pytest.raises(rl.SpecError, match="can't be read"):
            rl.get_model(path)
        return
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


def test_an_unknown_encoder_is_refused():
    config = json.loads((FOLDER / "further" / "llama-3.2-11b-vision.json").read_text(encoding="utf-8"))["text_config"]
    with pytest.raises(rl.SpecError, match="'NewModel' is no causal language model"):
        rl.get_model({**config, "model_type": "new", "architectures": ["NewModel"]})


def test_an_empty_text_config_is_refused():
    with pytest.raises(rl.SpecError, match="text_config is empty"):
        rl.get_model({"text_config": {}})
