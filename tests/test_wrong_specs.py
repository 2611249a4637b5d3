"""Wrong edits of data sheets, prices, instances and efficiency files: each one is caught by the check.

Wrong edits of models are in ``test_model_specs.py``, of form (keys, types, units) in ``test_hardware_files.py``.
"""

import re
from pathlib import Path

import pytest

import roofline as rl

ROOT = Path(rl.__file__).parent.parent

ACCELERATORS = {
    "the sparse peak for the dense one": (
        *("h100-sxm", "bf16: {value: 989.4,", "bf16: {value: 1979,"),
        "dense_flops_per_s.bf16 is 1979 TFLOP/s, but 132 units x 1830 MHz x 4096 = 989",
    ),
    "the sparse peak, in words": (
        *("h100-pcie", 'source: h100ds, kind: derived, printed: "1,513 TFLOPS with sparsity"}', ""),
        "is quoted with sparsity",
    ),
    "sparse and dense swapped": (
        *("a100-sxm-80gb", "fp16: {value: 624,", "fp16: {value: 312,"),
        "sparse_flops_per_s.fp16 is 1 x the dense peak",
    ),
    "FP8 below BF16": ("h200-sxm", "fp8: {value: 1978.9,", "fp8: {value: 197.89,", "is below bf16 (9.894e+14)"),
    "BF16 unlike FP16": ("l40s", "  bf16: {value: 362.05,", "  bf16: {value: 181,", "as on every NVIDIA chip"),
    "a digit of a peak": ("mi300x", "bf16: {value: 1307.4,", "bf16: {value: 1370.4,", "is 1370 TFLOP/s, but 304 units"),
    "TFLOP/s for PFLOP/s": ("b200-sxm", "fp8: {value: 4500, unit: T", "fp8: {value: 4.5, unit: T", "below bf16"),
    "a number of units": ("h100-sxm", "compute_units: {value: 132,", "compute_units: {value: 144,", "but 144 units"),
    "a clock": ("h100-sxm", "boost_clock_hz: {value: 1830,", "boost_clock_hz: {value: 1980,", "132 units x 1980 MHz"),
    "MHz for GHz": ("mi300x", "{value: 2100, unit: MHz", "{value: 2100, unit: GHz", "boost_clock_hz is 2.1e+12 Hz"),
    "a clock above the maximum": (
        "h100-sxm",
        "max_clock_hz: {value: 1980,",
        "max_clock_hz: {value: 1098,",
        "below boost",
    ),
    "a rate that no unit has": ("h100-sxm", "fp16: {value: 4096,", "fp16: {value: 4000,", "a power of two per clock"),
    "width of the bus": ("h100-sxm", "{value: 5120, unit: bit", "{value: 6144, unit: bit", "but 6144 bits x 5.24"),
    "rate of a pin": ("rtx-4090", "{value: 21, unit: Gbit/s", "{value: 28, unit: Gbit/s", "but 384 bits x 28 Gbit/s"),
    "bandwidth of another part": (
        "rtx-4090",
        "{value: 1008, unit: GB/s",
        "{value: 1792, unit: GB/s",
        "is 1792 GB/s, but",
    ),
    "GB/s for TB/s": ("h200-nvl", "{value: 4800, unit: GB/s", "{value: 4.8, unit: GB/s", "reading memory_bytes at"),
    "GB for GiB": (
        *(
            "a100-sxm-80gb",
            '{value: 80, unit: GiB, source: a100zh, kind: derived, printed: "80GB", note: "the sheet\'s GB are GiB"}',
        ),
        "{value: 80, unit: GB, source: a100zh}",
        "memory_bytes is 80 GB: NVIDIA's GB are GiB",
    ),
    "memory of another variant": (
        "a100-sxm-80gb",
        "{value: 80, unit: GiB",
        "{value: 40, unit: GiB",
        "0.50 of the 80 GB",
    ),
    "MiB for GiB": ("mi300x", "{value: 192, unit: GiB", "{value: 192, unit: MiB", "of the 192 GB in the title"),
    "both directions of NVLink": (
        *("h100-sxm", "bytes_per_s: {value: 450, unit: GB/s", "bytes_per_s: {value: 900, unit: GB/s"),
        "NVLink 4 has 450 one way; data sheets print both directions",
    ),
    "both directions of PCIe": (
        *("h100-sxm", "host_bytes_per_s: {value: 64,", "host_bytes_per_s: {value: 128,"),
        "host_bytes_per_s is 128 GB/s: PCIe Gen5 x16 has 64 one way",
    ),
    "bytes for bits of a network": (
        "h100-sxm",
        "{value: 400, unit: Gbit/s",
        "{value: 400, unit: GB/s",
        "nic_bytes_per_s is 4e+11",
    ),
    "GB for MB of cache": (
        "h100-sxm",
        "l2_bytes: {value: 50, unit: MiB",
        "l2_bytes: {value: 50, unit: GiB",
        "l2_bytes is 5",
    ),
    "kW for W": (
        "h100-sxm",
        "tdp_watts: {value: 700, unit: W",
        "tdp_watts: {value: 700, unit: kW",
        "tdp_watts is 700000 W",
    ),
    "a bridge of eight": ("h100-nvl", "domain: 2", "domain: 8", "a bridge joins 2 to 4 boards"),
    "a quote that says something else": (
        "h100-pcie",
        "{value: 2000, unit: GB/s",
        "{value: 2200, unit: GB/s",
        "is quoted with '>2,000 GB/s'",
    ),
    "derived from nothing": (
        "h100-sxm",
        'kind: derived, printed: "PCIe Gen5 x16"',
        "kind: derived",
        "printed must contain",
    ),
    "a source that nothing quotes": (
        "t4",
        "sources:\n",
        "sources:\n  more: {title: Another}\n",
        "is not used by any value",
    ),
    "an address that is none": (
        "h100-sxm",
        "https://www.nvidia.com/en-us/data-center/h100/",
        "see the page",
        "has an invalid url",
    ),
    "an alias twice": ("h100-sxm", "aliases: [h100,", "aliases: [h100, H100,", "alias 'H100' is listed twice"),
    "an alias that is another chip": (
        "h100-sxm",
        "aliases: [h100,",
        "aliases: [h100, h200-sxm,",
        "is the name of h200-sxm",
    ),
    "an architecture that is none": (
        "h100-sxm",
        "architecture: Hopper",
        "architecture: Hoper",
        "is not one of NVIDIA's",
    ),
    "a domain that no switch has": ("h100-sxm", "domain: 8", "domain: 800", "NVLink connects 576 at most"),
    "a clock of another chip": ("h100-sxm", "value: 1830", "value: 1980", "132 units x 1980 MHz"),
    "processors of another chip": ("h100-sxm", "value: 132,", "value: 144,", "144 units x 1830 MHz"),
    "a network in bits as bytes": ("h100-sxm", "unit: Gbit/s", "unit: GB/s", "nic_bytes_per_s is 4e+11"),
    "a vendor of another chip": ("mi300x", "vendor: AMD", "vendor: NVIDIA", "'CDNA3' is not one of NVIDIA's"),
    "a year that can't be": ("h100-sxm", "year: 2022", "year: 2052", "year 2052 is not between 2015 and 2035"),
    "a date that is none": (
        "h100-sxm",
        "{title: NVIDIA H100 product page,",
        '{title: page, accessed: "2026-02-30",',
        "no such date: '2026-02-30'",
    ),
}


