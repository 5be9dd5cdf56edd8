"""Rows as one torch tensor, in memory or in a memory-mapped file.

Importable without torch; making one then names the extra to install.
"""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Self, override

from unienv_data.base.indexing import normalize
from unienv_data.base.storage import SpaceStorage, reject_unknown_keywords
from unienv_data.base.views import as_numpy_index
from unienv_data.errors import (
    MissingStorageError,
    ReadOnlyError,
    SchemaMismatchError,
    StorageArgumentError,
    StorageExistsError,
)
from unienv_data.storages._fitting import fit_batch, fit_sample
from unienv_interface.backends.pytorch import PyTorchComputeBackend
from unienv_interface.backends.serialization import serialize_dtype
from unienv_interface.errors import MissingDependencyError, UnsupportedSpaceError
from unienv_interface.space import BinarySpace, BoxSpace

__all__ = ["PytorchTensorStorage"]


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            "PytorchTensorStorage needs torch: pip install 'unienv-data[torch]'", extra="torch"
        ) from error
    return torch


class PytorchTensorStorage(SpaceStorage[Any, Any, Any, Any, Any]):
    """A tensor of shape ``(capacity, *shape)``; as a file its raw bytes in C order."""

    single_file_ext: ClassVar[str | None] = ".memmap"

    def __init__(
        self,
        single_instance_space: Any,
        data: Any,
        cache_filename: str | os.PathLike[str] | None = None,
        mutable: bool = True,
    ) -> None:
        super().__init__(single_instance_space)
        self.data = data
        self._cache_filename = cache_filename
        self._mutable = mutable

    @classmethod
    @override
    def create(
        cls,
        single_instance_space: Any,
        *args: Any,
        capacity: int | None = None,
        cache_path: str | os.PathLike[str] | None = None,
        multiprocessing: bool = False,
        is_memmap: bool = True,
        memmap_existok: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Makes a tensor of zeros.

        Args:
            single_instance_space: A Box or Binary space on torch.
            *args: Not used.
            capacity: Number of rows; needed.
            cache_path: The file of a memory-mapped tensor.
            multiprocessing: Share the memory with other processes.
            is_memmap: Map a file; otherwise stay in memory.
            memmap_existok: Whether the file may exist; it is overwritten.
            **kwargs: Keywords of other storages.
        """
        reject_unknown_keywords(kwargs, "PytorchTensorStorage.create")
        torch = _torch()
        _check_space(single_instance_space)
        if capacity is None or capacity < 1:
            raise StorageArgumentError(
                f"PytorchTensorStorage.create: a capacity of at least 1 is needed, got {capacity}"
            )
        shape = (capacity, *single_instance_space.shape)
        if not is_memmap:
            data = torch.zeros(
                shape, dtype=single_instance_space.dtype, device=single_instance_space.device
            )
            if multiprocessing and data.device.type == "cpu":
                data.share_memory_()
            return cls(single_instance_space, data)
        if cache_path is None:
            raise StorageArgumentError("PytorchTensorStorage.create: cache_path is needed")
        if os.path.exists(cache_path) and not memmap_existok:
            raise StorageExistsError(f"create: {cache_path} exists", path=str(cache_path))
        data = _mapped(cache_path, shape, single_instance_space, "w+")
        return cls(single_instance_space, data, cache_path)

    @classmethod
    @override
    def load_from(
        cls,
        path: str | os.PathLike[str],
        single_instance_space: Any,
        *,
        capacity: int | None = None,
        read_only: bool = True,
        multiprocessing: bool = False,
        is_memmap: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Opens a file of raw rows.

        Args:
            path: The file.
            single_instance_space: Space of one row.
            capacity: Number of rows; needed.
            read_only: Refuse changes.
            multiprocessing: As for every storage.
            is_memmap: Map the file; otherwise read it into memory.
            **kwargs: Keywords of other storages.
        """
        reject_unknown_keywords(kwargs, "PytorchTensorStorage.load_from")
        _torch()
        _check_space(single_instance_space)
        if capacity is None:
            raise StorageArgumentError("PytorchTensorStorage.load_from: a capacity is needed")
        shape = (capacity, *single_instance_space.shape)
        _check_file(path, shape, single_instance_space)
        data = _mapped(path, shape, single_instance_space, "c" if read_only else "r+")
        if not is_memmap:
            data = data.clone()
            if single_instance_space.device is not None:
                data = data.to(single_instance_space.device)
        return cls(single_instance_space, data, path if is_memmap else None, not read_only)

    @property
    @override
    def capacity(self) -> int | None:
        """Number of rows."""
        return int(self.data.shape[0])

    @property
    @override
    def cache_filename(self) -> str | os.PathLike[str] | None:
        """The mapped file, None in memory."""
        return self._cache_filename

    @property
    @override
    def is_mutable(self) -> bool:
        """Whether rows can be written."""
        return self._mutable

    @property
    @override
    def is_multiprocessing_safe(self) -> bool:
        """Whether the memory is shared."""
        return self._cache_filename is not None or bool(self.data.is_shared())

    @override
    def __len__(self) -> int:
        return int(self.data.shape[0])

    def _index(self, index: Any) -> Any:
        rows = normalize(as_numpy_index(self.backend, index), len(self), "the tensor")
        if isinstance(rows, (int, slice)):
            return rows
        return self.backend.from_numpy(rows, device=self.data.device)

    @override
    def get(self, index: Any) -> Any:
        return self.data[self._index(index)].clone()

    @override
    def set(self, index: Any, value: Any) -> None:
        if not self._mutable:
            raise ReadOnlyError("set: the tensor is open read-only")
        rows = self._index(index)
        space = self.single_instance_space
        if isinstance(rows, int):
            tensor = fit_sample(space, value, "set: the tensor")
        else:
            count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
            tensor = fit_batch(space, value, count, "set: the tensor")
        self.data[rows] = tensor.to(self.data.device)

    def flush(self) -> None:
        """Syncs a mapped file."""
        if self._cache_filename is not None and self._mutable:
            with open(self._cache_filename, "rb") as file:
                os.fsync(file.fileno())

    @override
    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Writes the raw rows to a file."""
        own = self._cache_filename
        if own is not None and os.path.realpath(own) == os.path.realpath(path):
            self.flush()
            return
        aside = Path(path).with_name(f".{Path(path).name}.tmp")
        if own is not None:
            shutil.copyfile(own, aside)
        else:
            self.backend.to_numpy(self.data.contiguous()).tofile(aside)
        os.replace(aside, path)

    @override
    def close(self) -> None:
        """Nothing to let go: the mapping lives as long as the tensor."""


def _check_space(space: Any) -> None:
    if space.backend is not PyTorchComputeBackend or not isinstance(space, (BoxSpace, BinarySpace)):
        raise UnsupportedSpaceError(
            f"PytorchTensorStorage stores Box and Binary spaces on torch, got {space}"
        )


def _check_file(path: Any, shape: tuple[int, ...], space: Any) -> None:
    expected = math.prod(shape) * _numpy_dtype(space).itemsize
    try:
        found = os.path.getsize(path)
    except FileNotFoundError as error:
        raise MissingStorageError(f"load_from: {path} is missing", path=str(path)) from error
    if found != expected:
        raise SchemaMismatchError(
            f"load_from: {path} has {found} bytes, {shape[0]} rows of this space have {expected}; "
            "give the capacity and the space it was made with",
            path=str(path),
            expected=expected,
            found=found,
        )


def _numpy_dtype(space: Any) -> Any:
    dtype = space.backend.concrete_dtype(space.dtype)
    return np.dtype(str(serialize_dtype(space.backend, dtype)))


def _mapped(path: Any, shape: tuple[int, ...], space: Any, mode: Any) -> Any:
    if math.prod(shape) == 0:  # nothing can be mapped of an empty file
        Path(path).touch()
        return space.backend.zeros(shape, dtype=space.dtype)
    mapped = np.memmap(path, dtype=_numpy_dtype(space), mode=mode, shape=shape)
    return space.backend.from_numpy(np.asarray(mapped))
