"""One ``.npz`` file a row, for arrays of numbers or bools."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import Self, override

from unienv_data.base.storage import reject_unknown_keywords
from unienv_data.errors import (
    CorruptPieceError,
    SchemaMismatchError,
    StorageArgumentError,
    StorageExistsError,
)
from unienv_data.io.atomic import replace_file
from unienv_data.storages._list_storage import ListStorageBase
from unienv_data.storages._sidecar import read_sidecar
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.errors import UnsupportedSpaceError
from unienv_interface.space import BinarySpace, BoxSpace

__all__ = ["NPZStorage"]


class NPZStorage(ListStorageBase):
    """Row i in ``<i>.npz`` under the key ``data``; facts in ``npz_metadata.json``."""

    sidecar_name = "npz_metadata.json"

    def __init__(
        self,
        single_instance_space: Any,
        cache_filename: str | os.PathLike[str],
        compressed: bool = True,
        mutable: bool = True,
        capacity: int | None = None,
        length: int = 0,
    ) -> None:
        super().__init__(single_instance_space, "npz", cache_filename, mutable, capacity, length)
        self.compressed = compressed

    @classmethod
    @override
    def create(
        cls,
        single_instance_space: Any,
        *args: Any,
        capacity: int | None = None,
        cache_path: str | os.PathLike[str] | None = None,
        multiprocessing: bool = False,
        compressed: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Makes an empty directory of rows.

        Args:
            single_instance_space: A Box or Binary space on numpy.
            *args: Not used.
            capacity: As for every storage.
            cache_path: The directory; it must not exist.
            multiprocessing: As for every storage.
            compressed: Whether files are compressed.
            **kwargs: Keywords of other storages.

        Raises:
            StorageExistsError: The directory exists.
        """
        reject_unknown_keywords(kwargs, "NPZStorage.create")
        if single_instance_space.backend is not NumpyComputeBackend or not isinstance(
            single_instance_space, (BoxSpace, BinarySpace)
        ):
            raise UnsupportedSpaceError(
                f"NPZStorage stores Box and Binary spaces on numpy, got {single_instance_space}"
            )
        if cache_path is None:
            raise StorageArgumentError("NPZStorage.create: cache_path is needed")
        if capacity is not None and capacity < 1:
            raise StorageArgumentError(f"capacity should be at least 1, got {capacity}")
        try:
            Path(cache_path).mkdir(parents=True)
        except FileExistsError as error:
            raise StorageExistsError(
                f"create: {cache_path} exists; choose another directory or load_from it",
                path=str(cache_path),
            ) from error
        self = cls(single_instance_space, cache_path, compressed, True, capacity)
        self._write_sidecar()
        return self

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
        **kwargs: Any,
    ) -> Self:
        """Opens a directory of rows."""
        reject_unknown_keywords(kwargs, "NPZStorage.load_from")
        data = read_sidecar(path, cls.sidecar_name, cls.__name__)
        stored = data.get("capacity")
        if capacity is not None and capacity != stored:
            raise StorageArgumentError(
                f"load_from: {path} has capacity {stored}, not {capacity}", expected=stored
            )
        self = cls(
            single_instance_space,
            path,
            bool(data.get("compressed", True)),
            not read_only,
            stored,
            int(data.get("length") or 0),
        )
        self._check_first_file()
        return self

    def _check_first_file(self) -> None:
        """Refuses a space that is not that of the rows, as far as one file tells."""
        with os.scandir(self._directory) as entries:
            name = next((entry.path for entry in entries if entry.name.endswith(".npz")), None)
        if name is None:
            return
        array, space = _read(name), self.single_instance_space
        if not _is_of(array, space):
            raise SchemaMismatchError(
                f"load_from: {name} holds {array.dtype} {array.shape}, the space given has "
                f"{_dtype(space)} {space.shape}; open it with the space it was made with",
                path=name,
                expected=f"{array.dtype} {array.shape}",
                found=f"{_dtype(space)} {space.shape}",
            )

    @override
    def _facts(self) -> dict[str, Any]:
        return {"compressed": self.compressed}

    @override
    def get_from_file(self, filename: str) -> Any:
        array, space = _read(filename), self.single_instance_space
        if not _is_of(array, space):
            raise CorruptPieceError(
                f"{filename} holds {array.dtype} {array.shape}, expected {_dtype(space)} "
                f"{space.shape}; restore it from a copy",
                path=filename,
            )
        return array

    @override
    def set_to_file(self, filename: str, value: Any) -> None:
        buffer = io.BytesIO()
        save = np.savez_compressed if self.compressed else np.savez
        save(buffer, data=value)
        replace_file(Path(filename), buffer.getvalue(), sync=False)


_UNREADABLE = (
    ValueError,
    OSError,
    KeyError,
    EOFError,
    IndexError,
    TypeError,  # a plain array is no archive
    zipfile.BadZipFile,
    zlib.error,
)


def _read(filename: str) -> Any:
    try:
        # numpy leaves a file open that it cannot read.
        with open(filename, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            return file["data"]
    except FileNotFoundError:
        raise
    except _UNREADABLE as error:
        raise CorruptPieceError(
            f"{filename} is no readable row ({error}); restore it from a copy", path=filename
        ) from error


def _is_of(array: Any, space: Any) -> bool:
    return bool(array.shape == tuple(space.shape) and array.dtype == _dtype(space))


def _dtype(space: Any) -> Any:
    return space.backend.concrete_dtype(space.dtype)
