"""Rows straight from their files, for a reader whose bank others empty faster than it can copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unienv_data.errors import CommitConflictError
from unienv_data.format.codec import ColumnData, Texts
from unienv_data.format.layout import Layout
from unienv_data.format.schema import Column

if TYPE_CHECKING:
    from unienv_data.bank.bank import PieceSource

__all__ = ["gather_alone"]

_ATTEMPTS = 100


def gather_alone(
    source: PieceSource,
    layout: Layout,
    columns: Sequence[tuple[int, Column]],
    rows: NDArray[np.int64],
) -> list[NDArray[Any]]:
    """Decodes the pieces of some rows into this process's memory, one at a time.

    Args:
        source: The pieces.
        layout: Which piece a row is in.
        columns: Number and description of each column wanted.
        rows: Physical rows, shape ``(B,)``.

    Returns:
        One array ``(B, *shape)`` a column.
    """
    results = [column.zeros(len(rows)) for _, column in columns]
    touched = layout.pieces_of(rows)
    for piece in np.unique(touched).tolist():
        data = _load(source, piece, [number for number, _ in columns])
        if data is None:
            continue  # never set: zeros
        where = np.flatnonzero(touched == piece)
        offsets = rows[where] - layout.bounds(piece, 0)[0]
        for result, values in zip(results, data, strict=True):
            if isinstance(values, Texts):
                texts = np.empty(len(values.values), dtype=object)
                texts[:] = values.values
                result[where] = texts[values.codes[offsets]]
            else:
                result[where] = np.asarray(values)[offsets]
    return results


def _load(source: PieceSource, piece: int, columns: Sequence[int]) -> list[ColumnData] | None:
    for _ in range(_ATTEMPTS):
        tag = source.tag(piece)
        data = source.load(piece, columns)
        if source.tag(piece) == tag:
            source.check_snapshot(piece, source.changed_by(piece) if data is not None else 0)
            return data
    raise CommitConflictError(
        f"get: piece {piece} is replaced faster than it can be read; call refresh() and repeat",
        found=piece,
    )
