"""A segment collected aside, as growing arrays, and stored in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from unienv_data.base.segment import SegmentWriter
from unienv_data.errors import SegmentStateError
from unienv_data.format.schema import Schema

if TYPE_CHECKING:
    from unienv_data.storages.parquet import ParquetStorage

__all__ = ["ParquetSegmentWriter"]

_FIRST_ROWS = 64


class ParquetSegmentWriter(SegmentWriter[Any, Any, Any, Any, Any]):
    """Copies each sample when it is appended: callers reuse their arrays.

    Its rows are acknowledged by `commit`, not before. Owns its arrays; writers are independent
    of each other and of the storage's own open segment.
    """

    def __init__(self, storage: ParquetStorage, schema: Schema) -> None:
        super().__init__(storage)
        self._parquet = storage
        self._schema = schema
        self._count = 0
        self._is_finished = False
        self._is_over = False
        self._arrays: list[Any] = [
            [] if column.is_text else column.zeros(_FIRST_ROWS) for column in schema.columns
        ]

    @override
    def __len__(self) -> int:
        return self._count

    @property
    @override
    def is_finished(self) -> bool:
        """Whether `finish`, `commit` or `abort` was called."""
        return self._is_finished

    @override
    def append(self, value: Any) -> None:
        """Adds one sample.

        Raises:
            SampleError: It does not fit the space; nothing is added.
            SegmentStateError: The writer is finished.
        """
        if self._is_finished:
            raise SegmentStateError("append: this segment writer is finished; open another one")
        row = self._schema.check_row(value, f"append to a segment {self._parquet._place}")
        for number, item in enumerate(row):
            array = self._arrays[number]
            if isinstance(array, list):
                array.append(item)
                continue
            if self._count == len(array):
                grown = self._schema.columns[number].zeros(2 * len(array))
                grown[: self._count] = array
                self._arrays[number] = array = grown
            array[self._count] = item
        self._count += 1

    @override
    def finish(self) -> None:
        """Takes no further samples."""
        self._is_finished = True

    @property
    def batch(self) -> Any:
        """The samples so far, as one batch; views of this writer's arrays.

        Raises:
            SegmentStateError: The writer was committed or aborted.
        """
        if self._is_over:
            raise SegmentStateError("batch: this segment writer was committed or aborted")
        values = []
        for array in self._arrays:
            if isinstance(array, list):
                texts = np.empty(self._count, dtype=object)
                texts[:] = array[: self._count]
                values.append(texts)
            else:
                values.append(array[: self._count])
        return self._schema.pack(values)

    @override
    def commit(self, start_index: int) -> None:
        """Stores rows ``[start, start + len)``, modulo the capacity; all of them or none."""
        if self._is_over:
            raise SegmentStateError("commit: this segment writer was committed or aborted")
        values = [
            array[: self._count] if not isinstance(array, list) else array for array in self._arrays
        ]
        self._parquet._write_segment(int(start_index), values, self._count)
        self._end()

    @override
    def abort(self) -> None:
        """Forgets the samples; the storage was never touched."""
        self._end()

    def _end(self) -> None:
        self._is_finished = self._is_over = True
        self._count = 0
        self._arrays = [[] if isinstance(array, list) else array[:0] for array in self._arrays]
