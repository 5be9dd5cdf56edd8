"""Renames and the manifest as one step. Owns the names in a storage directory.

Growing needs no record: new pieces get their names, then the manifest counts them. Replacing
pieces that the manifest counts goes through a commit record: staged files are synced, the
record that names every rename and the new manifest is synced and put in place, then the renames
are done, the manifest is replaced and the record removed. Whoever opens a directory that holds a
record does the rest: each rename either happened or still can.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from unienv_data.errors import FormatError, ManifestError, MissingPieceError, MissingStorageError
from unienv_data.format.checked import parse_object, sealed
from unienv_data.format.decode import decode, read_footer
from unienv_data.format.layout import (
    COMMIT_NAME,
    MANIFEST_NAME,
    WORK_NAME,
    Layout,
    piece_name,
    piece_number,
    piece_path,
    staged_name,
)
from unienv_data.format.manifest import Manifest
from unienv_data.io.atomic import (
    remove_quietly,
    replace_file,
    space_error,
    sync_directory,
    sync_files,
    write_aside,
)
from unienv_data.io.boot import boot_id
from unienv_data.storages._piece_errors import check_renamed

__all__ = ["CommitRecord", "Committer", "read_manifest", "trusted"]

_SYNCED_NAME = "synced.json"


class CommitRecord:
    """A commit that may be half done: staged name and piece of each rename, and the manifest."""

    def __init__(self, renames: Sequence[tuple[str, int]], manifest: bytes) -> None:
        self.renames = list(renames)
        self.manifest = manifest

    def dump(self) -> bytes:
        """The record file's bytes."""
        data = {"renames": self.renames, "manifest": self.manifest.decode()}
        return json.dumps(sealed(data)).encode()

    @classmethod
    def read(cls, directory: Path) -> CommitRecord | None:
        """The record of a directory, None when there is none.

        Raises:
            ManifestError: It names files outside the directory, or does not parse.
        """
        path = directory / COMMIT_NAME
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ENOTDIR:
                return None
            raise unreadable(error, path) from error
        data = parse_object(text, str(path), f"`unienv-data repair {directory}` sets it aside")
        try:
            renames = [(str(name), int(piece)) for name, piece in data["renames"]]
            manifest = data["manifest"].encode()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ManifestError(f"{path} is no commit record ({error})", path=str(path)) from error
        for name, piece in renames:
            if not name.startswith(f".{piece_name(piece)}.") or "/" in name or os.sep in name:
                raise ManifestError(
                    f"{path} names the file {name!r}, which is no staged piece", path=str(path)
                )
        return cls(renames, manifest)

    def check(self, directory: Path, manifest: Manifest) -> None:
        """Makes sure that every piece of the commit is there, staged or renamed.

        Raises:
            CorruptPieceError: One is lost.
            MissingPieceError: One is lost, and there was none before.
        """
        for name, piece in self.renames:
            staged, final = directory / name, piece_path(directory, piece)
            path = staged if staged.exists() else final
            check_renamed(path, piece, read_footer(path)[1], manifest.generation)

    def overlay(self, directory: Path) -> dict[int, Path]:
        """Where pieces lie whose rename may not have happened yet."""
        return {piece: directory / name for name, piece in self.renames}


def read_manifest(directory: Path) -> tuple[Manifest, CommitRecord | None]:
    """The committed state of a directory: of its commit record, else of its manifest.

    A manifest that does not parse is that of a machine that lost power before it was synced;
    the last synced one is read in its place.

    Raises:
        MissingStorageError: No such directory, or no manifest in it.
        FormatError: Nothing readable.
    """
    path = directory / MANIFEST_NAME
    record = CommitRecord.read(directory)
    if record is not None:
        recorded = Manifest.parse(record.manifest, str(directory / COMMIT_NAME))
        done = _later_manifest(path, recorded)
        return (recorded, record) if done is None else (done, None)
    try:
        text = path.read_bytes()
    except OSError as error:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise unreadable(error, path) from error
        what = "is no directory" if not directory.is_dir() else f"holds no {MANIFEST_NAME}"
        raise MissingStorageError(
            f"{directory} {what}; create a storage there, or check the path", path=str(directory)
        ) from error
    try:
        return Manifest.parse(text, str(path)), None
    except ManifestError:
        synced = directory / WORK_NAME / _SYNCED_NAME
        if not synced.exists():
            raise
        try:
            return Manifest.parse(synced.read_bytes(), str(synced)), None
        except OSError as error:
            raise unreadable(error, synced) from error


