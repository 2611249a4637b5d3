"""Files of accelerators that are wrong: one line each that says what, the value, and what would do."""

import os
import shutil
from pathlib import Path

import pytest

import roofline as rl

GOOD = """\
name: acme-x1
title: Acme X1
vendor: Acme
aliases:
  - x1
  - acme one
sources:
  brief: {title: Acme X1 product brief}
memory_bytes: {value: 80, unit: GiB, source: brief}
memory_bytes_per_s: {value: 3.2, unit: TB/s, source: brief}
dense_flops_per_s:
  bf16: {value: 800, unit: TFLOP/s, source: brief, kind: derived, printed: "1,600 TFLOPS with sparsity"}
"""


@pytest.fixture
def write(tmp_path):
    def written(text, name="acme-x1.yaml"):
        path = tmp_path / name
        path.write_bytes(text) if isinstance(text, bytes) else path.write_text(text, encoding="utf-8")
        return path

    return written


def refusal(path):
    with pytest.raises(rl.SpecError) as error:
        rl.get_accelerator(path)
    text = str(error.value)
    assert "\n" not in text
    assert len(text) < 600
    assert str(path) in text
    assert rl.check_specs(path)
    return text


def test_a_good_file(write):
    chip = rl.get_accelerator(write(GOOD))
    assert chip.memory_bytes == 80 * 2**30
    assert chip.ridge_flops_per_byte("bf16") == pytest.approx(250)
    assert chip.confidence == "user"
    assert rl.check_specs(write(GOOD)) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("memory_bytes:", "memory_byte:", "memory_bytes is missing"),
        ("memory_bytes:", "memory_byte:", "memory_byte is not a known key; did you mean 'memory_bytes'?"),
        ("dense_flops_per_s:", "dense_flop_per_s:", "did you mean 'dense_flops_per_s'?"),
        ("vendor: Acme\n", "", "vendor is missing"),
        ("vendor: Acme", "vendor: Acme\nyaer: 2024", "yaer is not a known key: 2024; did you mean 'year'?"),
        ("unit: GiB", "units: GiB", "memory_bytes.units is not a known key: 'GiB'; did you mean 'unit'?"),
        ("unit: TB/s", "unit: TB", "memory_bytes_per_s holds bytes_per_s, but 3.2 TB is in bytes"),
        ("unit: GiB", "unit: GB/s", "memory_bytes holds bytes, but 80 GB/s is in bytes_per_s"),
        ("unit: GiB", "unit: gigs", "memory_bytes: unknown unit 'gigs'; bytes takes B, kB"),
        ("unit: TFLOP/s", "unit: TB/s", "dense_flops_per_s.bf16 holds flops_per_s, but 800 TB/s is in bytes_per_s"),
        ("value: 80,", "value: -80,", "memory_bytes.value must be greater than 0: -80"),
        ("value: 80,", "value: 0,", "memory_bytes.value must be greater than 0: 0"),
        ("value: 80,", "value: .nan,", "memory_bytes.value must be a finite number: nan"),
        ("value: 80,", "value: .inf,", "memory_bytes.value must be a finite number: inf"),
        ("value: 80,", 'value: "80",', "memory_bytes.value must be a valid number"),
        ("value: 3.2,", "value: 3e12,", "YAML reads 1e12 as text; write 1.0e+12): '3e12'"),
        ("value: 80,", "value: true,", "memory_bytes.value must be a valid number: True"),
        (
            "{value: 80, unit: GiB, source: brief}",
            "80",
            "memory_bytes must be a figure: {value, unit, source}: 80",
        ),
        ("GiB, source: brief", "GiB, source: page", "memory_bytes: source 'page' is not among brief"),
        ("  bf16:", "  bf61:", "no math format named 'bf61'; did you mean 'bf16'"),
        ("  bf16:", "  mxfp4:", "no math format named 'mxfp4'"),
        (
            "kind: derived",
            "kind: guessed",
            "dense_flops_per_s.bf16.kind must be 'quoted', 'derived' or 'measured'",
        ),
        ("vendor: Acme", "vendor: Acme\nyear: 24", "year must be greater than or equal to 1990: 24"),
        ("vendor: Acme", "vendor: [Acme]", "vendor must be a valid string"),
        ("name: acme-x1", "name: acme-x2", "name 'acme-x2' must match the file name: 'acme-x1'"),
        ("vendor: Acme", "vendor: Acme\nvendor: Emca", "key 'vendor' is given twice"),
        (
            "sources:\n  brief: {title: Acme X1 product brief}",
            "sources: {}",
            "sources dictionary should have at least 1",
        ),
    ],
)
def test_a_faulty_file_says_what_is_wrong(write, old, new, said):
    assert old in GOOD
    assert said in refusal(write(GOOD.replace(old, new)))


def test_a_faulty_link(write):
    link = "scale_up: {name: Bus, kind: telepathy, domain: 1, bytes_per_s: {value: 9, unit: GB/s, source: brief}}\n"
    said = refusal(write(GOOD + link))
    assert "scale_up.kind must be 'switch_reduce', 'switch', 'mesh', 'ring', 'torus' or 'bridge': 'telepathy'" in said
    assert "scale_up.domain must be greater than or equal to 2: 1" in said


