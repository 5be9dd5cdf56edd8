"""A model test of ParquetStorage: random actions on it and on the obvious storage agree."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.oracle import Oracle, assert_batches_equal, take
from unienv_data.testing.strategies import batch_of, dict_spaces, spaces

__all__ = ["ParquetStorageMachine"]

_SEEDS = st.integers(0, 2**32 - 1)


class ParquetStorageMachine(RuleBasedStateMachine):
    """Appends, sets, grows, shrinks, clears, flushes, reopens, copies: the rows always agree."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="unienv-model-"))
        self.directory = self.root / "storage"
        self.copies = 0

    @initialize(
        space=st.one_of(spaces(), dict_spaces()),
        capacity=st.one_of(st.none(), st.integers(1, 20)),
        piece_size=st.sampled_from([1, 2, 3, 4, 8]),
        compression=st.sampled_from([None, "snappy", "zstd"]),
        budget=st.sampled_from([None, 0, 300]),
    )
    def create(
        self, space: Any, capacity: int | None, piece_size: int, compression: Any, budget: Any
    ) -> None:
        """Makes both."""
        self.space, self.capacity = space, capacity
        self.options: dict[str, Any] = {"durability": "process", "bank_bytes": budget}
        self.storage = ParquetStorage.create(
            space,
            capacity=capacity,
            cache_path=self.directory,
            piece_size=piece_size,
            compression=compression,
            **self.options,
        )
        self.oracle = Oracle(space, capacity)
        self.unset = 0  # rows at the end that were never set: they do not survive a reopening

    @override
    def teardown(self) -> None:
        """Closes and removes everything."""
        if hasattr(self, "storage"):
            self.storage.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def _batch(self, count: int, seed: int) -> Any:
        return batch_of(self.space, count, np.random.default_rng(seed))

    @precondition(lambda self: self.capacity is None)
    @rule(count=st.integers(1, 10), seed=_SEEDS)
    def extend(self, count: int, seed: int) -> None:
        """Grows by rows with values."""
        start = len(self.oracle)
        self.storage.extend_length(count)
        self.storage.set(slice(start, start + count), self._batch(count, seed))
        self.oracle.grow(count)
        self.oracle.set_rows(list(range(start, start + count)), self._batch(count, seed))
        self.unset = 0

    @precondition(lambda self: self.capacity is None)
    @rule(count=st.integers(1, 5))
    def extend_length(self, count: int) -> None:
        """Grows by rows that are never set."""
        self.storage.extend_length(count)
        self.oracle.grow(count)
        self.unset += count

    @precondition(lambda self: self.capacity is None and self.unset == 0)
    @rule(count=st.integers(1, 10), seed=_SEEDS, abort=st.booleans())
    def segment(self, count: int, seed: int, abort: bool) -> None:
        """Appends a segment row by row, and keeps or aborts it."""
        start = len(self.oracle)
        batch = self._batch(count, seed)
        self.storage.mark_segment_start(start)
        for row in range(count):
            self.storage.append(take(batch, row))
        if abort:
            self.storage.abort_segment()
            return
        self.storage.mark_segment_end()
        self.oracle.grow(count)
        self.oracle.set_rows(list(range(start, start + count)), batch)

    @precondition(lambda self: len(self.oracle) > 0)
    @rule(data=st.data(), seed=_SEEDS)
    def set_rows(self, data: st.DataObject, seed: int) -> None:
        """Overwrites any rows, repeats included."""
        length = len(self.oracle)
        rows = data.draw(st.lists(st.integers(-length, length - 1), max_size=12))
        batch = self._batch(len(rows), seed)
        self.storage.set(np.array(rows, dtype=np.int64), batch)
        self.oracle.set_rows([row % length for row in rows], batch)
        if rows and self.unset:
            last = max(row % length for row in rows)
            self.unset = min(self.unset, length - 1 - last)

    @precondition(lambda self: self.capacity is not None)
    @rule(count=st.integers(0, 25), start=st.integers(0, 19), seed=_SEEDS)
    def writer(self, count: int, start: int, seed: int) -> None:
        """Commits a segment collected aside, around the end of a bounded storage."""
        assert self.capacity is not None
        batch = self._batch(count, seed)
        writer = self.storage.open_segment_writer()
        for row in range(count):
            writer.append(take(batch, row))
        if count > self.capacity:
            writer.abort()
            return
        writer.commit(start % self.capacity)
        rows = [(start + row) % self.capacity for row in range(count)]
        self.oracle.set_rows(rows, batch)

    @precondition(lambda self: self.capacity is None and len(self.oracle) > 0)
    @rule(data=st.data())
    def shrink(self, data: st.DataObject) -> None:
        """Drops rows at the end."""
        count = data.draw(st.integers(1, len(self.oracle)))
        self.storage.shrink_length(count)
        self.oracle.shrink(count)
        self.unset = max(0, self.unset - count)

    @precondition(lambda self: self.capacity is None)
    @rule()
    def clear(self) -> None:
        """Drops all rows."""
        self.storage.clear()
        self.oracle.shrink(len(self.oracle))
        self.unset = 0

    @rule()
    def flush(self) -> None:
        """Makes everything durable."""
        self.storage.flush()

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        """Closes, or drops the storage as a dying process would, and opens it again."""
        if clean:
            self.storage.close()
        else:
            self.storage._let_go(remove=False)
        self.storage = ParquetStorage.load_from(
            self.directory, self.space, read_only=False, **self.options
        )
        self.oracle.shrink(self.unset)
        self.unset = 0

    @rule(mode=st.sampled_from(["load", "pickle", "dump"]))
    def read_elsewhere(self, mode: str) -> None:
        """Reads the flushed rows through another object."""
        self.storage.flush()
        if mode == "pickle":
            reader = pickle.loads(pickle.dumps(self.storage))
        else:
            directory = self.directory
            if mode == "dump":
                self.copies += 1
                directory = self.root / f"copy-{self.copies}"
                self.storage.dumps(directory)
            reader = ParquetStorage.load_from(directory, self.space, cache_bytes=1 << 20)
        expected = self.oracle.get_rows(list(range(len(self.oracle) - self.unset)))
        assert_batches_equal(reader.get(...), expected)
        reader.close()

    @invariant()
    def agree(self) -> None:
        """Length and every row."""
        if hasattr(self, "storage"):
            assert len(self.storage) == len(self.oracle)
            assert_batches_equal(self.storage.get(...), self.oracle.all())
