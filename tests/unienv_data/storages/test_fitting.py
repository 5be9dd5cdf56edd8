from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unienv_data.errors import MissingColumnError, SampleError
from unienv_data.storages._fitting import fit_batch, fit_sample
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, DictSpace, TextSpace, TupleSpace, UnionSpace

FLOATS, BYTES, FLAG = box("float32", (2,)), box("uint8", ()), BinarySpace(B, ())
TEXT = TextSpace(B, 3, charset="abc")
NESTED: Any = DictSpace(B, {"in": DictSpace(B, {"a": BYTES}), "t": TupleSpace(B, [FLAG, TEXT])})
UNION = UnionSpace(B, [FLOATS, TEXT])


@pytest.mark.parametrize(
    ("space", "value", "dtype"),
    [
        (FLOATS, [1, 2.5], "float32"),
        (FLOATS, np.array([0.1, 1e30]), "float32"),
        (FLOATS, np.array([1, 2], dtype=np.int8), "float32"),
        (BYTES, 255, "uint8"),
        (BYTES, np.int64(7), "uint8"),
        (BYTES, 3.0, "uint8"),
        (FLAG, True, "bool"),
        (FLAG, np.bool_(False), "bool"),
    ],
    ids=repr,
)
def test_values_that_stay_the_same_are_cast(space: Any, value: Any, dtype: str) -> None:
    found = fit_sample(space, value, "here")
    assert found.dtype == dtype
    assert np.allclose(found, value)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (FLOATS, np.zeros(1, np.float32)),
        (FLOATS, np.zeros((2, 1), np.float32)),
        (FLOATS, np.float32(0)),
        (FLOATS, np.array([1e300, 0])),
        (FLOATS, np.zeros(2, np.complex64)),
        (FLOATS, ["1", "2"]),
        (FLOATS, None),
        (FLOATS, {"a": 1}),
        (BYTES, 300),
        (BYTES, -1),
        (BYTES, 1.9),
        (BYTES, float("nan")),
        (BYTES, None),
        (BYTES, "1"),
        (BYTES, np.zeros(1, np.uint8)),
        (FLAG, 1),
        (FLAG, np.float32(0)),
        (TEXT, "abcd"),
        (TEXT, "x"),
        (TEXT, None),
        (TEXT, b"a"),
        (TEXT, 1),
        (UNION, (2, "a")),
        (UNION, "a"),
        (NESTED, 3),
        (NESTED, {"in": {"a": 1}, "t": (True,)}),
        (NESTED, {"in": {"a": 999}, "t": (True, "a")}),
    ],
    ids=repr,
)
def test_everything_else_is_refused(space: Any, value: Any) -> None:
    with pytest.raises(SampleError, match="here"):
        fit_sample(space, value, "here")


def test_missing_keys() -> None:
    with pytest.raises(MissingColumnError, match=r"here: 'in'.*'a'") as caught:
        fit_sample(NESTED, {"in": {}, "t": (True, "a")}, "here")
    assert isinstance(caught.value, KeyError)


def test_trees() -> None:
    found = fit_sample(NESTED, {"in": {"a": 1}, "t": [True, np.str_("a")]}, "here")
    assert found["in"]["a"].dtype == np.uint8
    assert type(found["t"][1]) is str
    batch = {"more": 1, "in": {"a": [1, 2]}, "t": ([True, False], np.array(["a", "b"]))}
    found = fit_batch(NESTED, batch, 2, "here")
    assert list(found) == ["in", "t"]
    assert found["t"][0].tolist() == [True, False]
    assert found["t"][1].dtype == object
    assert found["t"][1].tolist() == ["a", "b"]
    assert type(found["t"][1][0]) is str


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (FLOATS, np.zeros((3, 2), np.float32)),
        (FLOATS, np.zeros(2, np.float32)),
        (TEXT, ["a"]),
        (TEXT, "ab"),
        (TEXT, ["a", "x"]),
        (TEXT, np.array([["a", "b"]], dtype=object)),
        (TEXT, np.array([1, 2])),
        (UNION, np.zeros(2)),
    ],
    ids=repr,
)
def test_batches_of_other_rows(space: Any, value: Any) -> None:
    with pytest.raises(SampleError):
        fit_batch(space, value, 2, "here")


def test_unions() -> None:
    values = np.empty(2, dtype=object)
    values[:] = [(0, np.zeros(2, np.float32)), (1, "a")]
    assert fit_batch(UNION, values, 2, "here") is values
    assert fit_sample(UNION, (1, "a"), "here") == (1, "a")