def faults_of(folder, name, old, new, tmp_path):
    text = (ROOT / folder / f"{name}.yaml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / f"{name}.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return rl.check_specs(path)


@pytest.mark.parametrize("what", ACCELERATORS)
def test_a_wrong_accelerator_is_caught(tmp_path, what):
    name, old, new, said = ACCELERATORS[what]
    if not new:
        new = old.replace(", kind: derived", "")
    faults = faults_of("hardware_specs", name, old, new, tmp_path)
    assert any(said in fault for fault in faults), faults
    assert not any("\n" in fault for fault in faults)


PRICES = {
    "the instance's price for one accelerator": (
        *("aws", 'instance: "p5.48xlarge", accelerators: 8, region', 'instance: "p5.48xlarge", region'),
        "p5.48xlarge has 8 accelerators, not 1",
    ),
    "an instance with another accelerator": (
        *(
            "aws",
            '{accelerator: h100-sxm, provider: "AWS", instance: "p5.48xlarge"',
            '{accelerator: h200-sxm, provider: "AWS", instance: "p5.48xlarge"',
        ),
        "p5.48xlarge has h100-sxm",
    ),
    "an accelerator that is none": (
        "aws",
        "{accelerator: l40s,",
        "{accelerator: l40x,",
        "no accelerator has that name",
    ),
    "cents for dollars": (
        "marketplaces",
        "value: 2.47,",
        "value: 247,",
        "247 USD an hour for one accelerator is outside",
    ),
    "dollars a second": ("marketplaces", "value: 2.47,", "value: 0.000686,", "is outside 0.02 to 60"),
    "a term that is none": ("aws", "term: capacity_block", "term: reserved_5y", "term must be 'on_demand', 'spot'"),
    "a market that is none": ("aws", "market: hyperscaler", "market: bazaar", "market must be 'hyperscaler'"),
    "a currency that is none": (
        "marketplaces",
        "{accelerator: h100-sxm, ",
        '{currency: "$", accelerator: h100-sxm, ',
        "currency string should match",
    ),
    "another currency without the original": (
        "marketplaces",
        "{accelerator: h100-sxm, ",
        "{currency: EUR, accelerator: h100-sxm, ",
        "billed in EUR: printed must contain",
    ),
    "a month that is none": ("aws", '"2026-07-20"', '"2026-17-20"', "no such date: '2026-17-20'"),
    "a date of another century": ("aws", '"2026-07-20"', '"1926-07-20"', "the year must be 1990 to 2035"),
    "a price of nothing": ("purchases", "value: 1999,", "value: 19,", "19 USD is outside 50 to 500,000"),
    "to buy, by the hour": ("purchases", "unit: USD,", "unit: USD/h,", "usd holds usd, but"),
}


@pytest.mark.parametrize("what", PRICES)
def test_a_wrong_price_is_caught(tmp_path, what):
    name, old, new, said = PRICES[what]
    faults = faults_of("hardware_specs/prices", name, old, new, tmp_path)
    assert any(said in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("name", "instance", "old", "new"),
    [
        ("azure", "Standard_NV36ads_A10_v5", "value: 3.2,", "value: 32,"),
        ("google-cloud", "a2-highgpu-1g", "value: 4.0138,", "value: 0.4014,"),
        ("aws", "p5.48xlarge", "value: 55.04,", "value: 5.504,"),
    ],
)
def test_a_price_with_its_point_in_the_wrong_place_is_caught(tmp_path, name, instance, old, new):
    text = (ROOT / f"hardware_specs/prices/{name}.yaml").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if f'"{instance}"' in line and old in line)
    path = tmp_path / f"{name}.yaml"
    path.write_text(text.replace(line, line.replace(old, new), 1), encoding="utf-8")
    assert any("USD an hour; the median of" in fault for fault in rl.check_specs(path))


