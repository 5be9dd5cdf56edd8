"""Views of a buffer: an index space of their own, over any rows, one entry or all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.base.views import SubIndexedBatch, SubItemBatch
from unienv_data.errors import MissingColumnError, ReadOnlyError, RowIndexError
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.memory import MemoryStorage
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import DictSpace

SPACE = DictSpace(B, {"x": box("int64", ()), "y": box("float32", (2,))})
NESTED = DictSpace(B, {"a": DictSpace(B, {"b": box("int64", ())}), "c": box("int64", ())})
COUNT = 12


@pytest.fixture(params=["memory", "parquet", "ring"])
def buffer(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        made: Any = ReplayBuffer.create(MemoryStorage, SPACE)
    else:
        capacity = COUNT if request.param == "ring" else None
        made = ReplayBuffer.create(
            ParquetStorage, SPACE, cache_path=str(tmp_path / "b"), capacity=capacity, piece_size=4
        )
        if capacity is not None:
            made.extend({"x": np.full(5, -1), "y": np.zeros((5, 2), np.float32)})
    rows = np.arange(COUNT)
    made.extend({"x": rows, "y": np.repeat(rows[:, None], 2, axis=1).astype(np.float32)})
    yield made
    made.close()


@pytest.mark.parametrize(
    "chosen",
    [
        slice(3, 9),
        slice(None, None, 3),
        slice(None, None, -1),
        np.array([7, 1, 7, -1]),
        np.arange(COUNT) % 5 == 0,
        ...,
        4,
        [],
    ],
    ids=repr,
)
def test_a_view_counts_from_zero(buffer: Any, chosen: Any) -> None:
    index = np.array(chosen, dtype=np.int64) if isinstance(chosen, list) else chosen
    expected = np.atleast_1d(np.arange(COUNT)[index])
    view = buffer.get_slice(chosen)
    assert isinstance(view, SubIndexedBatch)
    assert len(view) == len(expected)
    assert view.get_at(...)["x"].tolist() == expected.tolist()
    for position in range(-len(expected), len(expected)):
        assert view[position]["x"] == expected[position]
    if len(expected):
        picks = np.array([0, -1, 0])
        assert view.get_at(picks)["y"][:, 1].tolist() == expected[picks].tolist()
        assert view.get_at(slice(None, None, 2))["x"].tolist() == expected[::2].tolist()
        mask = np.arange(len(expected)) % 2 == 0
        assert view.get_at(mask)["x"].tolist() == expected[mask].tolist()
        assert view.get_flattened_at(0).tolist() == [expected[0]] * 3
    for outside in (len(expected), -len(expected) - 1):
        with pytest.raises(RowIndexError):
            view.get_at(outside)


def test_views_of_views_and_writing_through_them(buffer: Any) -> None:
    view = buffer.get_slice(np.array([9, 2, 5])).get_slice(slice(1, None))
    assert view.get_at(...)["x"].tolist() == [2, 5]
    view.set_at(1, {"x": np.int64(50), "y": np.ones(2, np.float32)})
    assert buffer.get_at(5)["x"] == 50
    view[np.array([0])] = {"x": np.array([20]), "y": np.zeros((1, 2), np.float32)}
    assert buffer.get_at(2)["x"] == 20
    assert buffer.get_at(9)["x"] == 9


def test_a_view_keeps_its_rows_while_the_buffer_grows(tmp_path: Path) -> None:
    made: Any = ReplayBuffer.create(ParquetStorage, SPACE, cache_path=str(tmp_path / "b"))
    made.extend({"x": np.arange(4), "y": np.zeros((4, 2), np.float32)})
    view = made.get_slice([3, 1])
    made.extend({"x": np.arange(4, 9), "y": np.zeros((5, 2), np.float32)})
    assert view.get_at(...)["x"].tolist() == [3, 1]
    assert len(view) == 2
    made.close()


def test_one_entry_of_each_sample() -> None:
    made: Any = ReplayBuffer.create(MemoryStorage, NESTED)
    made.extend({"a": {"b": np.arange(3)}, "c": np.arange(3, 6)})
    item = SubItemBatch(made, ["a", "b"])
    assert len(item) == 3
    assert item.single_space == NESTED["a"]["b"]  # type: ignore[index]
    assert item.get_at([2, 0]).tolist() == [2, 0]
    assert item.get_at_with_metadata(1) == (1, None)
    assert made.get_column("c").get_at(...).tolist() == [3, 4, 5]
    for wrong in ("nope", ["a", "c"], ["c", "x"]):
        with pytest.raises(MissingColumnError):
            SubItemBatch(made, wrong)
    with pytest.raises(ReadOnlyError):
        item.set_at(0, np.int64(1))
    made.close()
