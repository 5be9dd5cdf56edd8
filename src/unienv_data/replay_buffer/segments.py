"""Segments as half-open intervals of rows that never wrap, and the forms others want them in.

*Absolute* intervals count rows since the buffer was made, as `ring` does. *Logical* ones count
from the oldest row alive. *Physical* ones are the original library's: inclusive pairs of
positions, ``start > end`` where the segment crosses the end of the ring.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["Segment", "clip", "from_physical", "is_pair", "to_logical", "to_physical_pairs"]

Segment = tuple[int, int]


def clip(segments: Iterable[Segment], tail: int, head: int) -> list[Segment]:
    """The parts of absolute segments that are alive, oldest first.

    A segment may have been announced before its rows came and they never did; the one that
    was added later for the same rows counts.
    """
    alive: list[Segment] = []
    for start, end in segments:
        start, end = max(start, tail), min(end, head)
        if start >= end:
            continue
        while alive and alive[-1][1] > start:
            last_start, _ = alive.pop()
            if last_start < start:
                alive.append((last_start, start))
        alive.append((start, end))
    return alive


def to_logical(segments: Iterable[Segment], tail: int, head: int) -> list[Segment]:
    """Absolute segments as half-open intervals counted from the oldest row alive."""
    return [(start - tail, end - tail) for start, end in clip(segments, tail, head)]


def to_physical_pairs(
    segments: Iterable[Segment], tail: int, head: int, capacity: int | None
) -> list[Segment]:
    """Absolute segments as inclusive physical pairs, oldest first."""
    alive = clip(segments, tail, head)
    if capacity is None:
        return [(start, end - 1) for start, end in alive]
    return [(start % capacity, (end - 1) % capacity) for start, end in alive]


def from_physical(
    pairs: Iterable[Sequence[int]], tail: int, head: int, capacity: int | None
) -> list[Segment]:
    """Inclusive physical pairs as absolute segments, oldest first.

    Which round of the ring a pair belongs to follows from `tail`. A pair that runs over the
    oldest row describes the newest rows first; it becomes two segments, or one when it is the
    whole ring. Pairs outside the ring are dropped.
    """
    found: list[Segment] = []
    for pair in pairs:
        start, end = int(pair[0]), int(pair[1])
        if capacity is None:
            found.append((start, end + 1))
            continue
        if not (0 <= start < capacity and 0 <= end < capacity):
            continue
        length = (end - start) % capacity + 1
        first = tail + (start - tail) % capacity
        if length == capacity:
            found.append((tail, tail + capacity))
        elif first + length <= tail + capacity:
            found.append((first, first + length))
        else:
            found.append((first, tail + capacity))
            found.append((tail, first + length - capacity))
    return clip(sorted(found), tail, head)


def is_pair(value: object) -> bool:
    """Whether a value read from a file has the form of a physical pair."""
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(isinstance(entry, int) and not isinstance(entry, bool) for entry in value)
    )
