"""Metadata of spaces: immutable JSON data."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, SpaceMetadata
from unienv_interface.testing import KINDS, various

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON))
def test_json_there_and_back(data: dict[str, Any]) -> None:
    held = SpaceMetadata(data)
    assert held.to_dict() == data
    assert json.loads(json.dumps(held.to_dict())) == data
    assert held == data
    again = SpaceMetadata(dict(reversed(list(data.items()))))
    assert again == held
    assert hash(again) == hash(held)
    assert pickle.loads(pickle.dumps(held)) == copy.deepcopy(held) == held
    assert SpaceMetadata(held) == held


def test_held_values() -> None:
    held = SpaceMetadata({"a": [1, (2,), {"b": [3]}], "n": np.float32(0.5), "f": np.bool_(True)})
    assert held["a"][:2] == (1, (2,))
    assert isinstance(held["a"][2], SpaceMetadata)
    assert held["a"][2]["b"] == (3,)
    assert type(held["n"]) is float
    assert held["f"] is True
    assert held.to_dict() == {"a": [1, [2], {"b": [3]}], "n": 0.5, "f": True}
    assert repr(held) == "SpaceMetadata({'a': [1, [2], {'b': [3]}], 'n': 0.5, 'f': True})"
    assert len(SpaceMetadata()) == len(SpaceMetadata(None)) == len(SpaceMetadata({})) == 0


def test_nothing_can_be_changed() -> None:
    data = {"a": [1], "d": {"x": [1]}}
    held: Any = SpaceMetadata(data)
    data["a"].append(2)  # type: ignore[attr-defined]
    assert held["a"] == (1,)
    held.to_dict()["a"].append(3)
    held.to_dict()["d"]["x"].append(3)
    assert held.to_dict() == {"a": [1], "d": {"x": [1]}}
    with pytest.raises(TypeError):
        held["a"] = 1
    with pytest.raises(TypeError):
        held["d"]["x"] = 1
    with pytest.raises(TypeError):
        del held["a"]
    with pytest.raises(AttributeError):
        held.a = 1
    for name in ("update", "pop", "clear", "setdefault"):
        assert not hasattr(held, name)


def test_equality() -> None:
    held = SpaceMetadata({"a": [1, 2], "b": {"c": 1, "d": 2}})
    assert held == {"a": [1, 2], "b": {"d": 2, "c": 1}}
    assert held == {"a": (1, 2), "b": {"d": 2, "c": 1}}
    for other in ({"a": [1, 2]}, {"a": [2, 1], "b": {}}, {"a": {1}}, {1: 2}, [("a", 1)], None):
        assert held != other


def test_equal_metadata_has_one_hash() -> None:
    for one, other in (
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": True}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}),
        ({"a": [1]}, {"a": (1,)}),
    ):
        assert SpaceMetadata(one) == SpaceMetadata(other)
        assert len({SpaceMetadata(one), SpaceMetadata(other)}) == 1


@pytest.mark.parametrize(
    "data",
    [
        {"a": {1}},
        {"a": np.zeros(2)},
        {"a": b"x"},
        {"a": object()},
        {"a": 1j},
        {"a": np.complex64(1)},
        {"a": [object()]},
        {"a": {"b": {1}}},
        {1: 1},
        {None: 1},
        {"a": {2: 1}},
    ],
)
def test_only_json_data(data: Any) -> None:
    with pytest.raises(TypeError, match=r"^metadata"):
        SpaceMetadata(data)
    with pytest.raises(TypeError):
        BinarySpace(B, (), metadata=data)
    with pytest.raises(TypeError):
        BinarySpace(B, ()).with_metadata(data)


@pytest.mark.parametrize("kind", KINDS)
def test_with_metadata_gives_a_copy(kind: str) -> None:
    space: Any = various(B)[kind]
    assert space.metadata == {}
    one = space.with_metadata({"a": 1}, b=2)
    assert one is not space
    assert (space.metadata, one.metadata) == ({}, {"a": 1, "b": 2})
    assert one.with_metadata({"a": 3}, a=4).metadata == {"a": 4, "b": 2}
    assert one.with_metadata({"c": 3}, replace=True).metadata == {"c": 3}
    assert one.with_metadata(None, replace=True).metadata == {}
    assert one == space
    with pytest.raises(AttributeError):
        space.metadata = {}
