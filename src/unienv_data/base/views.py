"""Views of a batch: some of its samples, or one entry of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from unienv_data.base.batch import BatchBase, BatchT
from unienv_data.base.indexing import normalize
from unienv_data.errors import MissingColumnError
from unienv_interface.backends import BArrayType, BDeviceType, BDtypeType, BRNGType
from unienv_interface.space import DictSpace

__all__ = ["SubIndexedBatch", "SubItemBatch"]


def as_numpy_index(backend: Any, index: Any) -> Any:
    """Index arrays of any backend as numpy ones."""
    return backend.to_numpy(index) if backend.is_backendarray(index) else index


class SubIndexedBatch(BatchBase[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """Some samples of a batch, numbered from 0; the parent's numbers never show."""

    def __init__(
        self,
        batch: BatchBase[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType],
        sub_indexes: Any,
    ) -> None:
        """Chooses samples.

        Args:
            batch: The parent.
            sub_indexes: An int, slice, mask, array or ``...`` of the parent's index space.
        """
        super().__init__(batch.single_space, batch.single_metadata_space)
        self.batch = batch
        self.is_mutable = batch.is_mutable
        chosen = normalize(as_numpy_index(batch.backend, sub_indexes), len(batch), "the batch")
        if isinstance(chosen, int):
            chosen = np.array([chosen])
        self._chosen = chosen

    @override
    def __len__(self) -> int:
        if isinstance(self._chosen, slice):
            return int(self._chosen.stop - self._chosen.start)
        return len(self._chosen)

    def _parents(self, idx: Any) -> Any:
        index = normalize(as_numpy_index(self.backend, idx), len(self), "the view")
        chosen = self._chosen
        if isinstance(chosen, slice):
            if isinstance(index, slice):
                return slice(chosen.start + index.start, chosen.start + index.stop)
            result: Any = index + chosen.start
        else:
            result = chosen[index]
            if isinstance(index, int):
                return int(result)
        return result if isinstance(result, int) else self.backend.from_numpy(result)

    @override
    def get_at(self, idx: Any) -> Any:
        return self.batch.get_at(self._parents(idx))

    @override
    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        return self.batch.get_at_with_metadata(self._parents(idx))

    @override
    def get_flattened_at(self, idx: Any) -> Any:
        return self.batch.get_flattened_at(self._parents(idx))

    @override
    def get_flattened_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        return self.batch.get_flattened_at_with_metadata(self._parents(idx))

    @override
    def set_at(self, idx: Any, value: Any) -> None:
        self.batch.set_at(self._parents(idx), value)

    @override
    def set_flattened_at(self, idx: Any, value: Any) -> None:
        self.batch.set_flattened_at(self._parents(idx), value)


class SubItemBatch(BatchBase[Any, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """One entry of every sample of a batch of dicts; read-only."""

    is_mutable = False

    def __init__(
        self, batch: BatchBase[Any, Any, Any, Any, Any], sub_indexes: str | Sequence[str]
    ) -> None:
        """Chooses an entry.

        Args:
            batch: The parent.
            sub_indexes: A key, or the keys from the outermost dict inwards.

        Raises:
            MissingColumnError: There is no such entry.
        """
        keys = [sub_indexes] if isinstance(sub_indexes, str) else list(sub_indexes)
        space: Any = batch.single_space
        for key in keys:
            if not isinstance(space, DictSpace) or key not in space.spaces:
                known = list(space.spaces) if isinstance(space, DictSpace) else []
                raise MissingColumnError(
                    f"get_column: there is no key {key!r}; known are {known}",
                    column=key,
                    expected=known,
                )
            space = space[key]
        super().__init__(space, batch.single_metadata_space)
        self.batch = batch
        self._keys = keys

    @override
    def __len__(self) -> int:
        return len(self.batch)

    def _entry(self, data: Any) -> Any:
        for key in self._keys:
            data = data[key] if isinstance(data, Mapping) else data
        return data

    @override
    def get_at(self, idx: Any) -> Any:
        return self._entry(self.batch.get_at(idx))

    @override
    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        data, metadata = self.batch.get_at_with_metadata(idx)
        return self._entry(data), metadata
