"""Every accelerator of the library: it loads, its figures have sources, and its parts multiply to its peaks."""

import copy
import csv
import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.formats import MATH_FORMATS
from roofline.specs.schema import FIGURES, FIGURES_BY_FORMAT

NAMES = rl.list_accelerators()
SPECS = Path(rl.__file__).parent.parent / "hardware_specs"

REQUIRED = [
    *("h100-sxm", "h100-pcie", "h200-sxm", "a100-sxm-80gb", "a100-sxm-40gb", "b200-sxm", "v100-sxm2-32gb", "t4"),
    *("a10", "l4", "l40s", "mi250x", "mi300x", "rtx-4090", "tpu-v5e", "rtx-3070", "rtx-3080-10gb", "rtx-3080-ti"),
    *("rtx-3090-ti", "rtx-4070-ti", "rtx-4080", "rtx-4000-ada", "rtx-5000-ada", "radeon-ai-pro-r9700"),
    *("strix-halo-395", "apple-m5", "apple-m5-pro", "apple-m5-max-40c", "rtx-5080", "rtx-5070-ti", "rtx-5070"),
    *("rtx-5060-ti-16gb", "rtx-pro-4500", "rtx-pro-5000-48gb", "rtx-3060-12gb", "rtx-4060-ti-16gb", "rtx-2080-ti"),
    *("rtx-a5000", "rtx-a4000", "a2", "arc-b580", "arc-pro-b70", "tpu-8t", "tpu-8i", "maia-200", "rubin-cpx"),
    *("v100-pcie-16gb", "p40", "rtx-4090-48gb", "tenstorrent-p150", "mi100", "rx-9070-xt"),
]


@pytest.fixture(scope="module")
def chips():
    return {name: rl.get_accelerator(name) for name in NAMES}


@pytest.mark.parametrize("name", REQUIRED)
def test_the_library_has(name):
    assert name in NAMES


def test_the_library_is_sorted():
    assert sorted(NAMES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_a_source(chips, name):
    chip = chips[name]
    paths = [field for field in FIGURES if getattr(chip, field) is not None]
    paths += [f"{field}.{math}" for field in FIGURES_BY_FORMAT for math in getattr(chip, field)]
    paths += ["scale_up.bytes_per_s"] if chip.scale_up else []
    assert set(paths) == set(chip.provenance)
    assert all(chip.provenance[path].source for path in paths)
    assert not any(word in chip.source_of(path).lower() for path in paths for word in ("github id", "file id"))


NO_16_BITS = {
    "p40": "FP16 runs at 1/64 of FP32",
    "maia-200": "16 bits run on the vector unit, whose rate is not published",
    "rubin-cpx": "only NVFP4 is published",
    "groq-3-lpu": "only FP8 is published",
    "tenstorrent-p150": "only the 8-bit block format was read",
    "tpu-8t": "only FP4 is published",
    "tpu-8i": "only FP4 is published",
}


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_in_base_units(chips, name):
    """No accelerator since 2016 is outside these ranges by a factor of 1,000, so a lost prefix shows."""
    chip = chips[name]
    assert 2e8 <= chip.memory_bytes <= 2e12
    assert 5e10 <= chip.memory_bytes_per_s <= 2e14
    assert all(1e12 <= peak <= 1e17 for peak in chip.dense_flops_per_s.values())
    assert {"fp16", "bf16"} & set(chip.dense_flops_per_s) or name in NO_16_BITS
    assert chip.tdp_watts is None or 10 <= chip.tdp_watts <= 3000
    assert chip.scale_up is None or 1e10 <= chip.scale_up.bytes_per_s <= 3e12
    assert chip.host_bytes_per_s is None or 1e10 <= chip.host_bytes_per_s <= 1e12
    assert chip.year is None or 2015 <= chip.year <= 2027
    assert set(chip.dense_flops_per_s) <= set(MATH_FORMATS)


# ---- arithmetic -----------------------------------------------------------------------------------------------------

CLOCKED = [name for name in NAMES if rl.get_accelerator(name).flops_per_clock_per_unit]
BUSED = [name for name in NAMES if rl.get_accelerator(name).memory_bus_bits]
SPARSE = [name for name in NAMES if rl.get_accelerator(name).sparse_flops_per_s]


def test_most_files_have_their_parts():
    assert len(CLOCKED) >= 50
    assert len(BUSED) >= 40
    assert len(SPARSE) >= 30


@pytest.mark.parametrize("name", CLOCKED)
def test_units_times_clock_times_rate_is_the_peak(chips, name):
    chip = chips[name]
    for math, rate in chip.flops_per_clock_per_unit.items():
        assert chip.compute_units * chip.boost_clock_hz * rate == pytest.approx(chip.dense_flops_per_s[math], rel=0.02)


@pytest.mark.parametrize("name", CLOCKED)
def test_a_unit_does_a_power_of_two_a_clock(chips, name):
    """Matrix units are arrays of multiply-adds; a rate that is no power of two was fitted to a peak."""
    for rate in chips[name].flops_per_clock_per_unit.values():
        assert np.log2(rate) % 1 == 0


@pytest.mark.parametrize("name", BUSED)
def test_bus_width_times_pin_rate_is_the_bandwidth(chips, name):
    chip = chips[name]
    assert chip.memory_bus_bits * chip.memory_pin_bytes_per_s == pytest.approx(chip.memory_bytes_per_s, rel=0.02)


RATIOS = {
    ("b300-sxm", "fp4"): 4 / 3,  # 18 against 14, on the board 144 against 108
    ("gb300", "fp4"): 4 / 3,
    ("trainium2", "tf32"): 2563 / 667,  # up to 16:4
    ("trainium2", "fp16"): 2563 / 667,
    ("trainium2", "bf16"): 2563 / 667,
    ("trainium3", "fp16"): 2517 / 671,
    ("trainium3", "bf16"): 2517 / 671,
    ("rubin-cpx", "fp4"): 1.5,  # 30 and about 20 PFLOP/s
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_is_twice_dense_except_where_it_is_known_not_to_be(chips, name):
    """5 % covers sheets that round to a PFLOP/s."""
    chip = chips[name]
    for math, sparse in chip.sparse_flops_per_s.items():
        assert sparse / chip.dense_flops_per_s[math] == pytest.approx(RATIOS.get((name, math), 2.0), rel=0.05)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in {"gaudi3", "gaudi3-pcie"}])
