"""numpy columns: the reference, and what numpy can do at best with the same files.

The reference writes arrays in memory and then `np.save`, one ``.npy`` a column, and reads
`np.load(mmap_mode="r")[index]`. Text is fixed-width numpy text, four bytes a character, the only
text that an ``.npy`` can map; a batch of it becomes an object array of `str`, since that is what
every store here returns. One code a row and a table of texts would be faster where texts repeat,
but it is no longer a format that numpy knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scenarios import workloads
from scenarios.timing import Session


class NumpyColumns:
    """One ``.npy`` a column.

    Args:
        directory: Where the files go.
        workload: Which columns.
        mapped: Write into mapped files instead of memory and `np.save`.
        take: Read with `numpy.asarray(column).take(index, 0)` instead of `column[index]`.
        synced: Sync files and directory before a flush returns.
    """

    is_library = False

    def __init__(
        self,
        directory: Path,
        workload: str,
        *,
        mapped: bool = False,
        take: bool = False,
        synced: bool = False,
    ) -> None:
        self.directory = directory
        self.workload = workload
        self.mapped = mapped
        self.take = take
        self.synced = synced
        self.letters = frozenset("cdefghj" if take else "abcdefghij")
        self.columns: dict[str, Any] = {}

    def _empty(self, directory: Path, rows: int) -> Iterator[tuple[str, Any]]:
        directory.mkdir(parents=True, exist_ok=True)
        for name, dtype, shape in workloads.COLUMNS[self.workload]:
            kind = f"<U{workloads.TEXT_WIDTH}" if dtype == "text" else dtype
            full = (rows, *shape)
            path = directory / f"{name}.npy"
            if self.mapped:
                path.unlink(missing_ok=True)  # readers of the old file keep it
                yield name, np.lib.format.open_memmap(path, "w+", kind, full)
            else:
                yield name, np.empty(full, kind)

    def _save(self, directory: Path, columns: dict[str, Any]) -> None:
        for name, column in columns.items():
            path = directory / f"{name}.npy"
            if self.mapped:
                if self.synced:
                    column.flush()
                continue
            with path.open("wb") as file:
                np.save(file, column)
                if self.synced:
                    file.flush()
                    os.fsync(file.fileno())
        if self.synced:
            descriptor = os.open(directory, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    def bulk(self, rows: int) -> Session:
        """Batches one after the other."""
        columns = dict(self._empty(self.directory, rows))
        position = 0

        def put(batch: workloads.Rows) -> None:
            nonlocal position
            count = len(next(iter(batch.values())))
            for name, values in batch.items():
                columns[name][position : position + count] = values
            position += count

        return Session(put, lambda: self._save(self.directory, columns), columns.clear)

    def appending(self, rows: int) -> Session:
        """One row at a time, into columns of the right length: no checks, no growth."""
        directory = self.directory.with_name(self.directory.name + "-appended")
        columns = dict(self._empty(directory, rows))
        position = 0

        def put(row: workloads.Rows) -> None:
            nonlocal position
            for name, value in row.items():
                columns[name][position] = value
            position += 1

        return Session(put, lambda: self._save(directory, columns), columns.clear)

    def overwriting(self) -> Session:
        """Rows of the existing columns."""
        mode: Any = "r+" if self.mapped else None
        columns = {
            name: np.load(self.directory / f"{name}.npy", mmap_mode=mode)
            for name, _, _ in workloads.COLUMNS[self.workload]
        }

        def put(index: Any, batch: workloads.Rows) -> None:
            for name, values in batch.items():
                columns[name][index] = values

        return Session(put, lambda: self._save(self.directory, columns), columns.clear)

    def open(self) -> None:
        """Maps every column."""
        for name, _, _ in workloads.COLUMNS[self.workload]:
            column: Any = np.load(self.directory / f"{name}.npy", mmap_mode="r")
            self.columns[name] = np.asarray(column) if self.take else column

    def get(self, index: Any) -> workloads.Rows:
        """Copies of rows."""
        return {name: self._rows(column, index) for name, column in self.columns.items()}

    def _rows(self, column: Any, index: Any) -> Any:
        if isinstance(index, np.ndarray):
            # Both copy; a second copy here would make the reference slower than it is.
            values = column.take(index, 0) if self.take else column[index]
        else:
            values = column[index]
            if isinstance(values, np.ndarray) and values.ndim:
                values = np.array(values)
        if column.dtype.kind != "U":
            return values
        return str(values) if values.ndim == 0 else values.astype(object)

    def column(self, name: str, index: Any) -> Any:
        """Copies of one column's rows."""
        return self._rows(self.columns[name], index)

    def close(self) -> None:
        """Drops the maps."""
        self.columns.clear()