def test_two_prices_of_one_day_are_caught(tmp_path):
    text = (ROOT / "hardware_specs/prices/aws.yaml").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if '"g6.xlarge"' in line)
    path = tmp_path / "aws.yaml"
    path.write_text(text + line.replace("0.8048", "0.9048") + "\n", encoding="utf-8")
    assert any("a second price of g6.xlarge of the same day" in fault for fault in rl.check_specs(path))


INSTANCES = {
    "an accelerator that is none": (
        "aws",
        "accelerator: l40s,",
        "accelerator: l40x,",
        "there is no accelerator 'l40x'",
    ),
    "a count of a cluster": ("aws", "accelerators: 8,", "accelerators: 8000,", "8000 accelerators in one instance"),
    "no count": ("aws", "accelerators: 8,", "accelerators: 0,", "must be greater than or equal to 1: 0"),
    "a source that is none": ("aws", "source: karpenter", "source: memory", "source 'memory' is not among"),
}


@pytest.mark.parametrize("what", INSTANCES)
def test_a_wrong_instance_is_caught(tmp_path, what):
    name, old, new, said = INSTANCES[what]
    faults = faults_of("hardware_specs/instances", name, old, new, tmp_path)
    assert any(said in fault for fault in faults), faults


EFFICIENCY = {
    "a share above 1": (r"\bcompute: [\d.e+-]+", "compute: 7.72", "compute is a share, above 0 and at most 1: 7.72"),
    "a share of nothing": (r"\bmemory: [\d.e+-]+", "memory: 0", "memory is a share"),
    "a negative time": (r"\bkernel_s: ", "kernel_s: -", "kernel_s is negative"),
    "microseconds for seconds": (r"\bkernel_s: [\d.e+-]+", "kernel_s: 2.73", "2.73 s is no time of a kernel"),
    "low above high": (r"\blow: ([\d.]+), high: [\d.]+", r"low: \1, high: 0.1", "is above high 0.1"),
    "no rows": (r"\brows: ", "rows: -", "rows must be greater than"),
    "not a number": (r"\bresidual: [\d.e+-]+", "residual: .nan", "residual must be"),
    "words": (r"\bresidual: [\d.e+-]+", "residual: small", "residual must be a valid number"),
    "an error that fits nothing": (r"\bresidual: 0?\.", "residual: 57.", "residual must be less than or equal to 2"),
    "a kind that is none": (r"\bgemm\.bf16:", "gem.bf16:", "no kind of kernel; known: gemm"),
    "a collective of nobody": (
        *(r"\bcollective\.all_gather\.2:", "collective.all_gather:"),
        "is named with the number that takes part",
    ),
    "no source": ("(?m)^source: ", "# source: ", "source is missing"),
}
"""Pattern -> what stands in its first place; the parameters themselves change whenever they are fitted again."""


