"""One writer a directory, across processes, threads and machines.

The kernel holds the lock, the file only says who has it: so a lock dies with its process, however
that dies, and no process number can be mistaken for another. Linux ties it to the open file
(`F_OFD_SETLK`): threads exclude each other, and a copy of the directory made inside the writing
process does not drop it. Elsewhere it is a POSIX record lock, which closing *any* descriptor of
the file drops; so this module keeps a register of the locks of its own process, and opens no file
that is in it. Both kinds exclude each other, and work over NFS.

A forked child closes its copy of the lock and does not hold it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct
import sys
import threading
import time
from pathlib import Path

from unienv_data.errors import LockUnavailableError, StorageLockedError
from unienv_data.io.atomic import remove_quietly, space_error
from unienv_data.io.boot import boot_id, host_name, process_start, process_start_time
from unienv_data.io.mounts import mount_of, why_locks_are_local

__all__ = ["WriterLock", "writer_is_alive"]

_RECORD_BYTES = 512
_LOOKS = 25  # at the record of a holder that has the lock and has not signed it yet
_LOOK_S = 0.004
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

# `struct flock` of 64-bit Linux.
_HAS_FLOCK = sys.platform == "linux" and struct.calcsize("P") == 8
_FLOCK = "hhqqi4x"
_OFD_GET: int | None = getattr(fcntl, "F_OFD_GETLK", None) if _HAS_FLOCK else None
_OFD_SET: int | None = getattr(fcntl, "F_OFD_SETLK", None) if _HAS_FLOCK else None

_Record = dict[str, object]

# (device, inode) of the lock file -> its lock, also where nobody else keeps it.
_held: dict[tuple[int, int], WriterLock] = {}
# A finaliser may release a lock while this thread takes another one.
_guard = threading.RLock()


def _before_fork() -> None:
    _guard.acquire()  # no lock is half taken while the child is made


def _after_fork_in_parent() -> None:
    _guard.release()


def _after_fork_in_child() -> None:
    global _guard
    _guard = threading.RLock()
    for lock in _held.values():
        lock._forget()
    _held.clear()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)


class WriterLock:
    """The lock of one directory, held from construction until `release`."""

    def __init__(self, path: Path, operation: str, *, any_file_system: bool = False) -> None:
        """Takes the lock or says who holds it.

        Args:
            path: The lock file; created when missing.
            operation: For the message.
            any_file_system: Accept a file system whose locks other machines do not see.

        Raises:
            StorageLockedError: Another writer holds it.
            LockUnavailableError: The file system has no locks, or none that all machines see.
        """
        self.path = path
        self.record: _Record = {}
        """Who holds it, as the file says."""
        self._descriptor: int | None = None
        local = None if any_file_system else why_locks_are_local(mount_of(path.parent))
        if local is not None:
            raise _unavailable(operation, path, local)
        with _guard:
            if _key_of(path) in _held:
                raise _refused(operation, path)
            descriptor = self._acquire(operation)
            try:
                record = _sign(descriptor)
            except OSError as error:
                os.close(descriptor)
                raise space_error(error, path, operation) from error
            status = os.fstat(descriptor)
            self._key = (status.st_dev, status.st_ino)
            self._descriptor = descriptor
            self.record = record
            _held[self._key] = self

    def _acquire(self, operation: str) -> int:
        while True:
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise space_error(error, self.path, operation) from error
            try:
                is_ours = _try_lock(descriptor)
                # The last holder may have removed the file between our open and our lock.
                if is_ours and _same_file(descriptor, self.path):
                    return descriptor
            except OSError as error:
                os.close(descriptor)
                if error.errno in _NO_LOCKS:
                    mount = mount_of(self.path.parent)
                    kind = "this file system" if mount is None else mount.kind
                    raise _unavailable(
                        operation, self.path, f"{kind} has no locks ({error.strerror})"
                    ) from error
                raise space_error(error, self.path, f"{operation}: lock") from error
            os.close(descriptor)
            if not is_ours:
                raise _refused(operation, self.path)

    @property
    def is_released(self) -> bool:
        """Whether `release` was called, or this is a forked child."""
        return self._descriptor is None

    def release(self, *, remove: bool = False) -> None:
        """Gives the lock back. May be called twice."""
        with _guard:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is None:
                return
            if remove:
                remove_quietly(self.path)  # what is left of it locks nobody out
            _held.pop(self._key, None)
            os.close(descriptor)

    def _forget(self) -> None:
        """In a forked child: lets go of the copy, so that the lock ends with the parent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def writer_is_alive(path: Path) -> bool:
    """Whether some process holds the lock of a directory. Takes no lock, needs no permission."""
    with _guard:
        if _key_of(path) in _held:
            return True
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return _is_locked(descriptor)
        except OSError:
            return True  # cannot tell: assume the careful answer
        finally:
            os.close(descriptor)


