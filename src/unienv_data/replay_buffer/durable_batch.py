"""A buffer's life on disk: flushed, dumped, closed, pickled, and never twice written."""

from __future__ import annotations

import multiprocessing as mp
import os
import threading
from pathlib import Path
from typing import Any

from typing_extensions import override

from unienv_data.base.batch import BatchT
from unienv_data.base.capabilities import Ledger, supports_flush, supports_ledger
from unienv_data.base.storage import SpaceStorage
from unienv_data.errors import (
    ReadOnlyError,
    SegmentStateError,
    StorageArgumentError,
    StorageExistsError,
)
from unienv_data.io.atomic import space_error
from unienv_data.io.paths import absolute
from unienv_data.replay_buffer.ledger import SharedLedger, VolatileLedger
from unienv_data.replay_buffer.loading import BufferState, bind, settled_state
from unienv_data.replay_buffer.metadata import (
    COMING_NAME,
    METADATA_NAME,
    BufferMetadata,
    LedgerMark,
)
from unienv_data.replay_buffer.ring import offset_of
from unienv_data.replay_buffer.ring_batch import RingBatch, live_batches
from unienv_data.replay_buffer.row_writer import GenericWriter, LedgerWriter
from unienv_data.replay_buffer.segments import to_physical_pairs
from unienv_data.storages.registry import resolve_inside
from unienv_interface.backends import BArrayType, BDeviceType, BDtypeType, BRNGType
from unienv_interface.space.space_utils.serialization_utils import space_to_json

__all__ = ["DurableBatch", "shared_segments_error"]


