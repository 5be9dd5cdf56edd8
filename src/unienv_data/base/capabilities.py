"""What only some storages can do, as named protocols, and the predicates that ask for it.

A wrapper always *has* a method that it forwards, yet can only honour it when the storage inside
can. So callers ask `supports_columns(storage)` and friends, never `hasattr`: each predicate
first asks the storage's own `capability(name)` hook when it has one, then looks for the method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from unienv_data.base.storage import SpaceStorage

__all__ = [
    "Ledger",
    "SupportsColumns",
    "SupportsFlattened",
    "SupportsFlush",
    "SupportsLedger",
    "supports_columns",
    "supports_flattened",
    "supports_flush",
    "supports_ledger",
]


@runtime_checkable
class SupportsColumns(Protocol):
    """A storage that gives a live view of some of its columns."""

    def get_column(self, keys: str | Sequence[str]) -> SpaceStorage:
        """Returns a view of the named columns that shares rows with this storage."""
        ...


@runtime_checkable
class SupportsFlattened(Protocol):
    """A storage that keeps or gives rows in flattened form."""

    def get_flattened(self, index: Any) -> Any:
        """Returns rows as flat arrays of shape ``(flat_dim,)`` or ``(B, flat_dim)``."""
        ...

    def set_flattened(self, index: Any, value: Any) -> None:
        """Sets rows from flat arrays of shape ``(flat_dim,)`` or ``(B, flat_dim)``."""
        ...


@runtime_checkable
class SupportsFlush(Protocol):
    """A storage that can make everything durable without being closed or dumped."""

    def flush(self) -> None:
        """Returns once all rows are safe from power loss."""
        ...


class Ledger(Protocol):
    """Ring position and segments of the buffer that owns a storage.

    The storage keeps it in its crash-safe working set and commits it together with the rows. All
    numbers count rows since the buffer was made and never wrap: row ``n`` lives at physical
    position ``n % capacity`` (``n`` itself in a growing storage). The rows alive are
    ``[tail, head)``. Each setter is one aligned store, so a process that dies between two of
    them leaves one of the states that were reached.
    """

    @property
    def head(self) -> int:
        """Rows ever written. In a growing storage this is the number of rows with values."""
        ...

    @head.setter
    def head(self, value: int) -> None: ...

    @property
    def tail(self) -> int:
        """Rows ever given up: overwritten in a ring, always 0 in a growing storage."""
        ...

    @tail.setter
    def tail(self, value: int) -> None: ...

    @property
    def active_start(self) -> int:
        """First row of the open segment, -1 when none is open."""
        ...

    @active_start.setter
    def active_start(self, value: int) -> None: ...

    def segments(self) -> list[tuple[int, int]]:
        """Closed segments, oldest first, half-open, as added: not clipped to the ring."""
        ...

    def add_segment(self, start: int, end: int) -> None:
        """Appends one closed segment. It may be added before `head` reaches its end."""
        ...

    def forget_segments(self, before: int) -> None:
        """Drops the segments that end at or before row `before`; keeps the list bounded."""
        ...

    def reset(
        self, head: int, tail: int, segments: Sequence[tuple[int, int]], maintained: bool
    ) -> None:
        """Replaces everything: a buffer is cleared, or bound to a storage for the first time.

        Args:
            head: Rows ever written.
            tail: Rows ever given up.
            segments: Closed segments, half-open.
            maintained: Whether the owner keeps segments at all; `maintained` returns it.
        """
        ...

    @property
    def maintained(self) -> bool:
        """Whether the owner keeps segments here."""
        ...

    @property
    def is_bound(self) -> bool:
        """False until an owner called `reset`: the storage is used alone, or by older files."""
        ...

    @property
    def knows_segments(self) -> bool:
        """Whether `segments` is complete.

        True once `reset` was called, also when an interrupted writer's working set was adopted.
        False after a clean reopen: the owner reads its segments from its own file then, and
        hands them over with `reset`.
        """
        ...

    @property
    def generation(self) -> int:
        """Number of the last commit that carries this ledger; grows with every commit."""
        ...


@runtime_checkable
class SupportsLedger(Protocol):
    """A storage that keeps the ledger of its owner, and writes rows together with it."""

    @property
    def ledger(self) -> Ledger:
        """The one ledger of this storage."""
        ...

    def append_row(self, position: int, value: Any) -> None:
        """Writes one sample at a physical position without index checks, for appends.

        In a growing storage `position` must be the number of rows with values; the row counts
        once the call returns. In a bounded one the owner moves `ledger.head` afterwards.
        """
        ...

    def write_rows(self, positions: slice | Any, value: Any, *, head: int, tail: int) -> None:
        """Writes a batch at physical positions and moves the ledger, all or nothing.

        After a kill in the middle either every row and both numbers are as before, or all are new.

        Args:
            positions: A contiguous slice, or int64 positions of shape ``(B,)``. In a growing
                storage the slice may begin at the present length, which grows by it.
            value: A batch of ``B`` rows.
            head: New `ledger.head`.
            tail: New `ledger.tail`.
        """
        ...


def _can(storage: object, capability: str, methods: Sequence[str]) -> bool:
    asks = getattr(storage, "capability", None)
    if asks is not None:
        answer = asks(capability)
        if answer is not None:
            return bool(answer)
    return all(getattr(storage, method, None) is not None for method in methods)


def supports_columns(storage: object) -> bool:
    """Whether `storage.get_column` works on this storage and on whatever it wraps."""
    return _can(storage, "columns", ("get_column",))


def supports_flattened(storage: object) -> bool:
    """Whether `get_flattened` and `set_flattened` work without flattening sample by sample."""
    return _can(storage, "flattened", ("get_flattened", "set_flattened"))


def supports_flush(storage: object) -> bool:
    """Whether `flush` makes the storage durable."""
    return _can(storage, "flush", ("flush",))


def supports_ledger(storage: object) -> bool:
    """Whether the storage keeps its owner's ring position and segments."""
    return _can(storage, "ledger", ("ledger", "append_row", "write_rows"))
