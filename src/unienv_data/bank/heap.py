"""Distinct texts of a column in one mapped file, reclaimed piece by piece.

The file is cut into extents, each owned by one piece; a table of owners is mapped beside it. An
entry is a 4-byte length and UTF-8 bytes; its offset is the code that the column stores. Code 0
is the empty text, so rows that were never set read as "".
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unienv_data.bank.locks import BankLocks
from unienv_data.errors import CorruptPieceError
from unienv_data.io.mapped import PAGE, MappedFile

__all__ = ["EXTENT_BYTES", "TextHeap"]

EXTENT_BYTES = 64 << 10
"""Unit of allocation; only touched pages of it take space."""

_LENGTH = struct.Struct("<I")
_FIRST_EXTENTS = 1024
_KNOWN_PIECES = 8  # pieces whose texts are deduplicated as they are written
_KNOWN_BYTES = 1 << 20  # of text in each of them
_DECODED_BYTES = 32 << 20  # decoded texts kept for reading
_TOGETHER = 16  # texts that are worth a gather of their lengths
_OPEN_PIECES = 1 << 16  # pieces whose half-filled extent is remembered


class TextHeap:
    """Texts of one column.

    Owns the heap file, the table of extent owners, and two bounded caches: texts already written
    (deduplication) and texts already decoded (reading).
    """

    def __init__(self, stem: Path, locks: BankLocks, *, create: bool) -> None:
        self._locks = locks
        self._heap = MappedFile(
            stem.with_suffix(".heap"), _FIRST_EXTENTS * EXTENT_BYTES, create=create
        )
        self._table = MappedFile(stem.with_suffix(".extents"), PAGE, create=create)
        self._refresh()
        self._known: OrderedDict[int, dict[str, int]] = OrderedDict()
        self._open: OrderedDict[int, tuple[int, int, int]] = OrderedDict()
        self._decoded: dict[int, str] = {0: ""}
        self._decoded_bytes = 0

    def _refresh(self) -> None:
        self._owners = self._table.array(np.dtype(np.int64), (self._table.size // 8,))

    # -- writing -----------------------------------------------------------------------------

    def store(self, piece: int, texts: Sequence[str]) -> list[int]:
        """Writes texts into a piece's extents and gives their codes, one a text.

        Raises:
            StorageSpaceError: The disk is full; what was written before is unreachable, harmless.
        """
        known = self._known.get(piece)
        if known is None:
            known = self._known[piece] = {"": 0}
            if len(self._known) > _KNOWN_PIECES:
                self._known.popitem(last=False)
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, self._append(piece, new), strict=True))
        codes = [known[text] for text in texts]
        if new and len(known) > 256 and sum(map(len, known)) > _KNOWN_BYTES:
            self._known[piece] = {"": 0}
        return codes

    def known(self, piece: int, text: str) -> int | None:
        """Code of a text that was just written for this piece, None when that is not known."""
        texts = self._known.get(piece)
        return None if texts is None else texts.get(text)

    def _append(self, piece: int, texts: Sequence[str]) -> list[int]:
        """Writes new texts, as many at a time as fit an extent, and gives their codes."""
        codes: list[int] = []
        entries: list[bytes] = []
        cursor, allocated, end = self._open.get(piece, (0, 0, 0))
        start = cursor
        for text in texts:
            data = text.encode("utf-8")
            needed = _LENGTH.size + len(data)
            if cursor + needed > end:
                allocated = self._write(start, entries, allocated, end)
                entries = []
                extents = -(-needed // EXTENT_BYTES)
                start = cursor = allocated = self._allocate(piece, extents) * EXTENT_BYTES
                end = cursor + extents * EXTENT_BYTES
            entries += (_LENGTH.pack(len(data)), data)
            codes.append(cursor)
            cursor += needed
        allocated = self._write(start, entries, allocated, end)
        self._open[piece] = (cursor, allocated, end)
        if len(self._open) > _OPEN_PIECES:
            self._open.popitem(last=False)
        return codes

    def _write(self, start: int, entries: Sequence[bytes], allocated: int, end: int) -> int:
        """Stores entries at `start`, and gives the end of the space that is allocated."""
        if not entries:
            return allocated
        data = b"".join(entries)
        stop = min(-(-(start + len(data)) // PAGE) * PAGE, end)
        if stop > allocated:
            self._heap.allocate(allocated, stop - allocated)
            allocated = stop
        self._heap.store(start, data)
        return allocated

    def _allocate(self, piece: int, extents: int) -> int:
        with self._locks.allocation():
            if self._table.size // 8 != len(self._owners):
                self._refresh()
            first = self._find_free(extents)
            while first + extents > len(self._owners):
                self._table.reserve(self._table.size * 2)
                self._refresh()
            if (first + extents) * EXTENT_BYTES > self._heap.size:
                self._heap.reserve(max(self._heap.size * 2, (first + extents) * EXTENT_BYTES))
            self._owners[first : first + extents] = piece + 1
        return first

    def _find_free(self, extents: int) -> int:
        # Extent 0 is never given out: code 0 is the empty text.
        free = np.flatnonzero(self._owners[1:] == 0) + 1
        if extents == 1:
            return int(free[0]) if free.size else len(self._owners)
        ends = free[extents - 1 :]
        runs = np.flatnonzero(ends - free[: len(ends)] == extents - 1)
        if runs.size:
            return int(free[runs[0]])
        used = np.flatnonzero(self._owners)
        return int(used[-1]) + 1 if used.size else 1

    def extents_of(self, piece: int) -> list[int]:
        """Numbers of the extents that a piece owns."""
        self._follow()
        owned: list[int] = np.flatnonzero(self._owners == piece + 1).tolist()
        return owned

    def free(self, piece: int, extents: Sequence[int] | None = None) -> None:
        """Gives extents of a piece back, by default all; their codes are void from now on."""
        owned = self.extents_of(piece) if extents is None else extents
        self._known.pop(piece, None)
        self._open.pop(piece, None)
        if not owned:
            return
        self.forget_decoded()
        with self._locks.allocation():
            for extent in owned:
                self._heap.punch(extent * EXTENT_BYTES, EXTENT_BYTES)
                self._owners[extent] = 0

    # -- reading -----------------------------------------------------------------------------

    def texts(self, codes: Sequence[int]) -> list[str]:
        """The texts of codes, exact `str`."""
        decoded = self._decoded
        try:
            return [decoded[code] for code in codes]
        except KeyError:
            return self._decode(codes)

    def text(self, code: int) -> str:
        """The text of one code."""
        known = self._decoded.get(code)
        return known if known is not None else self._decode((code,))[0]

    def _decode(self, codes: Sequence[int]) -> list[str]:
        self._follow()
        decoded = self._decoded
        missing = [code for code in dict.fromkeys(codes) if code not in decoded]
        texts = self._read_all(missing)
        decoded.update(zip(missing, texts, strict=True))
        self._decoded_bytes += sum(map(len, texts)) + 100 * len(texts)
        result = [decoded[code] for code in codes]
        if self._decoded_bytes > _DECODED_BYTES:
            self.forget_decoded()
        return result

    def _read_all(self, codes: list[int]) -> list[str]:
        """Texts of distinct codes; many are read faster when their lengths come in one gather."""
        if len(codes) < _TOGETHER or min(codes) <= 0:
            return [self._read(code) for code in codes]
        size, begin = self._heap.size, _LENGTH.size
        starts = np.array(codes, dtype=np.int64)
        if int(starts.max()) > size - begin:
            return [self._read(code) for code in codes]  # names the one that is wrong
        heap = self._heap.array(np.dtype(np.uint8), (size,))
        lengths = heap[starts[:, None] + np.arange(begin)].view("<u4").reshape(-1)
        starts += begin
        stops = starts + lengths
        if int(stops.max()) > size:
            return [self._read(code) for code in codes]
        data = heap.data
        try:
            return [
                str(data[start:stop], "utf-8")
                for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
            ]
        except UnicodeDecodeError:
            return [self._read(code) for code in codes]

    def _read(self, code: int) -> str:
        if not 0 < code <= self._heap.size - _LENGTH.size:
            raise CorruptPieceError(f"{self._heap.path}: code {code} lies outside the heap")
        (length,) = _LENGTH.unpack(self._heap.read(code, _LENGTH.size))
        if length > self._heap.size - code - _LENGTH.size:
            raise CorruptPieceError(f"{self._heap.path}: the text at {code} has no end")
        try:
            return self._heap.read(code + _LENGTH.size, length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise CorruptPieceError(f"{self._heap.path}: no text at {code}") from error

    def forget_decoded(self) -> None:
        """Empties the read cache: extents may have changed hands."""
        self._decoded = {0: ""}
        self._decoded_bytes = 0

    def _follow(self) -> None:
        """Maps what another process added."""
        self._heap.follow()
        if self._table.follow():
            self._refresh()

    @property
    def file_bytes(self) -> int:
        """Length of heap and table, holes included."""
        return self._heap.size + self._table.size

    @property
    def used_bytes(self) -> int:
        """Bytes of all extents that have an owner."""
        return int(np.count_nonzero(self._owners)) * EXTENT_BYTES

    def close(self) -> None:
        """Drops the mappings."""
        self._heap.close()
        self._table.close()
