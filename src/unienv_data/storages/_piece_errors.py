"""What is said about piece files that are not what the storage needs."""

from __future__ import annotations

from pathlib import Path

from unienv_data.errors import CorruptPieceError, StorageError
from unienv_data.format.codec import Footer

__all__ = ["check_renamed", "located"]


def located(error: StorageError, directory: Path, rows: tuple[int, int]) -> StorageError:
    """An error about a file, with the rows of the storage that it costs."""
    start, stop = rows
    facts = {**error.facts, "rows": (start, stop)}
    return type(error)(
        f"{error}; rows {start} to {stop} cannot be read, the others can: "
        f'on_damage="skip" lists them, `unienv-data verify {directory}` says more',
        **facts,
    )


def check_renamed(path: Path, piece: int, footer: Footer | None, generation: int) -> None:
    """A piece that an unfinished commit names is the new one, staged or renamed.

    Raises:
        CorruptPieceError: It is an older one: the staged file is lost.
    """
    if footer is None or footer.generation < generation:
        found = None if footer is None else footer.generation
        raise CorruptPieceError(
            f"{path}: commit {generation} replaces piece {piece}, but its new file is lost and the "
            f"old one is of commit {found}; restore it from a copy, or `unienv-data repair "
            f"{path.parent}` keeps what can be verified",
            path=str(path),
            expected=generation,
            found=found,
        )
