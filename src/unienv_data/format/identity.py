"""What a piece says about itself, and the errors when that is not what it should be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from unienv_data.errors import CorruptPieceError

__all__ = ["DAMAGE", "Footer", "check_identity", "damaged"]

# What pyarrow and numpy raise over bytes that are no Parquet, metadata included.
DAMAGE = (OSError, pa.ArrowException, ValueError, KeyError, IndexError, OverflowError, MemoryError)


@dataclass(frozen=True)
class Footer:
    """What a lone piece says about itself."""

    uuid: str
    """Storage it belongs to."""
    piece: int
    """Its number."""
    rows: int
    """Rows in it."""
    generation: int
    """Commit that wrote it."""
    changed: int = 0
    """Last commit that changed rows which the piece had before; 0 when rows were only added."""


def damaged(path: Path, error: BaseException, rows: int) -> CorruptPieceError:
    """The error for a piece whose bytes are not those that were written."""
    return CorruptPieceError(
        f"{path} is damaged: {error}; {rows} rows are affected; restore the file from a copy",
        path=str(path),
        rows=rows,
    )


def check_identity(
    path: Path, footer: Footer | None, found: int, rows: int, uuid: str | None, piece: int | None
) -> None:
    """Raises unless a file is piece `piece` of storage `uuid` and holds at least `rows` rows."""
    if found < rows:
        raise CorruptPieceError(
            f"{path} holds {found} rows, the manifest counts {rows}; restore it from a copy",
            path=str(path),
            expected=rows,
            found=found,
        )
    if uuid is not None and footer is None:
        raise CorruptPieceError(
            f"{path} was written by another program: it does not carry the storage's uuid {uuid}; "
            "restore it from a copy",
            path=str(path),
            expected=uuid,
        )
    if uuid is not None and footer is not None and (footer.uuid, footer.piece) != (uuid, piece):
        raise CorruptPieceError(
            f"{path} is piece {footer.piece} of storage {footer.uuid}, expected piece {piece} of "
            f"{uuid}; restore it from a copy",
            path=str(path),
            expected=(uuid, piece),
            found=(footer.uuid, footer.piece),
        )
