"""Which rows of a snapshot cannot be read: what `on_damage="skip"` finds out when it opens."""

from __future__ import annotations

from unienv_data.errors import FormatError, MissingPieceError, UnsupportedVersionError
from unienv_data.storages._pieces import PieceFiles

__all__ = ["find_damaged_rows"]


def find_damaged_rows(pieces: PieceFiles) -> list[tuple[int, int]]:
    """Reads every piece once, checksums included.

    Returns:
        Half-open ranges of the rows that cannot be read, ascending; neighbours are joined.
    """
    manifest = pieces.manifest
    every = range(len(manifest.schema.columns))
    found: list[tuple[int, int]] = []
    for piece in range(pieces.layout.count(manifest.num_rows)):
        try:
            pieces.tag(piece)
            pieces.load(piece, every)
        except UnsupportedVersionError:
            raise
        except (FormatError, MissingPieceError):
            start, stop = pieces.layout.bounds(piece, manifest.num_rows)
            if found and found[-1][1] == start:
                start = found.pop()[0]
            found.append((start, stop))
    return found
