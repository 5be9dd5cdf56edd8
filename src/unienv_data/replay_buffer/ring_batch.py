"""The reading half of a replay buffer: from logical indexes to rows of a storage."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import override

from unienv_data.base.batch import BatchBase, BatchT
from unienv_data.base.capabilities import Ledger, supports_flattened
from unienv_data.base.indexing import normalize
from unienv_data.base.storage import SpaceStorage
from unienv_data.base.views import as_numpy_index
from unienv_data.errors import (
    CapacityError,
    CommitConflictError,
    ReadOnlyError,
    SegmentStateError,
    StorageArgumentError,
    StorageClosedError,
)
from unienv_data.replay_buffer.ledger import SharedLedger
from unienv_data.replay_buffer.ring import next_round, offset_of, to_physical
from unienv_data.replay_buffer.row_writer import LedgerWriter, RowWriter, native_rows
from unienv_data.replay_buffer.segments import from_physical, to_logical, to_physical_pairs
from unienv_interface.backends import (
    BArrayType,
    BDeviceType,
    BDtypeType,
    BRNGType,
    ComputeBackend,
)
from unienv_interface.backends.numpy import NumpyComputeBackend

__all__ = ["CLOSED", "RingBatch", "check_position", "index_with_offset", "live_batches"]

_ATTEMPTS = 100

live_batches: weakref.WeakSet[RingBatch[Any, Any, Any, Any, Any]] = weakref.WeakSet()
"""Every buffer and view of this process."""


def _after_fork_in_child() -> None:
    for batch in list(live_batches):
        batch._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class RingBatch(BatchBase[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """Rows of a storage, counted from the oldest one that a ledger says is alive.

    A view of a column shares ledger and lock with its parent, which owns them.
    """

    storage: SpaceStorage[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]

    def _attach(
        self,
        storage: SpaceStorage[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType],
        ledger: Ledger,
        writer: RowWriter,
        lock: Any,
        *,
        relative: str,
        cache_path: str | os.PathLike[str] | None,
        multiprocessing: bool,
        parent: RingBatch[Any, Any, Any, Any, Any] | None = None,
    ) -> None:
        self.storage = storage
        self._ledger = ledger
        self._writer = writer
        self._lock = lock
        self._capacity = storage.capacity
        self._storage_path_relative = relative
        self._cache_path = cache_path
        self._multiprocessing = multiprocessing
        self._parent = parent
        self._pid = os.getpid()
        self._is_closed = False
        super().__init__(storage.single_instance_space, None)
        live_batches.add(self)

    # -- facts -------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of samples; setting it changes how many of the storage's rows are shown."""
        with self._lock:
            ledger = self._ledger
            return ledger.head - ledger.tail

    @count.setter
    def count(self, value: int) -> None:
        self._set_position(value, self.offset)

    @property
    def offset(self) -> int:
        """Physical position of the oldest sample."""
        return offset_of(self._ledger.tail, self._capacity)

    @offset.setter
    def offset(self, value: int) -> None:
        self._set_position(self.count, value)

    @override
    def __len__(self) -> int:
        return self.count

    @property
    def capacity(self) -> int | None:
        """Number of samples of a ring, None for a growing buffer."""
        return self._capacity

    @property
    def cache_path(self) -> str | os.PathLike[str] | None:
        """The buffer's directory; None in memory."""
        return self._cache_path

    @property
    def storage_path_relative(self) -> str:
        """Where the storage lies in the directory."""
        return self._storage_path_relative

    @property
    def maintain_segment_metadata(self) -> bool:
        """Whether the buffer keeps a list of segments itself."""
        return self._ledger.maintained

    @property
    @override
    def is_mutable(self) -> bool:  # type: ignore[override]  # the storage knows
        """Whether samples can be written."""
        return self.storage.is_mutable

    @property
    def is_multiprocessing_safe(self) -> bool:
        """Whether it was opened for several processes."""
        return self._multiprocessing

    @property
    @override
    def backend(self) -> Any:
        """Array backend of the samples."""
        return self.storage.backend

    @property
    @override
    def device(self) -> Any:
        """Device of the samples."""
        return self.storage.device

    @override
    def __repr__(self) -> str:
        size = f"{self.count} samples"
        size += ", growing" if self._capacity is None else f" of {self._capacity}"
        facts = [size]
        if self.offset:
            facts.append(f"offset {self.offset}")
        if self.maintain_segment_metadata:
            facts.append(f"{len(self.get_segments() or ())} segments")
        if self._is_closed:
            facts.append("closed")
        elif self._writer.is_run_open:
            facts.append("a segment open")
        inside = "" if self._is_closed else f"; {self.storage!r}"
        place = "in memory" if self._cache_path is None else repr(os.fspath(self._cache_path))
        return f"{type(self).__name__}({place}, {', '.join(facts)}{inside})"

    # -- reading -----------------------------------------------------------------------------

    def _place(self, index: Any) -> Any:
        """Physical form of a logical index; the storage checks what needs no translation."""
        ledger, capacity, storage = self._ledger, self._capacity, self.storage
        tail = ledger.tail
        count = ledger.head - tail
        if capacity is None:
            if count == len(storage):
                return index
        elif count == capacity and tail % capacity == 0:
            return index
        if storage.backend is not NumpyComputeBackend:
            index = as_numpy_index(storage.backend, index)
        rows = to_physical(normalize(index, count, "the buffer"), tail, capacity)
        return native_rows(storage, rows)

    def _read(self, read: Callable[[Any], Any], index: Any) -> Any:
        if self._capacity is None or self._pid == os.getpid():
            return read(self._place(index))
        if not isinstance(self._writer, LedgerWriter):
            return read(self._place(index))
        return self._read_beside_parent(read, index, self._capacity)

    def _read_beside_parent(self, read: Callable[[Any], Any], index: Any, capacity: int) -> Any:
        """In a forked child: the parent may give rows up and write over them meanwhile."""
        ledger, storage = self._ledger, self.storage
        if storage.backend is not NumpyComputeBackend:
            index = as_numpy_index(storage.backend, index)
        for _ in range(_ATTEMPTS):
            tail = ledger.tail
            rows = normalize(index, ledger.head - tail, "the buffer")
            found = read(native_rows(storage, to_physical(rows, tail, capacity)))
            if isinstance(rows, slice):
                oldest = rows.start
            else:
                oldest = int(np.min(rows)) if np.size(rows) else capacity
            # A row is given up before its place is written over.
            if ledger.tail <= tail + oldest:
                return found
        raise CommitConflictError(
            "get: the parent process gives rows up faster than they can be read; open the buffer "
            "read-only in this process"
        )

    @override
    def get_at(self, idx: Any) -> Any:
        """Reads samples.

        Args:
            idx: An int for one sample; a slice, ``...``, a 1-D integer array or sequence, or a
                mask of `len(self)` bools for a batch.

        Returns:
            What `storage.get` gives for these rows, never a view of the storage.

        Raises:
            RowIndexError: A row lies outside the buffer.
        """
        with self._lock:
            return self._read(self.storage.get, idx)

    @override
    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        """Reads samples; a buffer has no metadata for them."""
        return self.get_at(idx), None

    @override
    def get_flattened_at(self, idx: Any) -> Any:
        """Reads samples as flat arrays of shape ``(flat_dim,)`` or ``(B, flat_dim)``."""
        storage: Any = self.storage
        if supports_flattened(storage):
            with self._lock:
                return self._read(storage.get_flattened, idx)
        return self._flattened(idx, self.get_at(idx))

    @override
    def get_flattened_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        """Reads flat samples; a buffer has no metadata for them."""
        return self.get_flattened_at(idx), None

    # -- writing -----------------------------------------------------------------------------

    @override
    def set_at(self, idx: Any, value: Any) -> None:
        """Overwrites samples: all of them, or none when something does not fit."""
        with self._lock:
            self._require_mutable("set_at")
            self.storage.set(self._place(idx), value)

    @override
    def set_flattened_at(self, idx: Any, value: Any) -> None:
        """Overwrites samples with flat arrays."""
        storage: Any = self.storage
        if supports_flattened(storage):
            with self._lock:
                self._require_mutable("set_flattened_at")
                storage.set_flattened(self._place(idx), value)
        else:
            self.set_at(idx, self._unflattened(idx, value))

    # -- segments ----------------------------------------------------------------------------

    def get_segments(self) -> list[tuple[int, int]] | None:
        """Closed segments as half-open intervals of indexes, oldest first.

        Those of which the ring gave up a part are cut. None when neither the buffer nor the
        storage keeps segments.
        """
        with self._lock:
            ledger = self._ledger
            head, tail = ledger.head, ledger.tail
            if ledger.maintained:
                return to_logical(ledger.segments(), tail, self._closed_head())
            pairs = self.storage.get_segments()
            if pairs is None:
                return None
            return to_logical(from_physical(pairs, tail, head, self._capacity), tail, head)

    def _closed_head(self) -> int:
        active = self._ledger.active_start
        return self._ledger.head if active < 0 else active

    # -- inside ------------------------------------------------------------------------------

    def _set_position(self, count: int, offset: int) -> None:
        with self._lock:
            self._require_owner("set count or offset")
            self._require_no_run("set count or offset")
            ledger, capacity = self._ledger, self._capacity
            tail, head = check_position(count, offset, capacity)
            if capacity is None:
                self._set_length(head)
                return
            pairs = to_physical_pairs(ledger.segments(), ledger.tail, ledger.head, capacity)
            base = next_round(ledger.head, capacity)
            head, tail = base + head, base + tail
            segments = from_physical(pairs, tail, head, capacity)
            ledger.reset(head, tail, segments, ledger.maintained)

    def _set_length(self, count: int) -> None:
        ledger = self._ledger
        if count > len(self.storage):
            raise CapacityError(
                f"count: the storage has {len(self.storage)} rows, got {count}; append or extend",
                expected=len(self.storage),
                found=count,
            )
        if isinstance(self._writer, LedgerWriter):
            if count < len(self.storage):
                self.storage.shrink_length(len(self.storage) - count)
        else:
            ledger.head = count

    def _require_owner(self, operation: str) -> None:
        if self._parent is not None:
            raise ReadOnlyError(
                f"{operation}: a view of a column cannot change the number of samples; call it on "
                "the whole buffer"
            )
        self._require_mutable(operation)

    def _require_mutable(self, operation: str) -> None:
        if not self.storage.is_mutable:
            raise ReadOnlyError(
                f"{operation}: {self.storage!r} cannot be written; load it with read_only=False, "
                "in the process that writes it"
            )

    def _require_no_run(self, operation: str) -> None:
        if self._writer.is_run_open or self.storage.has_open_segment:
            raise SegmentStateError(
                f"{operation}: a segment that appends built is open; call mark_segment_end() first"
            )

    def _let_go(self, last: Ledger) -> None:
        """Closes this object: facts stay readable, the storage does not."""
        self._is_closed = True
        self._ledger = last
        self._writer.is_run_open = False
        self.storage = CLOSED

    def _after_fork(self) -> None:
        """In a child: another thread of the parent may have held the lock."""
        if self._parent is not None:
            self._parent._after_fork()
            self._lock = self._parent._lock
        elif not isinstance(self._ledger, SharedLedger):
            self._lock = threading.RLock()
        self._writer.is_run_open = False


