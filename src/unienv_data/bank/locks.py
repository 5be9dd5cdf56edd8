"""Who may fill or empty a piece of a bank, among threads and processes.

A bank is shared by every process that maps it. Filling a piece, emptying it, and allocating from
the text heap are exclusive; reading takes no lock (see `Bank.gather`). Order: a piece's lock
first, the allocation lock inside it; never two piece locks, except by trying.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unienv_data.io.atomic import space_error

__all__ = ["BankLocks"]

_ALLOCATION = 1 << 40  # byte of the lock file beyond every piece number

_mutexes: dict[str, threading.RLock] = {}
_mutexes_guard = threading.Lock()


def _after_fork_in_child() -> None:
    global _mutexes_guard
    _mutexes_guard = threading.Lock()
    _mutexes.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


class BankLocks:
    """The locks of one bank directory.

    POSIX record locks exclude processes, one mutex per directory excludes the threads and the
    several banks of this process (record locks would not).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._key = str(path)
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise space_error(error, path, "open the bank") from error
        self._held: set[int] = set()  # pieces; changed under the mutex

    def after_fork(self) -> None:
        """In a child: it holds none of its parent's locks."""
        self._held.clear()

    @property
    def mutex(self) -> threading.RLock:
        """The mutex of this directory in this process."""
        with _mutexes_guard:
            return _mutexes.setdefault(self._key, threading.RLock())

    @contextmanager
    def piece(self, piece: int) -> Iterator[None]:
        """Holds one piece; waits for it."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, piece)
        self._held.add(piece)
        try:
            yield
        finally:
            self._held.discard(piece)
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, piece)

    @contextmanager
    def try_run(self, start: int, stop: int) -> Iterator[bool]:
        """Holds the pieces ``[start, stop)`` if no other process holds one of them.

        Pieces that this process holds already stay held afterwards: giving a record lock back
        would give back all that was taken of it.
        """
        held = sorted(piece for piece in self._held if start <= piece < stop)
        starts, stops = [start, *(piece + 1 for piece in held)], [*held, stop]
        runs = [run for run in zip(starts, stops, strict=True) if run[0] < run[1]]
        taken = []
        try:
            for first, end in runs:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, end - first, first)
                taken.append((first, end))
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        try:
            yield len(taken) == len(runs)
        finally:
            for first, end in taken:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, end - first, first)

    def try_piece(self, piece: int) -> bool:
        """Takes one piece unless another process holds it; undo with `release_piece`."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, piece)
        except BlockingIOError:
            return False
        self._held.add(piece)
        return True

    def release_piece(self, piece: int) -> None:
        """Gives a piece back."""
        self._held.discard(piece)
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, piece)

    @contextmanager
    def allocation(self) -> Iterator[None]:
        """Holds the shared counters and the text heap's table."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, _ALLOCATION)
        try:
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _ALLOCATION)

    def close(self) -> None:
        """Closes the lock file; under the mutex, since closing drops this process's locks."""
        if self._descriptor >= 0:
            with self.mutex:
                os.close(self._descriptor)
                self._descriptor = -1
