"""The stores under test behind one small interface: write, append, open, read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from scenarios import workloads


class Memmap:
    """The reference: one ``.npy`` a column, read as ``np.load(mmap_mode="r")[index]``."""

    name = "memmap"
    takes = False

    def __init__(self, directory: Path, workload: str) -> None:
        self.directory = directory
        self.workload = workload
        self.columns: dict[str, Any] = {}

    def write(self, data: dict[str, Any]) -> None:
        """numpy arrays in memory, then `np.save`, 1024 rows at a time."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for name, values in data.items():
            held = np.empty_like(values)
            for start in range(0, len(values), 1024):
                held[start : start + 1024] = values[start : start + 1024]
            np.save(self.directory / f"{name}.npy", held)

    def append(self, rows: list[dict[str, Any]], mapped: bool) -> None:
        """One row at a time into preallocated columns, in memory or mapped, then saved."""
        self.directory.mkdir(parents=True, exist_ok=True)
        columns = {}
        for name, dtype, shape in workloads.COLUMNS[self.workload]:
            kind = f"<U{workloads.TEXT_WIDTH}" if dtype == "text" else dtype
            full = (len(rows), *shape)
            path = self.directory / f"appended-{name}.npy"
            columns[name] = (
                np.lib.format.open_memmap(path, "w+", kind, full)
                if mapped
                else np.empty(full, kind)
            )
        for position, row in enumerate(rows):
            for name, column in columns.items():
                column[position] = row[name]
        for name, column in columns.items():
            if mapped:
                column.flush()
            else:
                np.save(self.directory / f"appended-{name}.npy", column)

    def overwrite(self, data: dict[str, Any], indexes: list[Any], batches: list[Any]) -> None:
        """Into arrays in memory, then `np.save`."""
        held = {name: values.copy() for name, values in data.items()}
        for index, batch in zip(indexes, batches, strict=True):
            for name, values in batch.items():
                held[name][index] = values
        for name, values in held.items():
            np.save(self.directory / f"overwritten-{name}.npy", values)

    def open(self) -> None:
        """Maps every column."""
        for name, _, _ in workloads.COLUMNS[self.workload]:
            self.columns[name] = np.load(self.directory / f"{name}.npy", mmap_mode="r")

    def get(self, index: Any) -> dict[str, Any]:
        """Copies rows; text becomes an object array of `str`, as a batch of it must be."""
        result = {}
        for name, column in self.columns.items():
            if self.takes and isinstance(index, np.ndarray):
                values = np.asarray(column).take(index, 0)
            else:
                values = np.array(column[index])
            result[name] = values.astype(object) if values.dtype.kind == "U" else values
        return result

    def column(self, name: str, index: Any) -> Any:
        """Copies rows of one column."""
        column = self.columns[name]
        return np.asarray(column).take(index, 0) if self.takes else column[index]

    def close(self) -> None:
        """Drops the maps."""
        self.columns.clear()


class Take(Memmap):
    """The same files, read by `np.asarray(a).take(index, 0)`: what numpy can do at best."""

    name = "take"
    takes = True


class UniEnv:
    """ParquetStorage in a ReplayBuffer: ours or the original, whichever this Python imports."""

    def __init__(self, directory: Path, workload: str, name: str, **options: Any) -> None:
        self.name = name
        self.directory = directory
        self.workload = workload
        self.options = options
        self.buffer: Any = None
        self.views: dict[str, Any] = {}

    def _create(self, directory: Path, capacity: int | None = None) -> Any:
        from unienv_data import ReplayBuffer
        from unienv_data.storages.parquet import ParquetStorage

        shutil.rmtree(directory, ignore_errors=True)
        return ReplayBuffer.create(
            ParquetStorage,
            workloads.space(self.workload),
            cache_path=str(directory),
            capacity=capacity,
            **self.options,
        )

    def write(self, data: dict[str, Any], chunk: int = 1024) -> None:
        """`extend` by 1024 rows, then a dump or flush, closed."""
        buffer = self._create(self.directory)
        rows = len(next(iter(data.values())))
        for start in range(0, rows, chunk):
            buffer.extend(workloads.batch(data, slice(start, min(start + chunk, rows))))
        buffer.dumps(str(self.directory))
        buffer.storage.close()
        buffer.close()

    def append(self, rows: list[dict[str, Any]]) -> None:
        """`append` a row, then a dump."""
        buffer = self._create(self.directory.with_name(self.directory.name + "-appended"))
        for row in rows:
            buffer.append(row)
        buffer.mark_segment_end()
        buffer.dumps(buffer.cache_path)
        buffer.storage.close()
        buffer.close()

    def _load(self, *, read_only: bool) -> Any:
        from unienv_data import ReplayBuffer
        from unienv_interface.backends.numpy import NumpyComputeBackend

        options = {k: v for k, v in self.options.items() if k == "durability"}
        return ReplayBuffer.load_from(
            str(self.directory), backend=NumpyComputeBackend, read_only=read_only, **options
        )

    def overwrite(self, data: dict[str, Any], indexes: list[Any], batches: list[Any]) -> None:
        """`set_at`, then a dump; opening is not counted for any store."""
        for index, batch in zip(indexes, batches, strict=True):
            self.buffer.set_at(index, batch)
        self.buffer.dumps(str(self.directory))

    def open(self, *, read_only: bool = True) -> None:
        """Opens the buffer."""
        self.buffer = self._load(read_only=read_only)

    def get(self, index: Any) -> Any:
        """`ReplayBuffer.get_at`."""
        return self.buffer.get_at(index)

    def column(self, name: str, index: Any) -> Any:
        """A column view's `get_at`."""
        if name not in self.views:
            self.views[name] = self.buffer.get_column([name])
        return self.views[name].get_at(index)

    def close(self) -> None:
        """Closes the buffer."""
        if self.buffer is not None:
            self.views.clear()
            self.buffer.storage.close()
            self.buffer.close()
            self.buffer = None


class BareParquet:
    """A bare loop of `pq.write_table`, one thread, our options and piece size."""

    name = "pyarrow"

    def __init__(self, directory: Path, workload: str) -> None:
        self.directory = directory
        self.workload = workload

    def write(self, data: dict[str, Any], chunk: int = 1024) -> None:
        """One file for each 1024 rows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.directory.mkdir(parents=True, exist_ok=True)
        rows = len(next(iter(data.values())))
        texts = [name for name, dtype, _ in workloads.COLUMNS[self.workload] if dtype == "text"]
        scalars = [
            name
            for name, dtype, shape in workloads.COLUMNS[self.workload]
            if shape == () and dtype != "text"
        ]
        for number, start in enumerate(range(0, rows, chunk)):
            arrays, fields = [], []
            for name, values in workloads.batch(
                data, slice(start, min(start + chunk, rows))
            ).items():
                flat = pa.array(values.reshape(-1))
                if values.ndim > 1:
                    element = pa.field("element", flat.type, nullable=False)
                    kind = pa.list_(element, values.shape[1])
                    flat = pa.FixedSizeListArray.from_arrays(flat, type=kind)
                arrays.append(flat)
                fields.append(pa.field(name, flat.type, nullable=False))
            table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
            pq.write_table(
                table,
                self.directory / f"part-{number:06d}.parquet",
                compression="snappy",
                use_dictionary=texts or False,
                write_statistics=scalars or False,
                write_page_checksum=True,
                max_rows_per_page=chunk,
                data_page_size=(1 << 31) - 1,
            )
