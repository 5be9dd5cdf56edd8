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


def _texts() -> Any:
    return np.array([["a", "b"], ["c", "d"]], object)


@pytest.mark.parametrize(
    ("index", "value", "expected"),
    [
        (0, ["x", "y"], [["x", "y"], ["c", "d"]]),
        (0, ("x", "y"), [["x", "y"], ["c", "d"]]),
        (-1, np.array(["x", "y"], object), [["a", "b"], ["x", "y"]]),
        (1, "q", [["a", "b"], ["q", "q"]]),
        ((0, 1), "q", [["a", "q"], ["c", "d"]]),
        (slice(None), [["x", "y"], ["z", "w"]], [["x", "y"], ["z", "w"]]),
        (np.array([False, True]), [["x", "y"]], [["a", "b"], ["x", "y"]]),
        (np.array([1, 0]), [["x", "y"], ["z", "w"]], [["z", "w"], ["x", "y"]]),
        (..., "q", [["q", "q"], ["q", "q"]]),
    ],
)
def test_set_texts_of_two_axes(index: Any, value: Any, expected: Any) -> None:
    space = sbu.batch_space(sbu.batch_space(TEXT, 2), 2)
    data = _texts()
    changed = sbu.set_at(space, data, index, value)
    assert changed.tolist() == expected
    assert space.contains(changed)
    assert data.tolist() == _texts().tolist()


def test_set_texts_of_one_axis() -> None:
    space, data = sbu.batch_space(TEXT, 2), np.array(["a", "b"], object)
    for value in (["x", "y"], ("x", "y"), np.array(["x", "y"])):
        changed = sbu.set_at(space, data, slice(None), value)
        assert changed.tolist() == ["x", "y"]
        assert all(type(text) is str for text in changed)
    assert sbu.set_at(space, data, np.array(1), "z").tolist() == ["a", "z"]


def test_set_a_row_of_unions() -> None:
    space = sbu.batch_space(sbu.batch_space(UNION, 2), 2)
    a, b = (0, np.array(True)), (1, np.ones(2, np.float32))
    data = np.empty((2, 2), object)
    for position in np.ndindex(2, 2):
        data[position] = a
    changed = sbu.set_at(space, data, 0, [a, b])
    assert same(changed[0].tolist(), [a, b])
    assert same(changed[1].tolist(), [a, a])
    assert same(sbu.set_at(space, data, (1, 0), b)[1].tolist(), [b, a])


def test_differing_keeps_common_metadata_and_takes_the_device() -> None:
    flags = [BinarySpace(B, (), metadata={"a": n}) for n in (1, 2)]
    for spaces_ in (flags, [TEXT.with_metadata(a=n) for n in (1, 2)]):
        both = sbu.batch_differing_spaces(spaces_, device="cpu")
        assert both.metadata == {}
        assert both.device == "cpu"
    again = sbu.batch_differing_spaces([flags[0], flags[0]])
    assert again.metadata == {"a": 1}
    assert again.device is None
    tree = [DictSpace(B, {"f": flags[0], "x": BOX})] * 2
    assert sbu.batch_differing_spaces(tree, device="cpu")["f"].device == "cpu"


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (0, 0),
        (-1, 2),
        (np.int64(1), 1),
        (np.array(1), 1),
        (slice(1, None), [1, 2]),
        (slice(None, None, -1), [2, 1, 0]),
        (slice(5, 9), []),
        (..., [0, 1, 2]),
        ([2, 0], [2, 0]),
        ([], []),
        (np.array([], np.int64), []),
        (np.array([0, -1, 0]), [0, 2, 0]),
        (np.array([True, False, True]), [0, 2]),
        ([False, True, False], [1]),
        (np.zeros(3, bool), []),
    ],
)
def test_every_kind_of_index(index: Any, rows: Any) -> None:
    space = DictSpace(B, {"n": BoxSpace(B, 0, 99, np.int64, shape=()), "p": BOX, "t": TEXT})
    batched = sbu.batch_space(space, 3)

    def batch() -> dict[str, Any]:
        return {
            "n": np.array([10, 11, 12]),
            "p": np.arange(6, dtype=np.float32).reshape(3, 2),
            "t": np.array(["a", "b", "c"], object),
        }

    data = batch()
    part = sbu.get_at(batched, data, index)
    numbers, texts = [10, 11, 12], ["a", "b", "c"]
    if isinstance(rows, int):
        assert (int(part["n"]), part["t"]) == (numbers[rows], texts[rows])
        assert space.spaces["n"].contains(part["n"])
        assert part["p"].tolist() == [2 * rows, 2 * rows + 1]
    else:
        assert part["n"].tolist() == [numbers[row] for row in rows]
        assert part["t"].tolist() == [texts[row] for row in rows]
        assert part["p"].tolist() == [[2 * row, 2 * row + 1] for row in rows]
    changed = sbu.set_at(batched, batch(), index, part)
    assert same(changed, batch())
    cleared = sbu.set_at(batched["p"], batch()["p"], index, 0)
    chosen = np.atleast_1d(rows).astype(int).tolist()
    expected = batch()["p"]
    expected[chosen] = 0
    assert cleared.tolist() == expected.tolist()


