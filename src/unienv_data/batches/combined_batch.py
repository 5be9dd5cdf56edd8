"""Several batches one after the other, as one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import override

from unienv_data.base.batch import BatchBase, BatchT
from unienv_data.base.indexing import RowArray, normalize
from unienv_data.base.views import as_numpy_index
from unienv_data.batches.backend_compat import ToBackendOrDeviceBatch
from unienv_data.errors import SampleError, StorageArgumentError
from unienv_interface.backends import BArrayType, BDeviceType, BDtypeType, BRNGType
from unienv_interface.space import BoxSpace, DictSpace
from unienv_interface.space.space_utils import batch_utils as sbu

__all__ = ["CombinedBatch", "convert_index_to_batch", "convert_single_index_to_batch"]

BATCH_INDEX = "batch_index"


class CombinedBatch(BatchBase[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """The samples of the first batch, then those of the second, and so on.

    Metadata gain ``batch_index``, the position of the batch that a sample comes from. Batches may
    grow; the positions behind them move then. Samples are added to the last one.

    Attributes:
        batches: The batches.
    """

    def __init__(
        self,
        batches: Sequence[BatchBase[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]],
        device: BDeviceType | None = None,
        use_thread_pool: bool = False,
    ) -> None:
        """Chooses the batches.

        Args:
            batches: At least two, of the same space and the same metadata space.
            device: Where samples go, None for where all batches have theirs.
            use_thread_pool: Read from several batches at once; they must allow it.

        Raises:
            StorageArgumentError: There are fewer than two, or they differ.
        """
        parts: list[Any] = list(batches)
        if len(parts) < 2:
            raise StorageArgumentError(
                f"CombinedBatch: expected at least two batches, got {len(parts)}", found=len(parts)
            )
        if device is not None:
            parts = [
                part if part.device == device else ToBackendOrDeviceBatch(part, device=device)
                for part in parts
            ]
        first = parts[0]
        for position, part in enumerate(parts):
            for what in ("backend", "single_space", "single_metadata_space", "device"):
                expected, found = getattr(first, what), getattr(part, what)
                if expected != found:
                    raise StorageArgumentError(
                        f"CombinedBatch: batch {position} has {what} {found}, batch 0 has "
                        f"{expected}",
                        expected=expected,
                        found=found,
                    )
        backend, metadata_space = first.backend, first.single_metadata_space
        which = BoxSpace(
            backend, 0, len(parts) - 1, backend.default_index_dtype, first.device, shape=()
        )
        children = [] if metadata_space is None else list(metadata_space.spaces.items())
        space: Any = DictSpace(backend, [*children, (BATCH_INDEX, which)], first.device)
        super().__init__(first.single_space, space)
        self.batches = parts
        self._own_metadata_space = metadata_space
        self._index_space = which
        self.is_mutable = all(part.is_mutable for part in parts)
        self._use_thread_pool = use_thread_pool
        self._executor: ThreadPoolExecutor | None = None
        self._executor_pid = 0

    @override
    def __len__(self) -> int:
        return sum(map(len, self.batches))

    # -- positions ---------------------------------------------------------------------------

    def _ends(self) -> RowArray:
        return np.cumsum([len(part) for part in self.batches], dtype=np.int64)

    def _located(self, idx: Any) -> tuple[int, list[_Share]] | tuple[int, int]:
        """Where samples lie: ``(batch, position)`` of one, ``(count, shares)`` of several."""
        ends = self._ends()
        rows = normalize(as_numpy_index(self.backend, idx), int(ends[-1]), "CombinedBatch")
        if isinstance(rows, int):
            return _single(ends, rows)
        return _count(rows), list(_shares(ends, rows))

    def _as_index(self, rows: RowArray | slice) -> Any:
        if isinstance(rows, slice):
            return rows
        return self.backend.from_numpy(rows, device=self.device)

    # -- reading -----------------------------------------------------------------------------

    @override
    def get_at(self, idx: Any) -> Any:
        where = self._located(idx)
        if isinstance(where[1], int):
            return self.batches[where[0]].get_at(where[1])
        count, shares = where
        parts = self._read(shares, lambda part, index: part.get_at(index))
        return self._merged(self.single_space, count, shares, parts)

    @override
    def get_flattened_at(self, idx: Any) -> Any:
        where = self._located(idx)
        if isinstance(where[1], int):
            return self.batches[where[0]].get_flattened_at(where[1])
        count, shares = where
        parts = self._read(shares, lambda part, index: part.get_flattened_at(index))
        return self._merged_flat(count, shares, parts)

    @override
    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        return self._with_metadata(
            idx,
            lambda part, index: part.get_at_with_metadata(index),
            partial(self._merged, self.single_space),
        )

    @override
    def get_flattened_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        return self._with_metadata(
            idx,
            lambda part, index: part.get_flattened_at_with_metadata(index),
            self._merged_flat,
        )

    def _with_metadata(
        self, idx: Any, read: Callable[[Any, Any], Any], merge: Callable[..., Any]
    ) -> tuple[Any, dict[str, Any] | None]:
        where = self._located(idx)
        dtype = self._index_space.dtype
        if isinstance(where[1], int):
            data, metadata = read(self.batches[where[0]], where[1])
            number = self.backend.asarray(where[0], dtype=dtype, device=self.device)
            return data, {**(metadata or {}), BATCH_INDEX: number}
        count, shares = where
        parts = self._read(shares, read)
        result: dict[str, Any] = {}
        if self._own_metadata_space is not None and all(part[1] is not None for part in parts):
            every = [part[1] for part in parts]
            result.update(self._merged(self._own_metadata_space, count, shares, every))
        numbers = np.zeros(count, dtype=np.int64)
        for share in shares:
            numbers[share.positions] = share.batch
        result[BATCH_INDEX] = self.backend.from_numpy(numbers, dtype=dtype, device=self.device)
        return merge(count, shares, [part[0] for part in parts]), result

    def _read(self, shares: list[_Share], read: Callable[[Any, Any], Any]) -> list[Any]:
        def one(share: _Share) -> Any:
            return read(self.batches[share.batch], self._as_index(share.rows))

        if self._use_thread_pool and len(shares) > 1:
            return list(self._threads().map(one, shares))
        return [one(share) for share in shares]

    def _merged(self, space: Any, count: int, shares: list[_Share], parts: list[Any]) -> Any:
        if len(shares) == 1:
            return parts[0]  # in the order asked for
        batched = sbu.batch_space(space, count)
        result = batched.create_empty()
        for share, part in zip(shares, parts, strict=True):
            result = sbu.set_at(batched, result, self._as_index(share.positions), part)
        return result

    def _merged_flat(self, count: int, shares: list[_Share], parts: list[Any]) -> Any:
        if len(shares) == 1:
            return parts[0]
        first, backend = parts[0], self.backend
        shape = (count, *first.shape[1:])
        result = backend.zeros(shape, dtype=first.dtype, device=backend.device(first))
        for share, part in zip(shares, parts, strict=True):
            result = backend.at(result)[self._as_index(share.positions)].set(part)
        return result

    def _threads(self) -> ThreadPoolExecutor:
        # A forked child has no threads of its parent's.
        if self._executor is None or self._executor_pid != os.getpid():
            self._executor = ThreadPoolExecutor(len(self.batches), "CombinedBatch")
            self._executor_pid = os.getpid()
        return self._executor

    # -- writing -----------------------------------------------------------------------------

    @override
    def set_at(self, idx: Any, value: Any) -> None:
        where = self._located(idx)
        if isinstance(where[1], int):
            self.batches[where[0]].set_at(where[1], value)
            return
        count, shares = where
        if not all(self.batches[share.batch].is_mutable for share in shares):
            self._refuse("set_at")
        if sbu.batch_size_data(value) != count:
            raise SampleError(
                f"set_at: {count} samples were named, the batch has {sbu.batch_size_data(value)}",
                expected=count,
                found=sbu.batch_size_data(value),
            )
        for share in shares:
            part = sbu.get_at(self._batched_space, value, self._as_index(share.positions))
            self.batches[share.batch].set_at(self._as_index(share.rows), part)

    @override
    def extend(self, value: Any) -> None:
        """Adds a batch to the last one."""
        self.batches[-1].extend(value)

    @override
    def append(self, value: Any) -> None:
        """Adds one sample to the last batch."""
        self.batches[-1].append(value)

    @override
    def remove_at(self, idx: Any) -> None:
        where = self._located(idx)
        if isinstance(where[1], int):
            self.batches[where[0]].remove_at(where[1])
            return
        for share in where[1]:
            self.batches[share.batch].remove_at(self._as_index(share.rows))

    # -- views -------------------------------------------------------------------------------

    @override
    def get_column(self, nested_keys: str | Sequence[str]) -> BatchBase[Any, Any, Any, Any, Any]:
        """A view of one entry, which reads no other where the batches can."""
        columns = [part.get_column(nested_keys) for part in self.batches]
        return CombinedBatch(columns, use_thread_pool=self._use_thread_pool)

    @override
    def close(self) -> None:
        """Ends the threads; the batches stay open."""
        if self._executor is not None and self._executor_pid == os.getpid():
            self._executor.shutdown()
        self._executor = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_executor": None}


class _Share:
    """The samples of one batch among those asked for."""

    __slots__ = ("batch", "positions", "rows")

    def __init__(self, batch: int, rows: RowArray | slice, positions: RowArray | slice) -> None:
        self.batch = batch
        self.rows = rows
        self.positions = positions


def _count(rows: RowArray | slice) -> int:
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


def _single(ends: RowArray, row: int) -> tuple[int, int]:
    batch = int(np.searchsorted(ends, row, side="right"))
    return batch, row - (int(ends[batch - 1]) if batch else 0)


def _shares(ends: RowArray, rows: RowArray | slice) -> Iterator[_Share]:
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]])
    if _count(rows) == 0:
        yield _Share(0, slice(0, 0), slice(0, 0))
    elif isinstance(rows, slice):
        for batch, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            first, last = max(start, rows.start), min(end, rows.stop)
            if first < last:
                place = slice(first - rows.start, last - rows.start)
                yield _Share(batch, slice(first - start, last - start), place)
    else:
        owners = np.searchsorted(ends, rows, side="right")
        order = np.argsort(owners, kind="stable")
        cuts = np.flatnonzero(np.diff(owners[order])) + 1
        for positions in np.split(order, cuts):
            batch = int(owners[positions[0]])
            yield _Share(batch, rows[positions] - starts[batch], positions)


def convert_single_index_to_batch(
    backend: Any, index_starts: Any, total_length: int, idx: int, device: Any = None
) -> tuple[int, int]:
    """The batch of a sample and its position there.

    Args:
        backend: Array backend of `index_starts`.
        index_starts: First position of each batch, in order.
        total_length: Number of samples.
        idx: Position of the sample; negative ones count from the end.
        device: Not needed; callers of the original pass it.

    Raises:
        RowIndexError: There is no such sample.
    """
    row = normalize(idx, total_length, "the batches")
    if not isinstance(row, int):
        raise StorageArgumentError(f"expected one position, got {idx!r}", found=repr(idx))
    return _single(_ends_of(backend, index_starts, total_length), row)


def convert_index_to_batch(
    backend: Any, index_starts: Any, total_length: int, idx: Any, device: Any = None
) -> tuple[int, list[tuple[int, Any, Any]] | int]:
    """The batches of samples and their positions there.

    Args:
        backend: Array backend of `index_starts` and of the result.
        index_starts: First position of each batch, in order.
        total_length: Number of samples.
        idx: Any index.
        device: Where the arrays of the result go.

    Returns:
        For an int as `convert_single_index_to_batch`. Else the number of samples, and for each
        batch that has some of them ``(batch, positions there, mask over the samples)``.
    """
    ends = _ends_of(backend, index_starts, total_length)
    rows = normalize(as_numpy_index(backend, idx), total_length, "the batches")
    if isinstance(rows, int):
        return _single(ends, rows)
    if isinstance(rows, slice):
        rows = np.arange(rows.start, rows.stop, dtype=np.int64)
    result = []
    for share in _shares(ends, rows):
        if not isinstance(share.rows, slice):
            mask = np.zeros(len(rows), dtype=np.bool_)
            mask[share.positions] = True
            arrays = (backend.from_numpy(array, device=device) for array in (share.rows, mask))
            result.append((share.batch, *arrays))
    return len(rows), result


def _ends_of(backend: Any, index_starts: Any, total_length: int) -> RowArray:
    starts = np.asarray(as_numpy_index(backend, index_starts), dtype=np.int64)
    return np.append(starts[1:], total_length)
