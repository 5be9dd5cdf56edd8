"""Write aside, sync, rename. Every file of a data set reaches its name this way."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from unienv_data.errors import StorageSpaceError

__all__ = [
    "empty_directory",
    "remove_quietly",
    "replace_file",
    "space_error",
    "sync_directory",
    "sync_files",
    "write_aside",
]

# Above this many files, one sync of the whole file system is cheaper than one a file.
_SYNC_EACH = 32

_REMEDIES = {
    errno.ENOSPC: "free disk space, then repeat the call",
    errno.EDQUOT: "free space within the quota or raise it, then repeat the call",
    errno.EROFS: "remount the file system writable, or copy the directory elsewhere",
    errno.EIO: "check the disk, then repeat the call",
    errno.EISDIR: "move the directory that stands in a file's place away, then repeat the call",
    errno.ENOTDIR: "move the file that stands in a directory's place away, then repeat the call",
    errno.EFBIG: "raise the file size limit (ulimit -f), then repeat the call",
}


def space_error(error: OSError, path: os.PathLike[str] | str, operation: str) -> OSError:
    """The error to raise for a failed write: typed, with path and remedy."""
    if error.errno not in _REMEDIES:
        return error
    return StorageSpaceError(
        f"{operation}: {path}: {error.strerror}; {_REMEDIES[error.errno]}. Rows acknowledged "
        "before are intact",
        path=str(path),
        code=error.errno,
    )


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Writes every byte; `os.write` may write fewer."""
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(descriptor, view) :]


def write_aside(path: Path, data: bytes | memoryview, *, sync: bool) -> None:
    """Creates `path`, a temporary name, with `data`; nothing remains of it on failure."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            write_all(descriptor, data)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        remove_quietly(path)
        raise space_error(error, path, "write") from error


def replace_file(path: Path, data: bytes, *, sync: bool) -> None:
    """Replaces a file as a whole: readers see the old bytes or the new ones.

    Args:
        path: Final name.
        data: New content.
        sync: Return only when content and name are safe from power loss.
    """
    aside = path.with_name(f".{path.name}.tmp")
    write_aside(aside, data, sync=sync)
    try:
        os.replace(aside, path)
    except OSError as error:
        remove_quietly(aside)
        raise space_error(error, path, "rename") from error
    if sync:
        sync_directory(path.parent)


def remove_quietly(path: Path) -> None:
    """Removes a temporary file if it is there; a failure leaves only litter."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


def empty_directory(path: Path) -> None:
    """Removes what is in a directory as far as that can be done; the directory stays."""
    try:
        names = os.listdir(path)
    except OSError:
        return
    for name in names:
        item = path / name
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item, ignore_errors=True)
        else:
            remove_quietly(item)


def sync_directory(path: Path) -> None:
    """Makes renames and removals in a directory safe from power loss."""
    if sys.platform == "win32":
        return  # NTFS journals names itself, and directories cannot be opened
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise space_error(error, path, "sync") from error


def sync_files(directory: Path, paths: Iterable[Path]) -> None:
    """Makes files that were written without syncing safe from power loss."""
    wanted = list(paths)
    try:
        if len(wanted) > _SYNC_EACH and _sync_file_system(directory):
            return
        for path in wanted:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise space_error(error, directory, "sync") from error


@functools.lru_cache(maxsize=1)
def _libc_syncfs() -> ctypes._CFuncPtr | None:  # type: ignore[name-defined]
    if not sys.platform.startswith("linux"):
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int]
    function.restype = ctypes.c_int
    return function


def _sync_file_system(directory: Path) -> bool:
    function = _libc_syncfs()
    if function is None:
        return False
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if function(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(descriptor)
    return True
