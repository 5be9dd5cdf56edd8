from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from unienv_data.batches import FrameStackedBatch, SliceStackedBatch
from unienv_data.errors import ReadOnlyError
from unienv_data.samplers import StepSampler
from unienv_data.testing.batches import ArrayBatch, numbered
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import TextSpace

UNTIL_END = SliceStackedBatch.get_valid_mask_function_with_episode_end_key("end")


def windows(batch: Any, offsets: list[int], *args: Any, **kwargs: Any) -> Any:
    return SliceStackedBatch(batch, np.array(offsets), *args, **kwargs)


def shown(data: Any) -> Any:
    return data["x"][..., 0].tolist()


def test_frames_are_stacked() -> None:
    stacked = windows(numbered(0, 8), [-1, 0, 2])
    assert len(stacked) == 8
    assert not stacked.is_mutable
    assert shown(stacked.get_at(3)) == [2, 3, 5]
    assert shown(stacked.get_at([3, 4])) == [[2, 3, 5], [3, 4, 6]]
    assert shown(stacked.get_at(slice(3, 5))) == [[2, 3, 5], [3, 4, 6]]
    assert shown(stacked.get_at(-3)) == [4, 5, 7]
    assert len(stacked.get_at(...)["x"]) == 8
    assert stacked.get_at([])["x"].shape == (0, 3, 2)
    assert stacked.single_space.contains(stacked.get_at(0))


def test_frames_outside_are_clamped_and_not_valid() -> None:
    stacked = windows(numbered(0, 8), [-1, 0, 2])
    data, metadata = stacked.get_at_with_metadata([0, 7])
    assert shown(data) == [[0, 0, 2], [6, 7, 7]]
    assert metadata["slice_valid_mask"].tolist() == [[False, True, True], [True, True, False]]
    assert metadata["id"].tolist() == [0, 7]
    assert stacked.get_at_with_metadata(0)[1]["slice_valid_mask"].tolist() == [False, True, True]
    assert stacked.single_metadata_space.contains(stacked.get_at_with_metadata(0)[1])


def test_positions_outside_are_refused() -> None:
    stacked = windows(numbered(0, 8), [0, 1])
    for index in (8, -9, [0, 8]):
        with pytest.raises(IndexError):
            stacked.get_at(index)


def test_metadata_of_every_frame() -> None:
    stacked = windows(numbered(0, 8), [-1, 0, 2], stack_metadata=True)
    metadata = stacked.get_at_with_metadata([0, 7])[1]
    assert metadata["id"].tolist() == [[0, 0, 2], [6, 7, 7]]
    assert stacked.single_metadata_space.contains(stacked.get_at_with_metadata(3)[1])


def test_a_batch_without_metadata() -> None:
    stacked = windows(numbered(0, 4, has_metadata=False), [-1, 0])
    assert list(stacked.single_metadata_space.spaces) == ["slice_valid_mask"]
    assert list(stacked.get_at_with_metadata(0)[1]) == ["slice_valid_mask"]


@pytest.mark.parametrize(
    "function",
    [
        UNTIL_END,
        SliceStackedBatch.get_valid_mask_function_with_episode_end_key("end", is_in_metadata=True),
    ],
    ids=["data", "metadata"],
)
def test_windows_do_not_cross_the_end_of_an_episode(function: Any) -> None:
    stacked = windows(numbered(0, 8, ends=(3,)), [-2, -1, 0, 1, 2], function)
    data, metadata = stacked.get_at_with_metadata([2, 3, 4, 5])
    assert shown(data) == [
        [0, 1, 2, 3, 3],
        [1, 2, 3, 3, 3],
        [4, 4, 4, 5, 6],
        [4, 4, 5, 6, 7],
    ]
    assert metadata["slice_valid_mask"].astype(int).tolist() == [
        [1, 1, 1, 1, 0],
        [1, 1, 1, 0, 0],
        [0, 0, 1, 1, 1],
        [0, 1, 1, 1, 1],
    ]


def test_an_end_between_two_frames_is_seen() -> None:
    for in_metadata in (False, True):
        function = SliceStackedBatch.get_valid_mask_function_with_episode_end_key(
            "end", is_in_metadata=in_metadata
        )
        stacked = windows(numbered(0, 9, ends=(3,)), [-4, 0, 4], function)
        data, metadata = stacked.get_at_with_metadata([4, 2])
        assert metadata["slice_valid_mask"].tolist() == [[False, True, True], [False, True, False]]
        assert shown(data) == [[4, 4, 8], [2, 2, 2]]


def test_repeated_offsets() -> None:
    stacked = windows(numbered(0, 5, ends=(2,)), [0, 0, 1], UNTIL_END)
    data, metadata = stacked.get_at_with_metadata(2)
    assert shown(data) == [2, 2, 2]
    assert metadata["slice_valid_mask"].tolist() == [True, True, False]


def test_invalid_frames_are_left_when_asked() -> None:
    stacked = windows(numbered(0, 8, ends=(3,)), [0, 1, 2], UNTIL_END, fill_invalid_data=False)
    data, metadata = stacked.get_at_with_metadata(3)
    assert shown(data) == [3, 4, 5]
    assert metadata["slice_valid_mask"].tolist() == [True, False, False]


