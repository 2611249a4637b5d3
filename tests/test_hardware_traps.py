"""The ways in which tables of accelerators go wrong, each as a figure that the library must hold.

Expected figures are those of the documents that the specs name; None means that the chip has no such units.
"""

import pytest

import roofline as rl

T = 1e12
G = 1e9
MIB = 2.0**20
GIB = 2.0**30

TRAPS = [
    # sparse or dense: which one a sheet prints
    ("1 the H100 page prints only figures with sparsity", "h100-sxm", "bf16", 989.4 * T),
    ("1 the H100 page prints only figures with sparsity", "h100-sxm", "fp8", 1978.9 * T),
    ("1 the A100 sheet prints dense first", "a100-sxm-80gb", "bf16", 312 * T),
    ("1 the L40S sheet prints dense first", "l40s", "bf16", 362.05 * T),
    ("1 the L4 page prints only figures with sparsity", "l4", "fp16", 121 * T),
    ("1 the L4 page prints only figures with sparsity", "l4", "fp8", 242.5 * T),
    ("2 B200 FP4 is 9 PF dense, 18 sparse", "b200-sxm", "fp4", 9000 * T),
    ("2 GB200 FP4 is 10 PF dense, 20 sparse", "gb200", "fp4", 10000 * T),
    ("2 B300 FP4 is not half of its 18 PF", "b300-sxm", "fp4", 14000 * T),
    ("2 GB300 FP4 is not half of its 20 PF", "gb300", "fp4", 15000 * T),
    ("4 B300 has hardly any INT8", "b300-sxm", "int8", 150 * T),
    ("4 GB300 has hardly any INT8", "gb300", "int8", 165 * T),
    ("4 B200 has all of its INT8", "b200-sxm", "int8", 4500 * T),
    ("5 Rubin's dense FP4 is 35 PF, not the 50 for inference", "rubin-r200", "fp4", 35000 * T),
    ("5 Rubin's INT8 is 250 TOPS", "rubin-r200", "int8", 250 * T),
    ("6 RTX PRO 6000 Server: FP4 4 PF is sparse", "rtx-pro-6000-server", "fp4", 1920 * T),
    ("6 RTX 5090: 3,352 AI TOPS are sparse FP4", "rtx-5090", "fp4", 1676 * T),
    ("6 DGX Spark: 1 PFLOP is sparse FP4", "gb10-dgx-spark", "fp4", 500 * T),
    ("6 Thor: 2,070 TFLOPS are sparse FP4", "jetson-thor-t5000", "fp4", 1035 * T),
    ("6 Orin: 275 TOPS are sparse and count the DLAs", "jetson-agx-orin-64gb", "int8", 85 * T),
    ("7 the H20's figures are dense already", "h20-96gb", "bf16", 148 * T),
    ("7 the H20's figures are dense already", "h20-96gb", "fp8", 296 * T),
    ("8 MI355X MXFP4 has no sparse mode to halve", "mi355x", "fp4", 10066.3 * T),
    ("10 B200 FP8 halved twice would be 2,250", "b200-sxm", "fp8", 4500 * T),
    # what is accumulated in what, and which formats have units
    ("11 GeForce: half rate with FP32 accumulate", "rtx-3090", "fp16", 71.2 * T),
    ("11 GeForce: half rate with FP32 accumulate", "rtx-4090", "bf16", 165.2 * T),
    ("11 GeForce: half rate with FP32 accumulate", "rtx-4090", "fp8", 330.3 * T),
    ("11 GeForce: half rate with FP32 accumulate", "rtx-5090", "fp16", 209.5 * T),
    ("11 GeForce: INT8 is not halved", "rtx-4090", "int8", 660.6 * T),
    ("11 RTX A6000 runs at full rate", "rtx-a6000", "fp16", 154.8 * T),
    ("11 RTX 6000 Ada runs at full rate", "rtx-6000-ada", "bf16", 364 * T),
    ("11 RTX PRO 6000 runs at full rate", "rtx-pro-6000-ws", "bf16", 503.8 * T),
    ("12 L40 has half of the L40S's tensor rate", "l40", "bf16", 181.05 * T),
    ("13 A10G is no A10", "a10g", "bf16", 70 * T),
    ("13 A10G is no A10", "a10", "bf16", 125 * T),
    ("14 Hopper has no INT4 path", "h100-sxm", "int4", None),
    ("14 data-center Blackwell has no INT4 path", "b200-sxm", "int4", None),
    ("14 V100 has no BF16", "v100-sxm2-32gb", "bf16", None),
    ("14 V100 has no TF32", "v100-sxm2-32gb", "tf32", None),
    ("14 V100 has no INT8 tensor units", "v100-sxm2-32gb", "int8", None),
    ("14 T4 has no BF16", "t4", "bf16", None),
    ("14 T4 has no TF32", "t4", "tf32", None),
    ("15 CDNA2: INT8 at the FP16 rate", "mi250x", "int8", 383 * T),
    ("15 CDNA2: INT8 at the FP16 rate", "mi210", "int8", 181 * T),
    ("15 CDNA2 has no FP8", "mi250x", "fp8", None),
    ("16 CDNA4: MXFP6 at the MXFP4 rate", "mi355x", "fp6", 10066.3 * T),
    ("16 NVIDIA: FP6 at the FP8 rate", "b200-sxm", "fp6", 4500 * T),
    ("16 CDNA4 emulates TF32", "mi355x", "tf32", None),
    ("17 MI300X TF32 is not the MI300A's 490.3", "mi300x", "tf32", 653.7 * T),
    ("17 MI300A TF32", "mi300a", "tf32", 490.3 * T),
    ("18 Gaudi 3: BF16 is 1,678, not 1,835", "gaudi3", "bf16", 1678 * T),
    ("18 Gaudi 3: FP8 at the BF16 rate", "gaudi3", "fp8", 1678 * T),
    ("18 Gaudi 3: FP16 is far below BF16", "gaudi3", "fp16", 459 * T),
    ("19 TPU v4: INT8 at the BF16 rate", "tpu-v4", "int8", 275 * T),
    ("19 TPU v6e: FP8 at the BF16 rate", "tpu-v6e", "fp8", 918 * T),
    ("19 TPU v6e: INT8 at twice the BF16 rate", "tpu-v6e", "int8", 1836 * T),
    ("19 Trainium: FP8 at the BF16 rate", "trainium1", "fp8", 190 * T),
    ("19 Trainium3: FP4 at the FP8 rate", "trainium3", "fp4", 2517 * T),
    ("20 RX 7900 XTX: INT8 is disputed, the lower is held", "rx-7900-xtx", "int8", 122.8 * T),
    # GB and GiB, bandwidths
    ("21 an H100 80GB reports 81,559 MiB", "h100-sxm", "memory_bytes", 81559 * MIB),
    ("21 an H200 141GB reports 143,771 MiB", "h200-sxm", "memory_bytes", 143771 * MIB),
    ("21 a B200 180GB reports 183,359 MiB", "b200-sxm", "memory_bytes", 183359 * MIB),
    ("21 a B300 270GB reports 275,040 MiB", "b300-sxm", "memory_bytes", 275040 * MIB),
    ("22 HGX B200 has 7.7 TB/s, the DGX sheet rounds to 8.0", "b200-sxm", "memory_bytes_per_s", 7700 * G),
    ("23 ECC takes a sixteenth of GDDR6", "a10", "memory_bytes", 23028 * MIB),
    ("23 ECC takes a sixteenth of GDDR6", "l4", "memory_bytes", 23034 * MIB),
    ("23 ECC takes a sixteenth of GDDR6", "l40", "memory_bytes", 45 * GIB),
    ("23 ECC takes a sixteenth of GDDR6", "l40s", "memory_bytes", 46068 * MIB),
    ("23 ECC takes a sixteenth of GDDR6", "a40", "memory_bytes", 46068 * MIB),
    ("23 ECC takes a sixteenth of GDDR6", "t4", "memory_bytes", 15 * GIB),
    ("23 ECC takes nothing of GDDR7", "rtx-pro-6000-ws", "memory_bytes", 97887 * MIB),
    ("24 TPU v4 has 32 GiB", "tpu-v4", "memory_bytes", 32 * GIB),
    ("24 TPU v5p has 95 GiB", "tpu-v5p", "memory_bytes", 95 * GIB),
    ("24 TPU v5e: 819 GB/s, not 800 GiB/s", "tpu-v5e", "memory_bytes_per_s", 819 * G),
    ("25 Trainium's 820 GiB/s are 880 GB/s", "trainium1", "memory_bytes_per_s", 820 * GIB),
    ("25 Inferentia2's 820 GiB/s are 880 GB/s", "inferentia2", "memory_bytes_per_s", 820 * GIB),
    ("26 AMD's VRAM is in GiB", "mi300x", "memory_bytes", 192 * GIB),
    ("26 one die of a MI250X is one device", "mi250x-gcd", "memory_bytes", 64 * GIB),
    ("26 one die of a MI250X is one device", "mi250x-gcd", "bf16", 191.5 * T),
    # links: one direction
    ("28 NVLink 4: 900 is both directions", "h100-sxm", "scale_up", 450 * G),
    ("28 NVLink 5: 1,800 is both directions", "b200-sxm", "scale_up", 900 * G),
    ("28 NVLink 3: 600 is both directions", "a100-sxm-80gb", "scale_up", 300 * G),
    ("28 NVLink bridge: 112.5 is both directions", "a40", "scale_up", 56.25 * G),
    ("28 PCIe Gen5: 128 is both directions", "h100-sxm", "host_bytes_per_s", 64 * G),
    ("28 PCIe Gen4: 64 is both directions", "l40s", "host_bytes_per_s", 32 * G),
    ("29 Infinity Fabric: 896 is both directions", "mi300x", "scale_up", 448 * G),
    ("29 Infinity Fabric: 1,075.2 is both directions", "mi355x", "scale_up", 537.6 * G),
    ("30 TPU v5p: 4,800 Gbit/s one way is 600 GB/s", "tpu-v5p", "scale_up", 600 * G),
    ("30 TPU v5e: 400 GB/s is both directions", "tpu-v5e", "scale_up", 200 * G),
    ("31 Gaudi 3: 21 of 24 ports one way", "gaudi3", "scale_up", 525 * G),
    ("31 Gaudi 2: 21 of 24 ports one way", "gaudi2", "scale_up", 262.5 * G),
    ("32 NeuronLink taken as both directions", "trainium2", "scale_up", 640 * G),
    ("33 Ascend 910C: 392 is one direction already", "ascend-910c", "scale_up", 392 * G),
    ("34 NVLink-C2C to the CPU, not PCIe", "gh200-96gb", "host_bytes_per_s", 450 * G),
    ("34 NVLink-C2C to the CPU, not PCIe", "gb200", "host_bytes_per_s", 450 * G),
    # variants and clocks
    ("35 H100 PCIe is slower than SXM", "h100-pcie", "bf16", 756 * T),
    ("35 H100 PCIe is slower than SXM", "h100-pcie", "memory_bytes_per_s", 2000 * G),
    ("36 H100: the peak is at 1,830 MHz", "h100-sxm", "boost_clock_hz", 1830e6),
    ("37 H100 NVL: 188 GB are two boards", "h100-nvl", "memory_bytes", 95830 * MIB),
    ("37 H100 NVL: 835.5, not 989", "h100-nvl", "bf16", 835.5 * T),
    ("38 H200 NVL: 4.8 TB/s", "h200-nvl", "memory_bytes_per_s", 4800 * G),
    ("39 GB200 is no B200", "gb200", "bf16", 2500 * T),
    ("39 GB200 is no B200", "gb200", "memory_bytes_per_s", 8000 * G),
    ("39 GB200 is no B200", "b200-sxm", "bf16", 2250 * T),
    ("40 RTX PRO 6000 Server: 1,597", "rtx-pro-6000-server", "memory_bytes_per_s", 1597 * G),
    ("40 RTX PRO 6000 Workstation: 1,792", "rtx-pro-6000-ws", "memory_bytes_per_s", 1792 * G),
    ("41 GH200 96GB ships with 4.0 TB/s", "gh200-96gb", "memory_bytes_per_s", 4000 * G),
    ("41 GH200 144GB: 4.9 TB/s", "gh200-144gb", "memory_bytes_per_s", 4900 * G),
    ("42 A100 PCIe prints the SXM's peak at 300 W", "a100-pcie-80gb", "tdp_watts", 300),
    ("42 A100 PCIe prints the SXM's peak at 300 W", "a100-pcie-80gb", "bf16", 312 * T),
    ("43 T4: 320 GB/s, the sheet says 300", "t4", "memory_bytes_per_s", 320 * G),
    ("44 M4 Max with 32 cores is binned", "apple-m4-max-32c", "memory_bytes_per_s", 410 * G),
    ("44 M4 Max with 40 cores", "apple-m4-max-40c", "memory_bytes_per_s", 546 * G),
    ("44 M3 Max with 30 cores is binned", "apple-m3-max-30c", "memory_bytes_per_s", 300 * G),
    ("44 M3 Pro is slower than M2 Pro", "apple-m3-pro", "memory_bytes_per_s", 150 * G),
    ("45 A6000: the misprinted clock would give 936", "rtx-a6000", "memory_bytes_per_s", 768 * G),
    ("45 MI355X: 10 PF of MXFP4, not 10 TF", "mi355x", "fp4", 10066.3 * T),
    # what devices print: nvidia-smi, CUDA device properties, llama.cpp on Metal
    ("46 an RTX 5090 reports 32,607 MiB", "rtx-5090", "memory_bytes", 32607 * MIB),
    ("46 an RTX A6000 reports 49,140 MiB", "rtx-a6000", "memory_bytes", 49140 * MIB),
    ("46 an H200 NVL reports 143,771 MiB", "h200-nvl", "memory_bytes", 143771 * MIB),
    ("46 an H20 reports 97,871 MiB", "h20-96gb", "memory_bytes", 97871 * MIB),
    ("46 a GH200 480GB reports 97,871 MiB", "gh200-96gb", "memory_bytes", 97871 * MIB),
    ("46 a GH200 144GB reports 146,831 MiB", "gh200-144gb", "memory_bytes", 146831 * MIB),
    ("46 an L20 with ECC reports 46,068 MiB", "l20", "memory_bytes", 46068 * MIB),
    ("46 a GB10 reports 130,662,936,576 bytes", "gb10-dgx-spark", "memory_bytes", 130662936576),
    ("46 a Jetson Thor reports 122.8 GiB", "jetson-thor-t5000", "memory_bytes", 122.8 * GIB),
    ("46 Metal gives an M2 Ultra 147,455 of 196,608 MiB", "apple-m2-ultra", "memory_bytes", 147455 * MIB),
    ("46 Metal gives an M4 Max 115,448.73 MB of 128 GiB", "apple-m4-max-40c", "memory_bytes", 115448.73e6),
    ("47 the L2 of the H200 is 60 MiB", "h200-sxm", "l2_bytes", 60 * MIB),
    ("47 the L2 of the B200 is 126 MiB", "b200-sxm", "l2_bytes", 126 * MIB),
    ("47 NVIDIA's MB of L2 are MiB", "h100-sxm", "l2_bytes", 52428800),
    ("47 NVIDIA's MB of L2 are MiB", "l40s", "l2_bytes", 100663296),
    ("47 NVIDIA's MB of L2 are MiB", "rtx-5090", "l2_bytes", 100663296),
    ("47 NVIDIA's MB of L2 are MiB", "rtx-4090", "l2_bytes", 75497472),
    ("47 NVIDIA's MB of L2 are MiB", "t4", "l2_bytes", 4194304),
    ("48 an H100 clocks up to 1,980 MHz", "h100-sxm", "max_clock_hz", 1980e6),
    ("48 an RTX 4090 clocks up to 3,165 MHz", "rtx-4090", "max_clock_hz", 3165e6),
    ("48 an RTX 5090 clocks up to 3,090 MHz", "rtx-5090", "max_clock_hz", 3090e6),
    ("48 an RTX 3090 clocks up to 2,100 MHz", "rtx-3090", "max_clock_hz", 2100e6),
    ("49 block-scaled FP8 of an RTX 5090 is not halved", "rtx-5090", "fp8", 838 * T),
    ("50 MI455X: 260 TB/s over 72 GPUs in both directions", "mi455x", "scale_up", 1800 * G),
    ("50 Rubin: NVLink-C2C of 1.8 TB/s in both directions", "rubin-r200", "host_bytes_per_s", 900 * G),
]


