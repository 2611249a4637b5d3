"""The hierarchical roofline: traffic of tiles, bandwidths of levels, and what limits a product."""

from math import ceil

import matplotlib.pyplot as plt
import numpy as np
import pytest

import roofline as rl
from roofline.analysis.memory_hierarchy import SHARED_BYTES_PER_CLOCK, level_rates
from roofline.operators.tiling import level_bytes

# Hardware features of full chips: multiprocessors, clock in MHz, bandwidth of shared memory and of the L2 cache in GB/s
# (Ultrasonics Sonochemistry 99, 2023, 106546, table 3).
CHIPS = [(84, 1530, 16_451, 3_133), (128, 1410, 23_101, 7_219), (144, 1755, 32_348, 8_986)]


@pytest.mark.parametrize(("units", "mhz", "shared", "_"), CHIPS)
def test_shared_memory_delivers_128_bytes_a_clock(units, mhz, shared, _):
    assert SHARED_BYTES_PER_CLOCK * units * mhz / 1e3 == pytest.approx(shared, rel=1e-4)


def test_levels_of_an_a100():
    rates = level_rates(rl.get_accelerator("a100-sxm-80gb"))
    assert rates["l2"] == 7.219e12
    assert rates["shared"] == pytest.approx(23_101e9 * 108 / 128, rel=1e-4)  # 108 of the chip's 128 multiprocessors
    assert [*rates.values()] == sorted(rates.values())


def counted(m, k, n, tile_m, tile_n):
    """Values that a loop over tiles loads, tile by tile, at the edges what is there."""
    loaded = 0
    for row in range(ceil(m / tile_m)):
        for column in range(ceil(n / tile_n)):
            rows, columns = min(tile_m, m - row * tile_m), min(tile_n, n - column * tile_n)
            loaded += k * (rows + columns)
    return loaded


@pytest.mark.parametrize("shape", [(128, 64, 256), (200, 48, 300), (1, 32, 512), (257, 16, 9)])
def test_bytes_are_those_of_a_loop_over_tiles(shape):
    found = level_bytes(*shape, tiling=rl.Tiling())
    assert found["l2"] == 2 * counted(*shape, 128, 256)
    assert found["shared"] == 2 * counted(*shape, 64, 64)
    m, k, n = shape
    assert found["registers"] == 2 * counted(*shape, 16, 8) + 4 * m * n * ceil(k / 16)


def test_formats_of_the_two_operands_count_apart():
    plain = level_bytes(128, 64, 256, tiling=rl.Tiling())
    narrow = level_bytes(128, 64, 256, tiling=rl.Tiling(), weights="int8")
    assert plain["l2"] - narrow["l2"] == 64 * 256


def test_large_tiles_keep_the_units_busy_and_small_ones_do_not():
    """A 64 x 64 tile loads a byte for 32 FLOPs; the L2 cache of an A100 asks for 312 / 7.219 = 43."""
    large = rl.memory_hierarchy(4096, 4096, 4096, "a100-sxm-80gb")
    small = rl.memory_hierarchy(4096, 4096, 4096, "a100-sxm-80gb", tiling=rl.Tiling(64, 64, 32, 32))
    assert (large.limit, small.limit) == ("compute", "l2")
    assert small.attained_flops_per_s == pytest.approx(32 * 7.219e12, rel=1e-12)
    assert large.attained_flops_per_s == 312e12


def test_the_memory_level_is_the_plain_roofline():
    for m in (1, 64, 4096):
        found = rl.memory_hierarchy(m, 4096, 4096, "a100-sxm-80gb")
        plain = rl.bound(rl.matmul(m, 4096, 4096), "a100-sxm-80gb")
        assert found.levels[0].time_s == pytest.approx(plain.memory_s)
        assert found.compute_s == pytest.approx(plain.compute_s)
        assert found.roofline_s >= plain.roofline_s


def test_one_token_waits_for_memory_whatever_the_tiles():
    found = rl.memory_hierarchy(1, 4096, 4096, "a100-sxm-80gb")
    assert found.limit == "memory"
    assert (found.intensity_flops_per_byte <= 1.001).all()


def test_no_level_moves_less_than_the_one_outside_it():
    found = rl.memory_hierarchy(333, 1111, 555, "a100-sxm-80gb")
    inner = found.moved_bytes[1:]
    assert (np.diff(inner) > 0).all()


@pytest.mark.parametrize("sizes", [{"warp_m": 48}, {"instruction_n": 7}, {"block_m": 0}, {"warp_n": 12.5}])
def test_tiles_that_make_no_sense_are_refused(sizes):
    with pytest.raises(rl.InvalidInput, match=r"divide|must be"):
        rl.Tiling(**sizes)


@pytest.mark.parametrize(("name", "says"), [("mi300x", "AMD"), ("h100-sxm", "l2_bytes_per_s")])
def test_a_chip_whose_levels_are_not_known_says_so(name, says):
    with pytest.raises(rl.InvalidInput, match=says):
        rl.memory_hierarchy(1, 1, 1, name)


def test_the_plot_has_a_roof_and_a_point_for_each_level():
    found = rl.memory_hierarchy(4096, 4096, 4096, "a100-sxm-80gb", tiling=rl.Tiling(64, 64, 32, 32))
    ax = rl.plot.hierarchy(found)
    roofs = [line for line in ax.lines if line.get_label().endswith("/s")]
    points = [line for line in ax.lines if len(line.get_xdata()) == 1]
    assert len(points) == len(roofs) == 4
    for roof, point, level in zip(roofs, points, found.levels, strict=True):
        slope = level.bytes_per_s / 1e12
        assert roof.get_ydata()[-1] == pytest.approx(312)
        assert point.get_ydata()[0] <= min(312, slope * point.get_xdata()[0]) * (1 + 1e-9)
    assert rl.plot.hierarchy(found, ax=ax) is ax
    plt.close("all")