# -- the kernel's locks ----------------------------------------------------------------------


def _try_lock(descriptor: int) -> bool:
    try:
        if _OFD_SET is not None:
            try:
                request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                fcntl.fcntl(descriptor, _OFD_SET, request)
            except OSError as error:
                if error.errno != errno.EINVAL:  # older than Linux 3.15
                    raise
            else:
                return True
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _is_locked(descriptor: int) -> bool:
    if _HAS_FLOCK:
        request = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        for command in (_OFD_GET, fcntl.F_GETLK):
            if command is None:
                continue
            try:
                answer = fcntl.fcntl(descriptor, command, request)
            except OSError as error:
                if error.errno != errno.EINVAL or command == fcntl.F_GETLK:
                    raise
            else:
                return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


# -- the record ------------------------------------------------------------------------------


def _sign(descriptor: int) -> _Record:
    """Writes who holds the lock, by one call: a reader sees the old record or this one."""
    record: _Record = {
        "pid": os.getpid(),
        "host": host_name(),
        "boot": boot_id(),
        "started": process_start(os.getpid()),
        "process_started": process_start_time(os.getpid()),
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    os.pwrite(descriptor, json.dumps(record).encode().ljust(_RECORD_BYTES), 0)
    return record


def _read(path: Path) -> _Record:
    held = _held.get(_key_of(path) or (-1, -1))
    if held is not None:
        return held.record  # reading the file could drop our own lock
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _is_signed(record: _Record) -> bool:
    """Whether a record can be that of the holder, and not of one that is dead."""
    if record.get("boot") != boot_id():
        return bool(record) and record.get("host") != host_name()
    pid = record.get("pid")
    return isinstance(pid, int) and process_start(pid) == record.get("started")


def _refused(operation: str, path: Path) -> StorageLockedError:
    record = _read(path)
    for _ in range(_LOOKS):
        if _is_signed(record):
            break
        time.sleep(_LOOK_S)
        record = _read(path)
    started = record.get("process_started")
    return StorageLockedError(
        f"{operation}: {path.parent.parent} is being written by process "
        f"{record.get('pid', 'unknown')} on {record.get('host', 'an unknown host')} (started "
        f"{started or 'at an unknown time'}), since {record.get('since', 'an unknown time')}; "
        "close it there, or open read-only",
        path=str(path),
        pid=record.get("pid"),
        host=record.get("host"),
        started=started,
        since=record.get("since"),
    )


def _unavailable(operation: str, path: Path, reason: str) -> LockUnavailableError:
    return LockUnavailableError(
        f"{operation}: {path.parent.parent} cannot be kept from a second writer: {reason}. Write "
        "to a local disk and copy the data set there with dumps(), or open it read-only",
        path=str(path),
    )


def _same_file(descriptor: int, path: Path) -> bool:
    there = _key_of(path)
    here = os.fstat(descriptor)
    return there == (here.st_dev, here.st_ino)


def _key_of(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
