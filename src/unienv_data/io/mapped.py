"""Sparse files in shared memory mappings: allocate before touching, grow, punch.

A store into a hole of a mapped file on a full disk is a SIGBUS, which no Python code survives.
So space is allocated by a system call first, and a full disk is an `OSError`.
"""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unienv_data.errors import StorageSpaceError
from unienv_data.io.atomic import space_error

__all__ = ["PAGE", "MappedFile", "can_punch"]

PAGE = mmap.PAGESIZE

_MADV_REMOVE: int | None = getattr(mmap, "MADV_REMOVE", None)


def can_punch() -> bool:
    """Whether this system gives a file's blocks back without shortening it."""
    return _MADV_REMOVE is not None


class MappedFile:
    """One file, mapped shared and writable. Arrays over it stay valid when it grows.

    Holes read as zeros and take no space.
    """

    def __init__(self, path: Path, size: int, *, create: bool) -> None:
        """Opens or creates the file.

        Args:
            path: The file.
            size: Least size in bytes; the file grows to it, sparsely.
            create: Create it when missing; otherwise a missing file is an error.

        Raises:
            OSError: It cannot be opened, or the file system has no shared writable mappings.
        """
        self.path = path
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise space_error(error, path, "open") from error
        self.size = os.fstat(self._descriptor).st_size
        self._map: mmap.mmap | None = None
        try:
            self._remap(max(size, self.size, PAGE))
        except BaseException:
            os.close(self._descriptor)
            raise

    def _remap(self, size: int) -> None:
        size = -(-size // PAGE) * PAGE
        if size > self.size:
            try:
                os.ftruncate(self._descriptor, size)
            except OSError as error:
                raise space_error(error, self.path, "grow") from error
            except OverflowError as error:
                raise self._too_large(size) from error
        try:
            self._map = mmap.mmap(self._descriptor, size)
        except OSError as error:
            found = space_error(error, self.path, "map")
            if found is not error:
                raise found from error
            raise StorageSpaceError(
                f"map: {self.path}: {error}; this file system has no shared writable mappings: "
                "put the working set on a local disk with work_dir=",
                path=str(self.path),
            ) from error
        self.size = size

    def _too_large(self, size: int) -> StorageSpaceError:
        return StorageSpaceError(
            f"grow: {self.path}: {size} bytes are more than a file can have; does the manifest "
            "count rows that were never there?",
            path=str(self.path),
            code=errno.EFBIG,
        )

    def reserve(self, size: int) -> bool:
        """Grows the mapping to at least `size` bytes; True when arrays must be taken anew."""
        if size <= self.size:
            return False
        self._remap(size)
        return True

    def follow(self) -> bool:
        """Maps what another process added to the file; True when arrays must be taken anew."""
        return self.reserve(os.fstat(self._descriptor).st_size)

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """The file's first bytes as a writable array; zero-element shapes are plain arrays."""
        count = int(np.prod(shape, dtype=np.int64))
        if count == 0:
            return np.zeros(shape, dtype)
        return np.frombuffer(self._mapping, dtype=dtype, count=count).reshape(shape)

    def words(self) -> memoryview:
        """The file as signed 64-bit words; a store of one is a single aligned store."""
        return memoryview(self._mapping).cast("B").cast("q")

    @property
    def _mapping(self) -> mmap.mmap:
        if self._map is None:
            raise ValueError(f"{self.path} is closed")
        return self._map

    def read(self, offset: int, count: int) -> bytes:
        """Bytes as they are now."""
        return self._mapping[offset : offset + count]

    def store(self, offset: int, data: bytes) -> None:
        """Stores into allocated space."""
        self._mapping[offset : offset + len(data)] = data

    def allocate(self, offset: int, count: int) -> None:
        """Backs a byte range with disk space, so that stores into it cannot fail.

        Raises:
            StorageSpaceError: The disk or quota is full; nothing was changed.
        """
        if count <= 0:
            return
        try:
            os.posix_fallocate(self._descriptor, offset, count)
        except AttributeError:  # macOS: write zeros where nothing was written yet
            self._allocate_by_writing(offset, count)
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
                self._allocate_by_writing(offset, count)
            else:
                raise space_error(error, self.path, "allocate") from error

    def _allocate_by_writing(self, offset: int, count: int) -> None:
        try:
            data = os.pread(self._descriptor, count, offset)
            self.write(offset, data + bytes(count - len(data)))
        except OSError as error:
            raise space_error(error, self.path, "allocate") from error

    def write(self, offset: int, data: Any) -> None:
        """Writes a contiguous buffer by system calls: faster than faulting pages in one by one.

        Raises:
            StorageSpaceError: The disk or quota is full.
        """
        view = memoryview(data).cast("B")
        try:
            while view:
                written = os.pwrite(self._descriptor, view, offset)
                view = view[written:]
                offset += written
        except OSError as error:
            raise space_error(error, self.path, "write") from error

    def punch(self, offset: int, count: int) -> None:
        """Gives whole pages inside a byte range back to the system; they read as zeros."""
        start = -(-offset // PAGE) * PAGE
        stop = (offset + count) // PAGE * PAGE
        if _MADV_REMOVE is None or stop <= start:
            return
        try:
            self._mapping.madvise(_MADV_REMOVE, start, stop - start)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise space_error(error, self.path, "give space back") from error

    def prefault(self, offset: int, count: int) -> None:
        """Maps pages that are in memory already, so that the first read does not fault."""
        advice = 22  # MADV_POPULATE_READ, Linux 5.14
        start = offset // PAGE * PAGE
        try:
            self._mapping.madvise(advice, start, min(count + offset - start, self.size - start))
        except (OSError, ValueError):
            return

    def sync(self) -> None:
        """Makes the file's content safe from power loss."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise space_error(error, self.path, "sync") from error

    def close(self) -> None:
        """Drops the mapping; arrays taken from it stay valid until they are dropped too."""
        if self._map is None:
            return
        self._map = None
        os.close(self._descriptor)
