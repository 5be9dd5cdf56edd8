"""A complete copy of a storage in another directory, put in place as one commit."""

from __future__ import annotations

import os
import shutil
import uuid as uuid_module
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from unienv_data.errors import FormatError, StorageError, StorageExistsError
from unienv_data.format.codec import ColumnData, Footer, Texts, encode
from unienv_data.format.layout import MANIFEST_NAME, WORK_NAME
from unienv_data.format.manifest import Manifest, valid_json
from unienv_data.io.atomic import remove_quietly, space_error
from unienv_data.io.boot import boot_id
from unienv_data.io.lock import WriterLock
from unienv_data.storages._committer import Committer, read_manifest
from unienv_data.storages._pieces import PieceFiles, clip
from unienv_interface.space.space_utils.serialization_utils import space_to_json

__all__ = ["dump", "generation_of_dump"]


def dump(manifest: Manifest, pieces: PieceFiles, target: Path) -> None:
    """Copies what a manifest counts.

    Args:
        manifest: The committed state to copy.
        pieces: Its piece files.
        target: An absent or empty directory, or an earlier dump of the same storage.

    Raises:
        StorageExistsError: The target holds something else.
        FormatError: A piece is damaged; the target is as it was.
    """
    before = _check_target(manifest, target)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise space_error(error, target, "dumps") from error
    with _locked(target):
        if before is not None:
            Committer.recover(target, syncs=True)
        copy = _copied(manifest, pieces, before)
        committer = Committer(target, before if before is not None else copy, syncs=True)
        committer.remove_litter()
        staged: list[tuple[int, Path]] = []
        try:
            if manifest.schema.stored and manifest.is_materialized:
                for piece, data in enumerate(_even(pieces, manifest, copy.piece_size)):
                    staged.append((piece, _stage(committer, copy, piece, data)))
            committer.commit(staged, copy)
        except BaseException:
            for _, path in () if committer.is_unfinished else staged:
                remove_quietly(path)
            raise
        committer.remove_pieces_beyond(copy.num_rows if manifest.is_materialized else 0)


def generation_of_dump(manifest: Manifest, target: Path) -> int:
    """Number of the commit that `dump` would make in `target` now."""
    before = _check_target(manifest, target)
    return manifest.generation if before is None else _next_generation(manifest, before)


def _next_generation(manifest: Manifest, before: Manifest) -> int:
    return max(before.generation, manifest.generation) + 1


def _check_target(manifest: Manifest, target: Path) -> Manifest | None:
    if not target.exists() or (target.is_dir() and all(map(_is_unfinished, os.listdir(target)))):
        return None  # also what a first dump left that did not come to its commit record
    try:
        found = read_manifest(target)[0]
    except (StorageError, FormatError, OSError):
        found = None
    if found is None or found.uuid is None or found.uuid != manifest.uuid:
        raise StorageExistsError(
            f"dumps: {target} holds something that is no earlier dump of this storage; choose "
            "another directory or delete it",
            path=str(target),
        )
    return found


def _is_unfinished(name: str) -> bool:
    return name == WORK_NAME or (name.startswith((".part-", "._")) and name.endswith(".tmp"))


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    work = target / WORK_NAME
    try:
        work.mkdir(exist_ok=True)
    except OSError as error:
        raise space_error(error, work, "dumps") from error
    lock = WriterLock(work / "lock", "dumps", any_file_system=True)
    try:
        yield
    finally:
        lock.release(remove=True)
        try:
            work.rmdir()
        except OSError:
            if not (target / MANIFEST_NAME).exists():
                shutil.rmtree(work, ignore_errors=True)


def _copied(manifest: Manifest, pieces: PieceFiles, before: Manifest | None) -> Manifest:
    """The manifest of the copy: equal pieces, everything synced."""
    if manifest.uuid is None or not pieces.layout.is_uniform:
        manifest = replace(
            manifest,
            uuid=uuid_module.uuid4().hex,
            space=valid_json(space_to_json(manifest.schema.to_space())),
            adopted_pieces=0,
        )
    if before is not None:
        # Its readers have seen other rows under these names.
        generation = _next_generation(manifest, before)
        manifest = replace(manifest, generation=generation, shortened=generation)
    return replace(manifest, synced_rows=manifest.num_rows, boot=boot_id())


def _even(pieces: PieceFiles, manifest: Manifest, piece_size: int) -> Iterator[list[ColumnData]]:
    """The rows in runs of `piece_size`; decoding verifies checksums, so no damage is copied."""
    every = range(len(manifest.schema.columns))
    rest: list[ColumnData] | None = None
    left = 0
    for piece in pieces.layout.span(0, manifest.num_rows):
        counted = pieces.counted(piece)
        loaded = pieces.load(piece, every)
        if loaded is None:
            continue
        pieces.check_snapshot(piece, pieces.changed_by(piece))
        data = [clip(values, counted) for values in loaded]
        if rest is not None:
            data = [_joined(a, b) for a, b in zip(rest, data, strict=True)]
        left += counted
        start = 0
        while left >= piece_size:
            yield [_part(values, start, start + piece_size) for values in data]
            start += piece_size
            left -= piece_size
        rest = [_part(values, start, start + left) for values in data] if left else None
    if rest is not None:
        yield rest


def _joined(first: ColumnData, second: ColumnData) -> ColumnData:
    if isinstance(first, Texts) and isinstance(second, Texts):
        codes = np.concatenate([first.codes, second.codes + len(first.values)])
        return Texts([*first.values, *second.values], codes)
    return np.concatenate([np.asarray(first), np.asarray(second)])


def _part(data: ColumnData, start: int, stop: int) -> ColumnData:
    if isinstance(data, Texts):
        used, codes = np.unique(data.codes[start:stop], return_inverse=True)
        return Texts([data.values[code] for code in used.tolist()], codes.reshape(-1))
    return np.asarray(data)[start:stop]


def _stage(committer: Committer, copy: Manifest, piece: int, data: list[ColumnData]) -> Path:
    rows = len(data[0].codes) if isinstance(data[0], Texts) else len(data[0])
    footer = Footer(copy.uuid or "", piece, rows, copy.generation, copy.shortened)
    encoded = encode(copy.schema, data, footer, copy.compression)
    return committer.stage(piece, encoded, sync=True)
