"""Storages with one file a row."""

from __future__ import annotations

import abc
import os
from pathlib import Path
from typing import Any

from typing_extensions import override

from unienv_data.base.indexing import normalize
from unienv_data.base.storage import SpaceStorage
from unienv_data.base.views import as_numpy_index
from unienv_data.errors import CapacityError, ReadOnlyError, StorageArgumentError
from unienv_data.io.atomic import sync_directory, sync_files
from unienv_data.storages._fitting import fit_batch, fit_sample
from unienv_data.storages._sidecar import write_sidecar
from unienv_interface.space.space_utils import batch_utils as sbu

__all__ = ["ListStorageBase"]


class ListStorageBase(SpaceStorage[Any, Any, Any, Any, Any]):
    """Row i in the file ``<i>.<ext>``; rows without a file are zeros.

    A subclass reads and writes one file. Files are replaced as a whole, so several processes may
    use a directory at once; each counts the rows of a growing storage for itself. Everything is in
    files once a call returns, and safe from power loss after `flush`.
    """

    sidecar_name: str
    """The file with the storage's facts."""

    def __init__(
        self,
        single_instance_space: Any,
        file_ext: str,
        cache_filename: str | os.PathLike[str],
        mutable: bool = True,
        capacity: int | None = None,
        length: int = 0,
    ) -> None:
        super().__init__(single_instance_space)
        self.file_ext = file_ext
        self._directory = Path(cache_filename)
        self._mutable = mutable
        self._capacity = capacity
        self._length = length if capacity is None else capacity

    # -- what a subclass does ----------------------------------------------------------------

    @abc.abstractmethod
    def get_from_file(self, filename: str) -> Any:
        """One row of an existing file."""

    @abc.abstractmethod
    def set_to_file(self, filename: str, value: Any) -> None:
        """Replaces the file of one row."""

    @abc.abstractmethod
    def _facts(self) -> dict[str, Any]:
        """What the sidecar says beside capacity and length."""

    # -- the contract ------------------------------------------------------------------------

    @property
    @override
    def capacity(self) -> int | None:
        """Number of rows of a bounded storage."""
        return self._capacity

    @property
    @override
    def cache_filename(self) -> str:
        """The directory."""
        return str(self._directory)

    @property
    @override
    def is_mutable(self) -> bool:
        """Whether it was opened for writing."""
        return self._mutable

    @property
    @override
    def is_multiprocessing_safe(self) -> bool:
        """Always: each row is a file of its own."""
        return True

    @override
    def __len__(self) -> int:
        return self._length

    def _file(self, row: int) -> str:
        return str(self._directory / f"{row}.{self.file_ext}")

    def _row(self, row: int) -> Any:
        try:
            return self.get_from_file(self._file(row))
        except FileNotFoundError:
            space = self.single_instance_space
            return space.backend.zeros(space.shape, dtype=space.dtype, device=space.device)

    @override
    def get(self, index: Any) -> Any:
        rows = normalize(as_numpy_index(self.backend, index), self._length, self.cache_filename)
        if isinstance(rows, int):
            return self._row(rows)
        numbers = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        samples = [self._row(row) for row in numbers]
        if samples:
            return sbu.concatenate(self.single_instance_space, samples)
        space = self.single_instance_space
        return space.backend.zeros((0, *space.shape), dtype=space.dtype, device=space.device)

    @override
    def set(self, index: Any, value: Any) -> None:
        self._check_writable("set")
        rows = normalize(as_numpy_index(self.backend, index), self._length, self.cache_filename)
        space, place = self.single_instance_space, f"set: {self.cache_filename}"
        if isinstance(rows, int):
            self.set_to_file(self._file(rows), fit_sample(space, value, place))
            return
        numbers = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        batch = fit_batch(space, value, len(numbers), place)
        for position, row in enumerate(numbers):
            self.set_to_file(self._file(row), sbu.get_at(space, batch, position))

    def _check_writable(self, operation: str) -> None:
        if not self._mutable:
            raise ReadOnlyError(f"{operation}: {self.cache_filename} is open read-only")

    @override
    def extend_length(self, length: int) -> None:
        self._change(operation="extend_length", by=length)

    @override
    def shrink_length(self, length: int) -> None:
        self._change(operation="shrink_length", by=-length)

    def _change(self, *, operation: str, by: int) -> None:
        self._check_writable(operation)
        if self._capacity is not None:
            raise CapacityError(f"{operation}: {self.cache_filename} has a fixed capacity")
        if abs(by) < 1 or self._length + by < 0:
            raise StorageArgumentError(f"{operation}: cannot go from {self._length} rows by {by}")
        before, self._length = self._length, self._length + by
        self._write_sidecar()
        for row in range(self._length, before):
            Path(self._file(row)).unlink(missing_ok=True)

    @override
    def clear(self) -> None:
        """Deletes every row's file."""
        self._check_writable("clear")
        self.abort_segment()
        if self._capacity is None:
            self._length = 0
        self._write_sidecar()
        for path in self._directory.glob(f"*.{self.file_ext}"):
            path.unlink(missing_ok=True)

    def _write_sidecar(self, *, sync: bool = False) -> None:
        facts = {**self._facts(), "capacity": self._capacity, "length": self._length}
        write_sidecar(self._directory, self.sidecar_name, type(self).__name__, facts, sync=sync)

    def flush(self) -> None:
        """Makes every row safe from power loss."""
        if not self._mutable:
            return
        sync_files(self._directory, sorted(self._directory.glob(f"*.{self.file_ext}")))
        sync_directory(self._directory)
        self._write_sidecar(sync=True)

    @override
    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Flushes; only its own directory is allowed.

        Raises:
            StorageArgumentError: Another directory.
        """
        if os.path.realpath(path) != os.path.realpath(self._directory):
            raise StorageArgumentError(
                f"dumps: a {type(self).__name__} is only dumped into its own directory "
                f"{self._directory}",
                expected=str(self._directory),
                found=str(path),
            )
        self.flush()

    @override
    def close(self) -> None:
        """Nothing to do: a copy in another process must not write what it took for the length."""
