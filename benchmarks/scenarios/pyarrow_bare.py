"""What pyarrow does alone: the limit for writing Parquet, and two plain ways to read it.

Same files as ours (one row group a piece, required fields, one page a column, page checksums, no
dictionary but for text, statistics for scalars), a loop over `pq.write_table`, one thread, no
sync, no manifest, no checks.
"""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scenarios import workloads
from scenarios.timing import Session


class BareParquet:
    """Pieces written by a loop, read on demand: each batch decodes the pieces that it touches."""

    letters = frozenset("abcdefghj")
    is_library = False

    def __init__(
        self,
        directory: Path,
        workload: str,
        *,
        piece_size: int = 1024,
        compression: str = "snappy",
    ) -> None:
        self.directory = directory
        self.workload = workload
        self.piece_size = piece_size
        self.compression = compression
        self.files: dict[int, Any] = {}
        self.rows = 0

    def _write(self, directory: Path, number: int, batch: workloads.Rows) -> None:
        arrays, fields, texts, scalars = [], [], [], []
        for name, values in batch.items():
            flat = pa.array(np.ascontiguousarray(values).reshape(-1))
            if values.dtype == object:
                texts.append(name)
            elif values.ndim == 1:
                scalars.append(name)
            else:
                element = pa.field("element", flat.type, nullable=False)
                kind = pa.list_(element, values.shape[1])
                flat = pa.FixedSizeListArray.from_arrays(flat, type=kind)
            arrays.append(flat)
            fields.append(pa.field(name, flat.type, nullable=False))
        rows = len(arrays[0])
        options: dict[str, Any] = {}
        if "max_rows_per_page" in inspect.signature(pq.ParquetWriter.__init__).parameters:
            options["max_rows_per_page"] = rows
        pq.write_table(
            pa.Table.from_arrays(arrays, schema=pa.schema(fields)),
            directory / f"part-{number:06d}.parquet",
            compression=self.compression,
            use_dictionary=texts or False,
            write_statistics=scalars or False,
            write_page_checksum=True,
            write_batch_size=rows,
            data_page_size=(1 << 31) - 1,
            row_group_size=rows,
            **options,
        )

    def _fresh(self, suffix: str = "") -> Path:
        directory = self.directory.with_name(self.directory.name + suffix)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory

    def bulk(self, rows: int) -> Session:
        """Pieces of `piece_size`, from batches that arrive by 1024."""
        directory = self._fresh()
        held: list[workloads.Rows] = []
        number = 0

        def cut() -> None:
            nonlocal number
            joined = {name: np.concatenate([part[name] for part in held]) for name in held[0]}
            self._write(directory, number, joined if len(held) > 1 else held[0])
            held.clear()
            number += 1

        def put(batch: workloads.Rows) -> None:
            held.append(batch)
            if sum(len(next(iter(part.values()))) for part in held) >= self.piece_size:
                cut()

        return Session(put, lambda: cut() if held else None, held.clear)

    def appending(self, rows: int) -> Session:
        """Rows collected in lists, which holds references: a caller must not reuse its arrays."""
        directory = self._fresh("-appended")
        held: list[workloads.Rows] = []
        number = 0

        def cut() -> None:
            nonlocal number
            columns: workloads.Rows = {}
            for name, dtype, _ in workloads.COLUMNS[self.workload]:
                values = [row[name] for row in held]
                columns[name] = np.array(values, object if dtype == "text" else dtype)
            self._write(directory, number, columns)
            held.clear()
            number += 1

        def put(row: workloads.Rows) -> None:
            held.append(row)
            if len(held) == self.piece_size:
                cut()

        return Session(put, lambda: cut() if held else None, held.clear)

    def open(self) -> None:
        """Counts the pieces; footers are read on first use and kept."""
        paths = sorted(self.directory.glob("part-*.parquet"))
        last = pq.read_metadata(paths[-1]).num_rows
        self.rows = (len(paths) - 1) * self.piece_size + last

    def _piece(self, number: int, columns: list[str]) -> workloads.Rows:
        if number not in self.files:
            path = self.directory / f"part-{number:06d}.parquet"
            self.files[number] = pq.ParquetFile(path, memory_map=True)
        table = self.files[number].read(columns, use_threads=False)
        return self._columns(table, columns)

    def _columns(self, table: Any, columns: list[str]) -> workloads.Rows:
        result = {}
        for name, dtype, shape in workloads.COLUMNS[self.workload]:
            if name not in columns:
                continue
            chunk = table.column(name).combine_chunks()
            if shape and dtype != "text":
                values = chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, *shape)
            else:
                values = chunk.to_numpy(zero_copy_only=False)
            result[name] = values
        return result

    def _gather(self, index: Any, columns: list[str]) -> workloads.Rows:
        if isinstance(index, slice):
            index = np.arange(*index.indices(self.rows))
        index = np.atleast_1d(index)
        pieces, places = np.divmod(index, self.piece_size)
        order = np.argsort(pieces, kind="stable")
        numbers, starts = np.unique(pieces[order], return_index=True)
        result: workloads.Rows = {}
        for number, chosen in zip(numbers, np.split(order, starts[1:]), strict=True):
            for name, values in self._piece(int(number), columns).items():
                if name not in result:
                    result[name] = np.empty((len(index), *values.shape[1:]), values.dtype)
                result[name][chosen] = values[places[chosen]]
        return result

    def get(self, index: Any) -> workloads.Rows:
        """Rows of every column."""
        rows = self._gather(index, [name for name, _, _ in workloads.COLUMNS[self.workload]])
        return {name: values[0] for name, values in rows.items()} if _is_one(index) else rows

    def column(self, name: str, index: Any) -> Any:
        """Rows of one column."""
        return self._gather(index, [name])[name]

    def close(self) -> None:
        """Closes the files."""
        for file in self.files.values():
            file.close()
        self.files.clear()


class ArrowTable(BareParquet):
    """The same files read at once: all rows decoded in memory, batches by `Table.take`."""

    letters = frozenset("cdefghj")

    def open(self) -> None:
        """Reads everything."""
        self.table = pq.read_table(self.directory, use_threads=False).combine_chunks()
        self.rows = len(self.table)

    def _gather(self, index: Any, columns: list[str]) -> workloads.Rows:
        table = self.table.select(columns) if len(columns) < len(self.table.column_names) else None
        table = self.table if table is None else table
        if isinstance(index, slice):
            part = table.slice(index.start, index.stop - index.start)
        else:
            part = table.take(pa.array(np.atleast_1d(index)))
        return {name: values.copy() for name, values in self._columns(part, columns).items()}

    def close(self) -> None:
        """Drops the rows."""
        self.table = None


def _is_one(index: Any) -> bool:
    return not isinstance(index, (slice, np.ndarray))
