"""Arithmetic of a ring whose counters never wrap.

`head` is the number of rows ever written, `tail` the number ever given up; the rows alive are
``[tail, head)`` and row ``n`` lies at physical position ``n % capacity``. Whoever moves only
`head` and `tail`, each by one store, cannot leave a count and an offset that contradict.
A capacity of None means a growing buffer: `tail` stays 0 and positions are row numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unienv_data.base.indexing import Normalized, RowArray

__all__ = ["Extension", "offset_of", "physical_range", "plan_extension", "to_physical"]


class Extension(NamedTuple):
    """What an extension by some rows does to a ring."""

    start: int
    """First new row."""
    head: int
    """Head afterwards."""
    tail: int
    """Tail afterwards."""
    skip: int
    """Rows at the beginning of the batch that would be overwritten by its end."""
    where: slice | RowArray
    """Physical positions of the rows that are kept."""


def offset_of(tail: int, capacity: int | None) -> int:
    """Physical position of the oldest row."""
    return 0 if capacity is None else tail % capacity


def physical_range(start: int, count: int, capacity: int | None) -> slice | RowArray:
    """Physical positions of the rows ``[start, start + count)``, `count` at most the capacity.

    Returns:
        A slice when they lie together, else int64 positions of shape ``(count,)``.
    """
    if capacity is None:
        return slice(start, start + count)
    first = start % capacity
    if first + count <= capacity:
        return slice(first, first + count)
    return _wrap(np.arange(first, first + count, dtype=np.int64), capacity)


def to_physical(rows: Normalized, tail: int, capacity: int | None) -> Normalized:
    """Physical positions of logical rows that `normalize` has checked.

    Args:
        rows: A row, a slice of step 1, or int64 rows, counted from the oldest row.
        tail: Rows ever given up.
        capacity: Rows of the ring.

    Returns:
        A position, a slice when the positions lie together, or int64 positions.
    """
    if capacity is None:
        return rows
    offset = tail % capacity
    if offset == 0:
        return rows
    if isinstance(rows, int):
        return (rows + offset) % capacity
    if isinstance(rows, slice):
        return physical_range(rows.start + offset, rows.stop - rows.start, capacity)
    return _wrap(rows + offset, capacity)


def plan_extension(head: int, tail: int, count: int, capacity: int | None) -> Extension:
    """Says where `count` new rows go, and what `head` and `tail` become.

    As many rows as the capacity, or more, begin a new round at position 0; of them the newest
    are kept.
    """
    if capacity is None:
        return Extension(head, head + count, 0, 0, slice(head, head + count))
    if count >= capacity:
        start = next_round(head, capacity)
        return Extension(start, start + capacity, start, count - capacity, slice(0, capacity))
    new_head = head + count
    new_tail = max(tail, new_head - capacity)
    return Extension(head, new_head, new_tail, 0, physical_range(head, count, capacity))


def next_round(head: int, capacity: int) -> int:
    """The first row at or after `head` that lies at position 0."""
    return -(-head // capacity) * capacity


def _wrap(positions: RowArray, capacity: int) -> RowArray:
    # All are below twice the capacity: comparing is several times faster than a division.
    np.subtract(positions, capacity, out=positions, where=positions >= capacity)
    return positions