def figure(chip, path):
    if path == "scale_up":
        return chip.scale_up.bytes_per_s
    return getattr(chip, path) if hasattr(chip, path) else chip.dense_flops_per_s.get(path)


@pytest.mark.parametrize(("trap", "name", "path", "expected"), TRAPS, ids=lambda value: str(value)[:60])
def test_trap(trap, name, path, expected):
    found = figure(rl.get_accelerator(name), path)
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-9)), trap


NOTED = [
    ("3 the brief contradicts itself on B300 FP4", "b300-sxm", "13.5"),
    ("8 whether AMD's MI455X figures are dense", "mi455x", "disputed"),
    ("20 RX 7900 XTX INT8 has two figures", "rx-7900-xtx", "245.6"),
    ("22 where the 8.0 TB/s of the B200 comes from", "b200-sxm", "7,680 of 8,192"),
    ("24 TPU v5e has two bandwidths", "tpu-v5e", "800 GiB/s"),
    ("27 Apple shares memory with the CPU", "apple-m2-ultra", "shared with the CPU"),
    ("27 DGX Spark shares memory with the CPU", "gb10-dgx-spark", "shared with the CPU"),
    ("27 MI300A shares memory with the CPU", "mi300a", "CPU cores included"),
    ("29 a pair on the mesh has one link", "mi300x", "64 GB/s one way"),
    ("32 NeuronLink's direction is not stated", "trainium2", "do not say"),
    ("34 two GPUs share the C2C link", "gb200", "share the 450 GB/s"),
    ("35 H100 PCIe is neither HBM3 nor 132 SMs", "h100-pcie", "114 SMs and HBM2e"),
    ("36 the H100 can boost beyond the clock of its peak", "h100-sxm", "1,980 MHz"),
    ("38 the H200 NVL has two bandwidths", "h200-nvl", "4.2 TB/s"),
    ("40 the Server Edition is often given the Workstation's bandwidth", "rtx-pro-6000-server", "1,792"),
    ("41 GH200 144GB has two bandwidths", "gh200-144gb", "4.8 or 4.9"),
    ("43 T4 has two bandwidths", "t4", "prints 300"),
    ("50 B300 has two bandwidths", "b300-sxm", "8.0"),
    ("50 B300 has two board powers", "b300-sxm", "1,000 W"),
    ("50 MI250X has two link rates", "mi250x", "350"),
    ("50 the H200 NVL beats its printed peak", "h200-nvl", "853"),
]


@pytest.mark.parametrize(("trap", "name", "words"), NOTED, ids=lambda value: str(value)[:60])
def test_doubt_is_written_down(trap, name, words):
    assert any(words in note for note in rl.get_accelerator(name).notes), trap


def test_9_a_sparse_headline_is_no_peak():
    assert not [name for name in rl.list_accelerators() if "cerebras" in name or "wse" in name]


def test_35_memory_type_of_the_h100_pcie():
    assert rl.get_accelerator("h100-pcie").memory_type == "HBM2e"


def test_28_only_newer_nvswitches_reduce():
    kinds = {
        name: rl.get_accelerator(name).scale_up.kind for name in ("a100-sxm-80gb", "h100-sxm", "b200-sxm", "mi300x")
    }
    assert kinds == {
        "a100-sxm-80gb": "switch",
        "h100-sxm": "switch_reduce",
        "b200-sxm": "switch_reduce",
        "mi300x": "mesh",
    }


@pytest.mark.parametrize("name", ["trainium1", "trainium2", "trainium3", "inferentia2"])
def test_32_an_unstated_direction_is_unverified(name):
    assert "unverified" in rl.get_accelerator(name).source_of("scale_up.bytes_per_s")
