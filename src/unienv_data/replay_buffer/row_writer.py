"""How rows get into a buffer: one writer for storages that keep a ledger, one for the others.

Both are called with the buffer's lock held, and both leave everything as it was when a call
fails. A *run* is the segment that single appends build.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from unienv_data.base.capabilities import Ledger
from unienv_data.base.segment import SegmentWriter
from unienv_data.base.storage import SpaceStorage
from unienv_data.errors import CapacityError, MissingColumnError, SampleError
from unienv_data.replay_buffer.ring import next_round, plan_extension
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.space import DictSpace, TupleSpace
from unienv_interface.space.space_utils import batch_utils as sbu

__all__ = ["GenericWriter", "LedgerWriter", "RowWriter", "native_rows", "row_count"]

_FORGET_EVERY = 256


class RowWriter(ABC):
    """Writes rows into a storage and moves a ledger along.

    Owns `is_run_open`. The ledger and the storage belong to the buffer.
    """

    def __init__(self, storage: SpaceStorage[Any, Any, Any, Any, Any], ledger: Ledger) -> None:
        self._storage: Any = storage
        self._ledger = ledger
        self._capacity = storage.capacity
        self._batched_space: Any = None
        self._announced = 0
        self.is_run_open = storage.has_open_segment

    # -- runs --------------------------------------------------------------------------------

    def open_run(self) -> None:
        """Opens a segment, here and in the storage, unless the storage has one open."""
        ledger = self._ledger
        head = ledger.head
        if not self._storage.has_open_segment:
            self._storage.mark_segment_start(
                head if self._capacity is None else head % self._capacity
            )
        self.is_run_open = True
        if ledger.maintained and ledger.active_start < 0:
            ledger.active_start = head

    def append_first(self, value: Any) -> None:
        """Opens a run with one sample; when it does not fit, no run is open."""
        self.open_run()
        try:
            self.append(value)
        except Exception:
            self.is_run_open = False
            self._ledger.active_start = -1
            self._storage.abort_segment()
            raise

    @abstractmethod
    def append(self, value: Any) -> None:
        """Writes one sample of the open run."""

    @abstractmethod
    def end_run(self) -> None:
        """Closes the run; its rows become a segment."""

    def _close_run(self) -> None:
        ledger = self._ledger
        start = ledger.active_start
        if start >= 0:
            if ledger.head > start:
                self._add_segment(start, ledger.head)
            ledger.active_start = -1
        self.is_run_open = False  # last: when the list cannot grow, the call can be repeated

    def _add_segment(self, start: int, end: int) -> None:
        self._ledger.add_segment(start, end)
        self._announced += 1
        if self._capacity is not None and self._announced % _FORGET_EVERY == 0:
            self._ledger.forget_segments(self._ledger.tail)

    # -- batches -----------------------------------------------------------------------------

    def extend(self, value: Any) -> None:
        """Writes a batch as a segment of its own."""
        storage = self._storage
        count = row_count(storage.single_instance_space, value, "extend")
        if count == 0:
            return
        ledger = self._ledger
        plan = plan_extension(ledger.head, ledger.tail, count, self._capacity)
        if plan.skip:
            if self._batched_space is None:
                self._batched_space = sbu.batch_space(storage.single_instance_space, 1)
            value = sbu.get_at(self._batched_space, value, slice(plan.skip, count))
        self._write(plan.start, plan.where, value, plan.head, plan.tail)

    @abstractmethod
    def _write(self, start: int, where: Any, value: Any, head: int, tail: int) -> None:
        """Writes checked rows and moves the ledger, all or nothing."""

    @abstractmethod
    def commit(self, writer: SegmentWriter[Any, Any, Any, Any, Any]) -> None:
        """Writes the samples of a segment writer as a segment."""

    def _check_fits(self, count: int) -> None:
        if self._capacity is not None and count > self._capacity:
            raise CapacityError(
                f"commit_segment: {count} samples do not fit the capacity of {self._capacity}; "
                "write shorter segments or create a larger buffer",
                expected=self._capacity,
                found=count,
            )

    # -- length ------------------------------------------------------------------------------

    def _grow(self, rows: int) -> int:
        missing = rows - len(self._storage) if self._capacity is None else 0
        if missing > 0:
            self._storage.extend_length(missing)
        return missing

    def _shrink(self, grown: int) -> None:
        if grown > 0:
            self._storage.shrink_length(grown)

    # -- clearing ----------------------------------------------------------------------------

    def clear(self) -> None:
        """Gives every row up; the next one lies at position 0 again."""
        ledger, capacity = self._ledger, self._capacity
        self._storage.clear()
        self.is_run_open = False
        if capacity is None:
            ledger.reset(0, 0, [], ledger.maintained)
            return
        # Numbers are not used twice, so that segments of old files cannot name new rows.
        start = next_round(ledger.head, capacity)
        ledger.tail = start
        ledger.reset(start, start, [], ledger.maintained)


class LedgerWriter(RowWriter):
    """For storages whose ledger is the state: it is kept and committed with the rows.

    Every store leaves a state that may be seen after a kill: see `Ledger`.
    """

    def __init__(self, storage: SpaceStorage[Any, Any, Any, Any, Any], ledger: Ledger) -> None:
        super().__init__(storage, ledger)
        self._append_row = self._storage.append_row

    @override
    def append(self, value: Any) -> None:
        ledger, capacity = self._ledger, self._capacity
        head = ledger.head
        if capacity is None:
            self._append_row(head, value)
            return
        tail = ledger.tail
        if head - tail < capacity:
            self._append_row(head % capacity, value)
        else:
            # The oldest row is given up before its place is written over.
            ledger.tail = tail + 1
            try:
                self._append_row(head % capacity, value)
            except Exception:
                ledger.tail = tail
                raise
        ledger.head = head + 1

    @override
    def end_run(self) -> None:
        # The rows are safe already: the storage can only fail to make them durable.
        self._close_run()
        self._storage.mark_segment_end()

    @override
    def _write(self, start: int, where: Any, value: Any, head: int, tail: int) -> None:
        ledger = self._ledger
        if not ledger.maintained:
            self._storage.write_rows(where, value, head=head, tail=tail)
            return
        # Announced first: until the head moves, the segment is clipped away by its readers.
        self._add_segment(start, head)
        try:
            self._storage.write_rows(where, value, head=head, tail=tail)
        except BaseException:
            if ledger.head != head:
                self._retract()
            raise

    def _retract(self) -> None:
        ledger = self._ledger
        head = ledger.head
        drop = getattr(ledger, "drop_segments_after", None)
        if drop is not None:
            drop(head)
            return
        kept = [segment for segment in ledger.segments() if segment[1] <= head]
        ledger.reset(head, ledger.tail, kept, maintained=True)

    @override
    def commit(self, writer: SegmentWriter[Any, Any, Any, Any, Any]) -> None:
        count = len(writer)
        self._check_fits(count)
        batch = getattr(writer, "batch", None)
        if count == 0:
            writer.abort()
        elif batch is not None:
            self.extend(batch)
            writer.abort()  # its samples are in the storage
        else:
            self._commit_in_steps(writer, count)

    def _commit_in_steps(self, writer: SegmentWriter[Any, Any, Any, Any, Any], count: int) -> None:
        """For writers that only know how to store themselves: rows first, then the head."""
        ledger, capacity = self._ledger, self._capacity
        head, tail = ledger.head, ledger.tail
        if ledger.maintained:
            self._add_segment(head, head + count)
        grown = 0
        try:
            if capacity is None:
                grown = self._grow(head + count)
                writer.commit(head)
            else:
                ledger.tail = max(tail, head + count - capacity)
                writer.commit(head % capacity)
        except Exception:
            self._shrink(grown)
            ledger.tail = tail
            if ledger.maintained:
                self._retract()
            raise
        if capacity is not None:
            ledger.head = head + count


class GenericWriter(RowWriter):
    """For storages that only keep rows: position and segments last as long as the process."""

    @override
    def append(self, value: Any) -> None:
        storage, ledger, capacity = self._storage, self._ledger, self._capacity
        head = ledger.head
        grown = self._grow(head + 1)
        try:
            storage.append(value)
        except BaseException:
            self._shrink(grown)
            raise
        if capacity is not None and head + 1 - ledger.tail > capacity:
            ledger.tail = head + 1 - capacity
        ledger.head = head + 1
        if capacity is None:
            return
        if storage.pending_segment_length >= capacity:
            # More samples than the ring has rows cannot be kept aside.
            storage.mark_segment_end()
            storage.mark_segment_start((head + 1) % capacity)

    @override
    def end_run(self) -> None:
        # The storage may only now write the samples: when it fails there is no segment.
        self._storage.mark_segment_end()
        self._close_run()

    @override
    def _write(self, start: int, where: Any, value: Any, head: int, tail: int) -> None:
        grown = self._grow(head)
        try:
            self._storage.set(native_rows(self._storage, where), value)
        except BaseException:
            self._shrink(grown)
            raise
        self._move(start, head, tail)

    def _move(self, start: int, head: int, tail: int) -> None:
        ledger = self._ledger
        ledger.tail = tail
        ledger.head = head
        if ledger.maintained:
            self._add_segment(start, head)

    @override
    def commit(self, writer: SegmentWriter[Any, Any, Any, Any, Any]) -> None:
        count = len(writer)
        self._check_fits(count)
        if count == 0:
            writer.abort()
            return
        ledger = self._ledger
        plan = plan_extension(ledger.head, ledger.tail, count, self._capacity)
        grown = self._grow(plan.head)
        try:
            writer.commit(plan.start if self._capacity is None else plan.start % self._capacity)
        except BaseException:
            self._shrink(grown)
            raise
        self._move(plan.start, plan.head, plan.tail)


def row_count(space: Any, value: Any, operation: str) -> int:
    """Number of rows of a batch, after a look at every leaf.

    Raises:
        SampleError: Two leaves disagree, or one is no batch.
        MissingColumnError: A key of the space is missing.
    """
    counts = list(_leaf_counts(space, value, operation, ""))
    if not counts:
        raise SampleError(f"{operation}: the space {space} has no leaves to count rows of")
    first_name, first = counts[0]
    for name, count in counts:
        if count != first:
            raise SampleError(
                f"{operation}: {first_name or 'the batch'} has {first} rows and {name} has "
                f"{count}; give every leaf the same number of rows",
                expected=first,
                found=count,
                column=name,
            )
    return first


def native_rows(storage: SpaceStorage[Any, Any, Any, Any, Any], rows: Any) -> Any:
    """Positions as an array of the storage's backend; ints and slices as they are."""
    if type(rows) is np.ndarray and storage.backend is not NumpyComputeBackend:
        return storage.backend.from_numpy(rows, device=storage.device)
    return rows


