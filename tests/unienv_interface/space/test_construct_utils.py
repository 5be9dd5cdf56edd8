"""Spaces of given data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.errors import SpaceMismatchError, UnsupportedSpaceError
from unienv_interface.space import (
    BinarySpace,
    BoxSpace,
    DictSpace,
    DynamicBoxSpace,
    TextSpace,
    TupleSpace,
)
from unienv_interface.space.space_utils.construct_utils import (
    construct_space_from_data,
    construct_space_from_data_stream,
)
from unienv_interface.testing import BACKENDS, drawn, load_backend, various

INF = float("inf")


def test_of_one_sample() -> None:
    data = {
        "flags": np.array([True]),
        "image": np.zeros((2, 3), np.uint8),
        "text": "abc",
        "pair": (np.zeros(1), np.array(1)),
    }
    expected = DictSpace(
        B,
        {
            "flags": BinarySpace(B, (1,), device="cpu"),
            "image": BoxSpace(B, -INF, INF, np.uint8, shape=(2, 3)),
            "text": TextSpace(B, 3),
            "pair": TupleSpace(
                B,
                [BoxSpace(B, -INF, INF, float, shape=(1,)), BoxSpace(B, -INF, INF, np.int64)],
            ),
        },
    )
    assert construct_space_from_data(data, B) == expected
    assert construct_space_from_data(data, B).contains(data)


@pytest.mark.parametrize("name", BACKENDS)
def test_contains_what_it_was_made_of(name: str) -> None:
    backend = load_backend(name)
    for kind in ("box", "scalar", "empty", "binary", "text", "dict", "tuple"):
        samples = drawn(various(backend)[kind], 0, 4)
        for bounded in (True, False):
            space = construct_space_from_data_stream(samples, backend, bounded)
            assert all(map(space.contains, samples)), kind


def test_bounds() -> None:
    space = construct_space_from_data(np.arange(3.0), B, add_bounds=True)
    assert space.low.tolist() == space.high.tolist() == [0, 1, 2]
    wider = construct_space_from_data(np.array([5.0, 0, 2]), B, space, add_bounds=True)
    assert wider.low.tolist() == [0, 0, 2]
    assert wider.high.tolist() == [5, 1, 2]


def test_shapes_that_vary() -> None:
    rows: list[Any] = [np.zeros((2, 3)), np.ones((4, 3)), np.full((1, 3), 5.0)]
    space = construct_space_from_data_stream(rows, B)
    assert isinstance(space, DynamicBoxSpace)
    assert (space.shape_low, space.shape_high) == ((1, 3), (4, 3))
    assert space.low.tolist() == [[0, 0, 0]]
    assert space.high.tolist() == [[5, 5, 5]]
    assert all(map(space.contains, rows))
    empty_first = construct_space_from_data_stream([np.zeros((0, 2)), np.ones((1, 2))], B)
    assert empty_first.low.tolist() == [[1, 1]]


def test_texts_and_dtypes_widen() -> None:
    assert construct_space_from_data("abcd", B, TextSpace(B, 2)) == TextSpace(B, 4)
    space = construct_space_from_data_stream([np.zeros(2, np.int8), np.zeros(2, np.int32)], B)
    assert space.dtype == np.int32
    assert construct_space_from_data_stream([], B) is None


@pytest.mark.parametrize("data", [1, 1.0, True, None, b"a", np.float32(1), [1], {"a": 1}])
def test_unsupported_data(data: Any) -> None:
    with pytest.raises(ValueError, match="no space holds"):
        construct_space_from_data(data, B)
    with pytest.raises(UnsupportedSpaceError):
        construct_space_from_data(np.zeros(2, complex), B)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.zeros(2), np.zeros((2, 1))),
        (np.zeros(2), np.zeros(2, bool)),
        (np.zeros(2, bool), np.zeros(3, bool)),
        ("a", np.zeros(2)),
        ({"a": "x"}, {"b": "x"}),
        (("a",), ("a", "b")),
        ({"a": "x"}, "x"),
    ],
)
def test_no_common_space(first: Any, second: Any) -> None:
    with pytest.raises(SpaceMismatchError):
        construct_space_from_data_stream([first, second], B)


@pytest.mark.parametrize(
    ("first", "second", "dtype", "low", "high"),
    [
        (np.uint8, np.int8, np.int16, -128, 255),
        (np.int8, np.float32, np.float32, -INF, INF),
        (np.int64, np.float64, np.float64, -INF, INF),
        (np.float16, np.float16, np.float16, -INF, INF),
    ],
)
def test_dtypes_promote(first: Any, second: Any, dtype: Any, low: float, high: float) -> None:
    samples = [np.ones(1, first), np.ones(1, second)]
    space = construct_space_from_data_stream(samples, B, add_bounds=False)
    assert space == BoxSpace(B, low, high, dtype, shape=(1,))
    assert all(map(space.contains, samples))


def test_nan_has_no_bounds() -> None:
    with pytest.raises(AssertionError, match="NaN"):
        construct_space_from_data(np.array([np.nan]), B, add_bounds=True)


@given(
    st.lists(
        hnp.arrays(
            st.sampled_from([np.uint8, np.int32, np.float32]),
            hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=3),
            elements=st.integers(0, 9),
        ),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_any_arrays(arrays: list[Any], bounded: bool) -> None:
    space = construct_space_from_data_stream(arrays, B, bounded)
    assert all(map(space.contains, arrays))
    shapes = {array.shape for array in arrays}
    assert isinstance(space, BoxSpace if len(shapes) == 1 else DynamicBoxSpace)


def test_texts_and_charsets() -> None:
    letters = TextSpace(B, 3, min_length=2, charset="ab")
    wider = construct_space_from_data("c", B, letters)
    assert wider == TextSpace(B, 3)
    assert all(map(wider.contains, ["ab", "c"]))
    assert construct_space_from_data("", B) == TextSpace(B, 0)