def _later_manifest(path: Path, recorded: Manifest) -> Manifest | None:
    """The manifest file, when it is that of a record's commit or of a later one.

    The manifest follows the renames, so the commit is whole, and its record could not be removed.
    """
    try:
        manifest = Manifest.parse(path.read_bytes(), str(path))
    except (OSError, FormatError):
        return None
    is_later = manifest.uuid == recorded.uuid and manifest.generation >= recorded.generation
    return manifest if is_later else None


def unreadable(error: OSError, path: Path) -> OSError | ManifestError:
    """The error for a file of the format that is there and cannot be read."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return error
    return ManifestError(
        f"{path} cannot be read ({error.strerror}); `unienv-data verify {path.parent}` says what "
        "is left",
        path=str(path),
    )


def _parses(directory: Path) -> bool:
    try:
        Manifest.parse((directory / MANIFEST_NAME).read_bytes(), MANIFEST_NAME)
    except ManifestError:
        return False
    return True


def trusted(manifest: Manifest, directory: Path) -> Manifest:
    """The manifest cut to what may be believed after a power loss.

    Rows beyond `synced_rows` that another boot wrote are checked piece by piece; the longest good
    prefix stays. On the boot that wrote them nothing needs a check.
    """
    if manifest.is_foreign or manifest.boot == boot_id() or not manifest.is_materialized:
        return manifest
    if manifest.synced_rows >= manifest.num_rows or not manifest.schema.stored:
        return manifest
    layout = Layout(manifest.piece_size)
    rows = manifest.num_rows
    for piece in layout.span(manifest.synced_rows, manifest.num_rows):
        start, stop = layout.bounds(piece, manifest.num_rows)
        try:
            decode(
                piece_path(directory, piece),
                manifest.schema.columns,
                stop - start,
                None if piece < manifest.adopted_pieces else manifest.uuid,
                piece,
            )
        except (FormatError, MissingPieceError):
            rows = max(start, manifest.synced_rows)
            break
    return replace(manifest, num_rows=rows)


class Committer:
    """Changes a storage directory.

    Owns the manifest in memory (`manifest`) and on disk, the piece files, their staged siblings
    and the list of files written since the last sync.
    """

    def __init__(self, directory: Path, manifest: Manifest, *, syncs: bool) -> None:
        self.directory = directory
        self.manifest = manifest
        self.syncs = syncs
        """Whether anything is synced at all (`durability="power"`)."""
        self._unsynced: set[str] = set()
        self.has_surplus = False
        """Whether pieces are left that could not be removed."""
        self._unfinished: CommitRecord | None = None
        """A commit whose record is in place and that failed after it."""
        # Not from 0: a reader may still look for what an earlier writer staged.
        self._serial = itertools.count(time.time_ns())

    # -- opening -----------------------------------------------------------------------------

    @classmethod
    def recover(cls, directory: Path, *, syncs: bool, was_left: bool = True) -> Committer:
        """Takes over a directory for writing: finishes a half-done commit, removes litter.

        Args:
            directory: The directory.
            syncs: Whether anything is synced at all.
            was_left: Whether a writer may have left files there. After a clean close there is
                nothing to look for, and listing 100,000 pieces would cost a call each thousand.
        """
        manifest, record = read_manifest(directory)
        committer = cls(directory, manifest, syncs=syncs)
        if record is not None:
            record.check(directory, manifest)
            committer._finish(record)
        elif not _parses(directory):
            committer.write_manifest(manifest)  # it was torn: the last synced one takes its place
        if was_left or record is not None:
            remove_quietly(directory / COMMIT_NAME)  # it is finished
            committer.remove_litter()
            if manifest.is_materialized and not manifest.is_foreign:
                # Left by a shrink that was cut off, or placed and never counted: then their rows
                # are in the working set. Other programs that take all pieces must not see them.
                committer.remove_pieces_beyond(manifest.num_rows)
        believed = trusted(manifest, directory)
        if believed is not manifest:
            same = believed.num_rows == manifest.num_rows
            committer.write_manifest(
                manifest.next() if same else manifest.shorter(believed.num_rows)
            )
            committer.remove_pieces_beyond(believed.num_rows)
        committer._adopt_unsynced()
        return committer

    def _adopt_unsynced(self) -> None:
        """Pieces that an interrupted writer placed: the next flush answers for them as well."""
        manifest = self.manifest
        wanted = self.syncs and bool(manifest.schema.stored)
        if not wanted or manifest.is_foreign or not manifest.is_materialized:
            return
        if manifest.synced_rows >= manifest.num_rows:
            return
        first = manifest.synced_rows // manifest.piece_size
        for entry in os.scandir(self.directory):  # what is there, whatever the manifest claims
            piece = piece_number(entry.name)
            if piece is not None and piece >= first:
                self._unsynced.add(entry.name)

    def _finish(self, record: CommitRecord) -> None:
        try:
            for name, piece in record.renames:
                staged = self.directory / name
                if staged.exists():
                    os.replace(staged, piece_path(self.directory, piece))
            if self.syncs:
                sync_directory(self.directory)
        except OSError as error:
            raise space_error(error, self.directory, "commit") from error
        replace_file(self.directory / MANIFEST_NAME, record.manifest, sync=self.syncs)
        remove_quietly(self.directory / COMMIT_NAME)
        self._unfinished = None

    def settle(self) -> bool:
        """Finishes a commit that failed half-way; True when there was one.

        Everything that changes the directory does this first: openers go by the record.

        Raises:
            StorageSpaceError: It fails again; nothing else is changed.
        """
        record = self._unfinished
        if record is None:
            return False
        self._finish(record)
        found = Manifest.parse(record.manifest, str(self.directory / MANIFEST_NAME))
        generation = max(found.generation, self.manifest.generation)
        self.manifest = replace(found, generation=generation)
        return True

    def remove_litter(self) -> None:
        """Removes what interrupted writers left under temporary names."""
        for entry in os.scandir(self.directory):
            name = entry.name
            if (
                name.endswith(".tmp") and name.startswith((".part-", f".{MANIFEST_NAME}"))
            ) or name == f".{COMMIT_NAME}.tmp":
                remove_quietly(Path(entry.path))

    # -- writing -----------------------------------------------------------------------------

    def stage(self, piece: int, data: memoryview, *, sync: bool) -> Path:
        """Writes a piece under a temporary name."""
        # A number of its own: two threads may encode one piece at the same time.
        path = self.directory / staged_name(piece, next(self._serial))
        write_aside(path, data, sync=sync and self.syncs)
        # Readers tell versions apart by it, and the kernel's clock may stand still for 4 ms.
        now = time.time_ns()
        with suppress(OSError):  # some file systems keep no such times
            os.utime(path, ns=(now, now))
        return path

    def sync_staged(self, paths: Iterable[Path]) -> None:
        """Makes staged pieces safe from power loss, many at once."""
        if self.syncs:
            sync_files(self.directory, paths)

    def place(self, piece: int, staged: Path) -> None:
        """Gives one staged piece its name; the manifest does not count it yet."""
        self.settle()
        try:
            os.replace(staged, piece_path(self.directory, piece))
        except OSError as error:
            raise space_error(error, staged, "rename") from error
        self._unsynced.add(piece_name(piece))

    def write_manifest(self, manifest: Manifest, *, sync: bool = True) -> None:
        """Replaces the manifest.

        Args:
            manifest: The new state.
            sync: False for growth between flushes: the last synced manifest is kept beside the
                working set, and stands in if this one does not survive a power loss.
        """
        sync = sync and self.syncs
        self.settle()
        with self._claimed(manifest):
            replace_file(self.directory / MANIFEST_NAME, manifest.dump(), sync=sync)
        self.manifest = manifest

    @contextmanager
    def _claimed(self, manifest: Manifest) -> Iterator[None]:
        """Never uses the number of a commit again that failed: a reader may have seen it."""
        try:
            yield
        except BaseException:
            self.manifest = replace(self.manifest, generation=manifest.generation)
            raise

    def keep_synced(self) -> None:
        """Keeps a synced copy of the manifest in the working set, for growth after it."""
        work = self.directory / WORK_NAME
        if self.syncs and work.is_dir():
            replace_file(work / _SYNCED_NAME, self.manifest.dump(), sync=True)

    def commit(self, staged: Sequence[tuple[int, Path]], manifest: Manifest) -> None:
        """Replaces pieces and the manifest as one step. The staged files must be synced."""
        self.settle()
        record = CommitRecord([(path.name, piece) for piece, path in staged], manifest.dump())
        if self.syncs:
            sync_directory(self.directory)  # the record must not outlive the names it gives
        with self._claimed(manifest):
            try:
                replace_file(self.directory / COMMIT_NAME, record.dump(), sync=self.syncs)
            except OSError:
                # It may have its name although syncing that failed.
                self._unfinished = record if (self.directory / COMMIT_NAME).exists() else None
                raise
            self._unfinished = record
            self._finish(record)
        self.manifest = manifest

    @property
    def is_unfinished(self) -> bool:
        """Whether a commit failed after its record was in place: its staged files are needed."""
        return self._unfinished is not None

    def remove_pieces_beyond(self, rows: int) -> None:
        """Deletes pieces that the manifest, already replaced, no longer counts."""
        keep = Layout(self.manifest.piece_size).count(rows)
        removed = self.has_surplus = False
        for entry in os.scandir(self.directory):
            piece = piece_number(entry.name)
            if piece is None or piece < keep:
                continue
            self._unsynced.discard(entry.name)
            try:
                os.unlink(entry.path)
                removed = True
            except FileNotFoundError:
                continue
            except OSError:
                self.has_surplus = True  # they count for nothing, and go with the next flush
        if removed and self.syncs:
            # Or a power loss could bring a dropped piece back in the place of one grown anew.
            sync_directory(self.directory)

    def sync_pieces(self) -> None:
        """Makes every piece written since the last time safe from power loss."""
        if self.syncs and self._unsynced:
            paths: Iterable[Path] = [self.directory / name for name in sorted(self._unsynced)]
            try:
                sync_files(self.directory, paths)
            except FileNotFoundError as error:
                # Only a counted file was asked for: someone removed it since it was written.
                raise self._missing_piece(error) from error
            sync_directory(self.directory)
        self._unsynced.clear()

    def _missing_piece(self, error: FileNotFoundError) -> MissingPieceError:
        path = Path(os.fsdecode(error.filename or self.directory))
        piece = piece_number(path.name) or 0
        start, stop = Layout(self.manifest.piece_size).bounds(piece, self.manifest.num_rows)
        return MissingPieceError(
            f"flush: {path} is missing: rows {start} to {stop} are lost; restore it from a copy, "
            f"or `unienv-data repair {self.directory}` keeps what can be verified",
            path=str(path),
            rows=(start, stop),
        )
