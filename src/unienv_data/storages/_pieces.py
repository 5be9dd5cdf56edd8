"""Piece files as a source for the bank: where they lie, what they must say, what counts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unienv_data.errors import (
    CommitConflictError,
    FormatError,
    MissingPieceError,
)
from unienv_data.format.codec import ColumnData, Texts
from unienv_data.format.decode import decode
from unienv_data.format.layout import Layout, piece_path
from unienv_data.format.manifest import Manifest
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
        self.changed: dict[int, int] = {}
        """Commit that last changed rows a piece already had, by piece, as its footer says."""
        self._files = files

    def path(self, piece: int) -> Path:
        """Where a piece is now."""
        if self._files is not None:
            return self._files[piece]
        staged = self.overlay.get(piece)
        if staged is not None and staged.exists():
            return staged
        return piece_path(self.directory, piece)

    def counted(self, piece: int) -> int:
        """Rows of a piece that the manifest counts."""
        start, stop = self.layout.bounds(piece, self.manifest.num_rows)
        return max(stop - start, 0)

    def tag(self, piece: int) -> int:
        """See `PieceSource`: a number that differs for another file, or another content of it."""
        if not self._has_file(piece):
            return 0
        path = self.path(piece)
        try:
            status = os.stat(path)
        except FileNotFoundError as error:
            start, stop = self.layout.bounds(piece, self.manifest.num_rows)
            raise MissingPieceError(
                f"{path} is missing: rows {start} to {stop} cannot be read; restore it from a "
                f"copy, or `unienv-data repair {self.directory}` keeps what can be verified",
                path=str(path),
                rows=(start, stop),
            ) from error
        mixed = hash((status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev))
        return (mixed & (2**62 - 1)) | 1

    def _has_file(self, piece: int) -> bool:
        has_columns = bool(self.manifest.schema.stored)
        return self.manifest.is_materialized and has_columns and self.counted(piece) > 0

    def load(self, piece: int, columns: Sequence[int]) -> list[ColumnData] | None:
        """See `PieceSource`."""
        if not self._has_file(piece):
            return None
        path = self.path(piece)
        schema = self.manifest.schema
        wanted = [schema.columns[number] for number in columns]
        try:
            data, footer = decode(
                path,
                wanted,
                self.counted(piece),
                self.manifest.uuid if piece >= self.manifest.adopted_pieces else None,
                piece if self._files is None else None,
            )
        except (FormatError, MissingPieceError) as error:
            rows = self.layout.bounds(piece, self.manifest.num_rows)
            raise located(error, self.directory, rows) from error
        if piece in self.overlay:
            check_renamed(path, piece, footer, self.manifest.generation)
        ours = footer is not None and footer.uuid == self.manifest.uuid
        if footer is not None and ours and footer.changed:
            self.changed[piece] = footer.changed
        else:
            self.changed.pop(piece, None)  # most pieces: nothing is kept of them
        return data

    def changed_by(self, piece: int) -> int:
        """See `PieceSource`."""
        return self.changed.get(piece, 0)

    def check_snapshot(self, piece: int, changed: int) -> None:
        """See `PieceSource`: a snapshot is never shown mixed with later rows."""
        if changed > self.manifest.generation:
            path = self.path(piece)
            raise CommitConflictError(
                f"{path} was rewritten by commit {changed}, this storage was opened at commit "
                f"{self.manifest.generation}; call refresh() to see the new rows",
                path=str(path),
                expected=self.manifest.generation,
                found=changed,
            )


def clip(data: ColumnData, rows: int) -> ColumnData:
    """The first `rows` rows."""
    if isinstance(data, Texts):
        return Texts(data.values, data.codes[:rows])
    return np.asarray(data)[:rows]
