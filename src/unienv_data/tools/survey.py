"""One storage directory as it lies on disk, looked at without changing anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from unienv_data.bank.journal import Journal
from unienv_data.errors import (
    CommitConflictError,
    CorruptPieceError,
    FormatError,
    MissingPieceError,
    MissingStorageError,
    SampleError,
    StorageError,
    UnsupportedVersionError,
    WorkingSetError,
)
from unienv_data.format.codec import ColumnData, Texts
from unienv_data.format.decode import decode, read_footer, read_schema
from unienv_data.format.layout import (
    COMMIT_NAME,
    MANIFEST_NAME,
    WORK_NAME,
    Layout,
    piece_number,
    piece_path,
)
from unienv_data.format.manifest import Manifest
from unienv_data.format.schema import Schema
from unienv_data.io.lock import writer_is_alive
from unienv_data.replay_buffer.metadata import METADATA_NAME
from unienv_data.storages._adoption import check_working_set, dirty_pieces
from unienv_data.storages._bank_place import bank_directory
from unienv_data.storages._committer import CommitRecord, read_manifest
from unienv_data.storages._opening import resolve_schema, stored_space
from unienv_data.storages._piece_errors import check_renamed

__all__ = ["Survey", "WorkingRows", "check_piece", "storage_directories", "value_problem"]

_DEPTH = 4


def storage_directories(root: Path) -> list[Path]:
    """The storage directories at or below a path: those with a manifest or pieces of ours."""
    found = []
    for directory, names, files in os.walk(root):
        here = Path(directory)
        if len(here.relative_to(root).parts) >= _DEPTH:
            names.clear()
        names[:] = sorted(name for name in names if name != WORK_NAME and ".dropped-" not in name)
        if (
            {MANIFEST_NAME, COMMIT_NAME} & set(files)
            or any(piece_number(name) is not None for name in files)
            or MANIFEST_NAME in names
        ):  # a directory in the manifest's place
            found.append(here)
            names.clear()
    return found


@dataclass(frozen=True)
class WorkingRows:
    """What a dead writer left in its working set."""

    bank: Path
    rows: int
    """Rows with values."""
    dirty: tuple[int, ...]
    """Pieces newer than their files."""
    error: WorkingSetError | None
    """Why it cannot be adopted."""


@dataclass
class Survey:
    """The facts about one directory."""

    directory: Path
    manifest: Manifest | None = None
    manifest_error: StorageError | None = None
    is_own: bool = True
    """False when the kept synced copy stands in for a manifest that does not parse."""
    record: CommitRecord | None = None
    record_error: StorageError | None = None
    writer_is_alive: bool = False
    working: WorkingRows | None = None
    has_work: bool = False
    files: dict[int, str] = field(default_factory=dict)
    """Names of the pieces there are, by number."""
    leftovers: list[str] = field(default_factory=list)
    """Temporary files, and files that a glob would take for pieces."""
    foreign: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, directory: Path, *, is_locked: bool = False) -> Survey:
        """Looks at a directory; `is_locked` when the caller is its one writer."""
        self = cls(directory)
        self.writer_is_alive = not is_locked and writer_is_alive(directory / WORK_NAME / "lock")
        self._read_manifest()
        self._scan()
        if self.manifest is not None and not self.writer_is_alive:
            self._read_work(self.manifest)
        return self

    def _read_manifest(self) -> None:
        try:
            self.record = CommitRecord.read(self.directory)
        except StorageError as error:
            self.record_error = error
        try:
            if self.record_error is None:
                manifest, _ = read_manifest(self.directory)
            else:
                path = self.directory / MANIFEST_NAME
                manifest = Manifest.parse(path.read_bytes(), str(path))
            self.manifest = resolve_schema(manifest, self.directory)
        except (StorageError, OSError) as error:
            self.manifest_error = (
                error if isinstance(error, StorageError) else MissingStorageError(str(error))
            )
        if self.manifest is not None and self.record is None:
            path = self.directory / MANIFEST_NAME
            try:
                Manifest.parse(path.read_bytes(), str(path))
            except (FormatError, OSError) as error:
                self.is_own = False
                self.manifest_error = (
                    error if isinstance(error, StorageError) else MissingStorageError(str(error))
                )

    def _scan(self) -> None:
        staged = set() if self.record is None else {name for name, _ in self.record.renames}
        for entry in sorted(os.scandir(self.directory), key=lambda entry: entry.name):
            name = entry.name
            piece = piece_number(name)
            if piece is not None:
                self.files[piece] = name
            elif name == WORK_NAME:
                self.has_work = True
            elif name.startswith(".") and name.endswith(".tmp"):
                if name not in staged and not self.writer_is_alive:
                    self.leftovers.append(name)
            elif name.startswith("part-") and name.endswith(".parquet"):
                self.leftovers.append(name)
            elif name not in (MANIFEST_NAME, COMMIT_NAME, METADATA_NAME):
                self.foreign.append(name)

    def _read_work(self, manifest: Manifest) -> None:
        work = self.directory / WORK_NAME
        if not self.has_work or manifest.uuid is None:
            return
        bank = bank_directory(work)
        rows = Journal.peek(bank, manifest.uuid)
        try:
            check_working_set(bank, manifest)
            error = None
        except WorkingSetError as found:
            error = found
        if rows is None and error is None:
            return  # of another boot, or never begun: the next writer drops it
        dirty = tuple(dirty_pieces(bank))
        self.working = WorkingRows(bank, rows if rows is not None else 0, dirty, error)

    @property
    def layout(self) -> Layout:
        """Which piece holds which rows."""
        return Layout(self.counted.piece_size)

    @property
    def counted(self) -> Manifest:
        """The manifest; the caller has seen that there is one."""
        if self.manifest is None:
            raise MissingStorageError(f"{self.directory} has no readable manifest")
        return self.manifest

    @property
    def has_files(self) -> bool:
        """Whether the rows are in files at all."""
        manifest = self.counted
        return manifest.is_materialized and bool(manifest.schema.stored)

    def path(self, piece: int) -> Path:
        """Where a piece is, an unfinished commit taken into account."""
        if self.record is not None:
            staged = self.record.overlay(self.directory).get(piece)
            if staged is not None and staged.exists():
                return staged
        return piece_path(self.directory, piece)

    def pieces(self) -> Iterator[tuple[int, int, int]]:
        """Number, first row and row behind the last of each piece that is counted.

        The pieces behind the last file are given as one: a manifest may claim any number.
        """
        rows = self.counted.num_rows
        count = self.layout.count(rows) if self.has_files else 0
        there = min(count, max(self.files, default=-1) + 1)
        for piece in range(there):
            start, stop = self.layout.bounds(piece, rows)
            yield piece, start, stop
        if there < count:
            yield there, self.layout.bounds(there, rows)[0], rows

    def surplus(self) -> list[str]:
        """Pieces beyond the rows that count."""
        if self.manifest is None or self.writer_is_alive:
            return []
        count = self.layout.count(self.manifest.num_rows) if self.has_files else 0
        if self.working is not None and self.working.error is None:
            count = max(count, self.layout.count(self.working.rows))
        return [name for piece, name in sorted(self.files.items()) if piece >= count]


def check_piece(survey: Survey, piece: int, rows: int, *, full: bool) -> list[ColumnData] | None:
    """Verifies one piece; gives its rows when it was read as a whole.

    Raises:
        FormatError: It is damaged, of another storage, or of other columns.
        MissingPieceError: It is not there.
    """
    manifest, path = survey.counted, survey.path(piece)
    uuid = manifest.uuid if piece >= manifest.adopted_pieces else None
    data: list[ColumnData] | None = None
    if full:
        data, footer = decode(path, manifest.schema.columns, rows, uuid, piece)
    else:
        found, footer = read_footer(path)
        expected = (uuid, piece)
        if found < rows:
            raise CorruptPieceError(
                f"{path} holds {found} rows, the manifest counts {rows}",
                path=str(path), expected=rows, found=found,
            )  # fmt: skip
        if uuid is not None and (footer is None or (footer.uuid, footer.piece) != expected):
            raise CorruptPieceError(
                f"{path} is no piece {piece} of storage {uuid}",
                path=str(path), expected=expected, found=footer,
            )  # fmt: skip
        _check_schema(path, manifest.schema)
    if footer is None or uuid is None:
        return data
    if survey.record is not None and piece in survey.record.overlay(survey.directory):
        check_renamed(path, piece, footer, manifest.generation)
    if footer.changed > manifest.generation and not survey.writer_is_alive:
        raise CommitConflictError(
            f"{path} was changed by commit {footer.changed}, the manifest is of "
            f"{manifest.generation}",
            path=str(path), expected=manifest.generation, found=footer.changed,
        )  # fmt: skip
    return data


def _check_schema(path: Path, schema: Schema) -> None:
    shapes: Mapping[str, tuple[int, ...]] = {c.name: c.shape for c in schema.columns}
    found = {column.name: column for column in read_schema(path, shapes).columns}
    for column in schema.stored:
        other = found.get(column.name)
        if other is None or (other.dtype, other.shape) != (column.dtype, column.shape):
            raise CorruptPieceError(
                f"{path}: column {column.name!r} is "
                f"{'missing' if other is None else other.describe()}",
                path=str(path), expected=column.describe(), found=other and other.describe(),
            )  # fmt: skip


def value_problem(manifest: Manifest, data: list[ColumnData], rows: int) -> tuple[str, str] | None:
    """What values of a piece lie outside the space: expected and found; None when all fit."""
    if manifest.space is None:
        return None
    space = stored_space(manifest)
    spaces = getattr(space, "spaces", None)
    for column, values in zip(manifest.schema.columns, data, strict=True):
        child = space if spaces is None else spaces[column.name]
        if isinstance(values, Texts):
            used = np.unique(values.codes[:rows]).tolist()
            texts = [text for text in (values.values[code] for code in used) if text]
            batch = np.empty(len(texts), dtype=object)
            batch[:] = texts
            try:
                column.check_batch(batch, len(texts), column.name)
            except SampleError as error:
                return f"texts of column {column.name!r} within the space", str(error)
            continue
        low, high = getattr(child, "low", None), getattr(child, "high", None)
        if low is None or high is None:
            continue
        part = np.asarray(values)[:rows]
        flat = part.reshape(len(part), -1)
        # Rows of zeros, and empty texts, are what rows never set read as.
        with np.errstate(invalid="ignore"):  # NaNs of every kind
            outside = ((part < low) | (part > high)).reshape(len(part), -1).any(axis=1)
            wrong = outside & (flat != 0).any(axis=1)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            return (
                f"values of column {column.name!r} within the bounds of its space",
                f"{int(wrong.sum())} rows outside, the first is row {row} of the piece",
            )
    return None


def is_unreadable(error: BaseException) -> bool:
    """Whether an error says that a piece is not as it should be."""
    return isinstance(error, (FormatError, MissingPieceError, CommitConflictError)) and not (
        isinstance(error, UnsupportedVersionError)
    )
