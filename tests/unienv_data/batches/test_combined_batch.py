from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from unienv_data.batches import CombinedBatch
from unienv_data.batches.combined_batch import (
    convert_index_to_batch,
    convert_single_index_to_batch,
)
from unienv_data.errors import ReadOnlyError, SampleError
from unienv_data.testing.batches import ArrayBatch, numbered
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import DictSpace, TextSpace

NUMBERS = np.array([0, 1, 2, 100, 101, 200])
OWNERS = np.array([0, 0, 0, 1, 1, 3])

INDEXES: list[Any] = [
    ...,
    slice(None),
    slice(2, 4),
    slice(0, 2),
    slice(None, None, -2),
    slice(4, 4),
    [5, 0, 4, 0],
    np.array([3, 4]),
    np.array([], dtype=np.int64),
    np.array([-1, -6]),
    NUMBERS % 2 == 0,
]


def parts() -> list[ArrayBatch]:
    return [numbered(0, 3), numbered(100, 2), numbered(0, 0), numbered(200, 1)]


@pytest.fixture(params=[False, True], ids=["plain", "threads"])
def combined(request: pytest.FixtureRequest) -> Any:
    batch: Any = CombinedBatch(parts(), use_thread_pool=request.param)
    yield batch
    batch.close()


@pytest.mark.parametrize("index", INDEXES, ids=repr)
def test_samples_come_in_the_order_asked_for(combined: Any, index: Any) -> None:
    rows = np.arange(6)[index if not isinstance(index, list) else np.array(index)]
    numbers = NUMBERS[rows]
    assert combined.get_at(index)["x"][:, 0].tolist() == numbers.tolist()
    data, metadata = combined.get_at_with_metadata(index)
    assert data["x"][:, 1].tolist() == (-numbers).tolist()
    assert data["x"].dtype == np.float32
    assert metadata["id"].tolist() == numbers.tolist()
    assert metadata["batch_index"].tolist() == OWNERS[rows].tolist()
    flat, again = combined.get_flattened_at_with_metadata(index)
    assert again["batch_index"].tolist() == OWNERS[rows].tolist()
    np.testing.assert_array_equal(combined.get_flattened_at(index), flat)
    np.testing.assert_array_equal(flat[:, 1], numbers)
    assert flat.shape == (len(rows), 3)


@pytest.mark.parametrize("index", [0, 2, 3, 5, -1, -6, np.int64(4)], ids=repr)
def test_single_samples(combined: Any, index: Any) -> None:
    data, metadata = combined.get_at_with_metadata(index)
    assert data["x"][0] == NUMBERS[index]
    assert metadata["batch_index"] == OWNERS[index]
    assert combined.single_metadata_space.contains(metadata)
    assert combined.single_space.contains(data)
    assert combined.get_flattened_at(index)[1] == NUMBERS[index]


@pytest.mark.parametrize("index", [6, -7, [0, 6]])
def test_positions_outside(combined: Any, index: Any) -> None:
    with pytest.raises(IndexError):
        combined.get_at(index)
    with pytest.raises(AssertionError):
        combined.get_at(index)


def test_texts_are_combined() -> None:
    space = DictSpace(B, {"t": TextSpace(B, 5)})
    batches = [
        ArrayBatch(space, {"t": np.array(texts, dtype=object)}) for texts in (["a", "b"], ["c"])
    ]
    combined: Any = CombinedBatch(batches)
    assert combined.get_at([2, 0, 1])["t"].tolist() == ["c", "a", "b"]


def test_writing_reaches_the_batches() -> None:
    batches = parts()
    combined: Any = CombinedBatch(batches)
    new = numbered(7, 3).data
    combined.set_at([4, 1, 5], new)
    assert batches[0].data["x"][:, 0].tolist() == [0, 8, 2]
    assert batches[1].data["x"][:, 0].tolist() == [100, 7]
    assert batches[3].data["x"][:, 0].tolist() == [9]
    combined.set_at(-1, numbered(50, 1).get_at(0))
    assert batches[3].data["x"][:, 0].tolist() == [50]
    combined.extend(numbered(60, 2).data)
    combined.append(numbered(62, 1).get_at(0))
    assert len(combined) == 9
    assert combined.get_at(slice(6, 9))["x"][:, 0].tolist() == [60, 61, 62]
    del combined[0]
    combined.remove_at([0, 2])
    assert combined.get_at(...)["x"][:, 0].tolist() == [2, 7, 50, 60, 61, 62]