def test_narrower_formats_are_never_slower(chips, name):
    """Except INT8 where a chip gave it up, and Gaudi 3 whose FP16 is not the FP8's half."""
    peaks = chips[name].dense_flops_per_s
    order = [math for math in ("fp32", "tf32", "fp16", "fp8", "fp6", "fp4") if math in peaks]
    assert [peaks[math] for math in order] == sorted(peaks[math] for math in order)


def test_the_same_die_has_the_same_rates(chips):
    for field in ("tf32", "fp16", "bf16", "fp8", "int8"):
        assert chips["h100-sxm"].dense_flops_per_s[field] == chips["h200-sxm"].dense_flops_per_s[field]
    for math, peak in chips["mi250x-gcd"].dense_flops_per_s.items():
        assert 2 * peak == pytest.approx(chips["mi250x"].dense_flops_per_s[math], rel=1e-3)


def test_export_rule_shows_that_the_h20_is_dense(chips):
    """Total processing performance = 2 x multiply-adds x bits, which is TOPS x bits; the limit was 4,800 [1]_.

    .. [1] 15 CFR part 774, ECCN 3A090.a
    """
    tops = chips["h20-96gb"].dense_flops_per_s["fp8"] / 1e12
    assert 2 * tops * 8 < 4800 < 2 * (2 * tops) * 8


# ---- verified or not ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("h100-sxm", "nic_bytes_per_s"),
        ("apple-m1-max", "dense_flops_per_s.fp16"),
        ("apple-m1-max", "memory_bytes"),
        ("tpu-v6e", "dense_flops_per_s.fp8"),
        ("h200-nvl", "l2_bytes"),
        ("b300-sxm", "l2_bytes"),
        ("mi455x", "dense_flops_per_s.fp4"),
    ],
)
def test_what_was_not_read_says_unverified(chips, name, field):
    assert not chips[name].provenance[field].verified
    assert "unverified" in chips[name].source_of(field)