class DurableBatch(RingBatch[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """A ring or growing batch that keeps `metadata.json` beside its storage.

    The storage's commit comes first, then the file: whoever opens the directory in between takes
    the position from the storage and the segments, as far as they are alive, from the file.
    """

    def _start(
        self,
        storage: SpaceStorage[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType],
        relative: str,
        *,
        cache_path: str | os.PathLike[str] | None,
        multiprocessing: bool,
        state: BufferState,
        shared: tuple[SharedLedger, Any] | None = None,
    ) -> None:
        lock: Any = threading.RLock()
        ledger: Ledger
        is_own = False
        if multiprocessing and storage.is_mutable:
            if state.segments is not None:
                raise shared_segments_error("open")
            if not storage.is_multiprocessing_safe:
                raise StorageArgumentError(
                    f"multiprocessing=True: {type(storage).__name__} cannot be written by several "
                    "processes; open it read-only, or use a storage that can"
                )
            if shared is None:
                shared = SharedLedger(state.head, state.tail), mp.get_context("spawn").RLock()
            ledger, lock = shared
        else:
            ledger, is_own = bind(storage, state)
        self._attach(
            storage,
            ledger,
            (LedgerWriter if is_own else GenericWriter)(storage, ledger),
            lock,
            relative=relative,
            cache_path=cache_path,
            multiprocessing=bool(multiprocessing),
        )

    def _view(self, parent: DurableBatch[Any, Any, Any, Any, Any], column: Any) -> None:
        writer = GenericWriter(column, parent._ledger)
        writer.is_run_open = False
        self._attach(
            column,
            parent._ledger,
            writer,
            parent._lock,
            relative=parent._storage_path_relative,
            cache_path=parent._cache_path,
            multiprocessing=parent._multiprocessing,
            parent=parent,
        )

    # -- durability --------------------------------------------------------------------------

    def flush(self) -> None:
        """Makes samples, position and closed segments safe from power loss.

        The samples of an open segment are flushed too; they become one at `mark_segment_end`.
        """
        storage, parent = self.storage, self._parent  # type: Any, Any
        if parent is not None:
            parent.flush()
            return
        with self._lock:
            if not storage.is_mutable:
                return
            directory = self._directory()
            if supports_flush(storage):
                storage.flush()
            elif directory is not None and storage.pending_segment_length == 0:
                storage.dumps(resolve_inside(directory, self._storage_path_relative))
            if directory is not None:
                self._write_metadata(directory, sync=True)

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Writes a complete, durable copy; into the buffer's own directory it is a flush.

        Args:
            path: The buffer's directory, an absent or empty one, or an earlier dump. The buffer
                stays attached to its own directory.

        Raises:
            SegmentStateError: A segment that appends built is open.
            StorageExistsError: The target holds something else.
        """
        with self._lock:
            if self._parent is not None:
                raise ReadOnlyError("dumps: this is a view of a column; dump the whole buffer")
            self._require_no_run("dumps")
            target = absolute(path)
            is_own = self._cache_path is not None and (
                os.path.realpath(target) == os.path.realpath(self._cache_path)
            )
            if is_own and not self.storage.is_mutable:
                return  # a reader never writes into the data set
            if not is_own:
                self._check_target(target)
            try:
                target.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise space_error(error, target, "dumps") from error
            inside = resolve_inside(target, self._storage_path_relative)
            storage: Any = self.storage
            if is_own or not hasattr(storage, "generation_of_dump"):
                storage.dumps(inside)
                self._write_metadata(target, sync=True)
                return
            # Rows and segments of the copy change in one step: the storage's commit.
            storage.flush()
            self._metadata(storage.generation_of_dump(inside)).announce(target)
            storage.dumps(inside)
            BufferMetadata.settle(target)

    def _check_target(self, target: Path) -> None:
        """Refuses to dump anywhere but into a new or empty directory, or an earlier dump."""
        own = self._cache_path
        if (
            own is not None
            and Path(os.path.realpath(own)) in Path(os.path.realpath(target)).parents
        ):
            raise StorageExistsError(
                f"dumps: {target} lies inside this buffer's directory {own}; choose another",
                path=str(target),
            )
        known = {METADATA_NAME, COMING_NAME, self._storage_path_relative}
        others = set(os.listdir(target)) - known if target.is_dir() else set()
        others = {name for name in others if not name.startswith(f".{METADATA_NAME}")}
        is_other = (target / METADATA_NAME).exists() and BufferMetadata.peek(target) is None
        if others or is_other:  # the storage looks at its own directory itself
            name = sorted(others)[0] if others else METADATA_NAME
            raise StorageExistsError(
                f"dumps: {target} holds {name!r}, which is none of ours; choose an absent or empty "
                "directory, or an earlier dump of this buffer",
                path=str(target),
            )

    def refresh(self) -> int:
        """Moves a read-only buffer to the newest flush, and gives its number of samples."""
        with self._lock:
            storage: Any = self.storage
            if storage.is_mutable or self._cache_path is None or self._parent is not None:
                return len(self)
            # The file first: it may lag behind the rows, never the other way round.
            metadata = BufferMetadata.read(self._cache_path)
            if hasattr(storage, "refresh"):
                storage.refresh()
            state = settled_state(self._cache_path, metadata, storage)
            maintained = state.segments is not None
            self._ledger.reset(state.head, state.tail, state.segments or [], maintained)
            return len(self)

    @override
    def close(self) -> None:
        """Flushes a writable buffer and closes its storage. May be called twice.

        When the directory was removed there is nothing to flush; a forked child never flushes.
        The samples of an open segment stay, without a segment.
        """
        with self._lock:
            if self._is_closed or self._parent is not None:
                return
            last = VolatileLedger()
            if getattr(self.storage, "is_closed", False):
                # Programs of the original library close the storage first: it flushed itself.
                head, tail, segments = 0, 0, None
            else:
                if self._directory() is not None and self.storage.is_mutable:
                    self.flush()
                head, tail, segments = BufferState.of(self._ledger)
            last.reset(head, tail, segments or [], segments is not None)
            self.storage.close()
            for batch in list(live_batches):
                if batch is self or batch._parent is self:
                    batch._let_go(last)

    # -- inside ------------------------------------------------------------------------------

    def _directory(self) -> Path | None:
        """The directory, while it is there and this process is the one to write it."""
        if self._cache_path is None or self._pid != os.getpid():
            return None
        directory = Path(self._cache_path)
        return directory if directory.is_dir() else None

    def _write_metadata(self, directory: Path, *, sync: bool) -> None:
        self._metadata().write(directory, sync=sync)

    def _metadata(self, generation: int | None = None) -> BufferMetadata:
        """What `metadata.json` says now, or of a copy's commit."""
        storage, ledger, capacity = self.storage, self._ledger, self._capacity
        # Samples that the storage still keeps aside are no rows yet.
        head, tail = ledger.head - storage.pending_segment_length, ledger.tail
        is_own = isinstance(self._writer, LedgerWriter)
        has_ledger = is_own or (supports_ledger(storage) and not storage.is_mutable)
        pairs = None
        if ledger.maintained:
            pairs = to_physical_pairs(
                ledger.segments(), tail, min(head, self._closed_head()), capacity
            )
        kind = type(storage)
        if generation is None:
            generation = storage.ledger.generation if has_ledger else 0  # type: ignore[attr-defined]
        return BufferMetadata(
            count=head - tail,
            offset=offset_of(tail, capacity),
            capacity=capacity,
            storage_cls=f"{kind.__module__}.{kind.__qualname__}",
            storage_path_relative=self._storage_path_relative,
            space=space_to_json(storage.single_instance_space),
            physical_segments=pairs,
            ledger=LedgerMark(generation, head, tail) if has_ledger else None,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Storage, paths and position; a writable buffer is flushed first."""
        if self._parent is not None:
            return {"parent": self._parent, "column": self.storage}
        if self._pid == os.getpid() and self._cache_path is not None:
            self.flush()
        with self._lock:
            is_shared = isinstance(self._ledger, SharedLedger)
            return {
                "storage": self.storage,
                "relative": self._storage_path_relative,
                "cache_path": self._cache_path,
                "multiprocessing": self._multiprocessing,
                "state": BufferState.of(self._ledger),
                "shared": (self._ledger, self._lock) if is_shared else None,
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "parent" in state:
            self._view(state["parent"], state["column"])
            return
        storage, path = state["storage"], state["cache_path"]
        if state["shared"] is None and supports_ledger(storage) and storage.ledger.is_bound:
            # It was opened again, and may have got further since.
            if path is not None and BufferMetadata.peek(path) is not None:
                state["state"] = settled_state(path, BufferMetadata.read(path), storage)
            elif storage.capacity is not None or not storage.is_mutable:
                segments = state["state"].segments
                state["state"] = BufferState(storage.ledger.head, storage.ledger.tail, segments)
        self._start(**state)
        if not isinstance(self._writer, LedgerWriter):
            # Nothing keeps two copies of other storages apart: only the first one writes.
            self._pid = -1


def shared_segments_error(operation: str) -> SegmentStateError:
    """The refusal to keep segments for several processes that write."""
    return SegmentStateError(
        f"{operation}: maintain_segment_metadata=True with multiprocessing=True is not possible "
        "for a buffer that is written (multiprocessing=True with maintained segment metadata); "
        "open it with read_only=True, or leave one of the two out"
    )
