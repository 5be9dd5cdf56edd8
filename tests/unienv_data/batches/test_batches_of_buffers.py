"""Combined and stacked batches against the obvious way to compute them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unienv_data.batches import (
    CombinedBatch,
    FrameStackedBatch,
    SliceStackedBatch,
    ToBackendOrDeviceBatch,
    TransformedBatch,
)
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.memory import MemoryStorage
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, DictSpace
from unienv_interface.transformations.identity import IdentityTransformation

SPACE = DictSpace(B, {"x": box("int64", ()), "episode_end": BinarySpace(B, ())})


def buffer(start: int, lengths: list[int]) -> Any:
    made: Any = ReplayBuffer.create(MemoryStorage, SPACE)
    for length in lengths:
        ends = np.zeros(length, bool)
        ends[-1] = True
        made.extend({"x": np.arange(start, start + length), "episode_end": ends})
        start += length
    return made


def test_combined_batches_are_one_after_the_other() -> None:
    parts = [buffer(0, [4]), buffer(100, [3]), buffer(200, [5])]
    combined = CombinedBatch(parts)
    values = np.concatenate([part.get_at(...)["x"] for part in parts])
    assert len(combined) == 12
    for index in (..., slice(2, 9), np.array([11, 0, 4, 4, -1]), values % 2 == 0, [3, 5]):
        as_numpy = np.array(index) if isinstance(index, list) else index
        assert combined.get_at(index)["x"].tolist() == values[as_numpy].tolist()
    for position in range(-12, 12):
        assert combined.get_at(position)["x"] == values[position]
    metadata = combined.get_at_with_metadata(np.array([0, 5, 11]))[1]
    assert metadata is not None
    assert metadata["batch_index"].tolist() == [0, 1, 2]
    with pytest.raises(IndexError):
        combined.get_at(12)
    with pytest.raises(AssertionError):
        CombinedBatch(parts[:1])


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    offsets=st.sets(st.integers(-3, 3), max_size=4),
)
def test_windows_never_cross_an_episode(lengths: list[int], offsets: set[int]) -> None:
    data = buffer(0, lengths)
    chosen = np.array(sorted(offsets | {0}))
    stacked = SliceStackedBatch(
        data,
        chosen,
        get_valid_mask_function=SliceStackedBatch.get_valid_mask_function_with_episode_end_key(
            "episode_end"
        ),
    )
    episode = np.repeat(np.arange(len(lengths)), lengths)
    count = len(episode)
    assert len(stacked) == count
    batch, metadata = stacked.get_at_with_metadata(np.arange(count))
    assert metadata is not None
    for row in range(count):
        for column, offset in enumerate(chosen):
            there = row + offset
            valid = 0 <= there < count and episode[there] == episode[row]
            assert metadata["slice_valid_mask"][row, column] == valid, (row, offset)
            if valid:
                assert batch["x"][row, column] == there
            else:  # the nearest valid frame stands in: one of the same episode
                assert episode[batch["x"][row, column]] == episode[row]
        single = stacked.get_at(row)
        assert single["x"].tolist() == batch["x"][row].tolist()


def test_frames_around_a_sample() -> None:
    stacked = FrameStackedBatch(buffer(0, [6]), prefetch_horizon=2, postfetch_horizon=1)
    assert stacked.get_at(3)["x"].tolist() == [1, 2, 3, 4]
    assert stacked.get_at(0)["x"].tolist() == [0, 0, 0, 1]
    assert stacked.get_at([5, 2])["x"].tolist() == [[3, 4, 5, 5], [0, 1, 2, 3]]
    assert not stacked.is_mutable
    with pytest.raises((ValueError, AssertionError)):
        FrameStackedBatch(buffer(0, [6]))


def test_the_same_backend_changes_nothing() -> None:
    data = buffer(0, [5])
    moved = ToBackendOrDeviceBatch(data, backend=B)
    assert moved.get_at([4, 1])["x"].tolist() == [4, 1]
    moved.set_at(0, {"x": np.array(9), "episode_end": np.array(False)})
    assert data.get_at(0)["x"] == 9


def test_a_transformed_batch_shows_what_the_transformation_makes() -> None:
    data = buffer(0, [5])
    view = TransformedBatch(data, IdentityTransformation())
    assert view.single_space == SPACE
    assert view.get_at([4, 1])["x"].tolist() == [4, 1]
    assert view.get_at(2)["x"] == 2
    view.set_at(0, {"x": np.array(9), "episode_end": np.array(False)})
    assert data.get_at(0)["x"] == 9
