"""Whether a working set may be taken over: its structure, not each value, which is memory's.

The files of a working set are as trustworthy as the memory of the process that died: they are
adopted under the same boot only. But a file that was cut, lost or exchanged since would be read
as zeros or as an end of data, so sizes, counts, piece states and text codes are checked first.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unienv_data.bank.bank import FILE_BYTES, bytes_on_disk
from unienv_data.bank.heap import EXTENT_BYTES
from unienv_data.bank.journal import END, FIRST, HEAD, REDO, ROWS, TAIL, Journal
from unienv_data.errors import WorkingSetError
from unienv_data.format.layout import Layout
from unienv_data.format.manifest import Manifest
from unienv_data.format.schema import Schema
from unienv_data.io.boot import boot_number

__all__ = ["check_working_set", "dirty_pieces"]

_RECORD_WORDS, _DIRTY = 8, 2
_HEADER_SCHEMA, _HEADER_BOOT = 1, 2


def _words(path: Path, count: int = -1) -> NDArray[np.int64]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return np.zeros(0, np.int64)
        return np.fromfile(path, dtype=np.int64, count=count)
    except OSError:
        return np.zeros(0, np.int64)


def _size(path: Path) -> int:
    try:
        status = os.stat(path)
    except OSError:
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def dirty_pieces(bank: Path) -> list[int]:
    """Numbers of the pieces newer than their files, of a bank that nobody has open here."""
    words = _words(bank / "pieces")
    records = words[: len(words) // _RECORD_WORDS * _RECORD_WORDS].reshape(-1, _RECORD_WORDS)
    dirty: list[int] = np.flatnonzero(records[:, _DIRTY]).tolist()
    return dirty


def check_working_set(bank: Path, manifest: Manifest) -> None:
    """Refuses to adopt, or to drop, a working set that was damaged.

    Raises:
        WorkingSetError: Names the file and what is wrong with it.
    """
    valid = Journal.peek(bank, manifest.uuid or "") is not None
    header = _words(bank / "header", 8)
    ours = len(header) == 8 and (header[_HEADER_SCHEMA], header[_HEADER_BOOT]) == (
        manifest.schema.fingerprint(),
        boot_number(),
    )
    if not valid:
        if ours and dirty_pieces(bank):
            raise _wrong(bank / "journal", "does not count the rows of this boot any more")
        return
    if not ours:
        raise _wrong(bank / "header", "is not that of the journal beside it")
    _Check(bank, manifest).run()


def _wrong(path: Path, what: str) -> WorkingSetError:
    return WorkingSetError(
        f"open for writing: {path} {what}; rows of an interrupted writer in {path.parent} cannot "
        f"be trusted: `unienv-data repair` sets them aside and keeps what is in pieces",
        path=str(path),
    )


class _Check:
    def __init__(self, bank: Path, manifest: Manifest) -> None:
        self.bank = bank
        self.manifest = manifest
        self.schema: Schema = manifest.schema
        self.layout = Layout(manifest.piece_size)
        self.growing = manifest.capacity is None
        self.words = _words(bank / "journal", 16).tolist()
        self.rows = self.words[ROWS] if self.growing else manifest.num_rows

    def run(self) -> None:
        if bytes_on_disk(self.bank) < int(_words(self.bank / "header", FILE_BYTES + 1)[FILE_BYTES]):
            raise _wrong(self.bank, "has files that are shorter than they were")
        self._counts()
        dirty = self._pieces()
        for number, column in enumerate(self.schema.columns):
            path = self.bank / f"column-{number:04d}.rows"
            width = 8 if column.is_text else column.row_bytes
            if width and _size(path) < self.rows * width:
                raise _wrong(path, f"ends at byte {_size(path)}, {self.rows} rows take more")
            if column.is_text:
                self._texts(path, dirty)

    def _counts(self) -> None:
        journal, words = self.bank / "journal", self.words
        if not 0 <= self.rows < 2**48 or min(words[HEAD], words[TAIL]) < 0:
            raise _wrong(journal, f"counts {words[ROWS]} rows, head {words[HEAD]}")
        if not 0 <= words[FIRST] <= words[END] or words[REDO] not in (0, 1):
            raise _wrong(journal, "has impossible counts of segments")
        if _size(self.bank / "segments") < 16 * words[END]:
            raise _wrong(self.bank / "segments", f"is too short for {words[END]} segments")
        if words[REDO]:
            self._redo()

    def _redo(self) -> None:
        path = self.bank / "redo"
        header = _words(path, 8).tolist()
        if len(header) < 8 or header[0] not in (0, 1):
            raise _wrong(path, "holds no redo record, though the journal counts on it")
        kind, first, last, rows = header[:4]
        count = last - first if kind == 0 else first
        size = 64 + (8 * count if kind else 0)
        for column in self.schema.columns:
            size += -(-count * (8 if column.is_text else column.row_bytes) // 8) * 8
        limit = max(self.rows, rows)
        if not 0 <= count < 2**40 or _size(path) < size or not -1 <= rows < 2**48:
            raise _wrong(path, f"is too short for a redo record of {count} rows")
        if kind == 0:
            inside = 0 <= first <= last <= limit
        else:
            where = np.fromfile(path, dtype=np.int64, count=count, offset=64)
            inside = not count or 0 <= int(where.min()) <= int(where.max()) < limit
        if not inside:
            raise _wrong(path, f"overwrites rows outside the {limit} that there are")

    def _pieces(self) -> list[int]:
        records, present = self.bank / "pieces", self.bank / "present"
        stored = max(len(self.schema.columns), 1)
        dirty = dirty_pieces(self.bank)
        count = self.layout.count(self.rows)
        counted = self.manifest.num_rows if self.growing else self.rows
        if self.growing:
            needed = set(self.layout.span(counted, self.rows))
            lost = needed.difference(dirty)
            if lost:
                raise _wrong(records, f"does not know the rows of piece {min(lost)}")
        raw = np.fromfile(present, dtype=np.uint8) if _size(present) > 0 else np.zeros(0, np.uint8)
        here = raw[: len(raw) // stored * stored].reshape(-1, stored)
        dirty = [piece for piece in dirty if piece < count]
        for piece in dirty:
            rewritten_only = piece * self.manifest.piece_size < counted
            if piece >= len(here) or (not here[piece].all() and not rewritten_only):
                raise _wrong(present, f"lacks piece {piece}, which is not sealed")
        return dirty

    def _texts(self, path: Path, dirty: list[int]) -> None:
        heap, table = path.with_suffix(".heap"), path.with_suffix(".extents")
        owners = _words(table)
        used = np.flatnonzero(owners)
        if used.size and _size(heap) < (int(used[-1]) + 1) * EXTENT_BYTES:
            raise _wrong(heap, "ends before its last text")
        for piece in dirty:
            start, stop = self.layout.bounds(piece, self.rows)
            codes = np.fromfile(path, dtype=np.int64, count=stop - start, offset=8 * start)
            extents = codes[codes != 0] // EXTENT_BYTES
            if extents.size and (
                int(extents.min()) < 0
                or int(extents.max()) >= len(owners)
                or (owners[extents] != piece + 1).any()
            ):
                raise _wrong(table, f"does not own the texts of piece {piece}")
