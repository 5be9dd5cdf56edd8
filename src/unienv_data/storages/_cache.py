"""Where the bank of a read-only storage lies: outside the data set, shared, safe to delete.

In memory (`/dev/shm`) while all rows fit the memory budget, else in a cache directory. Each
bank directory holds a file `users` on which every user keeps a shared lock: whoever can lock it
exclusively is alone, and may delete it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unienv_data.storages._options import Options

__all__ = ["BankPlace", "find_place"]

_MEMORY_ROOT = Path("/dev/shm")
_HEADROOM = 2  # times the rows' bytes must be free in memory


@dataclass
class BankPlace:
    """A bank directory in use by this process."""

    directory: Path
    budget_bytes: int
    in_memory: bool
    users: int
    """Descriptor whose shared lock says that the directory is in use."""
    pid: int

    def leave(self) -> None:
        """Stops using the directory; the last user of a bank in memory deletes it."""
        if self.users < 0:
            return
        users, self.users = self.users, -1
        try:
            # A forked child shares its parent's lock and must leave it alone.
            if self.in_memory and self.pid == os.getpid():
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(self.directory, ignore_errors=True)
        except OSError:
            return
        finally:
            os.close(users)


def find_place(key: str, needed: int, options: Options) -> BankPlace:
    """Chooses and opens the directory of a bank.

    Args:
        key: What the bank's rows are of: the same for every process that reads the same rows.
        needed: Bytes of all rows.
        options: Budgets and directories.
    """
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    memory = options.memory_budget()
    asked = options.cache_dir or os.environ.get("UNIENV_DATA_CACHE_DIR")
    if asked is None and needed <= memory and _memory_has(needed):
        root = _private_root(_MEMORY_ROOT / f"unienv-data-{os.geteuid()}")
        _sweep(root)
        directory, users = _enter(root / name)
        return BankPlace(directory, memory, True, users, os.getpid())
    root = _private_root(Path(asked) if asked is not None else _user_cache())
    directory, users = _enter(root / name)
    return BankPlace(directory, options.disk_budget(root), False, users, os.getpid())


def _memory_has(needed: int) -> bool:
    try:
        status = os.statvfs(_MEMORY_ROOT)
    except OSError:
        return False
    free = status.f_bavail * status.f_frsize
    return os.access(_MEMORY_ROOT, os.W_OK) and needed * _HEADROOM <= free


def _user_cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "unienv-data" / "banks"


def _private_root(root: Path) -> Path:
    """Makes a directory of mode 0700; one that another user owns or can enter is not used."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
            if status.st_mode & 0o077:
                root.chmod(0o700)
            return root
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="unienv-data-"))


def _enter(directory: Path) -> tuple[Path, int]:
    while True:
        # Not `mkdir(exist_ok=True)`, which fails when the last user deletes it meanwhile.
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        try:
            users = os.open(directory / "users", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # the last user deleted the directory between the two calls
        fcntl.flock(users, fcntl.LOCK_SH)
        try:
            there = os.stat(directory / "users")
        except FileNotFoundError:
            there = None
        if there is not None and there.st_ino == os.fstat(users).st_ino:
            return directory, users
        os.close(users)


def _unused(root: Path) -> Iterator[Path]:
    for entry in os.scandir(root):
        users = Path(entry.path) / "users"
        try:
            descriptor = os.open(users, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Path(entry.path)
        except OSError:
            continue
        finally:
            os.close(descriptor)


def _sweep(root: Path) -> None:
    """Deletes banks in memory whose last user was killed before it could."""
    for directory in _unused(root):
        shutil.rmtree(directory, ignore_errors=True)
