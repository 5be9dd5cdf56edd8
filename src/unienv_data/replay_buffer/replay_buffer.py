"""Samples in the order they came, in a ring or without a limit, over any storage.

The straight path: an append or extend goes through a `RowWriter`, which writes rows into the
storage and moves the ledger; a read turns logical indexes into physical ones (`ring`) and asks
the storage. `flush` makes both durable and writes `metadata.json`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from typing_extensions import Self, override

from unienv_data.base.batch import BatchBase, BatchT
from unienv_data.base.capabilities import (
    supports_columns,
)
from unienv_data.base.segment import SegmentWriter
from unienv_data.base.storage import SpaceStorage
from unienv_data.errors import (
    StorageArgumentError,
    StorageExistsError,
    StorageSpaceError,
)
from unienv_data.io.atomic import empty_directory, space_error
from unienv_data.io.paths import absolute
from unienv_data.replay_buffer.durable_batch import DurableBatch, shared_segments_error
from unienv_data.replay_buffer.loading import BufferState, resolve_space, settled_state
from unienv_data.replay_buffer.metadata import (
    BufferMetadata,
)
from unienv_data.replay_buffer.ring_batch import (
    check_position,
    index_with_offset,
)
from unienv_data.replay_buffer.segments import from_physical
from unienv_data.storages.registry import resolve_inside, resolve_storage
from unienv_interface.backends import (
    BArrayType,
    BDeviceType,
    BDtypeType,
    BRNGType,
    ComputeBackend,
)
from unienv_interface.space import Space
from unienv_interface.space.space_utils import flatten_utils as sfu
from unienv_interface.space.space_utils.serialization_utils import json_to_space

__all__ = ["ReplayBuffer", "index_with_offset"]


class ReplayBuffer(DurableBatch[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """A ring of `capacity` samples, or a growing list of them, over a storage.

    Index 0 is the oldest sample. Every `extend` is a segment, and so is every run of `append`
    up to `mark_segment_end`; `get_segments` lists the closed ones.

    Over a storage that keeps a ledger, position and segments survive the process together with
    the rows, with no call to make; the samples of a run that was open when the process died stay,
    without a segment. Over other storages they last until the next `flush`, `dumps` or `close`.
    Calls are atomic to each other, in threads and, with `multiprocessing`, in processes.

    Owns the ledger, unless it is the storage's, and the file `metadata.json`.
    """

    storage: SpaceStorage[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]

    # -- factories ---------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        storage_cls: type[SpaceStorage[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]],
        single_instance_space: Space[BatchT, BDeviceType, BDtypeType, BRNGType],
        *args: Any,
        cache_path: str | os.PathLike[str] | None = None,
        capacity: int | None = None,
        multiprocessing: bool = False,
        maintain_segment_metadata: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Makes an empty buffer and its storage; the directory can be loaded from now on.

        Args:
            storage_cls: Class of the storage.
            single_instance_space: Space of one sample.
            *args: Passed to the storage.
            cache_path: Directory of the buffer, absent or empty; None keeps it in memory.
            capacity: Rows of a ring; None for a growing buffer.
            multiprocessing: Share the position with child processes; the storage must allow it.
            maintain_segment_metadata: Keep a list of segments.
            **kwargs: Passed to the storage.

        Raises:
            StorageExistsError: The directory holds something.
            SegmentStateError: Segments cannot be kept for several processes.
        """
        if multiprocessing and maintain_segment_metadata:
            raise shared_segments_error("create")
        relative = "storage" + (storage_cls.single_file_ext or "")
        path, is_new = None, False
        if cache_path is not None:
            cache_path = absolute(cache_path)
            is_new = _make_directory(cache_path)
            path = os.path.join(cache_path, relative)
        try:
            storage = storage_cls.create(
                single_instance_space,
                *args,
                cache_path=path,
                capacity=capacity,
                multiprocessing=multiprocessing,
                **kwargs,
            )
        except BaseException:
            if cache_path is not None and is_new:
                with suppress(OSError):
                    os.rmdir(cache_path)
            raise
        try:
            self = cls(
                storage,
                relative,
                cache_path=cache_path,
                multiprocessing=multiprocessing,
                maintain_segment_metadata=maintain_segment_metadata,
            )
            if cache_path is not None:
                self._write_metadata(Path(cache_path), sync=True)
        except BaseException as error:
            storage.close()
            if cache_path is not None and isinstance(error, StorageSpaceError):
                _unmake_directory(cache_path, is_new=is_new)  # the call can be repeated
            raise
        return self

    @classmethod
    def load_from(
        cls,
        path: str | os.PathLike[str],
        *,
        backend: type[ComputeBackend[BArrayType, BDeviceType, BDtypeType, BRNGType]],
        device: BDeviceType | None = None,
        read_only: bool = True,
        multiprocessing: bool = False,
        single_instance_space: Space[BatchT, BDeviceType, BDtypeType, BRNGType] | None = None,
        **storage_kwargs: Any,
    ) -> Self:
        """Opens a directory that a buffer of this or of the original library was written to.

        Args:
            path: The directory.
            backend: Array backend of the samples.
            device: Device of the samples.
            read_only: Show what is committed; otherwise go on writing, and recover what an
                interrupted writer left.
            multiprocessing: See `create`.
            single_instance_space: Expected space; read-only it may leave keys out.
            **storage_kwargs: Passed to the storage.

        Raises:
            MissingStorageError: There is no buffer.
            ManifestError: `metadata.json` is damaged or describes something else.
            SchemaMismatchError: The space differs from the stored one.
        """
        path = absolute(path)
        metadata = BufferMetadata.read(path)
        space: Any = resolve_space(
            metadata,
            single_instance_space,
            backend,
            device,
            read_only=read_only,
            place=os.fspath(path),
        )
        if multiprocessing and not read_only and metadata.physical_segments is not None:
            raise shared_segments_error("load_from")
        storage_cls = resolve_storage(metadata.storage_cls)
        storage = storage_cls.load_from(
            resolve_inside(path, metadata.storage_path_relative),
            space,
            capacity=metadata.capacity,
            read_only=read_only,
            multiprocessing=multiprocessing,
            **storage_kwargs,
        )
        self = cls.__new__(cls)
        try:
            self._start(
                storage,
                metadata.storage_path_relative,
                cache_path=path,
                multiprocessing=multiprocessing,
                state=settled_state(path, metadata, storage),
            )
        except BaseException:
            storage.close()
            raise
        return self

    @staticmethod
    def is_loadable_from(path: str | os.PathLike[str]) -> bool:
        """Whether `path` is the directory of a buffer."""
        return BufferMetadata.peek(path) is not None

    @staticmethod
    def get_length_from_path(path: str | os.PathLike[str]) -> int | None:
        """Number of samples as of the last flush; None when there is no buffer."""
        if BufferMetadata.peek(path) is None:
            return None
        return BufferMetadata.read(path).count

    @staticmethod
    def get_capacity_from_path(path: str | os.PathLike[str]) -> int | None:
        """The capacity; None for a growing buffer, or when there is none."""
        if BufferMetadata.peek(path) is None:
            return None
        return BufferMetadata.read(path).capacity

    @staticmethod
    def get_space_from_path(
        path: str | os.PathLike[str],
        *,
        backend: type[ComputeBackend[BArrayType, BDeviceType, BDtypeType, BRNGType]],
        device: BDeviceType | None = None,
    ) -> Space[Any, BDeviceType, BDtypeType, BRNGType] | None:
        """Space of one sample; None when there is no buffer."""
        if BufferMetadata.peek(path) is None:
            return None
        space: Space[Any, BDeviceType, BDtypeType, BRNGType] = json_to_space(
            BufferMetadata.read(path).space, backend, device
        )
        return space

    def __init__(
        self,
        storage: SpaceStorage[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType],
        storage_path_relative: str,
        count: int = 0,
        offset: int = 0,
        cache_path: str | os.PathLike[str] | None = None,
        multiprocessing: bool = False,
        *,
        maintain_segment_metadata: bool = False,
        physical_segments: Sequence[tuple[int, int]] | None = None,
        active_segment_start_physical: int | None = None,
        active_segment_length: int = 0,
    ) -> None:
        """Puts a buffer over an existing storage.

        Args:
            storage: The rows.
            storage_path_relative: Where it lies in the buffer's directory.
            count: Rows alive.
            offset: Physical position of the oldest.
            cache_path: The buffer's directory; None keeps position and segments in memory.
            multiprocessing: See `create`.
            maintain_segment_metadata: Keep a list of segments.
            physical_segments: Closed segments, inclusive physical pairs; implies the former.
            active_segment_start_physical: Position of the open segment's first row.
            active_segment_length: Rows of the open segment, the newest ones.
        """
        capacity = storage.capacity
        tail, head = check_position(count, offset, capacity)
        segments = None
        if maintain_segment_metadata or physical_segments is not None:
            segments = from_physical(physical_segments or (), tail, head, capacity)
        self._start(
            storage,
            storage_path_relative,
            cache_path=cache_path,
            multiprocessing=multiprocessing,
            state=BufferState(head, tail, segments),
        )
        if segments is not None and active_segment_start_physical is not None:
            self._ledger.active_start = max(tail, head - active_segment_length)

    # -- writing -----------------------------------------------------------------------------

    @override
    def append(self, value: Any) -> None:
        """Adds one sample to the open segment, which it opens if there is none.

        Over a storage with a ledger the sample survives the process once this returns.

        Raises:
            SampleError: The value does not fit the space; nothing is changed.
        """
        with self._lock:
            writer = self._writer
            if writer.is_run_open:
                writer.append(value)
            else:
                self._require_owner("append")
                writer.append_first(value)

    @override
    def extend(self, value: Any) -> None:
        """Adds a batch, as a segment of its own; of more than `capacity` rows the newest stay.

        Raises:
            SampleError: Row counts differ, or a value does not fit; nothing is changed.
            SegmentStateError: A segment that appends built is open.
        """
        with self._lock:
            self._require_owner("extend")
            self._require_no_run("extend")
            self._writer.extend(value)

    @override
    def extend_flattened(self, value: Any) -> None:
        """Adds a batch of flat samples, shape ``(B, flat_dim)``."""
        self.extend(sfu.unflatten_data(self._batched_space, value, start_dim=1))

    def clear(self) -> None:
        """Drops every sample and segment; `count` and `offset` become 0."""
        with self._lock:
            self._require_owner("clear")
            self._writer.clear()
            directory = self._directory()
            if directory is not None:
                # Segments of the rows before must not be read into the ones to come.
                self._write_metadata(directory, sync=False)

    # -- segments ----------------------------------------------------------------------------

    def mark_segment_end(self) -> None:
        """Closes the segment that appends built; without one nothing happens."""
        with self._lock:
            if self._writer.is_run_open:
                self._require_owner("mark_segment_end")
                self._writer.end_run()
                if getattr(self.storage, "is_flush_due", False):
                    self.flush()

    def open_segment_writer(
        self,
    ) -> SegmentWriter[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]:
        """Gives a writer that collects a segment aside, for `commit_segment`."""
        with self._lock:
            self._require_owner("open_segment_writer")
            return self.storage.open_segment_writer()

    def commit_segment(
        self, writer: SegmentWriter[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]
    ) -> None:
        """Adds a collected segment, like `extend`; the writer is finished afterwards.

        Raises:
            StorageArgumentError: The writer belongs to another storage.
            CapacityError: The segment is longer than the capacity.
        """
        with self._lock:
            self._require_owner("commit_segment")
            if writer.storage is not self.storage:
                raise StorageArgumentError(
                    "commit_segment: the writer was opened on another storage; use one from "
                    "open_segment_writer of this buffer",
                    found=repr(writer.storage),
                )
            self._require_no_run("commit_segment")
            self._writer.commit(writer)

    # -- columns -----------------------------------------------------------------------------

    @override
    def get_column(self, nested_keys: str | Sequence[str]) -> BatchBase[Any, Any, Any, Any, Any]:
        """Gives a live view of a column, which reads nothing else where the storage can.

        The view shares position and lock with this buffer; it cannot change the length.
        """
        storage: Any = self.storage
        if not supports_columns(storage):
            return super().get_column(nested_keys)
        column = storage.get_column(nested_keys)
        view: ReplayBuffer[Any, Any, Any, Any, Any] = type(self).__new__(type(self))
        view._view(self, column)
        return view


def _make_directory(path: str | os.PathLike[str]) -> bool:
    directory = Path(path)
    if directory.exists() and (not directory.is_dir() or os.listdir(directory)):
        raise StorageExistsError(
            f"create: {directory} holds something already; choose another directory, delete this "
            "one, or open it with load_from(..., read_only=False)",
            path=str(directory),
        )
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise space_error(error, directory, "create") from error
    return is_new


def _unmake_directory(path: str | os.PathLike[str], *, is_new: bool) -> None:
    empty_directory(Path(path))
    if is_new:
        with suppress(OSError):
            os.rmdir(path)
