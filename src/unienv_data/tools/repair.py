"""`repair`: what can be saved is saved, what is taken out is moved aside, nothing is made up.

Everything is planned first from what lies on disk, and a dry run ends there. The order of the
steps makes each interruption harmless: rows stop counting before their files move.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from unienv_data.errors import MissingStorageError, StorageError, StorageLockedError
from unienv_data.format.codec import Footer, Texts, encode
from unienv_data.format.decode import read_footer, read_schema
from unienv_data.format.layout import COMMIT_NAME, MANIFEST_NAME, WORK_NAME, piece_path
from unienv_data.format.manifest import LedgerRecord, Manifest, valid_json
from unienv_data.format.schema import Schema
from unienv_data.io.atomic import replace_file, sync_directory
from unienv_data.io.lock import WriterLock
from unienv_data.replay_buffer.metadata import METADATA_NAME, BufferMetadata
from unienv_data.replay_buffer.replay_buffer import ReplayBuffer
from unienv_data.storages._committer import Committer
from unienv_data.storages._opening import stored_space
from unienv_data.storages._version import WRITER
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.tools.findings import Action, Progress, RepairReport
from unienv_data.tools.survey import Survey, check_piece, is_unreadable, storage_directories
from unienv_data.tools.verify import verify
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.space.space_utils.serialization_utils import json_to_space, space_to_json

__all__ = ["repair"]

_WORK_FILES = ("synced.json", "bank_at.json")  # the names in a working directory beside the lock


def repair(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    zero_damaged: bool = False,
    progress: Progress | None = None,
) -> RepairReport:
    """Makes a damaged data set open again, with every row that can be verified.

    Seals what an interrupted writer left, finishes or sets aside its commit, keeps the longest
    verified prefix of a growing storage and the longest verified run of a ring, and rebuilds a
    lost manifest from the pieces. Nothing is deleted: what is taken out is moved to
    ``<path>.dropped-<time>``, beside the data set, where no glob or other reader of it looks.

    Args:
        path: The directory of a storage or buffer.
        dry_run: Say the same without doing it.
        zero_damaged: Let damaged rows of a bounded storage that no buffer owns read as zeros;
            without it they stay damaged.
        progress: Called with pieces done and pieces in all.

    Raises:
        MissingStorageError: There is no data set at this path.
        StorageLockedError: A writer has it open.
    """
    root = Path(path)
    directories = storage_directories(root)
    if not directories:
        raise MissingStorageError(
            f"repair: {root} holds neither {MANIFEST_NAME} nor pieces; check the path",
            path=str(root),
        )
    aside = _Aside(root)
    actions: list[Action] = []
    is_usable = True
    for directory in directories:
        had_work = (directory / WORK_NAME).exists()
        plan = _Plan(directory, root, zero_damaged=zero_damaged, had_work=had_work)
        with _locked(directory, dry_run=dry_run):
            plan.make(progress)
        actions += plan.actions
        is_usable = is_usable and plan.target is not None
        if not dry_run and plan.actions:
            _apply(plan, aside)
    if (root / METADATA_NAME).exists():
        actions += _repair_buffer(root, dry_run=dry_run, is_needed=bool(actions))
        try:
            BufferMetadata.read(root)
        except StorageError:
            is_usable = False
    dropped = str(aside.path) if any(a.kind == "move" for a in actions) else None
    return RepairReport(str(root), dry_run, tuple(actions), dropped, is_usable)


class _Aside:
    """The side directory of one repair; made when the first file comes."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.path = self.root.with_name(f"{self.root.name}.dropped-{stamp}")
        number = 1
        while self.path.exists():
            number += 1
            self.path = self.root.with_name(f"{self.root.name}.dropped-{stamp}-{number}")

    def take(self, path: Path, *, copy: bool = False) -> None:
        """Moves a file or directory here, under its path within the data set."""
        try:
            inner = path.absolute().relative_to(self.root)
        except ValueError:
            inner = Path(path.name)
        target, number = self.path / inner, 1
        while target.exists():  # a second thing of this name: both are kept
            number += 1
            target = self.path / inner.with_name(f"{inner.name}.{number}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if copy:
            shutil.copy2(path, target)
        else:
            shutil.move(path, target)


@contextmanager
def _locked(directory: Path, *, dry_run: bool) -> Iterator[None]:
    """Holds the writer lock; a dry run only asks for it."""
    work = directory / WORK_NAME
    if dry_run:
        if Survey.of(directory).writer_is_alive:
            raise StorageLockedError(
                f"repair: {directory} is being written; close it there first", path=str(directory)
            )
        yield
        return
    was_there = work.exists()
    work.mkdir(exist_ok=True)
    lock = WriterLock(work / "lock", "repair")
    try:
        yield
    finally:
        lock.release(remove=not was_there)
        if not was_there:
            with suppress(OSError):  # someone may be opening it at this moment
                work.rmdir()


@dataclass
class _Plan:
    """What is to be done with one directory."""

    directory: Path
    root: Path
    zero_damaged: bool
    had_work: bool = False
    """Whether there was a working directory before this repair made one for its lock."""
    actions: list[Action] = field(default_factory=list)
    target: Manifest | None = None
    """The manifest to go on with; None when nothing can be saved."""
    rewrites_manifest: bool = False
    is_rebuilt: bool = False
    keeps_old_manifest: bool = False
    recovers: bool = False
    finishes: list[tuple[str, int]] = field(default_factory=list)
    moves: list[Path] = field(default_factory=list)
    """Moved before the working set is recovered."""
    later: list[Path] = field(default_factory=list)
    """Moved when the manifest does not count them any more."""
    cut: Manifest | None = None
    zeros: list[int] = field(default_factory=list)

    def say(self, kind: str, path: Path, what: str, rows: tuple[tuple[int, int], ...] = ()) -> None:
        """Notes a step."""
        self.actions.append(Action(kind, str(path), rows, what))

    def move(self, path: Path, what: str, *, later: bool = False) -> None:
        """Notes that a file is moved aside."""
        self.say("move", path, what)
        (self.later if later else self.moves).append(path)

    def make(self, progress: Progress | None) -> None:
        """Plans everything from what lies on disk."""
        survey = Survey.of(self.directory, is_locked=True)
        for name in (MANIFEST_NAME, *(f"{WORK_NAME}/{each}" for each in _WORK_FILES)):
            if (self.directory / name).is_dir():
                self.move(self.directory / name, "a directory in a file's place")
        self._manifest(survey)
        self._record(survey)
        if survey.manifest is None:
            return
        self.target = survey.manifest
        bad, errors = self._bad_pieces(survey, progress)
        bad = self._working(survey, bad)
        rows = survey.manifest.num_rows
        if self.recovers and survey.working is not None and survey.manifest.capacity is None:
            rows = survey.working.rows
        if bad:
            self._damaged(survey, bad, errors, rows)
        for name in survey.leftovers:
            self.move(self.directory / name, "a temporary file that counts for nothing")
        kept = rows if self.cut is None else self.cut.num_rows
        count = survey.layout.count(kept) if survey.has_files else 0
        numbers = set(survey.files)
        if self.recovers and survey.has_files:
            numbers.update(range(survey.layout.count(rows)))  # there once they are sealed
        for piece in sorted(numbers):
            if piece >= count:
                path = piece_path(self.directory, piece)
                self.move(path, "beyond the rows that count", later=True)

    # -- commit record and manifest --------------------------------------------------------

    def _record(self, survey: Survey) -> None:
        record_path = self.directory / COMMIT_NAME
        if survey.record is not None:
            self.finishes = [
                (name, piece)
                for name, piece in survey.record.renames
                if (self.directory / name).exists()
            ]
            self.say("commit", record_path, f"finishes it: {len(self.finishes)} renames are left")
            return
        if survey.record_error is None:
            return
        self.move(record_path, "cannot be read")
        if survey.manifest is None:
            return
        newest = 0
        for piece in survey.files:
            try:
                footer = read_footer(survey.path(piece))[1]
            except (StorageError, OSError):
                continue
            newest = max(newest, 0 if footer is None else footer.changed)
        if newest <= survey.manifest.generation and not self.is_rebuilt:
            return  # nothing was renamed: the state before the commit is whole
        # The record was in place, so all its staged files were: those of its commit are it.
        for name in list(survey.leftovers):
            piece = int(name.split("-")[1].split(".")[0]) if name.startswith(".part-") else -1
            try:
                footer = read_footer(self.directory / name)[1]
            except (StorageError, OSError):
                continue
            if footer is not None and (footer.generation, footer.piece) == (newest, piece):
                self.finishes.append((name, piece))
                survey.leftovers.remove(name)
        if self.is_rebuilt and not self.finishes:
            return
        survey.manifest = replace(survey.manifest, generation=newest)
        self.rewrites_manifest = True
        self.say(
            "commit", self.directory, f"completes commit {newest} from {len(self.finishes)} staged "
            "files, since it had begun; its record, which named them, is unreadable",
        )  # fmt: skip

    def _manifest(self, survey: Survey) -> None:
        path = self.directory / MANIFEST_NAME
        if survey.manifest_error is None:
            return
        if survey.manifest is not None:
            self.rewrites_manifest = True
            self.say("manifest", path, "the last synced one takes its place")
        else:
            found = _from_pieces(self.directory, self.root, survey)
            if found is None:
                self.say("remains", path, f"{survey.manifest_error}; no piece tells what it said")
                return
            survey.manifest, what = found
            self.rewrites_manifest = self.is_rebuilt = True
            self.say("manifest", path, what)
        if path.is_file():
            self.say("move", path, "is not readable")
            self.keeps_old_manifest = True

    # -- pieces and working set ------------------------------------------------------------

    def _bad_pieces(
        self, survey: Survey, progress: Progress | None
    ) -> tuple[list[int], dict[int, str]]:
        staged = {piece: self.directory / name for name, piece in self.finishes}
        bad, errors = [], {}
        total = sum(1 for _ in survey.pieces())
        original = survey.path
        survey.path = lambda piece: staged.get(piece) or original(piece)  # type: ignore[method-assign]
        for piece, start, stop in survey.pieces():
            try:
                check_piece(survey, piece, stop - start, full=True)
            except (StorageError, OSError) as error:
                if not is_unreadable(error) and not isinstance(error, OSError):
                    raise
                bad.append(piece)
                errors[piece] = str(error)
            if progress is not None:
                progress(piece + 1, total)
        return bad, errors

    def _working(self, survey: Survey, bad: list[int]) -> list[int]:
        """Plans the recovery of the working set; gives the pieces that stay bad."""
        work, working = self.directory / WORK_NAME, survey.working
        bank = work / "bank"
        had_work = self.had_work
        if working is None:
            if bank.exists():
                self.move(bank, "a working set of another boot or storage, without rows")
            elif had_work:
                self.say("work", work, "removes what an interrupted writer left: no rows")
            return bad
        present = _whole_pieces(working.bank, len(survey.counted.schema.columns))
        mended = [piece for piece in bad if piece in working.dirty and piece in present]
        stuck = [piece for piece in bad if piece in working.dirty and piece not in present]
        reason = None if working.error is None else str(working.error)
        if reason is None and stuck:
            reason = f"piece {stuck[0]} is damaged, of which it holds only some rows"
        if reason is not None:
            dirty = ", ".join(map(str, working.dirty[:8])) or "none"
            self.move(working.bank, f"cannot be sealed ({reason}); unsealed pieces: {dirty}")
            return bad
        more = 0
        if survey.counted.capacity is None:
            more = max(working.rows - survey.counted.num_rows, 0)
        self.recovers = True
        self.say(
            "recover", work, f"seals {more} new rows and changes in {len(working.dirty)} pieces"
        )
        return [piece for piece in bad if piece not in mended]

    def _damaged(self, survey: Survey, bad: list[int], errors: dict[int, str], rows: int) -> None:
        manifest, layout = survey.counted, survey.layout
        capacity = manifest.capacity
        metadata = _buffer_metadata(self.root)
        if manifest.is_foreign and metadata is not None and metadata.capacity is not None:
            capacity = metadata.capacity
        ranges = tuple(layout.bounds(piece, rows) for piece in bad)
        if capacity is None:
            start = ranges[0][0]
            self.cut = replace(
                manifest,
                num_rows=start,
                synced_rows=min(manifest.synced_rows, start),
                adopted_pieces=min(manifest.adopted_pieces, bad[0]),
                ledger=None
                if manifest.ledger is None
                else replace(manifest.ledger, head=min(manifest.ledger.head, start)),
            )
            self.say(
                "cut", survey.path(bad[0]), f"{errors[bad[0]]}: keeps the {start} rows before it; "
                f"{len(bad)} pieces are damaged, the others from here on are moved unharmed",
                ((start, rows),),
            )  # fmt: skip
            return
        ledger = manifest.ledger
        if ledger is not None and not manifest.is_foreign:
            run = _longest_run(ledger, capacity, ranges)
            if run != (ledger.tail, ledger.head):
                kept = replace(ledger, tail=run[0], head=run[1])
                self.cut = replace(manifest, ledger=kept)
                self.say(
                    "give_up", self.directory / MANIFEST_NAME, f"the buffer keeps its longest "
                    f"unbroken run of verified rows, {run[1] - run[0]} of "
                    f"{ledger.head - ledger.tail}; the others cease to be rows of it",
                    tuple(pair for pair in ((ledger.tail, run[0]), (run[1], ledger.head))
                          if pair[0] < pair[1]),
                )  # fmt: skip
        elif not self.zero_damaged or manifest.is_foreign:
            for piece, pair in zip(bad, ranges, strict=True):
                self.say(
                    "remains", survey.path(piece), f"{errors[piece]}; rows of a bounded storage "
                    "cannot be cut: restore the file from a copy, or let them read as zeros with "
                    "zero_damaged (--zero-damaged)", (pair,),
                )  # fmt: skip
            return
        self.cut = self.cut or manifest
        for piece, pair in zip(bad, ranges, strict=True):
            if survey.path(piece).exists():
                self.move(survey.path(piece), errors[piece], later=True)
            self.zeros.append(piece)
            owned = ledger is not None
            self.say(
                "zero", piece_path(self.directory, piece), "a piece of zeros takes its place"
                + (": no row of the buffer is in it" if owned else ""), () if owned else (pair,),
            )  # fmt: skip


def _whole_pieces(bank: Path, columns: int) -> set[int]:
    try:
        present = np.fromfile(bank / "present", dtype=np.uint8)
    except OSError:
        return set()
    stored = max(columns, 1)
    table = present[: len(present) // stored * stored].reshape(-1, stored)
    return set(np.flatnonzero(table.all(axis=1)).tolist())


def _longest_run(
    ledger: LedgerRecord, capacity: int, bad: tuple[tuple[int, int], ...]
) -> tuple[int, int]:
    """The longest range of rows of a ring that touches no bad position; the newest of equals."""
    best = (ledger.head, ledger.head)
    breaks = []
    for start, stop in bad:
        for turn in range(ledger.tail // capacity, ledger.head // capacity + 1):
            first, last = start + turn * capacity, stop + turn * capacity
            if first < ledger.head and last > ledger.tail:
                breaks.append((max(first, ledger.tail), min(last, ledger.head)))
    cursor = ledger.tail
    for start, stop in [*sorted(breaks), (ledger.head, ledger.head)]:
        if start - cursor >= best[1] - best[0] and start > cursor:
            best = (cursor, start)
        cursor = max(cursor, stop)
    return best


def _buffer_metadata(root: Path) -> BufferMetadata | None:
    try:
        return BufferMetadata.read(root)
    except (StorageError, OSError):
        return None


def _from_pieces(directory: Path, root: Path, survey: Survey) -> tuple[Manifest, str] | None:
    """A manifest made of what the pieces, and the buffer's file, say about themselves."""
    footers: dict[int, tuple[int, Footer | None]] = {}
    for piece in survey.files:
        try:
            footers[piece] = read_footer(piece_path(directory, piece))
        except (StorageError, OSError):
            continue
    ours = [footer for _, footer in footers.values() if footer is not None]
    if not ours:
        return None
    uuids = [footer.uuid for footer in ours]
    uuid = max(sorted(set(uuids)), key=uuids.count)
    mine = {
        piece: (count, footer)
        for piece, (count, footer) in footers.items()
        if footer is not None and (footer.uuid, footer.piece) == (uuid, piece)
    }
    if not mine:
        return None
    last = max(mine)
    piece_size = max(rows for rows, _ in mine.values())
    generation = max(footer.generation for _, footer in mine.values())
    num_rows = last * piece_size + mine[last][0]
    schema = read_schema(piece_path(directory, min(mine)))
    space, capacity, ledger = schema.to_space(), None, None
    known = (
        "the space is not known: the widest one of the columns' types stands in, which has "
        "neither bounds nor text limits nor columns without elements"
    )
    metadata = _buffer_metadata(root)
    if metadata is not None and metadata.storage_cls.endswith(".ParquetStorage"):
        candidate: Any = json_to_space(metadata.space, NumpyComputeBackend, None)
        described = Schema.from_space(candidate, f"repair {directory}")
        if [(c.name, c.dtype, c.shape) for c in described.stored] == [
            (c.name, c.dtype, c.shape) for c in schema.columns
        ] or {c.name for c in described.stored} == {c.name for c in schema.columns}:
            space, schema, capacity = candidate, described, metadata.capacity
            known = f"space and capacity are those of {METADATA_NAME}"
        if metadata.ledger is not None:
            ledger = LedgerRecord(
                metadata.ledger.head, metadata.ledger.tail, metadata.physical_segments is not None
            )
    if capacity is not None:
        num_rows = capacity
    manifest = Manifest(
        piece_size=piece_size, num_rows=num_rows, schema=schema, compression="snappy", uuid=uuid,
        generation=generation, capacity=capacity, space=valid_json(space_to_json(space)),
        ledger=ledger, writer=WRITER,
    )  # fmt: skip
    return manifest, (
        f"made anew from the footers of {len(mine)} pieces: {num_rows} rows, {piece_size} a piece, "
        f"commit {generation}; compression of further pieces is snappy; {known}"
    )


# -- doing it --------------------------------------------------------------------------------


def _apply(plan: _Plan, aside: _Aside) -> None:
    if plan.target is None:
        return
    directory, path = plan.directory, plan.directory / MANIFEST_NAME
    with _locked(directory, dry_run=False):
        if plan.keeps_old_manifest:
            aside.take(path, copy=True)
        for move in plan.moves:
            aside.take(move)
        for name, piece in plan.finishes:
            staged, target = directory / name, piece_path(directory, piece)
            if staged.is_dir() != target.is_dir() and target.exists():
                aside.take(target)  # a directory in a file's place cannot be replaced
            os.replace(staged, target)
        if plan.finishes:
            sync_directory(directory)
        record = directory / COMMIT_NAME
        if plan.rewrites_manifest or record.exists():
            _write_manifest(path, plan.target)
        record.unlink(missing_ok=True)
    if plan.recovers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            space: Any = stored_space(plan.target)
            ParquetStorage.load_from(directory, space, read_only=False).close()
    with _locked(directory, dry_run=False):
        if plan.cut is not None:
            now = Survey.of(directory, is_locked=True).counted
            cut = replace(
                now, num_rows=plan.cut.num_rows, synced_rows=plan.cut.synced_rows,
                adopted_pieces=plan.cut.adopted_pieces, ledger=plan.cut.ledger,
                generation=now.generation + 1,
            )  # fmt: skip
            _write_manifest(path, cut)
        for move in plan.later:
            if move.exists():
                aside.take(move)
        if plan.zeros and plan.cut is not None:
            _write_zeros(directory, plan.zeros)
        sync_directory(directory)
    _tidy(directory)


def _write_manifest(path: Path, manifest: Manifest) -> None:
    if not manifest.is_foreign:
        replace_file(path, manifest.dump(), sync=True)
        return
    data = json.loads(path.read_bytes())
    data["num_rows"] = manifest.num_rows
    replace_file(path, json.dumps(data, indent=2).encode(), sync=True)


def _write_zeros(directory: Path, pieces: list[int]) -> None:
    survey = Survey.of(directory, is_locked=True)
    manifest = survey.counted
    committer = Committer(directory, manifest, syncs=True)
    for piece in pieces:
        start, stop = survey.layout.bounds(piece, manifest.num_rows)
        rows = stop - start
        data = [
            Texts([""], np.zeros(rows, np.int64)) if column.is_text else column.zeros(rows)
            for column in manifest.schema.columns
        ]
        footer = Footer(manifest.uuid or "", piece, rows, manifest.generation, manifest.generation)
        encoded = encode(manifest.schema, data, footer, manifest.compression)
        committer.place(piece, committer.stage(piece, encoded, sync=True))


def _tidy(directory: Path) -> None:
    """Removes an empty working directory: a lock that nobody holds, a copy of the manifest."""
    work = directory / WORK_NAME
    if not work.is_dir() or (work / "bank").exists():
        return
    lock = WriterLock(work / "lock", "repair")
    for name in _WORK_FILES:
        (work / name).unlink(missing_ok=True)
    lock.release(remove=True)
    try:
        work.rmdir()
    except OSError:
        return


def _repair_buffer(root: Path, *, dry_run: bool, is_needed: bool) -> list[Action]:
    path = root / METADATA_NAME
    try:
        BufferMetadata.read(root)
    except StorageError as error:
        return [Action("remains", str(path), (), f"{error}; the storage inside opens by itself")]
    if not is_needed:
        report = verify(root)
        if all(f.kind not in ("buffer_rows", "segments") for f in report.findings):
            return []
    if not dry_run:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                ReplayBuffer.load_from(root, backend=NumpyComputeBackend, read_only=False).close()
        except StorageError as error:
            return [Action("remains", str(path), (), str(error))]
    return [Action("buffer", str(path), (), "position and segments follow the storage")]
