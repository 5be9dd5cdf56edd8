from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unienv_data.replay_buffer.segments import (
    clip,
    from_physical,
    is_pair,
    to_logical,
    to_physical_pairs,
)


@st.composite
def recordings(draw: st.DrawFn) -> tuple[int, int, int, list[tuple[int, int]]]:
    """A capacity, tail and head, and segments added in order, some long given up."""
    capacity = draw(st.integers(1, 8))
    row = draw(st.integers(0, 5))
    segments = []
    for length, gap in draw(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 2)))):
        segments.append((row, row + length))
        row += length + gap
    head = row
    count = draw(st.integers(0, min(capacity, head)))
    return capacity, head - count, head, segments


@given(recordings())
def test_forms_agree_row_by_row(recording: tuple[int, int, int, list[tuple[int, int]]]) -> None:
    capacity, tail, head, segments = recording
    owner = {row: n for n, (start, end) in enumerate(segments) for row in range(start, end)}
    alive = clip(segments, tail, head)
    seen = [row for start, end in alive for row in range(start, end)]
    assert seen == [row for row in range(tail, head) if row in owner]
    for start, end in alive:
        assert len({owner[row] for row in range(start, end)}) == 1
    assert to_logical(segments, tail, head) == [(a - tail, b - tail) for a, b in alive]
    pairs = to_physical_pairs(segments, tail, head, capacity)
    assert from_physical(pairs, tail, head, capacity) == alive
    for (first, last), (start, end) in zip(pairs, alive, strict=True):
        assert (first, last) == (start % capacity, (end - 1) % capacity)


def test_documented_pairs() -> None:
    # capacity 4: extend 3, extend 3, append 1, mark_segment_end
    segments = [(0, 3), (3, 6), (6, 7)]
    assert to_logical(segments[:2], 2, 6) == [(0, 1), (1, 4)]
    assert to_physical_pairs(segments[:2], 3, 7, 4) == [(3, 1)]
    assert to_physical_pairs(segments, 3, 7, 4) == [(3, 1), (2, 2)]
    assert from_physical([(3, 1), (2, 2)], 3, 7, 4) == [(3, 6), (6, 7)]


def test_whole_ring_is_one_segment() -> None:
    assert from_physical([(2, 1)], 2, 5, 3) == [(2, 5)]
    assert from_physical([(0, 2)], 2, 5, 3) == [(2, 5)]


def test_pair_over_the_oldest_row_is_two_segments() -> None:
    assert from_physical([(3, 0)], 0, 4, 4) == [(0, 1), (3, 4)]


def test_pairs_of_unwritten_or_missing_rows_are_dropped() -> None:
    assert from_physical([(0, 5), (1, 3)], 0, 2, 4) == [(1, 2)]
    assert from_physical([(0, 2), (3, 9)], 0, 5, None) == [(0, 3), (3, 5)]
    assert to_physical_pairs([(0, 3), (3, 5)], 0, 5, None) == [(0, 2), (3, 4)]


def test_segment_announced_in_vain_gives_way() -> None:
    assert clip([(0, 2), (2, 6), (2, 3), (3, 4)], 0, 4) == [(0, 2), (2, 3), (3, 4)]
    assert clip([(0, 2), (2, 6), (3, 4)], 0, 4) == [(0, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([0, 1], True),
        ((0, 1), True),
        ([0], False),
        ([0, True], False),
        (["a", 1], False),
        (3, False),
    ],
)
def test_is_pair(value: object, expected: bool) -> None:
    assert is_pair(value) is expected
