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
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, TextSpace
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
