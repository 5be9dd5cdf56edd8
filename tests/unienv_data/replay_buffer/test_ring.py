from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unienv_data.base.indexing import normalize
from unienv_data.replay_buffer.ring import (
    next_round,
    offset_of,
    physical_range,
    plan_extension,
    to_physical,
)

rings = st.integers(1, 9).flatmap(
    lambda capacity: st.tuples(
        st.just(capacity), st.integers(0, 50), st.integers(0, capacity)
    )  # capacity, tail, count
)


def listed(where: object, length: int) -> list[int]:
    if isinstance(where, int):
        return [where]
    if isinstance(where, slice):
        return list(range(length))[where]
    assert isinstance(where, np.ndarray)
    assert where.dtype == np.int64
    return [int(row) for row in where]


@given(rings, st.data())
def test_logical_rows_reach_their_positions(
    ring: tuple[int, int, int], data: st.DataObject
) -> None:
    capacity, tail, count = ring
    kinds: list[Any] = [st.slices(count)]
    if count:
        rows = st.integers(-count, count - 1)
        kinds += [rows, st.lists(rows).map(lambda entries: np.array(entries, dtype=np.int64))]
    index: Any = data.draw(st.one_of(kinds))
    expected = np.arange(tail, tail + count)[index] % capacity
    before = index.copy() if isinstance(index, np.ndarray) else index
    where = to_physical(normalize(index, count), tail, capacity)
    assert listed(where, capacity) == np.atleast_1d(expected).tolist()
    np.testing.assert_equal(index, before)
    assert isinstance(where, int) == isinstance(index, int)


@given(st.integers(0, 40), st.integers(0, 9))
def test_range_is_a_slice_unless_it_wraps(start: int, count: int) -> None:
    where = physical_range(start, count, 9)
    assert listed(where, 9) == [row % 9 for row in range(start, start + count)]
    assert isinstance(where, slice) == (start % 9 + count <= 9)


def test_growing_buffer_needs_no_translation() -> None:
    rows = np.array([3, 1])
    assert to_physical(rows, 0, None) is rows
    assert physical_range(7, 3, None) == slice(7, 10)
    assert offset_of(0, None) == 0


@given(rings, st.integers(1, 30))
def test_extension_keeps_the_newest_rows(ring: tuple[int, int, int], count: int) -> None:
    capacity, tail, filled = ring
    head = tail + filled
    held = {row % capacity: row for row in range(tail, head)}
    plan = plan_extension(head, tail, count, capacity)
    positions = listed(plan.where, capacity)
    assert len(positions) == count - plan.skip == plan.head - plan.start
    for number, position in enumerate(positions):
        assert position == (plan.start + number) % capacity
        held[position] = plan.start + number
    alive = range(plan.tail, plan.head)
    assert {held[row % capacity] for row in alive} == set(alive)
    assert len(alive) == min(filled + count, capacity)
    assert plan.head >= head
    assert plan.tail >= tail
    if count >= capacity:
        assert plan.tail % capacity == 0


def test_extension_of_a_growing_buffer() -> None:
    plan = plan_extension(5, 0, 3, None)
    assert (plan.start, plan.head, plan.tail, plan.skip, plan.where) == (5, 8, 0, 0, slice(5, 8))


@pytest.mark.parametrize(("head", "expected"), [(0, 0), (1, 4), (4, 4), (5, 8)])
def test_next_round(head: int, expected: int) -> None:
    assert next_round(head, 4) == expected
