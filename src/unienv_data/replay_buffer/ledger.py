"""Ledgers for storages that keep none: in this process's memory, or shared by several."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Sequence

from unienv_data.errors import SegmentStateError

__all__ = ["SharedLedger", "VolatileLedger"]


class VolatileLedger:
    """Ring position and segments in memory, as lasting as the process."""

    def __init__(self, head: int = 0, tail: int = 0, maintained: bool = False) -> None:
        self.head = head
        self.tail = tail
        self.active_start = -1
        self.maintained = maintained
        self._segments: deque[tuple[int, int]] = deque()

    is_bound = True
    knows_segments = True
    generation = 0

    def segments(self) -> list[tuple[int, int]]:
        """Closed segments, oldest first."""
        return list(self._segments)

    def add_segment(self, start: int, end: int) -> None:
        """Appends one closed segment."""
        self._segments.append((start, end))

    def drop_segments_after(self, row: int) -> None:
        """Removes the newest segments as far as they reach beyond a row."""
        while self._segments and self._segments[-1][1] > row:
            start, _ = self._segments.pop()
            if start < row:
                self._segments.append((start, row))

    def forget_segments(self, before: int) -> None:
        """Drops the segments that end at or before a row."""
        while self._segments and self._segments[0][1] <= before:
            self._segments.popleft()

    def reset(
        self, head: int, tail: int, segments: Sequence[tuple[int, int]], maintained: bool
    ) -> None:
        """Replaces everything."""
        self.head, self.tail, self.active_start = head, tail, -1
        self._segments = deque(segments)
        self.maintained = maintained


class SharedLedger:
    """Ring position in memory shared by processes; keeps no segments.

    Its two numbers are only consistent with each other under the buffer's lock. It can be
    inherited by a forked child and handed to a spawned one when that is started.
    """

    is_bound = True
    knows_segments = True
    maintained = False
    generation = 0

    def __init__(self, head: int = 0, tail: int = 0) -> None:
        self._words = multiprocessing.get_context("spawn").Array("q", [head, tail], lock=False)
        self.active_start = -1

    @property
    def head(self) -> int:
        """Rows ever written."""
        return int(self._words[0])

    @head.setter
    def head(self, value: int) -> None:
        self._words[0] = value

    @property
    def tail(self) -> int:
        """Rows ever given up."""
        return int(self._words[1])

    @tail.setter
    def tail(self, value: int) -> None:
        self._words[1] = value

    def segments(self) -> list[tuple[int, int]]:
        """None are kept."""
        return []

    def add_segment(self, start: int, end: int) -> None:
        """Refused."""
        raise SegmentStateError(
            f"add_segment: a buffer shared by processes keeps no segments, got [{start}, {end})"
        )

    def forget_segments(self, before: int) -> None:
        """Nothing to forget."""

    def reset(
        self, head: int, tail: int, segments: Sequence[tuple[int, int]], maintained: bool
    ) -> None:
        """Replaces both numbers."""
        if segments or maintained:
            raise SegmentStateError("a buffer shared by processes keeps no segments")
        self._words[:] = [head, tail]