class _Closed:
    """In the place of a closed buffer's storage."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise StorageClosedError(
            f"the buffer is closed ({name} was asked for); open it again with load_from"
        )

    def __len__(self) -> int:
        raise StorageClosedError("len: the buffer is closed; open it again with load_from")


CLOSED: Any = _Closed()


def check_position(count: int, offset: int, capacity: int | None) -> tuple[int, int]:
    """Gives tail and head for a count and an offset of other origin."""
    limit = None if capacity is None else capacity
    if count < 0 or (limit is not None and count > limit):
        raise StorageArgumentError(
            f"count: expected 0 to {limit if limit is not None else 'the storage length'}, got "
            f"{count}",
            expected=limit,
            found=count,
        )
    if not 0 <= offset < (1 if capacity is None else capacity):
        raise StorageArgumentError(
            f"offset: expected a position below the capacity ({capacity}; a growing buffer "
            f"always begins at 0), got {offset}",
            expected=capacity,
            found=offset,
        )
    return int(offset), int(offset) + int(count)


def index_with_offset(
    backend: type[ComputeBackend[BArrayType, BDeviceType, BDtypeType, BRNGType]],
    index: Any,
    len_transitions: int,
    offset: int,
    device: BDeviceType | None = None,
) -> Any:
    """Turns indexes that count from the oldest row into positions in a full ring.

    Args:
        backend: Backend of the array returned.
        index: An int, a slice, ``...``, a 1-D integer array, or a mask.
        len_transitions: Rows of the ring.
        offset: Position of the oldest row.
        device: Device of the array returned.

    Returns:
        An int for an int, else an integer array.

    Raises:
        RowIndexError: A row lies outside the ring.
    """
    rows = normalize(index, len_transitions, "the ring")
    if isinstance(rows, int):
        return (rows + offset) % len_transitions
    if isinstance(rows, slice):
        rows = np.arange(rows.start, rows.stop, dtype=np.int64)
    positions = (rows + offset) % len_transitions if len_transitions else rows
    return backend.from_numpy(positions, device=device)
