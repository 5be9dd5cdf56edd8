"""What every storage has. What only some have is in `capabilities`."""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from typing_extensions import Self, TypeVar

from unienv_data.errors import SegmentStateError
from unienv_interface.backends import BArrayType, BDeviceType, BDtypeType, BRNGType
from unienv_interface.space import Space
from unienv_interface.space.space_utils import batch_utils as sbu

if TYPE_CHECKING:
    from unienv_data.base.segment import SegmentWriter

__all__ = ["FOREIGN_KEYWORDS", "BatchT", "SpaceStorage", "reject_unknown_keywords"]

BatchT = TypeVar("BatchT", default=Any)

FOREIGN_KEYWORDS = frozenset(
    {
        "cache_decoders",
        "compressed",
        "decode_backend",
        "hardware_acceleration",
        "is_memmap",
        "memmap_existok",
        "reduce_io",
        "seek_mode",
    }
)
"""Keywords of some storages' `load_from` that programs pass to every storage."""


def reject_unknown_keywords(keywords: Mapping[str, Any], place: str) -> None:
    """Refuses what is neither this storage's keyword nor known to be another's.

    Raises:
        TypeError: Names the first one; most likely it is misspelt.
    """
    unknown = sorted(set(keywords) - FOREIGN_KEYWORDS)
    if unknown:
        raise TypeError(f"{place} got an unexpected keyword argument {unknown[0]!r}")


class SpaceStorage(abc.ABC, Generic[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """Rows of samples of one space.

    Bounded storages have a capacity, which is their length, and read as zeros until they are set;
    growing ones start empty. A subclass implements the abstract methods; segments, appending and
    segment writers come from here unless it can do better.

    Attributes:
        single_instance_space: Space of one sample.
        single_file_ext: Extension of a storage in one file, None for a directory.
    """

    single_file_ext: ClassVar[str | None] = None

    def __init__(
        self, single_instance_space: Space[BatchT, BDeviceType, BDtypeType, BRNGType]
    ) -> None:
        self.single_instance_space = single_instance_space
        self._open_segment_cursor: int | None = None

    # -- factories ---------------------------------------------------------------------------

    @classmethod
    @abc.abstractmethod
    def create(
        cls,
        single_instance_space: Any,
        *args: Any,
        capacity: int | None = None,
        cache_path: str | os.PathLike[str] | None = None,
        multiprocessing: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Makes an empty storage.

        Args:
            single_instance_space: Space of one sample.
            *args: The storage's own arguments.
            capacity: Fixed number of rows, None for a growing storage.
            cache_path: File or directory; None for a storage in memory.
            multiprocessing: Whether several processes are going to use it.
            **kwargs: The storage's own arguments.
        """

    @classmethod
    @abc.abstractmethod
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
        """Opens what `create` made. Keywords of other storages are accepted."""

    # -- facts -------------------------------------------------------------------------------

    @property
    def backend(self) -> Any:
        """Array backend of the samples."""
        return self.single_instance_space.backend

    @property
    def device(self) -> Any:
        """Device of the samples."""
        return self.single_instance_space.device

    @property
    @abc.abstractmethod
    def capacity(self) -> int | None:
        """Number of rows of a bounded storage, None for a growing one."""

    @property
    @abc.abstractmethod
    def cache_filename(self) -> str | os.PathLike[str] | None:
        """File or directory, None in memory."""

    @property
    @abc.abstractmethod
    def is_mutable(self) -> bool:
        """Whether rows can be written."""

    @property
    @abc.abstractmethod
    def is_multiprocessing_safe(self) -> bool:
        """Whether several processes may use it at once."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    # -- rows --------------------------------------------------------------------------------

    @abc.abstractmethod
    def get(self, index: Any) -> Any:
        """One sample for an int, a batch for every other index."""

    @abc.abstractmethod
    def set(self, index: Any, value: Any) -> None:
        """Overwrites one sample for an int, as many as the batch has for every other index."""

    def extend_length(self, length: int) -> None:
        """Makes a growing storage longer."""

    def shrink_length(self, length: int) -> None:
        """Drops the last rows of a growing storage."""

    def clear(self) -> None:
        """Aborts the open segment and drops every row of a growing storage."""
        self.abort_segment()
        if self.capacity is None and len(self):
            self.shrink_length(len(self))

    # -- segments ----------------------------------------------------------------------------

    @property
    def has_open_segment(self) -> bool:
        """Whether `append` may be called."""
        return self._open_segment_cursor is not None

    @property
    def pending_segment_length(self) -> int:
        """Samples of the open segment that are not stored yet."""
        return 0

    def get_segments(self) -> list[tuple[int, int]] | None:
        """Segments as inclusive physical ranges, None when the storage keeps none."""
        return None

    def mark_segment_start(self, start_index: int) -> None:
        """Opens a segment whose first sample goes to row `start_index`.

        Raises:
            SegmentStateError: One is open already.
        """
        if self.has_open_segment:
            raise SegmentStateError(
                "mark_segment_start: a segment is open already; call mark_segment_end first"
            )
        self._open_segment_cursor = int(start_index)

    def append(self, value: Any) -> None:
        """Writes the next sample of the open segment.

        Raises:
            SegmentStateError: No segment is open.
        """
        row = self._open_segment_cursor
        if row is None:
            raise SegmentStateError("append: no segment is open; call mark_segment_start first")
        batch = sbu.concatenate(self.single_instance_space, [value])
        self.set(slice(row, row + 1), batch)
        capacity = self.capacity
        self._open_segment_cursor = row + 1 if capacity is None else (row + 1) % capacity

    def mark_segment_end(self) -> None:
        """Closes the open segment; without one nothing happens."""
        self._open_segment_cursor = None

    def abort_segment(self) -> None:
        """Gives the open segment up; without one nothing happens."""
        self._open_segment_cursor = None

    def open_segment_writer(
        self,
    ) -> SegmentWriter[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]:
        """Gives a writer that collects a segment aside; several may be open at once."""
        from unienv_data.base.segment import BufferedSegmentWriter

        return BufferedSegmentWriter(self)

    # -- files -------------------------------------------------------------------------------

    @abc.abstractmethod
    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to a file or directory."""

    @abc.abstractmethod
    def close(self) -> None:
        """Lets files go."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: BLE001 - a finaliser, perhaps of a half-made object
            return
