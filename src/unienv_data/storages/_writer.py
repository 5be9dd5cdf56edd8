"""The writing half of a storage: rows go into the bank, pieces come out of it.

Every method here is called with the storage's lock held, except `seal`, which the background
thread runs and which takes the lock itself where it must.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unienv_data.bank.bank import APPENDED, CLEAN, REWRITTEN
from unienv_data.bank.columns import TextColumn
from unienv_data.bank.journal import (
    ROWS,
    Journal,
    StorageLedger,
)
from unienv_data.base.indexing import RowArray
from unienv_data.errors import CommitConflictError
from unienv_data.format.codec import ColumnData, Footer, Texts, encode
from unienv_data.format.layout import WORK_NAME
from unienv_data.format.manifest import LedgerRecord, Manifest
from unienv_data.io.atomic import remove_quietly, space_error
from unienv_data.io.boot import boot_id
from unienv_data.io.lock import WriterLock
from unienv_data.storages._adoption import check_working_set
from unienv_data.storages._bank_place import bank_directory, forget_bank, remember_bank
from unienv_data.storages._committer import Committer
from unienv_data.storages._options import Options
from unienv_data.storages._pieces import PieceFiles
from unienv_data.storages._sealer import Sealer
from unienv_data.storages._working_set import WorkingSet

__all__ = ["Writer"]

_ENCODERS = 2
_PUBLISHED_TOGETHER = 16


class Writer:
    """One writer of one directory.

    Owns the writer lock, the working set (bank and journal), the committer and the sealer.
    `rows` is the number of rows with values; the storage may be longer by rows never set.
    """

    def __init__(
        self,
        directory: Path,
        options: Options,
        lock: threading.RLock,
        prepare: Callable[[Manifest], Manifest],
    ) -> None:
        """Takes the directory over: finishes what its last writer began, adopts its rows.

        Args:
            directory: The storage's directory.
            options: Budgets, working directory, durability.
            lock: The storage's lock, for the background thread.
            prepare: Checks the manifest found against what the caller expects, and gives the
                one to go on with.
        """
        self.directory = directory
        self._options = options
        self._guard = lock
        self.pid = os.getpid()
        self._work = directory / WORK_NAME
        try:
            self._work.mkdir()
            self._was_left = False
        except FileExistsError:
            self._was_left = True
        except OSError as error:
            raise space_error(error, self._work, "open for writing") from error
        self.lock = WriterLock(self._work / "lock", "open for writing")
        seal, publish = weakref.WeakMethod(self.seal), weakref.WeakMethod(self.publish)
        self.sealer = Sealer(lambda piece: _call(seal, piece), lambda: _call(publish))
        self._is_shrinking = False
        self._last_flush = time.monotonic()
        try:
            self._open(prepare)
        except BaseException:
            self.lock.release()
            raise

    def _open(self, prepare: Callable[[Manifest], Manifest]) -> None:
        self.committer = Committer.recover(
            self.directory,
            syncs=self._options.durability == "power",
            was_left=self._was_left,
        )
        found = self.committer.manifest
        manifest = prepare(found)
        self._bank_directory = self._find_bank_directory(manifest)
        adopts = self._adopts(found, manifest)
        if manifest is not found:
            self.committer.write_manifest(manifest.next())
        manifest = self.committer.manifest
        if not adopts:
            shutil.rmtree(self._bank_directory, ignore_errors=True)
        remember_bank(self._work, self._bank_directory)
        try:
            self._bank_directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise space_error(error, self._bank_directory, "open for writing") from error
        budget = self._options.disk_budget(self._bank_directory)
        self.set = WorkingSet(self._bank_directory, self.directory, manifest, budget)
        self.bank, self.layout = self.set.bank, self.set.layout
        # Sealed pieces that have their names but are not counted yet, since an earlier one is
        # still being sealed; with the version sealed. They stay dirty: what is not counted
        # cannot be read from its file.
        self._placed: dict[int, int] = {}
        if adopts:
            self.set.recover()
            if self.set.growing and self.rows < manifest.num_rows:
                self._publish_shorter(self.rows)
        elif manifest.ledger is not None:
            self.set.adopt_ledger(manifest.ledger)
        self.bank.set_rows(self.rows)
        self.committer.keep_synced()

    def _find_bank_directory(self, manifest: Manifest) -> Path:
        before = bank_directory(self._work)
        if manifest.uuid is not None and Journal.peek(before, manifest.uuid) is not None:
            return before  # an interrupted writer's rows are there, whatever is asked for now
        if self._options.work_dir is None:
            return self._work / "bank"
        return Path(self._options.work_dir) / f"unienv-data-{manifest.uuid}"

    def _adopts(self, found: Manifest, manifest: Manifest) -> bool:
        if manifest.uuid is None:
            return False
        if found.is_foreign:
            # Another program rewrote the manifest: rows of a dead writer of ours may be lost.
            if (self._bank_directory / "journal").exists():
                raise CommitConflictError(
                    f"open for writing: {self.directory} was rewritten by another program while "
                    f"{self._bank_directory} still holds rows of an interrupted writer; move that "
                    "directory away to go on without them",
                    path=str(self.directory),
                )
            return False
        check_working_set(self._bank_directory, found)
        return Journal.peek(self._bank_directory, manifest.uuid) is not None

    # -- counts ------------------------------------------------------------------------------

    @property
    def manifest(self) -> Manifest:
        """What is on disk."""
        return self.committer.manifest

    @property
    def rows(self) -> int:
        """Rows with values: all of a bounded storage, whose unset rows are zeros."""
        return self.set.rows

    @property
    def pieces(self) -> PieceFiles:
        """The piece files that the manifest counts."""
        return self.set.pieces

    @property
    def ledger(self) -> StorageLedger:
        """Ring position and segments of the storage's owner."""
        return self.set.ledger

    # -- writing -----------------------------------------------------------------------------

    def write(
        self,
        where: slice | RowArray,
        values: Sequence[Any],
        count: int,
        *,
        head: int = -1,
        tail: int = -1,
        gives_up: bool = True,
    ) -> None:
        """Stores checked rows: all of them or none, whenever the process dies.

        Args:
            where: Range or rows; rows may repeat, the last one wins.
            values: One checked batch a column.
            count: Number of rows.
            head: New ledger head, -1 to leave it.
            tail: New ledger tail, -1 to leave it.
            gives_up: Whether rows that count now may be overwritten in a bounded storage.
        """
        self.sealer.raise_error()
        self.finish_shrink()
        if count == 0:
            self.set.journal.settle(-1, head, tail)
            return
        rows = self.rows
        touched, overwrites = self.set.write(where, values, head=head, tail=tail, gives_up=gives_up)
        if not self.set.growing:
            self._relieve_after()
            return
        if self.rows > rows:
            self._submit(rows, self.rows)
        if overwrites:
            # A piece that was being sealed meanwhile is not sealed with the old values.
            size = self.layout.piece_size
            for piece in self.bank.only_appended(touched):
                if (piece + 1) * size <= rows:
                    self._submit(piece * size, (piece + 1) * size)
            self._relieve_after()

    def open_window(self, row: int) -> None:
        """Prepares the piece of a row for appends one at a time, and opens `window` on it."""
        self.sealer.raise_error()
        self.finish_shrink()
        self._relieve()  # before the piece is marked dirty: it would be sealed without the rows
        self.set.open_window(row)

    def close_window(self, row: int) -> None:
        """After the last row of a window: the piece is full."""
        if self.set.growing:
            self._submit(row, row + 1)

    def _relieve_after(self) -> None:
        """Relieves after a write that has taken effect: an error is the next call's."""
        try:
            self._relieve()
        except OSError as error:
            self.sealer.keep(error)

    def _relieve(self) -> None:
        """Commits when dirty pieces, which cannot be evicted, take too much of the budget."""
        if self.bank.resident_bytes > self.bank.budget_bytes:
            width = sum(column.row_bytes for column in self.bank.columns) * self.layout.piece_size
            if len(self.bank.dirty_pieces()) * width > self.bank.budget_bytes // 2:
                self.flush()

    # -- shrinking ---------------------------------------------------------------------------

    def shrink(self, rows: int) -> None:
        """Drops every row from `rows` on.

        When its files cannot be written it raises, and the rows are dropped all the same; the
        next call that writes does the rest.
        """
        self.finish_shrink()
        self.set.window.shut()
        if rows >= self.rows:
            self.bank.set_rows(rows)
            return
        size = self.layout.piece_size
        if rows % size and rows < self.manifest.num_rows:
            # Its file is cut at once, so that other programs never read the dropped rows.
            self.set.prepare([rows // size], slice(rows, rows))
            self.bank.mark_dirty([rows // size], REWRITTEN)
        self.set.words[ROWS] = rows
        for piece in self.layout.span(rows, self.bank.rows):
            self.set.touch(piece)
        self.bank.set_rows(rows)
        self._is_shrinking = True
        self.finish_shrink()

    def finish_shrink(self) -> None:
        """Does what is left of a `shrink` that failed half-way; else nothing."""
        if not self._is_shrinking:
            return
        rows = self.rows
        self.set.clear_beyond(rows)
        if rows < self.manifest.num_rows:
            self._publish_shorter(rows)
        self._is_shrinking = False

    def _publish_shorter(self, rows: int) -> None:
        manifest = self.manifest
        self.committer.write_manifest(manifest.shorter(rows, ledger=self._ledger_record(rows)))
        self._committed()
        self.committer.remove_pieces_beyond(rows)
        self.committer.keep_synced()
        self._is_shrinking = False  # a flush does the rest, now or later
        if rows % self.layout.piece_size:
            piece = rows // self.layout.piece_size
            if self.bank.dirty_state(piece) != CLEAN:
                self.flush()

    # -- sealing -----------------------------------------------------------------------------

    def _submit(self, before: int, after: int) -> None:
        """Hands pieces that became full to the sealer."""
        size = self.layout.piece_size
        for piece in range(before // size, after // size):
            if self.bank.dirty_state(piece) != APPENDED or self._is_placed(piece):
                continue
            if not self.sealer.submit(piece):
                try:
                    self.seal(piece)
                    self.sealer.note_sealed()
                except OSError as error:
                    # The rows are safe in the bank: this call succeeded, the next one hears it.
                    self.sealer.keep(error)

    def seal(self, piece: int) -> None:
        """Encodes one full piece that was only appended to, and gives it its name."""
        with self._guard:
            stop = (piece + 1) * self.layout.piece_size
            if self.bank.dirty_state(piece) != APPENDED or stop > self.rows:
                return
            if self._is_placed(piece):
                return
            version = self.set.version(piece)
            data, footer = self._snapshot(piece, self.manifest.generation + 1)
            sync = piece * self.layout.piece_size < self.manifest.synced_rows
            compression = self.manifest.compression
        encoded = encode(self.manifest.schema, data, footer, compression)
        staged = self.committer.stage(piece, encoded, sync=sync)
        with self._guard:
            if (
                self.set.version(piece) != version
                or self.bank.dirty_state(piece) != APPENDED
                or self.lock.is_released
            ):
                remove_quietly(staged)
                return
            self.committer.place(piece, staged)
            self._placed[piece] = version
            if len(self._placed) >= _PUBLISHED_TOGETHER:
                self._advance()

    def publish(self) -> None:
        """Lets the manifest count what is sealed; the sealer calls it when nothing more comes."""
        with self._guard:
            if not self.lock.is_released:
                self._advance()

    def _snapshot(self, piece: int, generation: int) -> tuple[list[ColumnData], Footer]:
        start, stop = self.layout.bounds(piece, self.rows)
        data = self.set.view(piece)
        if self.bank.dirty_state(piece) == REWRITTEN:
            changed = generation
        else:
            changed = max(self.bank.changed(piece), self.manifest.shortened)
        uuid = self.manifest.uuid or ""
        return data, Footer(uuid, piece, stop - start, generation, changed)

    def _is_placed(self, piece: int) -> bool:
        return self._placed.get(piece) == self.set.version(piece)

    def _advance(self) -> None:
        """Lets the manifest count full pieces that have their names, in order."""
        if not self.manifest.schema.stored:
            return
        size = self.layout.piece_size
        first = piece = self.manifest.num_rows // size
        while self._is_placed(piece):
            piece += 1
        rows = piece * size
        if rows > self.manifest.num_rows:
            self.committer.write_manifest(
                self.manifest.next(num_rows=rows, boot=boot_id(), ledger=self._ledger_record(rows)),
                sync=False,
            )
            self._committed()
            for counted in range(first, piece):
                self._placed.pop(counted, None)
                self.set.forget_version(counted)
                self.bank.mark_clean(counted)

    def _committed(self) -> None:
        self.set.pieces.manifest = self.committer.manifest
        self.ledger.generation = self.committer.manifest.generation
        self.ledger.shortened = self.committer.manifest.shortened

    def _ledger_record(self, rows: int) -> LedgerRecord | None:
        if not self.ledger.is_bound:
            return None
        if self.set.growing:
            return LedgerRecord(rows, 0, self.ledger.maintained)
        return LedgerRecord(self.ledger.head, self.ledger.tail, self.ledger.maintained)

    # -- flushing ----------------------------------------------------------------------------

    def flush(self) -> None:
        """Makes every row with a value part of the committed, synced state."""
        if self.committer.settle():
            self._committed()
        self.finish_shrink()
        self.set.window.shut()
        self.sealer.forget()
        manifest = self.manifest
        rows = self.rows
        count = self.layout.count(rows)
        stored = bool(manifest.schema.stored)
        first_time = not manifest.is_materialized
        dirty = list(range(count)) if first_time else self.bank.dirty_pieces()
        dirty = [piece for piece in dirty if piece < count] if stored else []
        replaces = not first_time and any(
            self.bank.dirty_state(piece) == REWRITTEN for piece in dirty
        )
        target = replace(
            manifest,
            num_rows=rows,
            is_materialized=True,
            ledger=self._ledger_record(rows),
            synced_rows=rows if self.committer.syncs else min(manifest.synced_rows, rows),
        )
        if self.committer.has_surplus:
            self.committer.remove_pieces_beyond(rows)
        if not dirty and target == manifest:
            self._last_flush = time.monotonic()
            return
        generation = manifest.generation + 1
        target = replace(target, generation=generation, boot=boot_id())
        staged = self._encode_all(dirty, generation)
        # What replaces a synced piece is synced before it gets its name.
        size, synced = self.layout.piece_size, manifest.synced_rows
        self.committer.sync_staged(
            path for piece, path in staged if replaces or piece * size < synced
        )
        self.committer.sync_pieces()
        if replaces:
            self.committer.commit(staged, target)
        else:
            for piece, path in staged:
                self.committer.place(piece, path)
            self.committer.sync_pieces()
            self.committer.write_manifest(target)
        for piece in dirty:
            if replaces:
                self.bank.note_changed(piece, generation)
            self.bank.mark_clean(piece)
        self._placed.clear()
        self._committed()
        self.committer.keep_synced()
        self._last_flush = time.monotonic()

    def _encode_all(self, pieces: Sequence[int], generation: int) -> list[tuple[int, Path]]:
        if self.set.growing or self.manifest.is_materialized:
            self.set.ensure_whole(pieces)
        schema, compression = self.manifest.schema, self.manifest.compression

        def encode_one(piece: int) -> tuple[int, Path]:
            data, footer = self._snapshot(piece, generation)
            data = [values if isinstance(values, Texts) else np.asarray(values) for values in data]
            encoded = encode(schema, data, footer, compression)
            return piece, self.committer.stage(piece, encoded, sync=False)

        done: list[tuple[int, Path]] = []
        try:
            if len(pieces) < 4 or any(isinstance(c, TextColumn) for c in self.bank.columns):
                done.extend(encode_one(piece) for piece in pieces)
            else:
                with ThreadPoolExecutor(_ENCODERS) as pool:
                    futures = [pool.submit(encode_one, piece) for piece in pieces]
                    done.extend(future.result() for future in futures)
        except BaseException:
            for piece in pieces:
                for path in self.directory.glob(f".part-{piece:06d}.parquet.*.tmp"):
                    remove_quietly(path)
            raise
        return done

    @property
    def is_flush_due(self) -> bool:
        """Whether the last flush is longer ago than the interval asked for."""
        return time.monotonic() - self._last_flush > self._options.flush_interval_s

    @property
    def has_unflushed_rows(self) -> bool:
        """Whether closing without a flush would leave rows to recover."""
        return self.rows != self.manifest.num_rows or bool(self.bank.dirty_pieces())

    # -- closing -----------------------------------------------------------------------------

    def close(self, *, remove: bool) -> None:
        """Lets the directory go.

        Args:
            remove: Delete the working set: everything in it is in pieces.
        """
        if self.pid != os.getpid():
            self.set.close(remove=False)
            self.lock.release()
            return
        self.set.close(remove=remove)
        if remove:
            shutil.rmtree(self._bank_directory, ignore_errors=True)
            forget_bank(self._work)
            for path in self._work.glob("*.json"):
                remove_quietly(path)
        self.lock.release(remove=remove)
        if remove:
            try:
                self._work.rmdir()
            except OSError:
                return  # someone is opening it at this moment


def _call(method: weakref.WeakMethod[Any], *arguments: int) -> None:
    bound = method()
    if bound is not None:
        bound(*arguments)
