"""One writer a directory, across processes and threads.

POSIX record locks: the kernel drops them when the process dies, however it dies, and they work
on NFS version 4. They do not exclude two opens in one process, and closing *any* descriptor of
the file drops them; so this module also keeps a register of the locks its own process holds.
A forked child inherits neither the lock nor the right to use the register.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from pathlib import Path

from unienv_data.errors import StorageLockedError
from unienv_data.io.atomic import remove_quietly, space_error
from unienv_data.io.boot import boot_id, host_name, process_start

__all__ = ["WriterLock", "writer_is_alive"]

_held: dict[tuple[int, int], int] = {}  # (device, inode) of the lock file -> pid of the holder
_held_guard = threading.Lock()


def _after_fork_in_child() -> None:
    global _held_guard
    _held_guard = threading.Lock()
    _held.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


class WriterLock:
    """The lock of one directory, held from construction until `release`."""

    def __init__(self, path: Path, operation: str, attempts: int = 5) -> None:
        """Takes the lock or says who holds it.

        Args:
            path: The lock file; created when missing.
            operation: For the message.
            attempts: Tries, 20 ms apart: a reader that asks whether a writer is alive holds a
                shared lock for an instant.

        Raises:
            StorageLockedError: Another writer holds it.
        """
        self.path = path
        with _held_guard:
            if _is_held_here(path):
                raise self._refused(operation, _read(path))
            descriptor = self._acquire(operation, attempts)
            status = os.fstat(descriptor)
            self._key = (status.st_dev, status.st_ino)
            _held[self._key] = os.getpid()
        self._descriptor: int | None = descriptor
        self._pid = os.getpid()
        record = {
            "pid": self._pid,
            "host": host_name(),
            "boot": boot_id(),
            "started": process_start(self._pid),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(record).encode(), 0)
        except OSError as error:
            self.release()  # or nobody in this process could take it again
            raise space_error(error, path, operation) from error

    def _acquire(self, operation: str, attempts: int) -> int:
        while True:
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise space_error(error, self.path, operation) from error
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The last holder may have removed the file between our open and our lock.
                if _same_file(descriptor, self.path):
                    return descriptor
                os.close(descriptor)
            except BlockingIOError as error:
                os.close(descriptor)
                attempts -= 1
                if attempts <= 0:
                    raise self._refused(operation, _read(self.path)) from error
                time.sleep(0.02)
            except OSError as error:
                os.close(descriptor)
                raise space_error(error, self.path, f"{operation}: lock") from error

    def _refused(self, operation: str, record: dict[str, object]) -> StorageLockedError:
        return StorageLockedError(
            f"{operation}: {self.path.parent.parent} is being written by process "
            f"{record.get('pid', 'unknown')} on {record.get('host', 'an unknown host')} since "
            f"{record.get('since', 'an unknown time')}; close it there, or open read-only",
            path=str(self.path),
            pid=record.get("pid"),
            host=record.get("host"),
            started=record.get("since"),
        )

    @property
    def is_released(self) -> bool:
        """Whether `release` was called."""
        return self._descriptor is None

    def release(self, *, remove: bool = False) -> None:
        """Gives the lock back; in a forked child it only forgets it. May be called twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        if self._pid == os.getpid():
            with _held_guard:
                if remove:
                    remove_quietly(self.path)  # what is left of it locks nobody out
                _held.pop(self._key, None)
                os.close(descriptor)
        else:
            os.close(descriptor)


def _read(path: Path) -> dict[str, object]:
    # Closing any descriptor of a file that this process has locked would drop the lock.
    try:
        text = path.read_bytes() if not _is_held_here(path) else _read_held(path)
        record = json.loads(text)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _is_held_here(path: Path) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in _held


def _read_held(path: Path) -> bytes:
    return json.dumps(
        {"pid": os.getpid(), "host": host_name(), "since": "this process opened it"}
    ).encode()


def writer_is_alive(path: Path) -> bool:
    """Whether some process holds the lock of a directory. Needs no write permission."""
    if _is_held_here(path):
        return True
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return True  # cannot tell: assume the careful answer
    finally:
        os.close(descriptor)
    return False
