"""From a directory to the state of its buffer: which of two records counts, and how far."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from unienv_data.base.capabilities import Ledger, supports_ledger
from unienv_data.base.storage import SpaceStorage
from unienv_data.errors import ManifestError, SchemaMismatchError, StorageArgumentError
from unienv_data.replay_buffer.ledger import VolatileLedger
from unienv_data.replay_buffer.metadata import BufferMetadata
from unienv_data.replay_buffer.segments import Segment, clip, from_physical
from unienv_interface.backends import ComputeBackend
from unienv_interface.space import DictSpace, Space
from unienv_interface.space.space_utils.serialization_utils import json_to_space

__all__ = ["BufferState", "bind", "newest", "resolve_space", "resolve_state", "settled_state"]

_LOOKS = 5  # at a buffer whose writer has dropped rows and not described the rest yet


class BufferState(NamedTuple):
    """Ring position and closed segments, as in a `Ledger`; segments are None when not kept."""

    head: int
    tail: int
    segments: list[Segment] | None

    @classmethod
    def of(cls, ledger: Ledger) -> BufferState:
        """A snapshot of a ledger."""
        head, tail = ledger.head, ledger.tail
        return cls(head, tail, clip(ledger.segments(), tail, head) if ledger.maintained else None)


def resolve_state(
    metadata: BufferMetadata, storage: SpaceStorage[Any, Any, Any, Any, Any]
) -> BufferState:
    """Finds what both the buffer's file and its storage agree on.

    A storage that keeps the ledger commits it together with the rows, so its position is newer
    than or equal to the file's, which only adds segments. A file without our mark was written by
    the original library and counts alone. Never shows rows that the storage does not have.
    """
    mark, capacity = metadata.ledger, storage.capacity
    if mark is None:
        head, tail = metadata.offset + metadata.count, metadata.offset
    else:
        head, tail = mark.head, mark.tail
    pairs = metadata.physical_segments
    segments = None if pairs is None else from_physical(pairs, tail, head, capacity)
    ledger: Ledger | None = storage.ledger if supports_ledger(storage) else None  # type: ignore[attr-defined]
    if mark is not None and ledger is not None and ledger.is_bound:
        head, tail = ledger.head, ledger.tail
        if ledger.knows_segments:
            segments = ledger.segments() if ledger.maintained else None
        elif segments is not None and is_outdated(metadata, storage):
            segments = []  # of rows that are gone
    if capacity is None:
        head, tail = min(head, len(storage)), 0
    else:
        tail = max(min(tail, head), head - capacity)
    return BufferState(head, tail, None if segments is None else clip(segments, tail, head))


def is_outdated(metadata: BufferMetadata, storage: SpaceStorage[Any, Any, Any, Any, Any]) -> bool:
    """Whether rows were taken away since the file was written: their numbers name others now."""
    mark = metadata.ledger
    if mark is None or not supports_ledger(storage):
        return False
    return bool(getattr(storage.ledger, "shortened", 0) > mark.generation)  # type: ignore[attr-defined]


def newest(path: str | os.PathLike[str], metadata: BufferMetadata, storage: Any) -> BufferMetadata:
    """The file of the commit that a storage shows: a dump may have been cut off after it."""
    if not supports_ledger(storage):
        return metadata
    return metadata.newest(path, getattr(storage.ledger, "generation", 0))


def settled_state(
    path: str | os.PathLike[str], metadata: BufferMetadata, storage: Any
) -> BufferState:
    """The state of a buffer that a writer may be changing.

    Args:
        path: The buffer's directory.
        metadata: Its file, read before the storage was opened or moved on.
        storage: Its storage.
    """
    metadata = newest(path, metadata, storage)
    for _ in range(_LOOKS):
        if storage.is_mutable or not is_outdated(metadata, storage):
            break
        # The writer cleared the buffer between our two looks.
        metadata = BufferMetadata.read(path)
        storage.refresh()
        metadata = newest(path, metadata, storage)
    return resolve_state(metadata, storage)


def bind(storage: SpaceStorage[Any, Any, Any, Any, Any], state: BufferState) -> tuple[Ledger, bool]:
    """Gives the ledger for a buffer, set to `state`, and whether it is the storage's own.

    The storage's ledger is used by a writable buffer, unless the storage has more rows than the
    buffer counts: such rows cannot be told apart in a growing storage.
    """
    maintained = state.segments is not None
    segments = state.segments or []
    if supports_ledger(storage) and storage.is_mutable:
        ledger: Ledger = storage.ledger  # type: ignore[attr-defined]
        if storage.capacity is not None or ledger.head == state.head:
            agrees = (
                ledger.is_bound
                and ledger.knows_segments
                and ledger.maintained == maintained
                and BufferState.of(ledger) == state
            )
            if not agrees:
                ledger.reset(state.head, state.tail, segments, maintained)
            return ledger, True
    volatile = VolatileLedger()
    volatile.reset(state.head, state.tail, segments, maintained)
    return volatile, False


def resolve_space(
    metadata: BufferMetadata,
    given: Space[Any, Any, Any, Any] | None,
    backend: Any,
    device: Any,
    *,
    read_only: bool,
    place: str,
) -> Space[Any, Any, Any, Any]:
    """The space to open the storage with.

    Args:
        metadata: What the file says.
        given: The caller's expectation; read-only it may leave keys of a DictSpace out.
        backend: Array backend of the space.
        device: Device of the space.
        read_only: Whether the buffer is opened for reading only.
        place: The directory, for errors.

    Raises:
        ManifestError: The file's space cannot be read.
        SchemaMismatchError: The given space is another one.
    """
    if not (isinstance(backend, type) and issubclass(backend, ComputeBackend)):
        raise StorageArgumentError(
            f"open: backend should be a backend class such as NumpyComputeBackend, got {backend!r}",
            found=backend,
        )
    try:
        stored: Space[Any, Any, Any, Any] = json_to_space(metadata.space, backend, device)
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestError(
            f"open: {place}: key 'single_instance_space' of metadata.json cannot be read ({error})",
            path=place,
            key="single_instance_space",
        ) from error
    if given is None or given == stored or (read_only and _is_part(given, stored)):
        return stored if given is None else given
    raise SchemaMismatchError(
        f"open: {place} holds samples of {stored}, single_instance_space is {given}; leave the "
        "argument out, or give an equal space",
        path=place,
        expected=repr(stored),
        found=repr(given),
    )


def _is_part(given: Any, stored: Any) -> bool:
    if not isinstance(given, DictSpace) or not isinstance(stored, DictSpace):
        return False
    return all(
        key in stored.spaces and child == stored.spaces[key] for key, child in given.spaces.items()
    )
