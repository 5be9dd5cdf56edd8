"""Something with a length whose samples can be got by index: buffers, views, datasets."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias

from typing_extensions import Self

from unienv_data.base.storage import BatchT
from unienv_data.errors import ReadOnlyError
from unienv_interface.backends import BArrayType, BDeviceType, BDtypeType, BRNGType
from unienv_interface.space import DictSpace, Space
from unienv_interface.space.space_utils import batch_utils as sbu
from unienv_interface.space.space_utils import flatten_utils as sfu

if TYPE_CHECKING:
    from unienv_data.base.views import SubIndexedBatch

__all__ = ["BatchBase", "BatchT", "IndexableType", "is_single"]

IndexableType: TypeAlias = int | slice | EllipsisType
"""Index kinds beside arrays and masks."""


class BatchBase(abc.ABC, Generic[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """Samples by index.

    A subclass overrides the plain accessors or the flat ones, with or without metadata; each is
    derived from the other.

    Attributes:
        single_space: Space of one sample.
        single_metadata_space: Space of one sample's metadata, None when there is none.
        is_mutable: Whether samples can be written.
    """

    is_mutable: bool = True

    def __init__(
        self,
        single_space: Space[BatchT, BDeviceType, BDtypeType, BRNGType],
        single_metadata_space: DictSpace[BDeviceType, BDtypeType, BRNGType] | None = None,
    ) -> None:
        self.single_space = single_space
        self.single_metadata_space = single_metadata_space
        self._batched_space: Any = sbu.batch_space(single_space, 1)
        self._batched_metadata_space: Any = (
            None if single_metadata_space is None else sbu.batch_space(single_metadata_space, 1)
        )

    @property
    def backend(self) -> Any:
        """Array backend of the samples."""
        return self.single_space.backend

    @property
    def device(self) -> Any:
        """Device of the samples."""
        return self.single_space.device

    @abc.abstractmethod
    def __len__(self) -> int:
        """Number of samples."""

    # -- reading -----------------------------------------------------------------------------

    def _overrides(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(BatchBase, name)

    def get_at(self, idx: Any) -> Any:
        """One sample for an int, a batch for every other index."""
        if self._overrides("get_at_with_metadata"):
            return self.get_at_with_metadata(idx)[0]
        return self._unflattened(idx, self.get_flattened_at(idx))

    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        """Samples and their metadata, None when there is none."""
        if self._overrides("get_flattened_at_with_metadata"):
            flat, metadata = self.get_flattened_at_with_metadata(idx)
            return self._unflattened(idx, flat), metadata
        return self.get_at(idx), None

    def get_flattened_at(self, idx: Any) -> Any:
        """Flat samples, shape ``(flat_dim,)`` or ``(B, flat_dim)``."""
        if self._overrides("get_flattened_at_with_metadata"):
            return self.get_flattened_at_with_metadata(idx)[0]
        if not (self._overrides("get_at") or self._overrides("get_at_with_metadata")):
            raise NotImplementedError(f"{type(self).__name__} overrides no way to read samples")
        return self._flattened(idx, self.get_at(idx))

    def get_flattened_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        """Flat samples and their metadata."""
        if self._overrides("get_at_with_metadata"):
            data, metadata = self.get_at_with_metadata(idx)
            return self._flattened(idx, data), metadata
        return self.get_flattened_at(idx), None

    def _flattened(self, idx: Any, data: Any) -> Any:
        if is_single(idx):
            return sfu.flatten_data(self.single_space, data)
        return sfu.flatten_data(self._batched_space, data, start_dim=1)

    def _unflattened(self, idx: Any, flat: Any) -> Any:
        if is_single(idx):
            return sfu.unflatten_data(self.single_space, flat)
        return sfu.unflatten_data(self._batched_space, flat, start_dim=1)

    def __getitem__(self, idx: Any) -> Any:
        return self.get_at(idx)

    # -- writing -----------------------------------------------------------------------------

    def _refuse(self, operation: str) -> NoReturn:
        raise ReadOnlyError(f"{operation}: a {type(self).__name__} cannot be written to")

    def set_at(self, idx: Any, value: Any) -> None:
        """Overwrites samples."""
        if not self._overrides("set_flattened_at"):
            self._refuse("set_at")
        self.set_flattened_at(idx, self._flattened(idx, value))

    def set_flattened_at(self, idx: Any, value: Any) -> None:
        """Overwrites samples by flat ones."""
        if not self._overrides("set_at"):
            self._refuse("set_flattened_at")
        self.set_at(idx, self._unflattened(idx, value))

    def append(self, value: Any) -> None:
        """Adds one sample."""
        self.extend(sbu.concatenate(self.single_space, [value]))

    def append_flattened(self, value: Any) -> None:
        """Adds one flat sample, shape ``(flat_dim,)``."""
        self.append(sfu.unflatten_data(self.single_space, value))

    def extend(self, value: Any) -> None:
        """Adds a batch."""
        if not self._overrides("extend_flattened"):
            self._refuse("extend")
        self.extend_flattened(sfu.flatten_data(self._batched_space, value, start_dim=1))

    def extend_flattened(self, value: Any) -> None:
        """Adds a batch of flat samples, shape ``(B, flat_dim)``."""
        if not self._overrides("extend"):
            self._refuse("extend_flattened")
        self.extend(sfu.unflatten_data(self._batched_space, value, start_dim=1))

    def extend_from(
        self,
        other: BatchBase[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType],
        chunk_size: int = 8,
        tqdm: bool = False,
    ) -> None:
        """Adds every sample of another batch.

        Args:
            other: Where they come from.
            chunk_size: Samples at a time.
            tqdm: Show a progress bar (needs the package tqdm).
        """
        count = len(other)  # it may be this very batch, which grows
        starts: Any = range(0, count, chunk_size)
        if tqdm:
            from tqdm import tqdm as bar

            starts = bar(starts, desc="extend_from")
        for start in starts:
            self.extend(other.get_at(slice(start, min(start + chunk_size, count))))

    def remove_at(self, idx: Any) -> None:
        """Removes samples."""
        raise NotImplementedError(f"a {type(self).__name__} cannot remove single samples")

    def __setitem__(self, idx: Any, value: Any) -> None:
        self.set_at(idx, value)

    def __delitem__(self, idx: Any) -> None:
        self.remove_at(idx)

    # -- views -------------------------------------------------------------------------------

    def get_slice(
        self, idx: Any
    ) -> SubIndexedBatch[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]:
        """A view of some samples, with an index space of its own."""
        from unienv_data.base.views import SubIndexedBatch

        return SubIndexedBatch(self, idx)

    def get_column(self, nested_keys: str | Sequence[str]) -> BatchBase[Any, Any, Any, Any, Any]:
        """A view of one entry of every sample."""
        from unienv_data.base.views import SubItemBatch

        return SubItemBatch(self, nested_keys)

    # -- closing -----------------------------------------------------------------------------

    def close(self) -> None:
        """Lets resources go."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def is_single(idx: Any) -> bool:
    """Whether an index names one sample."""
    return hasattr(idx, "__index__") and not getattr(idx, "shape", ())