def _leaf_counts(space: Any, value: Any, operation: str, name: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    if isinstance(space, DictSpace):
        for key, child in space.spaces.items():
            path = f"{name}.{key}" if name else str(key)
            if not isinstance(value, Mapping) or key not in value:
                raise MissingColumnError(
                    f"{operation}: the batch lacks {path!r}; give a mapping with every key of "
                    "the space",
                    expected=list(space.spaces),
                    found=list(value) if isinstance(value, Mapping) else type(value).__name__,
                    column=path,
                )
            found += _leaf_counts(child, value[key], operation, path)
        return found
    if isinstance(space, TupleSpace):
        if not isinstance(value, (tuple, list)) or len(value) != len(space.spaces):
            raise SampleError(
                f"{operation}: {name or 'the batch'} should have {len(space.spaces)} entries, "
                f"got {value!r:.80}",
                expected=len(space.spaces),
                column=name,
            )
        for number, child in enumerate(space.spaces):
            found += _leaf_counts(child, value[number], operation, f"{name}[{number}]")
        return found
    return [(name, _rows_of(value, operation, name))]


def _rows_of(value: Any, operation: str, name: str) -> int:
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape):
        return int(shape[0])
    if shape is None and isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return len(value)
    try:
        count = sbu.batch_size_data(value)
    except (TypeError, IndexError, ValueError):
        count = None
    if count is None:
        raise SampleError(
            f"{operation}: {name or 'the value'} is one sample, not a batch "
            f"({type(value).__name__}); add a leading axis of rows, or use append",
            column=name,
            found=type(value).__name__,
        )
    return int(count)
