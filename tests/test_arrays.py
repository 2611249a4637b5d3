"""Helpers for values that may be floats or arrays."""

import copy
import pickle

import numpy as np
import pytest

from roofline.arrays import FrozenMapping, bisect, scalar


def test_a_scalar_is_a_plain_float_and_an_array_stays_one():
    assert type(scalar(np.array(3))) is float
    assert scalar(np.arange(3)).dtype == np.float64


def test_bisection_finds_neighboring_whole_numbers():
    assert bisect(lambda n: n**3 <= 1000, 0, 2**50, whole=True) == (10.0, 11.0)


def test_bisection_finds_neighboring_floats():
    low, high = bisect(lambda x: x * x < 2, 1.0, 2.0)
    assert low < np.sqrt(2) <= high
    assert high == np.nextafter(low, 2)


def test_bisection_works_on_arrays():
    roots = np.array([3.0, 20.0, 7.0])
    low, high = bisect(lambda n: n < roots, np.zeros(3), np.full(3, 64.0), whole=True)
    assert high.tolist() == roots.tolist()
    assert (high - low == 1).all()


def test_a_frozen_mapping_compares_hashes_copies_and_pickles():
    one, other = FrozenMapping({"a": 1, "b": 2}), FrozenMapping({"b": 2, "a": 1})
    assert one == other == {"a": 1, "b": 2}
    assert hash(one) == hash(other)
    assert one | {"c": 3} == {"a": 1, "b": 2, "c": 3}
    for again in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert again == one
        assert isinstance(again, FrozenMapping)


def test_a_frozen_mapping_cannot_change():
    one = FrozenMapping({"a": 1})
    with pytest.raises(TypeError):
        one["a"] = 2
    with pytest.raises(AttributeError, match="cannot change"):
        one._items = {}


def test_a_frozen_mapping_of_arrays_cannot_be_hashed():
    with pytest.raises(TypeError, match="unhashable"):
        hash(FrozenMapping({"a": np.ones(2)}))


def test_nothing_that_changes_a_dict_changes_a_frozen_mapping():
    one = FrozenMapping({"a": 1})
    changes = (
        lambda: one.update(a=2),
        lambda: one.pop("a"),
        one.popitem,
        one.clear,
        lambda: one.setdefault("b", 2),
        lambda: one.__delitem__("a"),
        lambda: one.__ior__({"b": 2}),
    )
    for change in changes:
        with pytest.raises(TypeError, match="cannot change"):
            change()
    assert one == {"a": 1}
    assert isinstance(one | {"b": 2}, FrozenMapping)
    assert one.copy() is one


def test_frozen_mappings_of_arrays_compare_by_content():
    one, other = (FrozenMapping({"a": np.array([1.0, end])}) for end in (2.0, 3.0))
    assert (one == FrozenMapping({"a": np.array([1.0, 2.0])})) is True
    assert (one == other) is False
    assert (one != other) is True
    assert (one != FrozenMapping({"a": np.array([1.0, 2.0])})) is False