@pytest.mark.parametrize(
    ("name", "field", "words"),
    [
        ("h100-sxm", "dense_flops_per_s.bf16", ["AMD", "989.4 TFLOPS dense", "1,979 with sparsity"]),
        ("h100-sxm", "memory_bytes", ["nvidia-smi", "81559 MiB", "measured"]),
        ("h100-pcie", "dense_flops_per_s.bf16", ["1,513 TFLOPS with sparsity", "derived"]),
        ("gb200", "dense_flops_per_s.bf16", ["360 PF sparse for 72 GPUs", "derived"]),
        ("mi300x", "scale_up.bytes_per_s", ["896", "both directions"]),
    ],
)
def test_a_figure_says_what_was_printed(chips, name, field, words):
    phrase = chips[name].source_of(field)
    assert all(word in phrase for word in words)


def test_confidence_is_kept(chips):
    assert chips["h100-sxm"].confidence == "vendor-doc-read"
    assert {"vendor-doc-read", "second-source", "remembered"} <= {chip.confidence for chip in chips.values()}
    remembered = chips["apple-m3-max-30c"]
    assert not any(item.verified for item in remembered.provenance.values())


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("H100", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA B200", "b200-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("4090", "rtx-4090"),
        ("rtx_3090", "rtx-3090"),
        ("RTX 3080", "rtx-3080-10gb"),
        ("MI300X", "mi300x"),
        ("AMD Instinct MI300X", "mi300x"),
        ("tpu v5e", "tpu-v5e"),
        ("  TPU-V5E ", "tpu-v5e"),
        ("trn2", "trainium2"),
        ("dgx spark", "gb10-dgx-spark"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"),
    ],
)
def test_names_as_people_and_drivers_write_them(typed, name):
    assert rl.get_accelerator(typed).name == name


@pytest.mark.parametrize(
    ("typed", "choices"),
    [
        ("a100", ["a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb"]),
        ("A100-80g", ["a100-pcie-80gb", "a100-sxm-80gb"]),
        ("V100", ["v100-pcie-16gb", "v100-pcie-32gb", "v100-sxm2-16gb", "v100-sxm2-32gb"]),
        ("RTX PRO 6000", ["rtx-pro-6000-maxq", "rtx-pro-6000-server", "rtx-pro-6000-ws"]),
        ("h20", ["h20-141gb", "h20-96gb"]),
    ],
)
def test_an_ambiguous_name_lists_the_choices(typed, choices):
    with pytest.raises(
        rl.UnknownName, match=rf"^{typed!r} is ambiguous: {', '.join(choices[:-1])} or {choices[-1]}\?$"
    ):
        rl.get_accelerator(typed)


@pytest.mark.parametrize(
    ("typed", "offer"),
    [("gaudi", "gaudi3"), ("mi300", "mi300x"), ("rtx 4095", "rtx-4090"), ("h100-sxn", "h100-sxm"), ("tpu", "tpu-v5e")],
)
def test_a_near_miss_offers_what_is_near(typed, offer):
    with pytest.raises(rl.UnknownName, match=f"no accelerator named {typed!r}; did you mean .*{offer!r}") as error:
        rl.get_accelerator(typed)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("typed", ["", "nvidia", "zzz"])
def test_a_far_miss_does_not_list_a_hundred_names(typed):
    with pytest.raises(rl.UnknownName, match="roofline list hardware` shows all") as error:
        rl.get_accelerator(typed)
    assert len(str(error.value)) < 120


def test_two_numbers_do_not_run_together():
    """``qwen-38b`` is no ``qwen3-8b``."""
    with pytest.raises(rl.UnknownName, match="did you mean 'qwen3-8b'"):
        rl.get_model("qwen-38b")


def test_aliases_never_hide_a_name(chips):
    from roofline.specs.names import spoken

    names = {spoken(name): name for name in chips}
    assert len(names) == len(chips)
    assert not {spoken(alias) for chip in chips.values() for alias in chip.aliases} & set(names)


def test_accelerators_of_the_published_runs_are_known():
    """Names under which published measurements are filed, tests/data/hardware_names.csv."""
    with (Path(__file__).parent / "data" / "hardware_names.csv").open(newline="") as file:
        names = [row["accelerator"] for row in csv.DictReader(line for line in file if not line.startswith("#"))]
    assert len(names) >= 40
    assert not [name for name in names if name not in NAMES]


