"""One column of a ParquetStorage, live: same rows, same length, nothing else is read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self, override

from unienv_data.base.indexing import normalize
from unienv_data.base.storage import SpaceStorage
from unienv_data.errors import StorageArgumentError

if TYPE_CHECKING:
    from unienv_data.storages.parquet import ParquetStorage

__all__ = ["ColumnView"]


class ColumnView(SpaceStorage[Any, Any, Any, Any, Any]):
    """A view of one column; its parent owns the rows, and closing the view does nothing."""

    single_file_ext: ClassVar[str | None] = None

    def __init__(self, parent: ParquetStorage, name: str) -> None:
        space: Any = parent.single_instance_space
        super().__init__(space[name])
        self._parent = parent
        self._name = name
        self._position = parent._schema.names.index(name)
        self._numbers = [parent._columns[self._position]]

    @classmethod
    @override
    def create(cls, single_instance_space: Any, *args: Any, **kwargs: Any) -> Self:
        raise StorageArgumentError("a column view is made by ParquetStorage.get_column")

    @classmethod
    @override
    def load_from(
        cls, path: str | os.PathLike[str], single_instance_space: Any, **kwargs: Any
    ) -> Self:
        raise StorageArgumentError("a column view is made by ParquetStorage.get_column")

    @property
    @override
    def capacity(self) -> int | None:
        """The parent's."""
        return self._parent.capacity

    @property
    @override
    def cache_filename(self) -> str:
        """The parent's directory."""
        return self._parent.cache_filename

    @property
    @override
    def is_mutable(self) -> bool:
        """The parent's."""
        return self._parent.is_mutable

    @property
    @override
    def is_multiprocessing_safe(self) -> bool:
        """The parent's."""
        return self._parent.is_multiprocessing_safe

    @override
    def __len__(self) -> int:
        return len(self._parent)

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r} of {self._parent!r})"

    @override
    def get(self, index: Any) -> Any:
        """Reads rows of this column only; see `ParquetStorage.get`."""
        parent = self._parent
        with parent._lock:
            return parent._read(index, self._numbers)[0]

    @override
    def set(self, index: Any, value: Any) -> None:
        """Overwrites this column of existing rows; the other columns keep their values."""
        parent = self._parent
        with parent._lock:
            parent._write_half("set")
            rows = normalize(index, len(parent), str(parent._directory))
            whole = parent._schema.pack(parent._bank.gather(rows, parent._columns))
            whole[self._name] = value
            parent.set(rows, whole)

    @override
    def extend_length(self, length: int) -> None:
        self._refuse("extend_length")

    @override
    def shrink_length(self, length: int) -> None:
        self._refuse("shrink_length")

    @override
    def clear(self) -> None:
        self._refuse("clear")

    def _refuse(self, operation: str) -> None:
        raise StorageArgumentError(
            f"{operation}: a view of the column {self._name!r} cannot change the number of rows; "
            "call it on the storage",
            column=self._name,
        )

    def flush(self) -> None:
        """Flushes the parent."""
        self._parent.flush()

    @override
    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Dumps the parent, all columns."""
        self._parent.dumps(path)

    @override
    def close(self) -> None:
        """Does nothing: the parent owns the rows."""
