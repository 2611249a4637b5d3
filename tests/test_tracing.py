"""Functions whose arithmetic is recorded and compiled."""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.arrays import ascending, ceil, everywhere, exp, expm1, larger, log, log1p, log2, smaller, where
from roofline.tracing import OFTEN, Repeated, compiled


class Found(NamedTuple):
    value: float


def every_helper(x, y):
    """All that a traced number can do, with plain numbers on either side."""
    found = larger(x, 2.0) + smaller(y, x) - where(x > y, x, -3.0) * ceil(x / 3)
    found = found + log(x) + log2(y) + log1p(x) + exp(-x) - expm1(-y) + abs(x - y)
    found = found + (2.0 - x) + 5 / y + 7 // x + y // 2 + x % 3 + 0.5**x + x**0.5 - (-2.0)
    found = found + (x == y) * 1.0 + ((x >= 2) & (y <= 9)) + ((x < 1) | (y != 4)) + np.float64(2.0) * x
    return Found(found + sum(ascending([x, y, 3.0, 1])))


numbers = st.floats(0.5, 100.0) | st.integers(1, 100)


@given(numbers, numbers, numbers, numbers)
def test_a_compiled_function_equals_the_function_and_an_element_of_its_array(x, y, at_x, at_y):
    fast = compiled(every_helper, [at_x, at_y])(x, y)
    assert fast == every_helper(x, y)
    xs, ys = np.array([at_x, x], dtype=float), np.array([at_y, y], dtype=float)
    assert fast.value == pytest.approx(every_helper(xs, ys).value[1], rel=1e-12)


def test_what_does_not_vary_is_computed_while_tracing():
    def function(x):
        return Found(math.sqrt(16.0) * x)

    fast = compiled(function, [1.0])
    assert fast(2.5).value == 10.0
    assert "sqrt" not in fast.__code__.co_names


def test_conditions_that_come_out_differently_are_noticed():
    def function(x):
        return Found(2 * x if x > 10 else everywhere(x > 5) * 1.0)

    small, large = compiled(function, [7.0]), compiled(function, [20.0])
    assert (small(8.0), small(20.0), small(2.0)) == (Found(1.0), None, None)
    assert (large(8.0), large(30.0)) == (None, Found(60.0))


ACTUAL = [float, int, math.floor, np.sort, np.asarray, lambda x: x.shape, np.full(2, 3.0).__mul__]
ACTUAL += [lambda x: len(f"{x}"), lambda x: x in {1.0, 2.0}, {1.0: 2.0}.get]  # as text, and by its hash


@pytest.mark.parametrize("needs", ACTUAL)
def test_functions_that_need_an_actual_number_or_array_are_not_compiled(needs):
    with pytest.raises((TypeError, AttributeError)):
        compiled(lambda x: Found(needs(x)), [1.0])


def test_a_function_is_compiled_once_it_is_called_often():
    seen = []

    def function(x):
        seen.append(x)
        return Found(3 * x)

    repeated = Repeated(function)
    assert [repeated(x).value for x in range(100)] == [3 * x for x in range(100)]
    assert len(seen) == OFTEN + 1  # the last one with a traced number


def test_a_function_with_many_paths_or_none_stays_as_it_is():
    many = Repeated(lambda x: Found(next(at for at in range(300) if x <= at)))
    assert [many(x).value for x in range(300)] == [*range(300)]
    none = Repeated(lambda x: Found(math.floor(x)))
    assert [none(x + 0.5).value for x in range(100)] == [*range(100)]
    assert not none.paths


ONE = np.float64(1.0)

BY_NUMPY = [
    (lambda x: ONE / x, 0.0, math.inf),
    (lambda x: (ONE * x) ** 400, 10.0, math.inf),
    (np.exp, 1000.0, math.inf),
    (np.log, 0.0, -math.inf),
]
"""Functions whose value at a number is infinite by NumPy's rules (IEEE 754), where plain numbers raise an error."""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("function", "number", "value"), BY_NUMPY)
def test_points_at_which_plain_numbers_raise_are_computed_as_written(function, number, value):
    repeated = Repeated(lambda x: Found(function(x)))
    for x in range(1, OFTEN + 1):
        repeated(x / OFTEN)
    assert repeated.paths
    assert repeated(number).value == value
    at_the_number = Repeated(lambda x: Found(function(x)))
    assert [at_the_number(number).value for _ in range(OFTEN + 1)] == [value] * (OFTEN + 1)


def test_a_negative_zero_keeps_its_sign():
    assert compiled(lambda x: Found((-0.0) ** x), [2.0])(2.0).value.hex() == "0x0.0p+0"


def test_threads_may_share_a_function():
    repeated = Repeated(lambda x: Found(3 * x if x % 5 else x / 2))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(repeated, range(2000)))
    assert [each.value for each in found] == [3 * x if x % 5 else x / 2 for x in range(2000)]


def test_mistakes_surface_as_in_the_function():
    repeated = Repeated(lambda x: Found(1 / (x - 50)))
    for x in range(50):
        repeated(x)
    with pytest.raises(ZeroDivisionError):
        repeated(50)
