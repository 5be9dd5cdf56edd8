"""Spaces as JSON data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.errors import SpaceDefinitionError
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, DynamicBoxSpace, TextSpace
from unienv_interface.space.space_utils.serialization_utils import json_to_space, space_to_json
from unienv_interface.testing import BACKENDS, KINDS, boxes, load_backend, spaces, various


def there_and_back(space: Any, backend: Any) -> Any:
    return json_to_space(json.loads(json.dumps(space_to_json(space))), backend, None)


@pytest.mark.parametrize("name", BACKENDS)
def test_boxes(name: str) -> None:
    backend = load_backend(name)
    for box in boxes(backend):
        back = there_and_back(box, backend)
        assert back == box
        assert back._low.shape == box._low.shape


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BACKENDS)
def test_every_space(name: str, kind: str) -> None:
    backend = load_backend(name)
    space = various(backend)[kind].with_metadata(a=[1, {"b": None}])
    back = there_and_back(space, backend)
    assert back == space
    assert back.metadata == space.metadata
    if kind == "dynamic":
        assert back.fill_value == space.fill_value


def test_payloads() -> None:
    box = BoxSpace(B, -np.inf, 1, np.float32, shape=(2,))
    assert space_to_json(box) == {
        "type": "BoxSpace",
        "shape": [2],
        "low": [-float("inf")],
        "high": [1.0],
        "dtype": "float32",
    }
    scalar = space_to_json(BoxSpace(B, 0, 1, np.int8, shape=(), metadata={"u": "m"}))
    assert (scalar["low"], scalar["high"], scalar["shape"]) == (0, 1, [])
    assert scalar["metadata"] == {"u": "m"}
    assert space_to_json(BinarySpace(B, (2,))) == {
        "type": "BinarySpace",
        "shape": [2],
        "dtype": "bool",
    }
    assert space_to_json(TextSpace(B, 3, charset="ba")) == {
        "type": "TextSpace",
        "min_length": 0,
        "max_length": 3,
        "charset": "ab",
    }
    assert space_to_json(TextSpace(B, 3))["charset"] is None
    assert list(space_to_json(various(B)["graph"])) == [
        "type",
        "min_nodes",
        "max_nodes",
        "min_edges",
        "max_edges",
        "is_edge",
        "node_feature_space",
        "edge_feature_space",
        "batch_shape",
    ]


@pytest.mark.parametrize("spelling", ["-Infinity", '"-Infinity"'])
def test_infinity_as_token_and_as_text(spelling: str) -> None:
    text = (
        f'{{"type": "BoxSpace", "shape": [2], "low": [{spelling}], "high": [1.0], '
        '"dtype": "float32"}'
    )
    assert json_to_space(json.loads(text), B, None) == BoxSpace(
        B, -np.inf, 1, np.float32, shape=(2,)
    )


def test_device_and_order_of_keys() -> None:
    space = DictSpace(B, [("b", BinarySpace(B, ())), ("a", TextSpace(B, 1))])
    back = json_to_space(space_to_json(space), B, "cpu")
    assert list(back) == ["b", "a"]
    assert back["b"].device == "cpu"


@pytest.mark.parametrize(
    "data",
    [
        {"type": "X"},
        {},
        {"type": "BoxSpace"},
        {"type": "BoxSpace", "shape": [], "low": "x", "high": 1, "dtype": "float32"},
        {"type": "BoxSpace", "shape": [], "low": 0, "high": 1, "dtype": "floaty"},
        {"type": ["BoxSpace"]},
    ],
)
def test_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        json_to_space(data, B, None)


def test_unknown_type_names_the_known() -> None:
    with pytest.raises(SpaceDefinitionError, match="TextSpace"):
        json_to_space({"type": "X"}, B, None)


def test_other_objects() -> None:
    with pytest.raises(TypeError):
        space_to_json("space")


@given(spaces(), st.dictionaries(st.text(max_size=3), st.integers() | st.text(), max_size=2))
def test_trees(space: Any, metadata: dict[str, Any]) -> None:
    noted = space.with_metadata(metadata)
    back = there_and_back(noted, B)
    assert back == noted
    assert back.metadata == noted.metadata
    assert space_to_json(back) == space_to_json(noted)


def test_wide_bounds_keep_every_bit() -> None:
    """Equality goes by closeness, which would not tell."""
    box = BoxSpace(
        B, np.array([0, 2**63 + 5], np.uint64), np.array([7, 2**64 - 1], np.uint64), np.uint64
    )
    back = there_and_back(box, B)
    assert back.low.tolist() == [0, 2**63 + 5]
    assert back.high.tolist() == [7, 2**64 - 1]
    assert (back.low.dtype, back.high.dtype) == (np.uint64, np.uint64)


@pytest.mark.parametrize("kind", ["float16", "int8"])
@pytest.mark.parametrize("shape", [(0,), (0, 2), (2, 0, 3), (2, 0), (1, 0)])
def test_bounds_of_nothing(shape: tuple[int, ...], kind: str) -> None:
    box = BoxSpace(B, np.zeros(shape), np.ones(shape), np.dtype(kind))
    back = there_and_back(box, B)
    assert back == box
    assert back.shape == back._low.shape == shape
    dynamic = DynamicBoxSpace(B, np.zeros((0, 1)), 1, (0, 1), (0, 3), np.dtype(kind))
    assert there_and_back(dynamic, B) == dynamic


@given(
    st.sampled_from(["float16", "float32", "float64"]).flatmap(
        lambda name: st.tuples(
            st.just(name),
            *[st.floats(width=int(name[5:]), allow_nan=False)] * 4,  # type: ignore[arg-type]
        )
    )
)
def test_float_bounds_keep_every_bit(case: tuple[str, float, float, float, float]) -> None:
    name, *ends = case
    low, high = np.sort(np.array(ends, name).reshape(2, 2), axis=0)
    back = there_and_back(BoxSpace(B, low, high, np.dtype(name)), B)
    assert back.dtype == name
    assert np.array_equal(back.low, low)
    assert np.array_equal(back.high, high)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "uint64"])
def test_infinite_integer_bounds_of_files(kind: str) -> None:
    data = {"type": "BoxSpace", "shape": [2], "low": ["-Infinity", 3], "high": ["Infinity", 7]}
    back = json_to_space({**data, "dtype": kind}, B, None)
    assert back.low.tolist() == [np.iinfo(kind).min, 3]
    assert back.high.tolist() == [np.iinfo(kind).max, 7]
    scalar = {"type": "BoxSpace", "shape": [], "low": "-Infinity", "high": "Infinity"}
    back = json_to_space({**scalar, "dtype": kind}, B, None)
    assert int(back.high) == np.iinfo(kind).max


def test_numpy_fill_values() -> None:
    space = DynamicBoxSpace(B, 0, 1, (1,), (2,), np.float32, fill_value=np.float32(0.5))
    assert there_and_back(space, B).fill_value == 0.5


@pytest.mark.parametrize(
    "data",
    [
        [],
        None,
        "BoxSpace",
        {"type": "TupleSpace", "spaces": 3},
        {"type": "TupleSpace", "spaces": [3]},
        {"type": "DictSpace", "spaces": []},
        {"type": "BinarySpace", "shape": [2], "metadata": [1]},
        {"type": "BinarySpace", "shape": "ab"},
        {"type": "TextSpace", "min_length": 0, "max_length": "x"},
        {"type": "BoxSpace", "shape": [], "low": "NaN", "high": 1, "dtype": "float32"},
        {"type": "BoxSpace", "shape": [3], "low": [0, 1], "high": 1, "dtype": "float32"},
        {"type": "BoxSpace", "shape": [0], "low": 0, "high": 1, "dtype": 3},
        {"type": "BatchedSpace", "single_space": None, "batch_shape": [1]},
    ],
)
def test_damaged_data(data: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        json_to_space(data, B, None)
