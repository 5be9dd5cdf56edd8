"""Flat arrays of samples, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.backends import deserialize_dtype
from unienv_interface.errors import SpaceMismatchError
from unienv_interface.space import (
    BatchedSpace,
    BinarySpace,
    BoxSpace,
    DictSpace,
    DynamicBoxSpace,
    TextSpace,
    TupleSpace,
    UnionSpace,
    batch_utils,
)
from unienv_interface.space import flatten_utils as sfu
from unienv_interface.testing import BACKENDS, boxes, drawn, load_backend, same, spaces, various

BOX = BoxSpace(B, -1, 1, np.float32, shape=(2,))
FLAT = [
    "box",
    "scalar",
    "empty",
    "rows",
    "dynamic",
    "binary",
    "text",
    "dict",
    "tuple",
    "union",
    "mixed",
]
BATCHES = ["box", "scalar", "empty", "rows", "binary", "dict", "tuple"]


@pytest.mark.parametrize("name", BACKENDS)
def test_boxes(name: str) -> None:
    for box in boxes(load_backend(name)):
        (value,) = drawn(box)
        flat = sfu.flatten_data(box, value)
        assert flat.dtype == box.dtype
        assert sfu.flatten_space(box).contains(flat)
        assert same(sfu.unflatten_data(box, flat), value)


@pytest.mark.parametrize("kind", FLAT)
@pytest.mark.parametrize("name", BACKENDS)
def test_round_trip(name: str, kind: str) -> None:
    space = various(load_backend(name))[kind]
    flat_space = sfu.flatten_space(space)
    assert sfu.is_flattenable(space)
    assert flat_space.shape == (sfu.flat_dim(space),)
    for value in drawn(space, 3, 5):
        flat = sfu.flatten_data(space, value)
        assert flat_space.contains(flat)
        assert same(sfu.unflatten_data(space, flat), value)


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("name", BACKENDS)
def test_batches(name: str, kind: str) -> None:
    space = various(load_backend(name))[kind]
    batched = batch_utils.batch_space(space, 4)
    samples = drawn(space, 0, 4)
    batch = batch_utils.concatenate(space, samples)
    flat = sfu.flatten_data(batched, batch, start_dim=1)
    assert tuple(flat.shape) == (4, sfu.flat_dim(batched, 1))
    assert sfu.flat_dim(batched, 1) == sfu.flat_dim(space)
    assert sfu.flatten_space(batched, 1).contains(flat)
    assert same(sfu.unflatten_data(batched, flat, 1), batch)
    for row, sample in enumerate(samples):
        assert same(flat[row], sfu.flatten_data(space, sample))


def test_exact_values() -> None:
    space = DictSpace(B, [("b", BinarySpace(B, (2,))), ("a", BOX)])
    value = {"a": np.array([0.5, -0.5], np.float32), "b": np.array([True, False])}
    flat = sfu.flatten_data(space, value)
    assert flat.tolist() == [0.5, -0.5, 1, 0]  # sorted keys
    assert flat.dtype == np.float64
    flat_space = sfu.flatten_space(space)
    assert flat_space.low.tolist() == [-1, -1, 0, 0]
    assert flat_space.high.tolist() == [1, 1, 1, 1]
    assert list(sfu.unflatten_data(space, flat)) == ["b", "a"]
    pair = TupleSpace(B, [BinarySpace(B, ()), BOX])
    assert sfu.flatten_data(pair, (np.array(True), value["a"])).tolist() == [1, 0.5, -0.5]


def test_text() -> None:
    space = TextSpace(B, 3, charset="ba")
    assert sfu.flatten_data(space, "ba").tolist() == [1, 0, 2]
    assert sfu.unflatten_data(space, np.array([1, 0, 2])) == "ba"
    assert sfu.flatten_space(space).high.tolist() == [2, 2, 2]
    assert sfu.flat_dim(space, 1) is None
    for text in ("abab", "c"):
        with pytest.raises(SpaceMismatchError):
            sfu.flatten_data(space, text)


def test_union() -> None:
    space = UnionSpace(B, [BinarySpace(B, ()), BOX])
    flat = sfu.flatten_data(space, (0, np.array(True)))
    assert flat.tolist() == [0, 1, 0]
    assert flat.dtype == np.float64
    assert sfu.flatten_data(space, (1, np.ones(2, np.float32))).tolist() == [1, 1, 1]
    assert sfu.flatten_space(space).low.tolist() == [0, -1, -1]


@pytest.mark.parametrize(
    ("space", "start"),
    [
        (TextSpace(B, 3), 0),
        (TextSpace(B, 3, charset="a"), 1),
        (BatchedSpace(TextSpace(B, 3, charset="a"), (2,)), 1),
        (UnionSpace(B, [BOX]), 1),
        (UnionSpace(B, [TextSpace(B, 3)]), 0),
        (DictSpace(B, {"t": TextSpace(B, 3)}), 0),
        (DictSpace(B, {"u": UnionSpace(B, [BOX])}), 1),
        (BOX, 2),
        (DynamicBoxSpace(B, 0, 1, (1,), (2,), float), 2),
        (various(B)["graph"], 0),
    ],
)
def test_not_flattenable(space: Any, start: int) -> None:
    assert sfu.flat_dim(space, start) is None
    assert not sfu.is_flattenable(space, start)
    with pytest.raises(NotImplementedError):
        sfu.flatten_space(space, start)
    with pytest.raises(NotImplementedError):
        sfu.flatten_data(space, drawn(space)[0], start)
    if not isinstance(space, (BoxSpace, DynamicBoxSpace)):
        with pytest.raises(NotImplementedError):
            sfu.unflatten_data(space, np.zeros((2, 5)), start)


@pytest.mark.parametrize("space", [DictSpace(B), TupleSpace(B, [])])
def test_nothing_to_flatten(space: Any) -> None:
    assert sfu.flat_dim(space) == 0
    (value,) = drawn(space)
    flat = sfu.flatten_data(space, value)
    assert sfu.flatten_space(space).contains(flat)
    assert sfu.unflatten_data(space, flat) == value


@pytest.mark.parametrize("name", BACKENDS)
def test_no_aliases(name: str) -> None:
    backend = load_backend(name)
    for kind in ("box", "scalar", "dict", "tuple"):
        space = various(backend)[kind]
        (value,) = drawn(space)
        flat = sfu.flatten_data(space, value)
        back = sfu.unflatten_data(space, flat)
        again = sfu.unflatten_data(space, flat)
        if name != "jax":  # whose arrays cannot change
            flat[...] = 0
        assert same(back, again)


def _exact(space: Any) -> bool:
    """Whether promotion to a common dtype keeps the values."""
    if isinstance(space, (DictSpace, TupleSpace)):
        children = list(space.spaces.values()) if isinstance(space, DictSpace) else space.spaces
        return all(map(_exact, children))
    return not isinstance(space, BoxSpace) or np.dtype(space.dtype).name not in ("int64", "uint64")


@given(spaces().filter(_exact), st.integers(0, 2**31))
def test_trees(space: Any, seed: int) -> None:
    (value,) = drawn(space, seed)
    flat = sfu.flatten_data(space, value)
    assert tuple(flat.shape) == (sfu.flat_dim(space),)
    assert sfu.flatten_space(space).contains(flat)
    assert same(sfu.unflatten_data(space, flat), value)


@given(spaces(texts=False).filter(_exact), st.integers(1, 3), st.integers(0, 2**31))
def test_batched_trees(space: Any, count: int, seed: int) -> None:
    batched = batch_utils.batch_space(space, count)
    if sfu.flat_dim(batched, 1) is None or batch_utils.batch_size(batched) is None:
        return
    value = batch_utils.concatenate(space, drawn(space, seed, count))
    flat = sfu.flatten_data(batched, value, 1)
    assert same(sfu.unflatten_data(batched, flat, 1), value)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8"])
def test_integer_limits_survive_a_common_float(name: str, kind: str) -> None:
    """The limits are rounded up to floats beyond the dtype."""
    backend = load_backend(name)
    if name == "jax" and kind == "int64":
        pytest.skip("jax without its 64-bit mode")
    limits = np.iinfo(kind)
    numbers = BoxSpace(backend, -np.inf, np.inf, deserialize_dtype(backend, kind), shape=(3,))
    floats = BoxSpace(backend, 0, 1, deserialize_dtype(backend, "float32"), shape=())
    space = TupleSpace(backend, [numbers, floats])
    value = (
        backend.from_numpy(np.array([limits.min, 0, limits.max], kind)),
        backend.from_numpy(np.array(0.5, np.float32)),
    )
    flat = sfu.flatten_data(space, value)
    assert backend.dtype_is_real_floating(flat.dtype)
    assert same(sfu.unflatten_data(space, flat), value)


def test_wide_integers_alone_keep_every_bit() -> None:
    for kind in (np.int64, np.uint64):
        limits = np.iinfo(kind)
        space = DictSpace(B, {"a": BoxSpace(B, -np.inf, np.inf, kind, shape=(2,))})
        value = {"a": np.array([limits.max - 1, limits.min + 1], kind)}
        assert same(sfu.unflatten_data(space, sfu.flatten_data(space, value)), value)


@given(
    st.sets(st.characters(), min_size=1, max_size=5).flatmap(
        lambda charset: st.tuples(
            st.just(charset), st.text(st.sampled_from(sorted(charset)), max_size=6)
        )
    )
)
def test_any_text(case: tuple[set[str], str]) -> None:
    charset, text = case
    space = TextSpace(B, 6, charset=charset)
    flat = sfu.flatten_data(space, text)
    expected = [sorted(charset).index(c) for c in text] + [len(charset)] * (6 - len(text))
    assert flat.tolist() == expected
    assert flat.dtype == np.dtype(int)
    assert sfu.unflatten_data(space, flat) == text


def test_data_that_is_no_array() -> None:
    assert sfu.flatten_data(BOX, [0.0, 1.0]).tolist() == [0, 1]
    assert sfu.flatten_data(BinarySpace(B, (2,)), [True, False]).tolist() == [1, 0]


def test_keys_without_an_order() -> None:
    mixed: Any = {"b": BOX, 1: BOX}
    space = DictSpace(B, mixed)
    value: Any = {"b": np.zeros(2, np.float32), 1: np.ones(2, np.float32)}
    flat = sfu.flatten_data(space, value)
    assert flat.tolist() == [0, 0, 1, 1]
    assert same(sfu.unflatten_data(space, flat), value)


def test_bounds_of_flat_spaces() -> None:
    uneven = BoxSpace(B, np.array([[0], [1]]), np.array([[2], [3]]), np.int8, shape=(2, 2))
    space = DictSpace(B, {"t": TextSpace(B, 2, charset="abc"), "n": uneven})
    flat = sfu.flatten_space(space)
    assert flat.low.tolist() == [0, 0, 1, 1, 0, 0]
    assert flat.high.tolist() == [2, 2, 3, 3, 3, 3]
    assert flat.dtype == np.int64
    batch = sfu.flatten_space(batch_utils.batch_space(DictSpace(B, {"n": uneven}), 3), 1)
    assert batch.shape == (3, 4)
    assert batch.high.tolist() == [[2, 2, 3, 3]] * 3


@pytest.mark.parametrize("start", [0, 1])
def test_unflattened_data_is_never_a_view(start: int) -> None:
    space = DictSpace(B, {"a": BOX, "b": BinarySpace(B, (2,)), "c": TupleSpace(B, [BOX])})
    if start:
        space = batch_utils.batch_space(space, 3)
    (value,) = drawn(space)
    flat = sfu.flatten_data(space, value, start)
    back = sfu.unflatten_data(space, flat, start)
    leaves = [back["a"], back["b"], back["c"][0]]
    assert not any(np.shares_memory(leaf, flat) for leaf in leaves)
    assert all(leaf.flags.writeable for leaf in leaves)
    one = sfu.unflatten_data(BOX, np.zeros(2, np.float32)[::-1])
    assert one.flags.writeable