@pytest.mark.parametrize("what", EFFICIENCY)
def test_a_wrong_efficiency_file_is_caught(tmp_path, what):
    pattern, new, said = EFFICIENCY[what]
    text = (ROOT / "efficiency_specs/h100-sxm.yaml").read_text(encoding="utf-8")
    wrong, times = re.subn(pattern, new, text, count=1)
    assert times == 1
    path = tmp_path / "h100-sxm.yaml"
    path.write_text(wrong, encoding="utf-8")
    faults = rl.check_specs(path)
    assert any(said in fault for fault in faults), faults


def test_an_efficiency_file_of_an_unknown_accelerator_is_caught(tmp_path):
    text = (ROOT / "efficiency_specs/h100-sxm.yaml").read_text(encoding="utf-8")
    path = tmp_path / "no-such-chip.yaml"
    path.write_text(text.replace("name: h100-sxm", "name: no-such-chip", 1), encoding="utf-8")
    assert any("there is no accelerator 'no-such-chip'" in fault for fault in rl.check_specs(path))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("like: h100-sxm", "like: h100-smx", "no file is named 'h100-smx'"),
        ("widen: 2", "widen: 0", "widen must be greater than or equal to 1"),
        ("shares: {compute: 0.", "shares: {compute: 5", "must be less than or equal to 1: 5"),
        (", like: h100-sxm", "", "give like or shares"),
    ],
)
def test_a_wrong_family_is_caught(tmp_path, old, new, said):
    faults = faults_of("efficiency_specs", "families", old, new, tmp_path)
    assert any(said in fault for fault in faults), faults


def test_the_list_is_long():
    assert len(ACCELERATORS) + len(PRICES) + len(INSTANCES) + len(EFFICIENCY) >= 60


@pytest.mark.parametrize("date", ["2036-07-20", "1989", "2026-13"])
def test_dates_outside_the_years_of_accelerators_are_caught(tmp_path, date):
    text = (ROOT / "hardware_specs" / "prices" / "aws.yaml").read_text(encoding="utf-8")
    path = tmp_path / "prices" / "aws.yaml"
    path.parent.mkdir()
    path.write_text(text.replace('date: "2024-12"', f'date: "{date}"', 1), encoding="utf-8")
    assert any(date in said for said in rl.check_specs(path))


def test_pages_of_a_thousand_times_the_tokens_are_caught():
    with pytest.raises(rl.InvalidInput, match="page_tokens must be a number >= 1 and <= 8192: 16000"):
        rl.Engine("vllm", page_tokens=16_000)