# ---- what if --------------------------------------------------------------------------------------------------------


def test_a_replaced_figure_is_the_users(h100):
    changed = h100.replace(memory_bytes_per_s=np.array([3e12, 4e12]))
    assert changed.source_of("memory_bytes_per_s") == "set by the user"
    assert changed.source_of("memory_bytes") == h100.source_of("memory_bytes")
    assert changed.ridge_flops_per_byte("bf16").tolist() == pytest.approx([989.4 / 3, 989.4 / 4])


def test_an_unknown_field_is_named(h100):
    with pytest.raises(rl.UnknownName, match="did you mean 'memory_bytes"):
        h100.replace(memory_byte=80e9)


def test_a_format_without_units_falls_back_or_is_named(chips):
    assert chips["h100-sxm"].math_on_chip("fp4") == "fp8"
    assert chips["v100-sxm2-32gb"].math_on_chip("bf16") == "fp16"
    assert chips["mi355x"].math_on_chip("tf32") == "fp32"
    with pytest.raises(rl.UnknownName, match="tpu-v5e has no units for fp32 or wider; it has bf16, int8"):
        chips["tpu-v5e"].peak_flops_per_s("fp32")


@pytest.mark.parametrize("field", ["memory_bytes", "memory_bytes_per_s"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "80", None])
def test_nonsense_is_refused(h100, field, value):
    with pytest.raises(rl.InvalidInput, match=field):
        dataclasses.replace(h100, **{field: value})


def test_nonsense_peaks_are_refused(h100):
    with pytest.raises(rl.InvalidInput, match=r"dense_flops_per_s\.bf16"):
        h100.replace(dense_flops_per_s={"bf16": -1})
    with pytest.raises(rl.UnknownName, match="no math format named 'bf61'; did you mean 'bf16'"):
        h100.replace(dense_flops_per_s={"bf61": 1e15})


def test_an_accelerator_travels_to_other_processes(h100):
    for twin in (pickle.loads(pickle.dumps(h100)), copy.deepcopy(h100)):
        assert twin == h100
        with pytest.raises(TypeError):
            twin.dense_flops_per_s["bf16"] = 1.0


def test_nothing_can_be_changed(h100):
    with pytest.raises(dataclasses.FrozenInstanceError):
        h100.memory_bytes = 1.0
    for field in ("dense_flops_per_s", "sparse_flops_per_s", "flops_per_clock_per_unit", "provenance"):
        with pytest.raises(TypeError):
            getattr(h100, field)["bf16"] = 1.0


def test_explain_names_every_figure_with_its_source(chips):
    for chip in chips.values():
        lines = chip.explain()
        assert [line.split("  ")[0] for line in lines[: -len(chip.notes) or None]] == sorted(
            chip.provenance, key=[line.split("  ")[0] for line in lines].index
        )
        assert all("\n" not in line for line in lines)


def test_explain_shows_what_is_unverified_and_what_the_user_set(h100):
    lines = h100.replace(memory_bytes_per_s=4e12).explain()
    assert "memory_bytes_per_s  4 TB/s  (set by the user)" in lines
    assert any(line.startswith("nic_bytes_per_s  50 GB/s") and "unverified" in line for line in lines)
    assert any(line.startswith("dense_flops_per_s.bf16  989.4 TFLOP/s") and "1,979" in line for line in lines)
    assert any(line.startswith("scale_up.bytes_per_s  450 GB/s") for line in lines)
    assert any(line.startswith("note: 989.4 TFLOP/s is at 1,830 MHz") for line in lines)


def test_repr_is_one_short_line(h100):
    assert repr(h100) == "Accelerator('h100-sxm', 85.52 GB, 3.35 TB/s, fp8 1.979 PFLOP/s)"
    assert "3 TB/s … 4 TB/s" in repr(h100.replace(memory_bytes_per_s=np.array([3e12, 4e12])))


@pytest.mark.parametrize("name", rl.list_accelerators())
def test_a_tdp_or_why_there_is_none(name):
    chip = rl.get_accelerator(name)
    assert (chip.tdp_watts is None) == any(note.startswith("No TDP: ") for note in chip.notes)
