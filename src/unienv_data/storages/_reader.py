"""A read-only storage: a snapshot of the committed rows over a shared bank."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from unienv_data.bank.bank import Bank, count_dirty
from unienv_data.bank.journal import Journal
from unienv_data.errors import ReadOnlyError, SchemaMismatchError
from unienv_data.format.layout import WORK_NAME
from unienv_data.format.manifest import LedgerRecord
from unienv_data.io.lock import writer_is_alive
from unienv_data.storages._bank_place import bank_directory
from unienv_data.storages._cache import BankPlace, find_place
from unienv_data.storages._damage import find_damaged_rows
from unienv_data.storages._opening import Found, find
from unienv_data.storages._options import Options
from unienv_data.storages._pieces import PieceFiles

__all__ = ["FixedLedger", "Reader"]


class FixedLedger:
    """The `Ledger` of a read-only storage: what its snapshot says."""

    knows_segments = False

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def _record(self) -> LedgerRecord | None:
        return self._reader.manifest.ledger

    @property
    def head(self) -> int:
        """Rows ever written."""
        record = self._record
        return self._reader.manifest.num_rows if record is None else record.head

    @head.setter
    def head(self, value: int) -> None:
        self._refuse()

    @property
    def tail(self) -> int:
        """Rows ever given up."""
        return 0 if self._record is None else self._record.tail

    @tail.setter
    def tail(self, value: int) -> None:
        self._refuse()

    @property
    def active_start(self) -> int:
        """No segment is open."""
        return -1

    @active_start.setter
    def active_start(self, value: int) -> None:
        self._refuse()

    @property
    def maintained(self) -> bool:
        """Whether the owner keeps segments."""
        return self._record is not None and self._record.maintained

    @property
    def is_bound(self) -> bool:
        """Whether an owner wrote the storage."""
        return self._record is not None

    @property
    def generation(self) -> int:
        """Commit of the snapshot."""
        return self._reader.manifest.generation

    @property
    def shortened(self) -> int:
        """Last commit that took rows away."""
        return self._reader.manifest.shortened

    def segments(self) -> list[tuple[int, int]]:
        """Nothing: the owner's file has them."""
        return []

    def add_segment(self, start: int, end: int) -> None:
        """Refused."""
        self._refuse()

    def forget_segments(self, before: int) -> None:
        """Refused."""
        self._refuse()

    def reset(
        self, head: int, tail: int, segments: Sequence[tuple[int, int]], maintained: bool
    ) -> None:
        """Refused."""
        self._refuse()

    def _refuse(self) -> None:
        raise ReadOnlyError("the ledger of a read-only storage cannot be changed")


class Reader:
    """Owns the bank and the place it lies in; never writes into the data set."""

    def __init__(self, directory: Path, found: Found, options: Options) -> None:
        self.directory = directory
        self.manifest = found.manifest
        self.layout = found.layout
        self._options = options
        self._is_raw = found.files is not None
        self.pieces = PieceFiles(directory, found.manifest, found.layout, found.files)
        self.damaged: list[tuple[int, int]] = []
        self._follow(found)
        warn_of_dead_writer(directory, found)
        self._place = find_place(self._key(), self._bytes(), options)
        self.bank = self._open_bank()
        self.ledger = FixedLedger(self)

    def _bytes(self) -> int:
        width = sum(column.row_bytes for column in self.manifest.schema.columns)
        return width * max(self.manifest.num_rows, 1)

    def _key(self) -> str:
        status = os.stat(self.directory)
        schema = self.manifest.schema.fingerprint()
        parts = (self.manifest.uuid, self.manifest.piece_size, schema, status.st_dev, status.st_ino)
        return repr((*parts, os.path.realpath(self.directory)))

    def _open_bank(self) -> Bank:
        place: BankPlace = self._place
        return Bank(
            place.directory,
            self.manifest.schema,
            self.layout,
            self.pieces,
            rows=self.manifest.num_rows,
            budget_bytes=place.budget_bytes,
            exclusive=False,
        )

    def _follow(self, found: Found) -> None:
        self.pieces.manifest = self.manifest = found.manifest
        self.pieces.overlay = {} if found.record is None else found.record.overlay(self.directory)
        if self._options.on_damage == "skip":
            self.damaged = find_damaged_rows(self.pieces)

    def refresh(self) -> int:
        """Moves to the newest commit and gives its number of rows."""
        if self._is_raw:
            return self.manifest.num_rows
        found = find(self.directory)
        if found.manifest.schema.fingerprint() != self.manifest.schema.fingerprint():
            raise SchemaMismatchError(
                f"refresh: {self.directory} holds other columns now; open it anew",
                path=str(self.directory),
            )
        moved = (found.manifest.uuid, found.manifest.piece_size) != (
            self.manifest.uuid,
            self.manifest.piece_size,
        )
        self._follow(found)
        if moved:
            self.close()
            self.layout = self.pieces.layout = found.layout
            self._place = find_place(self._key(), self._bytes(), self._options)
            self.bank = self._open_bank()
        else:
            self.bank.renew(found.manifest.num_rows)
        return self.manifest.num_rows

    def close(self) -> None:
        """Gives the bank back; the last reader of a bank in memory deletes it."""
        self.bank.close()
        self._place.leave()


def warn_of_dead_writer(directory: Path, found: Found) -> None:
    """Says when a writer died and left rows that only a writable open can seal."""
    work = directory / WORK_NAME
    if found.manifest.uuid is None or not work.is_dir() or writer_is_alive(work / "lock"):
        return
    bank = bank_directory(work)
    rows = Journal.peek(bank, found.manifest.uuid)
    if rows is None:
        return
    pieces = count_dirty(bank)
    more = max(rows - found.manifest.num_rows, 0) if found.manifest.capacity is None else 0
    if not more and not pieces:
        return
    warnings.warn(
        f"{directory}: its writer ended without closing; {more} new rows, and changes in {pieces} "
        "pieces, are safe but not sealed yet: open it once with read_only=False and close it, or "
        f"run `unienv-data repair {directory}`",
        ResourceWarning,
        stacklevel=6,
    )
