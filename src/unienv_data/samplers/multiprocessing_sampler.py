"""Batches read ahead by worker processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterator
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np
from typing_extensions import override

from unienv_data.base.sampler import (
    BatchSampler,
    SamplerArrayType,
    SamplerBatchT,
    SamplerDeviceType,
    SamplerDtypeType,
    SamplerRNGType,
)
from unienv_data.errors import StorageArgumentError, StorageClosedError
from unienv_data.samplers._workers import WorkerDiedError, WorkerPool

__all__ = ["MultiprocessingSampler", "WorkerDiedError"]


class MultiprocessingSampler(
    BatchSampler[
        SamplerBatchT, SamplerArrayType, SamplerDeviceType, SamplerDtypeType, SamplerRNGType
    ]
):
    """Another sampler, whose `sample...` and `epoch...iter...` methods run in worker processes.

    Up to `n_buffers` batches of each kind are read ahead. Every batch gets a seed of its own, in
    the order of the calls: what is drawn depends on the other sampler's seed, and neither on the
    number of workers nor on their speed. Workers hold the data as they were when this object was
    made. An exception in a worker is raised by the call whose batch it was.

    Calls are atomic to each other in threads. Call `close`, or use it as a context manager; the
    other sampler stays open.

    Attributes:
        sampler: The other sampler.
    """

    def __init__(
        self,
        sampler: BatchSampler[
            SamplerBatchT, SamplerArrayType, SamplerDeviceType, SamplerDtypeType, SamplerRNGType
        ],
        n_workers: int = 4,
        n_buffers: int = 8,
        ctx: BaseContext | str | None = None,
        doze_time: float = 0.005,
        daemon: bool | None = None,
        shared_memory: bool = False,
    ) -> None:
        """Starts the workers.

        Args:
            sampler: Sampler to run; unless workers are forked it is pickled.
            n_workers: Number of processes.
            n_buffers: Batches of one kind that are read ahead.
            ctx: A multiprocessing context or the name of a start method, None for the platform's.
            doze_time: Seconds between two looks at whether the workers live, while waiting.
            daemon: Whether workers end with this process; None means that they do.
            shared_memory: Pass numpy arrays through shared memory instead of pipes.

        Raises:
            StorageArgumentError: A number is not positive.
        """
        for name, value in (("n_workers", n_workers), ("n_buffers", n_buffers)):
            if value < 1:
                raise StorageArgumentError(
                    f"MultiprocessingSampler: {name} should be at least 1, got {value}",
                    found=value,
                )
        if doze_time <= 0:
            raise StorageArgumentError(
                f"MultiprocessingSampler: doze_time should be positive, got {doze_time}",
                found=doze_time,
            )
        super().__init__(sampler.single_space, sampler.single_metadata_space, sampler.batch_size)
        self.sampler = sampler
        self.data = getattr(sampler, "data", sampler)
        self.n_workers = n_workers
        self.n_buffers = n_buffers
        self._lock = threading.RLock()
        self._streams: dict[str, deque[int]] = {}
        self._pid = os.getpid()
        self._reseed()
        self._pool: WorkerPool | None = WorkerPool(
            sampler,
            n_workers,
            _context(ctx),
            daemon=daemon is None or daemon,
            poll_s=doze_time,
            share=shared_memory,
        )

    # -- as the other sampler ----------------------------------------------------------------

    @override
    def __len__(self) -> int:
        return len(self.sampler)

    @property
    @override
    def sampled_space(self) -> Any:
        """Space of one batch."""
        return self.sampler.sampled_space

    @property
    @override
    def sampled_metadata_space(self) -> Any:
        """Space of one batch's metadata, or None."""
        return self.sampler.sampled_metadata_space

    @override
    def get_at(self, idx: Any) -> Any:
        return self.sampler.get_at(idx)

    @override
    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        return self.sampler.get_at_with_metadata(idx)

    @override
    def get_flattened_at(self, idx: Any) -> Any:
        return self.sampler.get_flattened_at(idx)

    @override
    def get_flattened_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        return self.sampler.get_flattened_at_with_metadata(idx)

    @override
    def sample_index(self) -> Any:
        return self.sampler.sample_index()

    @override
    def epoch_index(self) -> Iterator[Any]:
        return self.sampler.epoch_index()

    # -- seeds -------------------------------------------------------------------------------

    @override
    def manual_seed(self, seed: int) -> None:
        with self._lock:
            pool = self._require_open()
            self.sampler.manual_seed(seed)
            self._reseed()
            for stream in self._streams.values():
                for task in stream:
                    pool.forget(task)
            self._streams.clear()

    def _reseed(self) -> None:
        # Hashed, so that the consecutive seeds of two samplers do not meet.
        root = np.random.SeedSequence(self.sampler._drawn_seed())
        self._seed = int(root.generate_state(1, np.uint64)[0])
        bits = 31 if self.backend.simplified_name == "jax" else 63
        self._largest_seed = 2**bits - 1

    def _submit(self, pool: WorkerPool, method: str, *arguments: Any) -> int:
        self._seed = (self._seed + 1) % self._largest_seed
        return pool.submit(self._seed, method, arguments)

    # -- served by workers -------------------------------------------------------------------

    def _require_open(self) -> WorkerPool:
        if self._pool is None:
            raise StorageClosedError("sample: this MultiprocessingSampler was closed")
        if os.getpid() != self._pid:
            raise StorageClosedError(
                "sample: a forked child cannot use the workers of its parent; make a "
                "MultiprocessingSampler in the child"
            )
        return self._pool

    def _sampled(self, method: str) -> Any:
        with self._lock:
            pool = self._require_open()
            stream = self._streams.setdefault(method, deque())
            while len(stream) <= self.n_buffers:
                stream.append(self._submit(pool, method))
            return pool.result(stream.popleft())

    @override
    def sample(self) -> Any:
        return self._sampled("sample")

    @override
    def sample_with_metadata(self) -> tuple[Any, dict[str, Any] | None]:
        data, metadata = self._sampled("sample_with_metadata")
        return data, metadata

    @override
    def sample_flat(self) -> Any:
        return self._sampled("sample_flat")

    @override
    def sample_flat_with_metadata(self) -> tuple[Any, dict[str, Any] | None]:
        data, metadata = self._sampled("sample_flat_with_metadata")
        return data, metadata

    def _epoch(self, method: str, accessor: str) -> Iterator[Any]:
        if getattr(type(self.sampler), method) is not getattr(BatchSampler, method):
            # A pass of its own making: only the sampler itself knows its order.
            own: Iterator[Any] = getattr(self.sampler, method)()
            return own
        return self._served(accessor)

    def _served(self, accessor: str) -> Iterator[Any]:
        tasks: deque[int] = deque()
        try:
            for index in self.epoch_index():
                with self._lock:
                    tasks.append(self._submit(self._require_open(), accessor, index))
                if len(tasks) > self.n_buffers:
                    yield self._taken(tasks)
            while tasks:
                yield self._taken(tasks)
        finally:
            with self._lock:
                if self._pool is not None:
                    for task in tasks:
                        self._pool.forget(task)

    def _taken(self, tasks: deque[int]) -> Any:
        with self._lock:
            return self._require_open().result(tasks.popleft())

    @override
    def epoch_iter(self) -> Iterator[Any]:
        return self._epoch("epoch_iter", "get_at")

    @override
    def epoch_iter_with_metadata(self) -> Iterator[tuple[Any, dict[str, Any] | None]]:
        return self._epoch("epoch_iter_with_metadata", "get_at_with_metadata")

    @override
    def epoch_flat_iter(self) -> Iterator[Any]:
        return self._epoch("epoch_flat_iter", "get_flattened_at")

    @override
    def epoch_flat_iter_with_metadata(self) -> Iterator[tuple[Any, dict[str, Any] | None]]:
        return self._epoch("epoch_flat_iter_with_metadata", "get_flattened_at_with_metadata")

    @override
    def close(self) -> None:
        """Stops the workers and waits for them; twice is allowed."""
        with self._lock:
            pool, self._pool = self._pool, None
            if pool is not None:
                pool.close()


def _context(ctx: Any) -> Any:
    if ctx is not None and not isinstance(ctx, str):
        return ctx
    try:
        return multiprocessing.get_context(ctx)
    except ValueError:
        known = multiprocessing.get_all_start_methods()
        raise StorageArgumentError(
            f"MultiprocessingSampler: ctx should be one of {known}, got {ctx!r}",
            expected=known,
            found=ctx,
        ) from None
