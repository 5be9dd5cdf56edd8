from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unienv_data.base.views import SubIndexedBatch, SubItemBatch
from unienv_data.errors import MissingColumnError, ReadOnlyError
from unienv_data.testing.batches import ArrayBatch, numbered
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BoxSpace, DictSpace

CHOICES: list[Any] = [
    slice(2, 7),
    slice(8, 1, -3),
    slice(0, 0),
    ...,
    np.array([5, 0, 5, -1]),
    [1, 2],
    np.arange(9) % 2 == 0,
    4,
]
INDEXES: list[Any] = [0, -1, slice(1, None), slice(None, None, -1), ..., [0, 0], []]


@pytest.mark.parametrize("choice", CHOICES, ids=repr)
@pytest.mark.parametrize("index", INDEXES, ids=repr)
def test_a_view_has_an_index_space_of_its_own(choice: Any, index: Any) -> None:
    view: Any = numbered(100, 9).get_slice(choice)
    chosen = np.atleast_1d(np.arange(100, 109)[choice])
    assert len(view) == len(chosen)
    try:
        expected = chosen[index if index != [] else np.array([], dtype=int)]
    except IndexError:
        for read in (view.get_at, view.get_at_with_metadata, view.get_flattened_at):
            with pytest.raises(IndexError):
                read(index)
        return
    assert view.get_at(index)["x"][..., 0].tolist() == expected.tolist()
    data, metadata = view.get_at_with_metadata(index)
    assert data["x"][..., 0].tolist() == metadata["id"].tolist() == expected.tolist()
    flat, metadata = view.get_flattened_at_with_metadata(index)
    assert flat[..., 1].tolist() == metadata["id"].tolist() == expected.tolist()
    assert view.get_flattened_at(index)[..., 1].tolist() == expected.tolist()


def test_positions_of_the_parent_do_not_show() -> None:
    view = numbered(0, 9).get_slice([7, 8])
    for index in (2, 7, -3, [0, 2], np.ones(9, dtype=bool)):
        with pytest.raises(IndexError):
            view.get_at(index)


def test_a_view_of_a_view() -> None:
    view: Any = numbered(0, 9).get_slice(np.arange(9) % 2 == 1).get_slice(slice(1, 3))
    assert view.get_at(...)["x"][:, 0].tolist() == [3, 5]


@pytest.mark.parametrize("choice", [slice(2, 6), [2, 3, 4, 5]], ids=repr)
def test_writing_reaches_the_parent(choice: Any) -> None:
    batch: Any = numbered(0, 9)
    view: Any = SubIndexedBatch(batch, choice)
    assert view.is_mutable
    view.set_at([1, 0], numbered(50, 2).data)
    view.set_flattened_at(-1, np.array([1.0, 7.0, 7.0]))
    assert batch.data["x"][:, 0].tolist() == [0, 1, 51, 50, 4, 7, 6, 7, 8]
    with pytest.raises(RuntimeError):
        view.extend(numbered(0, 1).data)
    with pytest.raises(NotImplementedError):
        view.remove_at(0)
    assert len(batch) == 9


@pytest.mark.parametrize("choice", [9, -10, [0, 9], np.ones(8, dtype=bool)])
def test_choosing_what_is_not_there(choice: Any) -> None:
    with pytest.raises(IndexError):
        numbered(0, 9).get_slice(choice)


def test_an_entry_of_every_sample() -> None:
    assert isinstance(numbered(0, 9).get_column("x"), SubItemBatch)
    column: Any = numbered(0, 9).get_column("x")
    assert len(column) == 9
    assert not column.is_mutable
    assert column.single_space.shape == (2,)
    assert column.get_at(3).tolist() == [3, -3]
    assert column.get_at([3, 1])[:, 0].tolist() == [3, 1]
    data, metadata = column.get_at_with_metadata([3])
    assert data.tolist() == [[3, -3]]
    assert metadata["id"].tolist() == [3]
    assert column.get_flattened_at([3]).tolist() == [[3, -3]]
    with pytest.raises(ReadOnlyError):
        column.set_at(0, np.zeros(2))


def test_nested_entries() -> None:
    inner = DictSpace(B, {"y": BoxSpace(B, 0, 9, np.int64, shape=())})
    batch: Any = ArrayBatch(DictSpace(B, {"in": inner}), {"in": {"y": np.arange(4)}})
    assert batch.get_column(["in", "y"]).get_at([3, 1]).tolist() == [3, 1]
    assert batch.get_column("in").get_column("y").get_at(2) == 2
    assert list(batch.get_column(["in"]).get_at([1])) == ["y"]


@pytest.mark.parametrize("keys", ["missing", ["x", "deeper"], ["x", "0"]])
def test_entries_that_are_not_there(keys: Any) -> None:
    with pytest.raises(MissingColumnError) as caught:
        numbered(0, 3).get_column(keys)
    assert isinstance(caught.value, KeyError)
