"""Rows of any flattenable space as flat arrays in another storage."""

from __future__ import annotations

import os
from typing import Any

from typing_extensions import Self, override

from unienv_data.errors import SampleError, StorageArgumentError, StorageExistsError
from unienv_data.storages._fitting import fit_batch, fit_sample
from unienv_data.storages._sidecar import read_sidecar, write_sidecar
from unienv_data.storages._wrapper import WrapperStorage
from unienv_data.storages.registry import resolve_inside, resolve_storage
from unienv_interface.space.space_utils import batch_utils as sbu
from unienv_interface.space.space_utils import flatten_utils as sfu
from unienv_interface.utils.symbol_util import get_full_class_name

__all__ = ["FlattenedStorage"]

_SIDECAR = "flattened_metadata.json"


class FlattenedStorage(WrapperStorage):
    """Keeps the flat form of each sample; `get_flattened` and `set_flattened` go straight through.

    Files: ``flattened_metadata.json`` and the inner storage in ``inner_storage<ext>``.
    """

    def __init__(
        self,
        single_instance_space: Any,
        inner_storage: Any,
        cache_filename: str | os.PathLike[str] | None = None,
        inner_path: str | None = None,
    ) -> None:
        super().__init__(single_instance_space, inner_storage)
        self._batched_instance_space: Any = sbu.batch_space(single_instance_space, 1)
        self._cache_filename = cache_filename
        self._inner_path = inner_path or _inner_name(type(inner_storage))

    @classmethod
    @override
    def create(
        cls,
        single_instance_space: Any,
        inner_storage_cls: Any = None,
        *args: Any,
        capacity: int | None = None,
        cache_path: str | os.PathLike[str] | None = None,
        multiprocessing: bool = False,
        inner_storage_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Makes the inner storage.

        Args:
            single_instance_space: A flattenable space.
            inner_storage_cls: Class of the inner storage.
            *args: Passed to the inner storage.
            capacity: As for every storage.
            cache_path: Directory, None to stay in memory.
            multiprocessing: As for every storage.
            inner_storage_kwargs: Passed to the inner storage.
            **kwargs: Passed to the inner storage.

        Raises:
            StorageArgumentError: No inner storage class, or the space has no flat form.
        """
        if inner_storage_cls is None:
            raise StorageArgumentError("FlattenedStorage.create: inner_storage_cls is needed")
        if not sfu.is_flattenable(single_instance_space):
            raise StorageArgumentError(
                f"FlattenedStorage.create: {single_instance_space} has no flat form"
            )
        inner_path = None
        if cache_path is not None:
            if os.path.exists(os.path.join(cache_path, _SIDECAR)):
                raise StorageExistsError(
                    f"create: {cache_path} holds a FlattenedStorage already; choose another "
                    "directory or load_from it",
                    path=str(cache_path),
                )
            os.makedirs(cache_path, exist_ok=True)
            inner_path = _inner_name(inner_storage_cls)
        inner = inner_storage_cls.create(
            sfu.flatten_space(single_instance_space),
            *args,
            capacity=capacity,
            cache_path=None if inner_path is None else os.path.join(str(cache_path), inner_path),
            multiprocessing=multiprocessing,
            **(inner_storage_kwargs or {}),
            **kwargs,
        )
        self = cls(single_instance_space, inner, cache_path, inner_path)
        if cache_path is not None:
            self._write_sidecar(cache_path)
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
        """Opens the inner storage that the directory names."""
        data = read_sidecar(path, _SIDECAR, cls.__name__)
        inner_cls = resolve_storage(str(data.get("inner_storage_type")))
        inner_path = str(data.get("inner_storage_path"))
        inner = inner_cls.load_from(
            resolve_inside(path, inner_path),
            sfu.flatten_space(single_instance_space),
            capacity=capacity,
            read_only=read_only,
            multiprocessing=multiprocessing,
            **kwargs,
        )
        return cls(single_instance_space, inner, path, inner_path)

    def _write_sidecar(self, directory: str | os.PathLike[str]) -> None:
        facts = {
            "inner_storage_type": get_full_class_name(type(self.inner_storage)),
            "inner_storage_path": self._inner_path,
        }
        write_sidecar(directory, _SIDECAR, type(self).__name__, facts)

    @property
    @override
    def cache_filename(self) -> str | os.PathLike[str] | None:
        """The directory, None in memory."""
        return self._cache_filename

    @override
    def capability(self, name: str) -> bool | None:
        """Flat access is what this storage is for."""
        return True if name == "flattened" else super().capability(name)

    @override
    def _sample_in(self, value: Any) -> Any:
        space = self.single_instance_space
        return sfu.flatten_data(space, fit_sample(space, value, "FlattenedStorage"))

    @override
    def _batch_in(self, value: Any) -> Any:
        try:
            count = sbu.batch_size_data(value)
        except TypeError:
            count = None
        if count is None:
            raise SampleError(f"set: expected a batch, got a {type(value).__name__}")
        value = fit_batch(self.single_instance_space, value, count, "FlattenedStorage")
        return sfu.flatten_data(self._batched_instance_space, value, start_dim=1)

    @override
    def _sample_out(self, value: Any) -> Any:
        return sfu.unflatten_data(self.single_instance_space, value)

    @override
    def _batch_out(self, value: Any) -> Any:
        return sfu.unflatten_data(self._batched_instance_space, value, start_dim=1)

    def get_flattened(self, index: Any) -> Any:
        """Flat samples, shape ``(flat_dim,)`` or ``(B, flat_dim)``."""
        return self.inner_storage.get(index)

    def set_flattened(self, index: Any, value: Any) -> None:
        """Overwrites samples by flat ones."""
        self.inner_storage.set(index, value)

    @override
    def dumps(self, path: str | os.PathLike[str]) -> None:
        os.makedirs(path, exist_ok=True)
        self.inner_storage.dumps(os.path.join(str(path), self._inner_path))
        self._write_sidecar(path)


def _inner_name(inner_storage_cls: Any) -> str:
    return "inner_storage" + (inner_storage_cls.single_file_ext or "")
