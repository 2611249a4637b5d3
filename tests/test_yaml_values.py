"""YAML read event by event, against PyYAML's own loader."""

from pathlib import Path

import pytest
import yaml

import roofline as rl
from roofline.errors import SpecError
from roofline.yaml_values import MAX_DEPTH, read_document

ROOT = Path(rl.__file__).parent.parent
FILES = sorted(
    path for kind in ("efficiency", "engine", "hardware", "model") for path in ROOT.glob(f"{kind}_specs/*.yaml")
)

EVERY_KIND = """
plain: text
quoted: "1.5"
numbers: [1, -2, 0x1F, 1_000, 1.5, -2.5e+3, .5, 6., .inf, 190:20:30]
truth: [true, no, On, null, ~, ""]
date: 2026-11-30
? question
: {nested: [{a: 1}, [], {}]}
block: |
  two
  lines
1: a number as a key
"""


def test_every_kind_of_value_is_what_yaml_says():
    assert read_document(EVERY_KIND) == yaml.safe_load(EVERY_KIND)


def test_every_bundled_file_is_what_yaml_says():
    assert len(FILES) > 400
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert read_document(text) == yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)), path


@pytest.mark.parametrize("text", ["", "# a comment\n", "---\n"])
def test_nothing_is_none(text):
    assert read_document(text) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", r"key 'a' is given twice \(line 3\)"),
        ("a: &x [1]\nb: *x\n", r"uses a YAML alias \(line 2\); write the value out"),
        ("a: !!set {b}\n", r"contains a YAML tag, tag:yaml.org,2002:set \(line 1\); write the value without it"),
        ("a: 1\nb: !!bool maybe\n", r"contains a YAML tag, tag:yaml.org,2002:bool \(line 2\)"),
        ("a: !!timestamp soon\n", "contains a YAML tag, tag:yaml.org,2002:timestamp"),
        ("a: !!int ''\n", "contains a YAML tag, tag:yaml.org,2002:int"),
        ("!!set x: 1\n", "contains a YAML tag, tag:yaml.org,2002:set"),
        ("a: !!map x\n", "contains a YAML tag, tag:yaml.org,2002:map"),
        ("a: !mine 1\n", "contains a YAML tag, !mine"),
        ("a: !!python/name:os.system\n", "contains a YAML tag, tag:yaml.org,2002:python/name:os.system"),
        ("a: 1\n---\nb: 2\n", r"more than one YAML document \(line 2\)"),
        ("? [a, b]\n: 1\n", r"a key must be a single value \(line 1\)"),
        ("a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH, "nested more than 40 levels deep"),
    ],
)
def test_more_than_plain_data_is_refused(text, says):
    with pytest.raises(SpecError, match=says):
        read_document(text)


def test_as_deep_as_allowed():
    read_document("[" * MAX_DEPTH + "]" * MAX_DEPTH)


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "\ta: 1", "a: 1\n\tb: 2", "a: @x", "a: \x07", "a: ="])
def test_what_yaml_refuses_is_refused(text):
    with pytest.raises(yaml.YAMLError):
        read_document(text)