def test_windows_of_one_episode_id() -> None:
    batch = numbered(0, 6)
    batch.metadata["id"] = np.array([7, 7, 7, 9, 9, 9])
    function = SliceStackedBatch.get_valid_mask_function_with_episodeid_key("id", True)
    metadata = windows(batch, [-1, 0, 1], function).get_at_with_metadata([2, 3])[1]
    assert metadata["slice_valid_mask"].tolist() == [[True, True, False], [False, True, True]]


def test_the_mask_function_sees_positions_data_and_metadata() -> None:
    calls: list[Any] = []

    def function(batch: Any, positions: Any, data: Any, metadata: Any) -> Any:
        calls.append((batch, positions.tolist(), data["x"].shape, metadata["id"].tolist()))
        return np.zeros(positions.shape, dtype=bool)

    stacked = windows(numbered(0, 4), [-1, 0], function)
    assert shown(stacked.get_at(2)) == [1, 2]  # nothing valid to put in their place
    assert calls == [(stacked, [[1, 2]], (1, 2, 2), [[1, 2]])]
    assert not stacked.get_at_with_metadata(2)[1]["slice_valid_mask"].any()


def test_a_subclass_may_say_what_is_valid() -> None:
    class Odd(SliceStackedBatch[Any, Any, Any, Any, Any]):
        @override
        def get_valid_mask(self, expanded_idx: Any, data: Any, metadata: Any) -> Any:
            return expanded_idx % 2 == 1

    stacked: Any = Odd(numbered(0, 6), np.array([-1, 0, 1]))
    assert shown(stacked.get_at(2)) == [1, 1, 3]
    assert stacked.expand_index([0, 5]).tolist() == [[0, 0, 1], [4, 5, 5]]


def test_flat_windows_keep_their_frames() -> None:
    stacked = windows(numbered(0, 8), [-1, 0])
    assert stacked.get_flattened_at(3).tolist() == [[0, 2, -2], [0, 3, -3]]
    assert stacked.get_flattened_at([3, 4]).shape == (2, 2, 3)
    flat, metadata = stacked.get_flattened_at_with_metadata([0])
    assert flat.shape == (1, 2, 3)
    assert metadata["slice_valid_mask"].tolist() == [[False, True]]
    assert StepSampler(stacked, 5, seed=0).sample_flat().shape == (5, 2, 3)


def test_columns() -> None:
    batch = numbered(0, 8, ends=(3,))
    assert windows(batch, [-1, 0]).get_column("x").get_at(3)[:, 0].tolist() == [2, 3]
    masked = windows(batch, [-1, 0], UNTIL_END).get_column(["x"])
    assert masked.get_at(4)[:, 0].tolist() == [4, 4]
    assert masked.single_space.shape == (2, 2)


def test_texts_are_stacked() -> None:
    batch = ArrayBatch(TextSpace(B, 5), np.array(["a", "b", "c"], dtype=object))
    assert windows(batch, [-1, 0]).get_at([0, 2]).tolist() == [["a", "a"], ["b", "c"]]


def test_an_empty_batch() -> None:
    stacked = windows(numbered(0, 0), [-1, 0], UNTIL_END)
    assert len(stacked) == 0
    assert stacked.get_at(...)["x"].shape == (0, 2, 2)


@pytest.mark.parametrize(
    "offsets", [[1, 0], [1, 2], [-1, 1], [], [0.0, 1.0], [[0]], [True]], ids=repr
)
def test_offsets_that_make_no_window(offsets: Any) -> None:
    with pytest.raises(AssertionError):
        windows(numbered(0, 3), offsets)


def test_nothing_can_be_written() -> None:
    stacked = windows(numbered(0, 3), [0, 1])
    writes: list[Callable[[], Any]] = [
        lambda: stacked.set_at(0, stacked.get_at(0)),
        lambda: stacked.extend(stacked.get_at(...)),
        lambda: stacked.append(stacked.get_at(0)),
    ]
    for write in writes:
        with pytest.raises(ReadOnlyError):
            write()


def test_frame_stacking() -> None:
    stacked: Any = FrameStackedBatch(numbered(0, 8), 2, 1)
    assert stacked.fixed_offset.tolist() == [-2, -1, 0, 1]
    assert shown(stacked.get_at(4)) == [2, 3, 4, 5]
    for horizons in ((0, 0), (-1, 1), (1, -1)):
        with pytest.raises(AssertionError):
            FrameStackedBatch(numbered(0, 8), *horizons)


@given(
    count=st.integers(1, 12),
    ends=st.sets(st.integers(0, 11)),
    offsets=st.sets(st.integers(-5, 5)),
)
def test_a_frame_is_valid_exactly_inside_the_episode(
    count: int, ends: set[int], offsets: set[int]
) -> None:
    steps = sorted(offsets | {0})
    stacked = windows(numbered(0, count, ends=tuple(ends)), steps, UNTIL_END)
    data, metadata = stacked.get_at_with_metadata(...)
    episode = np.cumsum([0, *(row in ends for row in range(count - 1))])
    for row in range(count):
        for column, step in enumerate(steps):
            frame = row + step
            belongs = 0 <= frame < count and episode[frame] == episode[row]
            assert metadata["slice_valid_mask"][row, column] == belongs
            number = int(data["x"][row, column, 0])
            assert episode[number] == episode[row]
            if belongs:
                assert number == frame