def test_every_fault_at_once(write):
    text = GOOD.replace("vendor: Acme\n", "").replace("unit: TB/s", "unit: TB").replace("unit: GiB", "unit: gigs")
    faults = rl.check_specs(write(text))
    assert len(faults) == 3
    assert all(str(fault).count("acme-x1.yaml") == 1 for fault in faults)


def test_two_files_of_one_name(write, tmp_path, monkeypatch):
    other = tmp_path / "more"
    other.mkdir()
    shutil.copy(write(GOOD), other)
    monkeypatch.setenv("ROOFLINE_SPECS", os.pathsep.join([str(tmp_path), str(other)]))
    with pytest.raises(rl.SpecError, match=r"two specs are named 'acme-x1': .*; rename one"):
        rl.list_accelerators()


def test_a_name_that_the_package_has(write, monkeypatch):
    path = write(GOOD.replace("acme-x1", "h100-sxm"), "h100-sxm.yaml")
    monkeypatch.setenv("ROOFLINE_SPECS", str(path.parent))
    with pytest.raises(rl.SpecError, match="two specs are named 'h100-sxm'"):
        rl.get_accelerator("h100-sxm")


def test_a_folder_of_ones_own(write, monkeypatch):
    path = write(GOOD)
    (path.parent / "notes.yaml").write_text("just: notes\n", encoding="utf-8")
    monkeypatch.setenv("ROOFLINE_SPECS", str(path.parent))
    assert "acme-x1" in rl.list_accelerators()
    assert "notes" not in rl.list_accelerators()
    assert rl.get_accelerator("X1").name == rl.get_accelerator("Acme One").name == "acme-x1"


def test_a_folder_that_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("ROOFLINE_SPECS", str(tmp_path / "no"))
    with pytest.raises(rl.SpecError, match=r"ROOFLINE_SPECS names .*no', which is not a directory"):
        rl.list_accelerators()


def test_a_huge_file(write):
    path = write(b"")
    with path.open("wb") as file:
        file.truncate(100_000_000)
    assert "has 100,000,000 bytes" in refusal(path)


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\x00\x00", bytes(range(256)), b"\xff\xfea\x00b\x00"])
def test_a_binary_file(write, data):
    assert "is not a text file" in refusal(write(data))


@pytest.mark.parametrize("text", ["[" * 5000, "a: " + "{b: " * 2000, "- " * 3000])
def test_a_deeply_nested_file(write, text):
    assert "nested" in refusal(write(text))


def test_an_alias_bomb(write):
    bomb = "a: &a [x, x]\n" + "".join(
        f"{new}: &{new} [*{old}, *{old}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "uses a YAML alias" in refusal(write(bomb))


@pytest.mark.parametrize("text", ["!!python/object/apply:os.system [echo]\n", "name: !!python/name:os.system\n"])
def test_nothing_is_executed(write, text):
    assert "contains a YAML tag" in refusal(write(text))


@pytest.mark.parametrize(("text", "kind"), [("", "NoneType"), ("- 1\n", "list"), ("just words\n", "str")])
def test_a_file_that_is_no_mapping(write, text, kind):
    assert f"must contain a mapping, not {kind}" in refusal(write(text))


@pytest.mark.parametrize("text", ["a: [1\n", "a: b: c\n", "\tname: x\n", "name: 'x\n"])
def test_a_file_that_is_no_yaml(write, text):
    assert "is not valid YAML" in refusal(write(text))


def test_a_folder_as_path(tmp_path):
    folder = tmp_path / "acme-x1.yaml"
    folder.mkdir()
    with pytest.raises(rl.SpecError, match=r"acme-x1.yaml is a directory; expected a file"):
        rl.get_accelerator(folder)
    assert rl.check_specs(folder) == [f"{folder} has no .yaml files"]


def test_a_missing_file(tmp_path):
    assert "can't be read: No such file or directory" in refusal(tmp_path / "no.yaml")


def test_an_unreadable_file(write, monkeypatch):
    path = write(GOOD)

    def denied(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    assert "can't be read: Permission denied" in refusal(path)


@pytest.mark.parametrize("name", [None, 4090, ["h100-sxm"], b"h100-sxm"])
def test_a_name_that_is_no_text(name):
    with pytest.raises(rl.InvalidInput, match="accelerator must be a name or a path"):
        rl.get_accelerator(name)


def test_a_path_with_a_null():
    with pytest.raises(rl.SpecError, match="is not a path"):
        rl.get_accelerator("a\0b.yaml")


def test_the_example_in_the_readme_is_a_good_file(write):
    """Of the folder of accelerators."""
    text = (Path(rl.__file__).parent.parent / "hardware_specs" / "README.md").read_text(encoding="utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    chip = rl.get_accelerator(write(example))
    assert rl.check_specs(write(example)) == []
    assert chip.ridge_flops_per_byte("bf16") == pytest.approx(250)


def test_a_file_is_read_again_only_after_it_changed(write):
    path = write(GOOD)
    first = rl.get_accelerator(path)
    assert rl.get_accelerator(path) is first
    assert rl.get_accelerator(write(GOOD.replace("Acme X1", "Acme X1 rev 2", 1))).title == "Acme X1 rev 2"
