"""Piece files as a source for the bank: where they lie, what they must say, what counts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unienv_data.errors import (
    CommitConflictError,
    CorruptPieceError,
    FormatError,
    MissingPieceError,
)
from unienv_data.format.codec import ColumnData, Footer, Texts
from unienv_data.format.decode import decode
from unienv_data.format.layout import Layout, piece_path
from unienv_data.format.manifest import Manifest
from unienv_data.storages._committer import read_manifest
from unienv_data.storages._piece_errors import check_renamed, located

__all__ = ["PieceFiles", "clip"]


class PieceFiles:
    """The piece files that one manifest counts.

    Attributes:
        manifest: The state that is shown; replaced by the storage when it moves on.
        overlay: Pieces of a commit that is not finished, and where they lie meanwhile.
    """

    def __init__(
        self, directory: Path, manifest: Manifest, layout: Layout, files: Sequence[Path] | None
    ) -> None:
        self.directory = directory
        self.manifest = manifest
        self.layout = layout
        self.overlay: dict[int, Path] = {}
        self._changed = 0
        self._files = files

    def _places(self, piece: int) -> list[Path]:
        """Where a piece may be now: its rename may happen between two looks."""
        if self._files is not None:
            return [self._files[piece]]
        final = piece_path(self.directory, piece)
        staged = self.overlay.get(piece)
        return [final] if staged is None else [staged, final]

    def path(self, piece: int) -> Path:
        """Where a piece is now."""
        places = self._places(piece)
        return next((place for place in places[:-1] if place.exists()), places[-1])

    def counted(self, piece: int) -> int:
        """Rows of a piece that the manifest counts."""
        start, stop = self.layout.bounds(piece, self.manifest.num_rows)
        return max(stop - start, 0)

    def tag(self, piece: int) -> int:
        """See `PieceSource`: a number that differs for another file, or another content of it."""
        if not self._has_file(piece):
            return 0
        for path in self._places(piece):
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue
            mixed = hash((status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev))
            return (mixed & (2**62 - 1)) | 1
        self._check_shortened(piece)
        start, stop = self.layout.bounds(piece, self.manifest.num_rows)
        raise MissingPieceError(
            f"{path} is missing: rows {start} to {stop} cannot be read; restore it from a "
            f"copy, or `unienv-data repair {self.directory}` keeps what can be verified",
            path=str(path),
            rows=(start, stop),
        )

    def _has_file(self, piece: int) -> bool:
        has_columns = bool(self.manifest.schema.stored)
        return self.manifest.is_materialized and has_columns and self.counted(piece) > 0

    def load(self, piece: int, columns: Sequence[int]) -> list[ColumnData] | None:
        """See `PieceSource`."""
        if not self._has_file(piece):
            return None
        rows = self.layout.bounds(piece, self.manifest.num_rows)
        try:
            path, data, footer = self._decode(piece, columns)
            self._check_size(path, data)
        except (FormatError, MissingPieceError) as error:
            if isinstance(error, (MissingPieceError, CorruptPieceError)):
                self._check_shortened(piece)
            raise located(error, self.directory, rows) from error
        if piece in self.overlay:
            check_renamed(path, piece, footer, self.manifest.generation)
        if self.manifest.is_foreign:
            self._check_still_foreign(piece)
        ours = footer is not None and footer.uuid == self.manifest.uuid
        self._changed = footer.changed if footer is not None and ours else 0
        return data

    def _check_size(self, path: Path, data: Sequence[ColumnData]) -> None:
        """A piece with more rows than a piece has is one of another `piece_size`."""
        first = data[0]
        count = len(first.codes if isinstance(first, Texts) else first)
        if self._files is None and count > self.manifest.piece_size:
            raise CorruptPieceError(
                f"{path} holds {count} rows, the manifest says {self.manifest.piece_size} a piece: "
                "one of the two was changed",
                path=str(path),
                expected=self.manifest.piece_size,
                found=count,
            )

    def _decode(
        self, piece: int, columns: Sequence[int]
    ) -> tuple[Path, list[ColumnData], Footer | None]:
        schema = self.manifest.schema
        wanted = [schema.columns[number] for number in columns]
        places = self._places(piece)
        for path in places:
            try:
                data, footer = decode(
                    path,
                    wanted,
                    self.counted(piece),
                    self.manifest.uuid if piece >= self.manifest.adopted_pieces else None,
                    piece if self._files is None else None,
                )
            except MissingPieceError:
                if path == places[-1]:
                    raise
            else:
                return path, data, footer
        raise AssertionError(places)

    def _check_shortened(self, piece: int) -> None:
        """Says so when a piece is missing, or too short, since rows were taken away."""
        if self._files is not None:
            return
        try:
            now = read_manifest(self.directory)[0]
        except (OSError, FormatError):
            return
        if now.uuid != self.manifest.uuid or now.shortened > self.manifest.generation:
            raise self._conflict(piece, now.generation)

    def _check_still_foreign(self, piece: int) -> None:
        """A writer of ours takes a foreign manifest over before it changes any piece."""
        if self._files is None and not read_manifest(self.directory)[0].is_foreign:
            raise self._conflict(piece, 1)

    def changed_by(self, piece: int) -> int:
        """See `PieceSource`."""
        return self._changed

    def check_snapshot(self, piece: int, changed: int) -> None:
        """See `PieceSource`: a snapshot is never shown mixed with later rows."""
        if changed > self.manifest.generation:
            raise self._conflict(piece, changed)

    def _conflict(self, piece: int, commit: int) -> CommitConflictError:
        path = piece_path(self.directory, piece)
        return CommitConflictError(
            f"get: {path} was changed by commit {commit}, this storage shows commit "
            f"{self.manifest.generation}; call refresh() to see the new rows",
            path=str(path),
            expected=self.manifest.generation,
            found=commit,
        )


def clip(data: ColumnData, rows: int) -> ColumnData:
    """The first `rows` rows."""
    if isinstance(data, Texts):
        return Texts(data.values, data.codes[:rows])
    return np.asarray(data)[:rows]