def test_a_batch_of_another_length_is_refused() -> None:
    batches = parts()
    combined: Any = CombinedBatch(batches)
    with pytest.raises(SampleError):
        combined.set_at([0, 3], numbered(7, 3).data)
    assert combined.get_at(...)["x"][:, 0].tolist() == NUMBERS.tolist()


def test_read_only_parts() -> None:
    batches = parts()
    batches[1].is_mutable = False
    combined: Any = CombinedBatch(batches)
    assert not combined.is_mutable
    with pytest.raises(ReadOnlyError):
        combined.set_at([0, 3], numbered(7, 2).data)
    assert "set_at" not in batches[0].log


def test_a_column_reads_nothing_else(combined: Any) -> None:
    column = combined.get_column("x")
    assert isinstance(column, CombinedBatch)
    data, metadata = column.get_at_with_metadata([4, 0])
    assert data[:, 0].tolist() == [101, 0]
    assert metadata is not None
    assert metadata["batch_index"].tolist() == [1, 0]


def test_parts_without_metadata() -> None:
    batches = [numbered(0, 2, has_metadata=False), numbered(5, 1, has_metadata=False)]
    combined: Any = CombinedBatch(batches)
    assert list(combined.single_metadata_space.spaces) == ["batch_index"]
    assert list(combined.get_at_with_metadata(2)[1]) == ["batch_index"]
    assert combined.get_at_with_metadata([2, 0])[1]["batch_index"].tolist() == [1, 0]


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two(count: int) -> None:
    with pytest.raises(AssertionError):
        CombinedBatch(parts()[:count])


def test_batches_that_differ() -> None:
    with pytest.raises(AssertionError, match="single_space"):
        CombinedBatch([numbered(0, 2), numbered(0, 2).get_column("x")])
    with pytest.raises(AssertionError, match="metadata"):
        CombinedBatch([numbered(0, 2), numbered(0, 2, has_metadata=False)])


def test_devices() -> None:
    combined: Any = CombinedBatch([numbered(0, 2), numbered(5, 2)], device="cpu")
    assert combined.device == "cpu"
    assert combined.get_at([3, 0])["x"][:, 0].tolist() == [6, 0]


def test_closing_leaves_the_batches_open() -> None:
    batches = parts()
    combined: Any = CombinedBatch(batches, use_thread_pool=True)
    combined.get_at(...)
    combined.close()
    combined.close()
    assert all("close" not in batch.log for batch in batches)


def test_pickling() -> None:
    combined: Any = CombinedBatch(parts(), use_thread_pool=True)
    combined.get_at(...)
    copy = pickle.loads(pickle.dumps(combined))
    assert copy.get_at([5, 0])["x"][:, 0].tolist() == [200, 0]
    copy.close()
    combined.close()


def test_helpers() -> None:
    starts = np.array([0, 3, 5])
    assert convert_single_index_to_batch(B, starts, 6, 4) == (1, 1)
    assert convert_single_index_to_batch(B, starts, 6, -1) == (2, 0)
    assert convert_index_to_batch(B, starts, 6, 2) == (0, 2)
    count, shares = convert_index_to_batch(B, starts, 6, np.array([4, 0, 5]))
    assert count == 3
    assert isinstance(shares, list)
    assert [(batch, rows.tolist(), mask.tolist()) for batch, rows, mask in shares] == [
        (0, [0], [False, True, False]),
        (1, [1], [True, False, False]),
        (2, [0], [False, False, True]),
    ]
    assert convert_index_to_batch(B, starts, 6, slice(0, 0)) == (0, [])
    with pytest.raises(IndexError):
        convert_single_index_to_batch(B, starts, 6, 6)
    with pytest.raises(ValueError, match="one position"):
        convert_single_index_to_batch(B, starts, 6, [1])  # type: ignore[arg-type]
