"""Single rows into one prepared piece: the hot path of recording.

Made anew for each piece, with everything that a row needs looked up once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unienv_data.bank.bank import Bank
from unienv_data.bank.columns import TextColumn
from unienv_data.format.schema import Column, Schema
from unienv_data.storages._working_set import Window

__all__ = ["Appender"]


class Appender:
    """Stores rows of `window`, which its writer shuts when the piece must be left alone."""

    def __init__(
        self, bank: Bank, window: Window, piece: int, schema: Schema, order: list[int], place: str
    ) -> None:
        """Looks up what every row needs.

        Args:
            bank: The writer's bank.
            window: Rows that may be stored to.
            piece: The piece they are in.
            schema: Columns in the caller's order.
            order: Number in the bank of each of the caller's columns.
            place: Named in errors.
        """
        self.window = window
        self.text_bytes = 0
        """Bytes of new texts, for the bank's account."""
        self._schema = schema
        self._order = order
        self.piece = piece
        self._place = place
        mine = {column.name: column for column in schema.columns}
        self._checks = [
            (column.column.name if schema.is_dict else None, *_fast_types(column.column))
            for column in bank.columns
        ]
        self._texts = [
            (number, mine[column.column.name], column.heap)
            for number, column in enumerate(bank.columns)
            if isinstance(column, TextColumn)
        ]
        self._targets = [column.target for column in bank.columns]

    def store(self, row: int, value: Any) -> None:
        """Checks one sample and stores it; the row does not count yet.

        Raises:
            SampleError: The value does not fit its column; nothing was stored.
        """
        stored: list[Any] = []
        is_ready = True
        try:
            for name, dtype, shape, types, limit in self._checks:
                item = value if name is None else value[name]
                kind = type(item)
                if kind is np.ndarray:
                    if item.dtype is not dtype or item.shape != shape:
                        is_ready = False
                        break
                elif kind not in types and (kind is not float or not -limit <= item <= limit):
                    is_ready = False
                    break
                stored.append(item)
        except (KeyError, TypeError):
            is_ready = False
        if not is_ready:  # not in stored form already: look closely
            stored = self._checked(value)
        for number, column, heap in self._texts:
            text = stored[number]
            # A text that this piece holds already was checked when it came.
            code = heap.known(self.piece, text)
            if code is None:
                text = column.check_row(text, self._place)
                (code,) = heap.store(self.piece, (text,))
                self.text_bytes += len(text) + 8
            stored[number] = code
        for target, item in zip(self._targets, stored, strict=True):
            target[row] = item

    def _checked(self, value: Any) -> list[Any]:
        checked = self._schema.check_row(value, self._place)
        ordered = [None] * len(checked)
        for number, item in zip(self._order, checked, strict=True):
            ordered[number] = item
        return ordered


def _fast_types(column: Column) -> tuple[Any, tuple[int, ...], frozenset[type], float]:
    """What is stored without a further look: dtype, shape, scalar types, limit of Python floats."""
    if column.is_text:
        return column.dtype, (-1,), frozenset({str}), -1.0
    types: set[type] = set()
    limit = -1.0  # no Python float passes
    if column.shape == ():
        types.add(column.dtype.type)
        if column.dtype == np.bool_:
            types.add(bool)
        elif column.dtype.kind == "f":
            limit = float(np.finfo(column.dtype).max)
    return column.dtype, column.shape, frozenset(types), limit
