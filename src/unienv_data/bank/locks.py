"""Who may fill or empty a piece of a bank, among threads and processes.

A bank is shared by every process that maps it. Filling a piece, emptying it, and allocating from
the text heap are exclusive; reading takes no lock (see `Bank.gather`). Order: a piece's lock
first, the allocation lock inside it; never two piece locks, except by trying.
"""

from __future__ import annotations

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
        self._pid = os.getpid()

    @property
    def mutex(self) -> threading.RLock:
        """The mutex of this directory in this process."""
        with _mutexes_guard:
            return _mutexes.setdefault(self._key, threading.RLock())

    @contextmanager
    def piece(self, piece: int) -> Iterator[None]:
        """Holds one piece; waits for it."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, piece)
        try:
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, piece)

    def try_piece(self, piece: int) -> bool:
        """Takes one piece unless another process holds it; undo with `release_piece`."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, piece)
        except BlockingIOError:
            return False
        return True

    def release_piece(self, piece: int) -> None:
        """Gives a piece back."""
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
