"""File names of a storage directory, and which piece holds which row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "COMMIT_NAME",
    "MANIFEST_NAME",
    "WORK_NAME",
    "Layout",
    "piece_name",
    "piece_number",
    "staged_name",
]

MANIFEST_NAME = "_metadata.json"
"""The manifest; replaced as a whole, never edited."""

COMMIT_NAME = "_commit.json"
"""Commit record: present only while several files are being replaced as one."""

WORK_NAME = "_work"
"""Working set, lock and last synced manifest of a writable storage."""

_PIECE = re.compile(r"part-(\d{6,})\.parquet")


def piece_name(piece: int) -> str:
    """File name of a piece; never carries a generation, so a glob sees each row once."""
    return f"part-{piece:06d}.parquet"


def piece_number(name: str) -> int | None:
    """The piece of a file name, None for other files."""
    match = _PIECE.fullmatch(name)
    return int(match.group(1)) if match and piece_name(int(match.group(1))) == name else None


def staged_name(piece: int, serial: int) -> str:
    """Name under which a piece is written before it is renamed; no reader's glob matches it."""
    return f".{piece_name(piece)}.{serial}.tmp"


class Layout:
    """Which piece a row is in: pieces of equal size, or the uneven files of another writer."""

    def __init__(self, piece_size: int, starts: Sequence[int] | None = None) -> None:
        self.piece_size = piece_size
        """Rows a piece; the largest one where pieces are uneven."""
        self._starts = None if starts is None else np.asarray(starts, dtype=np.int64)
        self._shift = piece_size.bit_length() - 1 if piece_size & (piece_size - 1) == 0 else None

    @property
    def is_uniform(self) -> bool:
        """Whether piece k starts at row ``k * piece_size``."""
        return self._starts is None

    def count(self, rows: int) -> int:
        """Number of pieces that hold the first `rows` rows."""
        if self._starts is None:
            return -(-rows // self.piece_size)
        return int(np.searchsorted(self._starts, rows, side="left"))

    def bounds(self, piece: int, rows: int) -> tuple[int, int]:
        """Rows ``[start, stop)`` of a piece in a storage of `rows` rows."""
        if self._starts is None:
            start = piece * self.piece_size
            return start, min(start + self.piece_size, rows)
        start = int(self._starts[piece])
        after = int(self._starts[piece + 1]) if piece + 1 < len(self._starts) else rows
        return start, min(after, rows)

    def piece_of(self, row: int) -> int:
        """The piece of one row."""
        if self._starts is None:
            return row // self.piece_size
        return int(np.searchsorted(self._starts, row, side="right")) - 1

    def pieces_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The piece of each row, int64, shape ``(B,)``."""
        if self._starts is not None:
            return np.searchsorted(self._starts, rows, side="right") - 1
        if self._shift is not None:
            return rows >> self._shift
        return rows // self.piece_size

    def span(self, start: int, stop: int) -> range:
        """The pieces that the rows ``[start, stop)`` touch."""
        if stop <= start:
            return range(0)
        return range(self.piece_of(start), self.piece_of(stop - 1) + 1)


def piece_path(directory: Path, piece: int) -> Path:
    """Where a piece lies."""
    return directory / piece_name(piece)