@pytest.mark.parametrize("index", [3, -4, [0, 3], np.array([True, False])])
def test_rows_that_are_not_there(index: Any) -> None:
    with pytest.raises(IndexError):
        sbu.get_at(sbu.batch_space(BOX, 3), np.zeros((3, 2), np.float32), index)


def test_scalars_are_spread() -> None:
    pair = sbu.batch_space(TupleSpace(B, [BOX, BinarySpace(B, ())]), 2)
    zeros = (np.zeros((2, 2), np.float32), np.zeros(2, bool))
    for value in (1, np.float32(1), np.array(1)):
        numbers, flags = sbu.set_at(pair, (zeros[0].copy(), zeros[1].copy()), 1, value)
        assert numbers.tolist() == [[0, 0], [1, 1]]
        assert flags.tolist() == [False, True]
    dynamic = sbu.batch_space(DynamicBoxSpace(B, 0, 9, (1,), (3,), np.int64), 2)
    assert sbu.set_at(dynamic, np.zeros((2, 2), np.int64), 0, 7).tolist() == [[7, 7], [0, 0]]


def test_read_only_data_is_copied() -> None:
    data = np.zeros((2, 2), np.float32)
    data.flags.writeable = False
    changed = sbu.set_at(sbu.batch_space(BOX, 2), data, 0, 1)
    assert changed.tolist() == [[1, 1], [0, 0]]
    assert data.tolist() == [[0, 0], [0, 0]]


def test_none_passes_through_changes_of_axes() -> None:
    assert sbu.reshape_batch_size(None, (2,), (1, 2)) is None
    assert sbu.swap_batch_dims(None, 0, 1) is None
    assert sbu.reshape_batch_size_in_data(B, None, (2,), (1, 2)) is None
    assert sbu.swap_batch_dims_in_data(B, None, 0, 1) is None
    data = {"a": None, "b": [np.zeros((4, 1))]}
    assert sbu.reshape_batch_size_in_data(B, data, (4,), (2, 2))["b"][0].shape == (2, 2, 1)
    assert sbu.swap_batch_dims_in_data(B, data, 0, 1)["b"][0].shape == (1, 4)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_reshaped_data_belongs(lengths: list[int], uneven: bool, seed: int) -> None:
    old, new = tuple(lengths), (int(np.prod(lengths)),)
    low = np.arange(float(np.prod(old))).reshape(*old, 1) if uneven else 0.0
    space = BoxSpace(B, low, np.asarray(low) + 1, np.float64, shape=(*old, 2))
    (data,) = drawn(space, seed)
    flat = sbu.reshape_batch_size(space, old, new)
    moved = sbu.reshape_batch_size_in_data(B, data, old, new)
    assert flat.contains(moved)
    assert sbu.reshape_batch_size(flat, new, old) == space
    assert same(sbu.reshape_batch_size_in_data(B, moved, new, old), data)
    swapped = sbu.swap_batch_dims(space, 0, len(old))
    assert swapped.contains(sbu.swap_batch_dims_in_data(B, data, 0, len(old)))


@pytest.mark.parametrize(
    "operation",
    [
        lambda: sbu.get_at("space", np.zeros(2), 0),
        lambda: sbu.set_at("space", np.zeros(2), 0, 1),
        lambda: sbu.concatenate("space", []),
        lambda: sbu.reshape_batch_size("space", (1,), (1,)),
        lambda: list(sbu.unbatch_spaces(UNION)),
    ],
)
def test_what_is_no_batch(operation: Any) -> None:
    with pytest.raises(TypeError, match="not defined for"):
        operation()


def test_empty_batches() -> None:
    dynamic = DynamicBoxSpace(B, 0, 9, (1, 2), (3, 2), np.int8)
    empty = sbu.concatenate(dynamic, [])
    assert (empty.shape, empty.dtype) == ((0, 3, 2), np.int8)
    with pytest.raises(SpaceError, match="no graph"):
        sbu.concatenate(GraphSpace(B, BOX), [])
    tree = DictSpace(B, {"a": BOX, "t": TupleSpace(B, [TEXT])})
    whole = sbu.concatenate(tree, [])
    assert whole["a"].shape == (0, 2)
    assert whole["t"][0].shape == (0,)
    assert list(sbu.iterate(tree, whole)) == []


def test_elements_of_dynamic_boxes_stay_arrays() -> None:
    space = DynamicBoxSpace(B, 0, 9, (1,), (3,), np.int8)
    one = sbu.get_at(sbu.batch_space(space, 2), np.ones((2, 3), np.int8), (0, 1))
    assert isinstance(one, np.ndarray)
    assert one.shape == ()
