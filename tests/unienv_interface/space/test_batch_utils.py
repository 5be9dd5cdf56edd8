"""Batches of every kind of space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.errors import SpaceError
from unienv_interface.space import (
    BatchedSpace,
    BinarySpace,
    BoxSpace,
    DictSpace,
    DynamicBoxSpace,
    GraphSpace,
    TextSpace,
    TupleSpace,
    UnionSpace,
)
from unienv_interface.space import batch_utils as sbu
from unienv_interface.testing import BACKENDS, KINDS, drawn, load_backend, same, spaces, various

BOX = BoxSpace(B, -1, 1, np.float32, shape=(2,))
TEXT = TextSpace(B, 3)
UNION = UnionSpace(B, [BinarySpace(B, ()), BOX])


def test_names() -> None:
    assert sorted(sbu.__all__) == sbu.__all__
    for name in sbu.__all__:
        assert callable(getattr(sbu, name))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BACKENDS)
def test_rows_come_back(name: str, kind: str) -> None:
    space = various(load_backend(name))[kind]
    samples = drawn(space, 2, 3)
    batch = sbu.concatenate(space, samples)
    batched = sbu.batch_space(space, 3)
    assert batched.contains(batch) or kind == "dynamic"  # padded to the longest of these three
    assert sbu.batch_size_data(batch) == 3
    assert sbu.batch_size(batched) == 3
    for row, sample in enumerate(samples):
        assert same(sbu.get_at(batched, batch, row), sample)
    assert same(list(sbu.iterate(batched, batch)), samples)
    assert len(list(sbu.unbatch_spaces(batched))) == 3
    assert all(one == space for one in sbu.unbatch_spaces(batched))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BACKENDS)
def test_rows_are_replaced(name: str, kind: str) -> None:
    space = various(load_backend(name))[kind]
    *samples, new, newer = drawn(space, 4, 5)
    batched = sbu.batch_space(space, 3)
    batch = sbu.concatenate(space, samples)
    changed = sbu.set_at(batched, batch, 1, new)
    rows = list(sbu.iterate(batched, changed))
    assert same(rows, [samples[0], new, samples[2]])
    two = sbu.concatenate(space, [newer, new])
    changed = sbu.set_at(batched, changed, slice(0, 2), two)
    rows = list(sbu.iterate(batched, changed))
    assert same(rows, [newer, new, samples[2]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "index", [slice(None), slice(0, 0), slice(None, None, 2), ..., np.array([2, 0, 0]), [1]]
)
def test_several_rows(kind: str, index: Any) -> None:
    space = various(B)[kind]
    samples = drawn(space, 2, 3)
    batch = sbu.concatenate(space, samples)
    batched = sbu.batch_space(space, 3)
    chosen = sbu.get_at(batched, batch, index)
    numbers = np.arange(3)[index]
    assert sbu.batch_size_data(chosen) == len(numbers)
    rows = list(sbu.iterate(batched, chosen))
    assert same(rows, [samples[n] for n in numbers])


@pytest.mark.parametrize("name", BACKENDS)
def test_masks_of_the_backend(name: str) -> None:
    backend = load_backend(name)
    space = various(backend)["mixed"]
    samples = drawn(space, 0, 3)
    batch = sbu.concatenate(space, samples)
    mask = backend.from_numpy(np.array([True, False, True]))
    chosen = sbu.get_at(sbu.batch_space(space, 3), batch, mask)
    rows = list(sbu.iterate(space, chosen))
    assert same(rows, [samples[0], samples[2]])


def test_batch_space() -> None:
    batched = sbu.batch_space(BOX.with_metadata(a=1), 4)
    assert batched.shape == (4, 2)
    assert batched._low.shape == (1, 1)
    assert batched.metadata == {"a": 1}
    assert sbu.batch_space(BOX) == BoxSpace(B, -1, 1, np.float32, shape=(1, 2))
    text = sbu.batch_space(TEXT, 4)
    assert text == BatchedSpace(TEXT, (4,))
    assert sbu.batch_space(text, 2) == BatchedSpace(TEXT, (2, 4))
    assert sbu.batch_space(UNION, 2) == BatchedSpace(UNION, (2,))
    tree = DictSpace(B, {"a": BOX, "t": TupleSpace(B, [TEXT])})
    expected = DictSpace(
        B, {"a": sbu.batch_space(BOX, 3), "t": TupleSpace(B, [sbu.batch_space(TEXT, 3)])}
    )
    assert sbu.batch_space(tree, 3) == expected
    with pytest.raises(TypeError):
        sbu.batch_space("space")


def test_batch_size() -> None:
    assert sbu.batch_size(BOX) == 2
    assert sbu.batch_size(BoxSpace(B, 0, 1, float)) is None
    assert sbu.batch_size(TEXT) is None
    assert sbu.batch_size(UNION) is None
    assert sbu.batch_size(DictSpace(B)) is None
    assert sbu.batch_size(DynamicBoxSpace(B, 0, 1, (1,), (2,), float)) is None
    assert sbu.batch_size(GraphSpace(B, BOX)) is None


def test_batch_size_of_data() -> None:
    assert sbu.batch_size_data(np.zeros((3, 2))) == 3
    assert sbu.batch_size_data([np.zeros(3)]) == 3
    assert sbu.batch_size_data({"a": {}, "b": (np.zeros(4),)}) == 4
    assert sbu.batch_size_data(np.array(0)) is None
    assert sbu.batch_size_data({}) is None
    for scalar in (1, 1.0, "abc", None, np.float32(1), {"a": 1}):
        with pytest.raises(TypeError):
            sbu.batch_size_data(scalar)


def test_scalars_stay_arrays() -> None:
    space = BoxSpace(B, 0, 9, np.int64, shape=())
    batched = sbu.batch_space(space, 3)
    for one in (sbu.get_at(batched, np.arange(3), 1), *sbu.iterate(space, np.arange(3))):
        assert isinstance(one, np.ndarray)
        assert one.shape == ()
    assert sbu.get_at(sbu.batch_space(TEXT, 2), np.array(["a", "b"], object), 1) == "b"


def test_set_at() -> None:
    data = np.zeros((3, 2), np.float32)
    assert sbu.set_at(sbu.batch_space(BOX, 3), data, 1, np.ones(2, np.float32)) is data
    assert data.tolist() == [[0, 0], [1, 1], [0, 0]]
    tree = sbu.batch_space(DictSpace(B, {"a": BOX, "b": BinarySpace(B, ())}), 2)
    whole = {"a": np.zeros((2, 2), np.float32), "b": np.zeros(2, bool)}
    changed = sbu.set_at(tree, whole, 0, 1)
    assert changed["a"].tolist() == [[1, 1], [0, 0]]
    assert changed["b"].tolist() == [True, False]
    texts = np.array(["a", "b"], object)
    changed = sbu.set_at(sbu.batch_space(TEXT, 2), texts, 0, "c")
    assert changed.tolist() == ["c", "b"]
    assert texts.tolist() == ["a", "b"]


def test_set_unions() -> None:
    batched = sbu.batch_space(UNION, 3)
    a, b = (0, np.array(True)), (1, np.ones(2, np.float32))
    data = sbu.concatenate(UNION, [a, a, a])
    assert same(sbu.set_at(batched, data, 1, b).tolist(), [a, b, a])
    assert same(sbu.set_at(batched, data, slice(1, 3), [b, a]).tolist(), [a, b, a])
    assert same(sbu.set_at(batched, data, np.array([0, 2]), b).tolist(), [b, a, b])


def test_stacking() -> None:
    assert sbu.concatenate(BOX, [np.zeros(2), np.ones(2)], axis=1).tolist() == [[0, 1], [0, 1]]
    assert sbu.concatenate(BOX, iter([np.zeros(2)])).shape == (1, 2)
    empty = sbu.concatenate(BOX, [])
    assert empty.shape == (0, 2)
    assert empty.dtype == np.float32
    assert sbu.concatenate(TEXT, []).shape == (0,)
    assert sbu.concatenate(sbu.batch_space(TEXT, 2), []).shape == (0, 2)
    numbers = sbu.concatenate(BoxSpace(B, 0, 9, np.int64), [np.int64(1), np.int64(2)])
    assert numbers.tolist() == [1, 2]


def test_differing() -> None:
    other = BoxSpace(B, -2, 3, np.float32, shape=(2,), metadata={"a": 1})
    both = sbu.batch_differing_spaces([BOX.with_metadata(a=1), other])
    assert both.low.tolist() == [[-1, -1], [-2, -2]]
    assert both.high.tolist() == [[1, 1], [3, 3]]
    assert both.metadata == {"a": 1}
    assert list(sbu.unbatch_spaces(both)) == [BOX, other]
    trees = [DictSpace(B, {"k": TupleSpace(B, [box, TEXT])}) for box in (BOX, other)]
    assert list(sbu.unbatch_spaces(sbu.batch_differing_spaces(trees))) == trees
    dynamic = [DynamicBoxSpace(B, -n, n, (1,), (3,), np.float32) for n in (1, 2)]
    assert list(sbu.unbatch_spaces(sbu.batch_differing_spaces(dynamic))) == dynamic
    for wrong in (
        [],
        [BOX, TEXT],
        [BOX, BoxSpace(B, -1, 1, np.float32, shape=(3,))],
        [BOX, BoxSpace(B, -1, 1, np.float64, shape=(2,))],
        [TEXT, TextSpace(B, 4)],
        [DictSpace(B, {"a": BOX}), DictSpace(B, {"b": BOX})],
        [TupleSpace(B, [BOX]), TupleSpace(B, [])],
    ):
        with pytest.raises(SpaceError):
            sbu.batch_differing_spaces(wrong)


def test_what_has_no_rows() -> None:
    with pytest.raises(TypeError):
        list(sbu.unbatch_spaces(TEXT))
    with pytest.raises(SpaceError):
        list(sbu.iterate(BoxSpace(B, 0, 1, float), np.array(1.0)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BACKENDS)
def test_reshape(name: str, kind: str) -> None:
    backend = load_backend(name)
    space = various(backend)[kind]
    four = sbu.batch_space(space, 4)
    square = sbu.reshape_batch_size(four, (4,), (2, 2))
    assert square == sbu.batch_space(sbu.batch_space(space, 2), 2)
    assert sbu.reshape_batch_size(square, (2, 2), (4,)) == four
    if kind in {"union", "mixed"}:
        return
    data = sbu.concatenate(space, drawn(space, 0, 4))
    shaped = sbu.reshape_batch_size_in_data(backend, data, (4,), (2, 2))
    assert square.contains(shaped) or kind == "dynamic"
    assert same(sbu.reshape_batch_size_in_data(backend, shaped, (2, 2), (4,)), data)


def test_reshape_keeps_uneven_bounds() -> None:
    rows = BoxSpace(B, np.arange(4.0)[:, None], 9, np.float32, shape=(4, 3))
    square = sbu.reshape_batch_size(rows, (4,), (2, 2))
    assert square._low.shape == (2, 2, 1)
    assert square.low[..., 0].tolist() == [[0, 1], [2, 3]]
    assert sbu.swap_batch_dims(square, 0, 1).low[..., 0].tolist() == [[0, 2], [1, 3]]


def test_reshape_refused_and_none() -> None:
    assert sbu.reshape_batch_size(None, (4,), (2, 2)) is None
    assert sbu.reshape_batch_size_in_data(B, None, (4,), (2, 2)) is None
    assert sbu.swap_batch_dims(None, 0, 1) is None
    assert sbu.swap_batch_dims_in_data(B, None, 0, 1) is None
    four = sbu.batch_space(BOX, 4)
    for old, new in (((4,), (2,)), ((2,), (2,)), ((4, 3), (12,))):
        with pytest.raises(SpaceError):
            sbu.reshape_batch_size(four, old, new)
    with pytest.raises(AssertionError):
        sbu.reshape_batch_size_in_data(B, np.zeros((4, 2)), (3,), (3,))
    with pytest.raises(TypeError):
        sbu.reshape_batch_size(UNION, (4,), (2, 2))
    with pytest.raises(SpaceError):
        sbu.swap_batch_dims(BOX, 0, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BACKENDS)
def test_swap(name: str, kind: str) -> None:
    backend = load_backend(name)
    space = various(backend)[kind]
    wide = sbu.batch_space(sbu.batch_space(space, 3), 2)
    tall = sbu.batch_space(sbu.batch_space(space, 2), 3)
    assert sbu.swap_batch_dims(wide, 0, 1) == tall
    if kind in {"union", "mixed"}:
        return
    data = wide.sample(backend.random.random_number_generator(0))[1]
    swapped = sbu.swap_batch_dims_in_data(backend, data, 0, 1)
    assert tall.contains(swapped)
    assert same(sbu.swap_batch_dims_in_data(backend, swapped, 0, 1), data)


@given(spaces(), st.integers(1, 4), st.integers(0, 2**31), st.data())
def test_trees(space: Any, count: int, seed: int, data: st.DataObject) -> None:
    samples = drawn(space, seed, count)
    batched = sbu.batch_space(space, count)
    batch = sbu.concatenate(space, samples)
    assert batched.contains(batch)
    assert all(one == space for one in sbu.unbatch_spaces(batched)) if _has_leaves(space) else True
    row = data.draw(st.integers(-count, count - 1))
    assert same(sbu.get_at(batched, batch, row), samples[row])
    (new,) = drawn(space, seed + 1)
    assert same(sbu.get_at(batched, sbu.set_at(batched, batch, row, new), row), new)


def _has_leaves(space: Any) -> bool:
    return sbu.batch_size(sbu.batch_space(space, 1)) is not None
