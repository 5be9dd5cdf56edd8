"""Every kind of space: members, samples, moving, equality, metadata."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unienv_interface.space as package
from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.errors import SpaceDefinitionError, SpaceError
from unienv_interface.space import (
    BatchedSpace,
    BinarySpace,
    BoxSpace,
    DictSpace,
    DynamicBoxSpace,
    GraphInstance,
    GraphSpace,
    SpaceMetadata,
    TextSpace,
    TupleSpace,
    UnionSpace,
)
from unienv_interface.testing import BACKENDS, KINDS, drawn, load_backend, same, spaces, various

BOX = BoxSpace(B, -1, 1, np.float32, shape=(2,))


def test_names_of_the_package() -> None:
    assert sorted(package.__all__) == package.__all__
    for name in package.__all__:
        assert hasattr(package, name)
    assert package.space_utils.serialization_utils is not None
    assert package.space_utils.construct_utils is not None
    assert package.space_utils.gym_utils is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BACKENDS)
def test_samples_are_members(name: str, kind: str) -> None:
    space = various(load_backend(name))[kind]
    for value in drawn(space, 1, 8):
        assert space.contains(value)
        assert value in space
    assert same(drawn(space, 5), drawn(space, 5))
    assert not space.contains(None)
    assert not space.contains("\0" * 99)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BACKENDS)
def test_of_every_space(name: str, kind: str) -> None:
    backend = load_backend(name)
    space, again = various(backend)[kind], various(backend)[kind]
    assert space == again
    assert not (space != again)  # noqa: SIM202 - the operator itself
    assert hash(space) == hash(again)
    assert space.is_subspaceeq(again)
    assert not space.is_subspace(again)
    assert space != "space"
    assert space.to() is space
    assert space.to(backend) is space
    for flags in np.ndindex(2, 2, 2, 2):
        assert isinstance(space.get_repr(*map(bool, flags)), str)
    assert type(space).__name__ in repr(space)
    assert (repr(backend) in repr(space)) or kind == "batched"
    for manner in ("both", "below", "above"):
        assert isinstance(space.is_bounded(manner), bool)
    with pytest.raises(ValueError, match="sideways"):
        space.is_bounded("sideways")
    noted = space.with_metadata(a=1)
    for other in (pickle.loads(pickle.dumps(noted)), copy.deepcopy(noted)):
        assert other == space
        assert other.backend is backend
        assert other.metadata == noted.metadata
        assert same(drawn(other), drawn(space))
    space.create_empty()
    (value,) = drawn(space)
    assert space.contains(space.clip(value))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["pytorch", "jax"])
def test_to_other_backends(name: str, kind: str) -> None:
    backend = load_backend(name)
    space = various(B)[kind].with_metadata(a=1)
    moved = space.to(backend)
    assert moved.backend is backend
    assert moved == various(backend)[kind]
    assert moved.metadata == space.metadata
    assert moved.to(B) == space
    assert moved != space
    (value,) = drawn(space)
    there = space.data_to(value, backend)
    assert moved.contains(there)
    back = moved.data_to(there, B)
    assert space.contains(back)


@pytest.mark.parametrize("kind", KINDS)
def test_metadata_does_not_matter(kind: str) -> None:
    space = various(B)[kind]
    noted = space.with_metadata({"unit": "m"}, axes=["x", "y"], nested={"deep": [1, None]})
    assert noted == space
    assert hash(noted) == hash(space)
    assert noted.is_subspaceeq(space)
    assert space.metadata == {}
    assert noted.metadata["axes"] == ("x", "y")
    assert noted.metadata["nested"]["deep"] == (1, None)
    assert noted.metadata.to_dict() == {
        "unit": "m",
        "axes": ["x", "y"],
        "nested": {"deep": [1, None]},
    }
    assert noted.with_metadata(unit="cm").metadata["axes"] == ("x", "y")
    assert dict(noted.with_metadata(replace=True, b=1).metadata) == {"b": 1}
    with pytest.raises(TypeError):
        noted.metadata["unit"] = "mm"
    for bad in ({"a": np.ones(1)}, {"a": {1, 2}}, {1: 2}, {"a": {1: 2}}, {"a": b"x"}):
        with pytest.raises(TypeError):
            space.with_metadata(bad)


def test_metadata_mapping() -> None:
    held = SpaceMetadata({"a": np.float32(0.5), "b": (1, {"c": 2})})
    assert held.to_dict() == {"a": 0.5, "b": [1, {"c": 2}]}
    assert json.loads(json.dumps(held.to_dict())) == held.to_dict()
    assert held == SpaceMetadata(held.to_dict())
    assert hash(held) == hash(SpaceMetadata(held.to_dict()))
    assert len(held) == 2
    assert "SpaceMetadata" in repr(held)


# -- Binary ----------------------------------------------------------------------------------


def test_binary() -> None:
    space = BinarySpace(B, (2,))
    assert space.dtype is bool
    assert space.is_bounded()
    assert space.contains(np.array([True, False]))
    for wrong in (np.array([0, 1]), np.zeros(3, bool), np.zeros((2, 1), bool), [True, False]):
        assert not space.contains(wrong)
    assert not BinarySpace(B, ()).contains(np.True_)
    assert BinarySpace(B, ()).contains(np.array(True))
    assert space == BinarySpace(B, (2,), np.bool_)
    assert space != BinarySpace(B, (2,), device="cpu")
    assert space.clip(np.array([1, 0])).tolist() == [True, False]
    assert space.create_empty().tolist() == [False, False]
    for wrong_dtype in (np.int8, float):
        with pytest.raises(SpaceDefinitionError):
            BinarySpace(B, (2,), wrong_dtype)
    both = {bool(value) for value in drawn(BinarySpace(B, ()), 0, 30)}
    assert both == {True, False}


# -- Text ------------------------------------------------------------------------------------


def test_text() -> None:
    space = TextSpace(B, 3, min_length=1, charset="cab")
    assert (space.shape, space.dtype) == (None, None)
    assert space.charset == frozenset("abc")
    assert space.charset_list == ("a", "b", "c")
    assert space.charset_index == {"a": 0, "b": 1, "c": 2}
    assert space.character_index("b") == 1
    assert space.character_index("z") is None
    for text in ("a", "abc", np.str_("b")):
        assert space.contains(text)
    for wrong in ("", "abca", "d", b"a", None, 1, ["a"]):
        assert not space.contains(wrong)
    assert space.create_empty() == ""
    assert space.clip("abca") == "abc"
    assert len({len(text) for text in drawn(space, 0, 60)}) == 3


def test_text_without_charset() -> None:
    space = TextSpace(B, 4)
    assert space.charset is None
    assert space.charset_list is None
    assert space.charset_index is None
    assert space.contains("é\0😀")
    assert all(text.isalnum() and text.isascii() for text in drawn(space, 0, 20) if text)
    assert TextSpace(B, 2, charset="ab").is_subspace(space)
    assert not space.is_subspaceeq(TextSpace(B, 4, charset="ab"))
    assert space != TextSpace(B, 4, charset="ab")
    assert space != TextSpace(B, 4, min_length=1)


def test_text_refused() -> None:
    for arguments in (
        {"max_length": -1},
        {"max_length": 2, "min_length": 3},
        {"max_length": 2, "min_length": -1},
        {"max_length": 2, "charset": ["ab"]},
        {"max_length": 2, "min_length": 1, "charset": ""},
    ):
        with pytest.raises(SpaceDefinitionError):
            TextSpace(B, **arguments)
    assert drawn(TextSpace(B, 2, charset="")) == [""]


# -- Dict ------------------------------------------------------------------------------------


def test_dict() -> None:
    space = DictSpace(B, {"b": BOX, "a": {"x": BOX}})
    assert list(space) == list(space.keys()) == ["a", "b"]
    assert isinstance(space["a"], DictSpace)
    assert len(space) == 2
    assert "b" in space.spaces
    assert list(DictSpace(B, [("b", BOX), ("a", BOX)])) == ["b", "a"]
    mixed: Any = {"b": BOX, 1: BOX, "a": BOX}
    assert list(DictSpace(B, mixed)) == ["b", 1, "a"]
    assert DictSpace(B, [("b", BOX), ("a", BOX)]) == DictSpace(B, {"a": BOX, "b": BOX})
    space["c"] = BOX
    del space["a"]
    assert list(space) == ["b", "c"]
    with pytest.raises(SpaceDefinitionError):
        space["d"] = 3
    assert len(DictSpace(B)) == 0
    assert DictSpace(B).contains({})
    assert DictSpace(B).is_bounded()


def test_dict_members() -> None:
    space = DictSpace(B, {"a": BOX, "b": BinarySpace(B, ())})
    value = {"a": np.zeros(2, np.float32), "b": np.array(True)}
    assert space.contains(value)
    assert not space.contains({**value, "c": 1})
    assert not space.contains({"a": value["a"]})
    assert not space.contains({**value, "a": np.full(2, 9, np.float32)})
    assert not space.contains(list(value.items()))


def test_dict_subspaces_may_have_more_keys() -> None:
    one, two = DictSpace(B, {"a": BOX}), DictSpace(B, {"a": BOX, "b": BOX})
    assert one.is_subspaceeq(two)
    assert not two.is_subspaceeq(one)
    assert one.is_subspace(two)


def test_common_device() -> None:
    here = BoxSpace(B, 0, 1, np.float32, device="cpu")
    assert DictSpace(B, {"a": here, "b": here}).device == "cpu"
    assert DictSpace(B, {"a": here, "b": BOX}).device is None
    assert DictSpace(B, {"a": here, "b": BOX}, device="cpu").device == "cpu"


@pytest.mark.parametrize("make", [lambda c: DictSpace(B, {"k": c}), lambda c: TupleSpace(B, [c])])
def test_children_are_spaces_of_the_backend(make: Any) -> None:
    with pytest.raises(SpaceDefinitionError, match="no space"):
        make(3)
    pytest.importorskip("torch")
    with pytest.raises(AssertionError, match="pytorch"):
        make(BinarySpace(load_backend("pytorch"), ()))


# -- Tuple and Union -------------------------------------------------------------------------


def test_tuple() -> None:
    space = TupleSpace(B, [BOX, BinarySpace(B, ())])
    assert isinstance(space.spaces, tuple)
    assert list(space) == list(space.spaces)
    assert space[0] is BOX
    assert len(space) == 2
    value = (np.zeros(2, np.float32), np.array(True))
    assert space.contains(value)
    assert not space.contains(value[:1])
    assert not space.contains(list(value))
    assert space != UnionSpace(B, [BOX, BinarySpace(B, ())])
    assert not space.is_subspaceeq(TupleSpace(B, [BOX]))
    assert TupleSpace(B, []).contains(())


def test_union() -> None:
    space = UnionSpace(B, [BinarySpace(B, ()), BOX])
    assert space.contains((0, np.array(True)))
    assert space.contains((np.int64(1), np.zeros(2, np.float32)))
    for wrong in (
        (1, np.array(True)),
        (2, np.array(True)),
        (-1, np.zeros(2, np.float32)),
        (False, np.array(True)),
        (np.array(0), np.array(True)),
        (0.0, np.array(True)),
        (0,),
        [0, np.array(True)],
    ):
        assert not space.contains(wrong)
    assert {value[0] for value in drawn(space, 0, 30)} == {0, 1}
    assert space.create_empty()[0] == 0
    with pytest.raises(SpaceDefinitionError):
        UnionSpace(B, [])


# -- Batched ---------------------------------------------------------------------------------


def test_batched() -> None:
    space = BatchedSpace(TextSpace(B, 2), (2,))
    assert space.contains(np.array(["a", "bc"], object))
    for wrong in (
        np.array(["a", "bcd"], object),
        np.array(["a"], object),
        np.array(["a", "b"]),
        np.array([["a", "b"]], object),
        ["a", "b"],
    ):
        assert not space.contains(wrong)
    assert space.create_empty().tolist() == ["", ""]
    assert space != BatchedSpace(TextSpace(B, 2), (3,))
    assert BatchedSpace(TextSpace(B, 2), (0,)).contains(np.empty(0, object))


# -- DynamicBox ------------------------------------------------------------------------------


def test_dynamic_box() -> None:
    space = DynamicBoxSpace(B, -1, 1, (1, 2), (4, 2), np.float32)
    assert space.shape is None
    assert (space.shape_low, space.shape_high, space.fill_value) == ((1, 2), (4, 2), 0)
    assert space.low.shape == (1, 2)
    assert space._low.shape == (1, 1)
    assert space.get_low((3, 2)).shape == space.get_high((3, 2)).shape == (3, 2)
    members = [space.contains(np.zeros(s, np.float32)) for s in [(1, 2), (4, 2), (5, 2), (0, 2)]]
    assert members == [True, True, False, False]
    assert not space.contains(np.zeros(2, np.float32))
    assert not space.contains(np.full((2, 2), 3, np.float32))
    assert not space.contains(np.full((2, 2), np.nan, np.float32))
    assert not space.contains(np.zeros((2, 2)))
    assert {value.shape[0] for value in drawn(space, 0, 40)} == {1, 2, 3, 4}
    assert space.create_empty().shape == (4, 2)
    assert space == DynamicBoxSpace(B, -1, 1, (1, 2), (4, 2), np.float32, fill_value=7)
    assert space.is_subspaceeq(DynamicBoxSpace(B, -2, 2, (0, 2), (5, 2), np.float32))
    assert not space.is_subspaceeq(DynamicBoxSpace(B, -2, 2, (2, 2), (5, 2), np.float32))


def test_dynamic_box_padding() -> None:
    space = DynamicBoxSpace(B, 0, 9, (1, 1), (3, 2), np.int32, fill_value=-5)
    value = np.array([[1], [2]], np.int32)
    padded = space.pad_data(value)
    assert padded.tolist() == [[1, -5], [2, -5], [-5, -5]]
    assert same(space.unpad_data(padded), value)
    assert space.pad_data(value, 0, 1).shape == (3, 1)
    assert space.unpad_data(padded, 1).shape == (3, 1)
    assert space.unpad_data(np.full((3, 2), -5, np.int32)).shape == (1, 1)
    with pytest.raises(SpaceError):
        space.pad_data(np.zeros((4, 1), np.int32))
    with pytest.raises(SpaceError):
        space.pad_data(np.zeros(3, np.int32))


@pytest.mark.parametrize(
    ("low", "high", "shapes"),
    [
        (0, 1, ((2,), (2,))),
        (0, 1, ((3,), (2,))),
        (0, 1, ((1, 1), (2,))),
        (2, 1, ((1,), (2,))),
        (np.zeros(2), 1, ((1,), (2,))),
        (np.nan, 1, ((1,), (2,))),
    ],
)
def test_dynamic_box_refused(low: Any, high: Any, shapes: Any) -> None:
    with pytest.raises(SpaceDefinitionError):
        DynamicBoxSpace(B, low, high, shapes[0], shapes[1], np.float32)
    with pytest.raises(SpaceDefinitionError):
        DynamicBoxSpace(B, 0, 1, (1,), (2,), bool)


# -- Graph -----------------------------------------------------------------------------------


def graph(n: int = 2, e: int = 1, **changes: Any) -> GraphInstance[Any]:
    fields: dict[str, Any] = {
        "n_nodes": np.array(n),
        "n_edges": np.array(e),
        "nodes_features": np.zeros((n, 2), np.float32),
        "edges_features": np.zeros(e, np.int32),
        "edges": np.zeros((e, 2), np.int64),
    }
    return GraphInstance(**{**fields, **changes})


def test_graph_members() -> None:
    weight = BoxSpace(B, 0, 9, np.int32, shape=())
    space = GraphSpace(B, BOX, weight, True, 1, 3, 1, 4)
    assert space.contains(graph())
    for wrong in (
        graph(4),
        graph(2, 5),
        graph(2, 0),
        graph(n_nodes=2),
        graph(n_nodes=np.array(3)),
        graph(n_nodes=np.array(2.0)),
        graph(n_nodes=np.array([2])),
        graph(nodes_features=np.full((2, 2), 5, np.float32)),
        graph(nodes_features=np.zeros((2, 2))),
        graph(nodes_features=None),
        graph(edges=np.array([[0, 2]])),
        graph(edges=np.array([[-1, 0]])),
        graph(edges=np.zeros((1, 2))),
        graph(edges=None),
        graph(n_edges=None),
        graph(edges_features=None),
        graph(edges_features=np.array([10], np.int32)),
        {"n_nodes": np.array(2)},
    ):
        assert not space.contains(wrong), wrong
    plain = GraphSpace(B, BOX, max_nodes=3)
    assert plain.contains(GraphInstance(np.array(2), None, np.zeros((2, 2), np.float32)))
    assert not plain.contains(graph())
    bare = GraphSpace(B, None, None, True, min_edges=0)
    assert all(map(bare.contains, drawn(bare, 0, 20)))


def test_graph_batches_ignore_padding() -> None:
    space = GraphSpace(B, BOX, batch_shape=(2,), max_nodes=3)
    features = np.zeros((2, 3, 2), np.float32)
    features[1, 1:] = 99
    assert space.contains(GraphInstance(np.array([3, 1]), None, features))
    assert not space.contains(GraphInstance(np.array([3, 2]), None, features))
    for value in drawn(space, 0, 10):
        assert space.contains(value)


def test_graph_limits() -> None:
    small = GraphSpace(B, BOX, min_nodes=2, max_nodes=3)
    assert small.is_subspaceeq(GraphSpace(B, BOX))
    assert not GraphSpace(B, BOX).is_subspaceeq(small)
    assert small != GraphSpace(B, BOX)
    assert small.contains(small.create_empty())
    for arguments in (
        {"min_nodes": 0},
        {"min_nodes": 3, "max_nodes": 2},
        {"edge_feature_space": BOX},
        {"node_feature_space": BinarySpace(B, ())},
        {"is_edge": True, "min_edges": -1},
    ):
        with pytest.raises(SpaceDefinitionError):
            GraphSpace(B, **{"node_feature_space": BOX, **arguments})  # type: ignore[arg-type]


# -- trees -----------------------------------------------------------------------------------


@given(spaces(), st.integers(0, 2**31))
def test_trees(space: Any, seed: int) -> None:
    (value,) = drawn(space, seed)
    assert space.contains(value)
    assert space.contains(space.clip(value))
    assert space == space.with_metadata(a=1)
    assert hash(space) == hash(space.with_metadata(a=1))
    assert same(space.data_to(value, B), value)


# -- faults that were mended -----------------------------------------------------------------


def test_copies_of_a_dict_are_apart() -> None:
    space = DictSpace(B, {"a": BOX})
    for other in (space.with_metadata(x=1), copy.copy(space), copy.deepcopy(space)):
        other["b"] = BOX
        del other["a"]
        assert list(space) == ["a"]
        assert list(other) == ["b"]


@pytest.mark.parametrize("space", [DictSpace(B), TupleSpace(B, []), TextSpace(B, 1), BOX])
def test_unknown_manners(space: Any) -> None:
    with pytest.raises(ValueError, match="sideways"):
        space.is_bounded("sideways")


def test_texts_are_bounded_from_below() -> None:
    """As in the original library."""
    text = TextSpace(B, 3)
    for space in (text, BatchedSpace(text, (2,)), TupleSpace(B, [text, BOX])):
        manners = [space.is_bounded("both"), space.is_bounded("below"), space.is_bounded("above")]
        assert manners == [False, True, False]


@pytest.mark.parametrize(
    "arguments", [{"max_length": 2.7}, {"max_length": None}, {"max_length": 2, "charset": [1]}]
)
def test_texts_of_other_things(arguments: Any) -> None:
    with pytest.raises(SpaceDefinitionError):
        TextSpace(B, **arguments)


@given(
    st.integers(0, 6),
    st.integers(0, 6),
    st.none() | st.sets(st.characters(), max_size=5),
    st.integers(0, 2**31),
)
def test_any_text_space(a: int, b: int, charset: set[str] | None, seed: int) -> None:
    least, most = min(a, b), max(a, b)
    if charset is not None and not charset:
        least = 0
    space = TextSpace(B, most, min_length=least, charset=charset)
    for text in drawn(space, seed, 3):
        assert space.contains(text)
        assert charset is None or set(text) <= charset
    assert not space.contains("a" * (most + 1))
    if charset:
        assert space.charset_list == tuple(sorted(charset))
        assert [space.character_index(c) for c in sorted(charset)] == list(range(len(charset)))


def test_binary_subspaces_on_any_device() -> None:
    here, anywhere = BinarySpace(B, (2,), device="cpu"), BinarySpace(B, (2,))
    assert here != anywhere
    assert here.is_subspaceeq(anywhere)
    assert not here.is_subspace(anywhere)
    assert not here.is_subspaceeq(BinarySpace(B, (1,)))
    assert not here.is_subspaceeq(BOX)


def test_fill_values_are_plain_numbers() -> None:
    space = DynamicBoxSpace(B, 0, 1, (1,), (2,), np.float32, fill_value=np.float32(0.5))
    assert type(space.fill_value) is float
    assert space.fill_value == 0.5


@given(st.lists(st.sampled_from("abcdef"), unique=True))
def test_order_of_keys(keys: list[str]) -> None:
    pairs = [(key, BOX) for key in keys]
    assert list(DictSpace(B, pairs)) == keys
    assert list(DictSpace(B, dict(pairs))) == sorted(keys)
    assert DictSpace(B, pairs) == DictSpace(B, dict(pairs))
    assert hash(DictSpace(B, pairs)) == hash(DictSpace(B, dict(pairs)))
    assert list(drawn(DictSpace(B, pairs))[0]) == keys
