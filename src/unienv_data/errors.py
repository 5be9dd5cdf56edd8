"""Every error that the storage layers raise on purpose.

    UniEnvError                     (unienv_interface.errors)
      StorageError
        ReadOnlyError               RuntimeError, AssertionError
        StorageClosedError          RuntimeError
        SegmentStateError           RuntimeError
        StorageLockedError          RuntimeError      another writer holds the directory
        LockUnavailableError        OSError           the file system cannot keep a second one out
        CommitConflictError         RuntimeError      the directory changed under us
        ForkedWriterError           RuntimeError      a child process used its parent's writer
        RowIndexError               IndexError, AssertionError
        RowIndexTypeError           TypeError, ValueError
        SampleError                 ValueError        shape, dtype, row count, text
        MissingColumnError          KeyError, SampleError
        CapacityError               ValueError, AssertionError
        StorageArgumentError        ValueError, AssertionError
        StorageExistsError          FileExistsError, AssertionError
        MissingStorageError         FileNotFoundError, AssertionError
        StorageSpaceError           OSError           disk full or failing, with the remedy
        FormatError                 ValueError
          ManifestError             AssertionError
          UnsupportedVersionError
          CorruptPieceError
          SchemaMismatchError       AssertionError
          WorkingSetError
        MissingPieceError           FileNotFoundError, AssertionError

Each class also derives from the builtins beside it; those that replace an assertion of the
original library derive from `AssertionError` too, so that existing handlers work.
"""

from __future__ import annotations

import os

from typing_extensions import override

from unienv_interface.errors import MissingDependencyError, UniEnvError

__all__ = [
    "CapacityError",
    "CommitConflictError",
    "CorruptPieceError",
    "ForkedWriterError",
    "FormatError",
    "LockUnavailableError",
    "ManifestError",
    "MissingColumnError",
    "MissingDependencyError",
    "MissingPieceError",
    "MissingStorageError",
    "ReadOnlyError",
    "RowIndexError",
    "RowIndexTypeError",
    "SampleError",
    "SchemaMismatchError",
    "SegmentStateError",
    "StorageArgumentError",
    "StorageClosedError",
    "StorageError",
    "StorageExistsError",
    "StorageLockedError",
    "StorageSpaceError",
    "UniEnvError",
    "UnsupportedVersionError",
    "WorkingSetError",
]


class StorageError(UniEnvError):
    """Root of the errors of storages, buffers and their files."""


class ReadOnlyError(StorageError, RuntimeError, AssertionError):
    """A change was asked of a storage opened read-only."""


class StorageClosedError(StorageError, RuntimeError):
    """The storage was closed before this call."""


class SegmentStateError(StorageError, RuntimeError, AssertionError):
    """A segment is open where none may be, or the other way round."""


class StorageLockedError(StorageError, RuntimeError):
    """Another writer holds the directory: `pid`, `host`, `started` say who."""


class LockUnavailableError(StorageError, OSError):
    """The file system has no locks, or none that every machine which mounts it sees."""

    @override
    def __str__(self) -> str:
        # OSError would print only its errno.
        return str(self.args[0]) if self.args else ""


class CommitConflictError(StorageError, RuntimeError):
    """The files were changed by someone else since they were opened."""


class ForkedWriterError(StorageError, RuntimeError):
    """A forked child used the writer of its parent."""


class RowIndexError(StorageError, IndexError, AssertionError):
    """An index lies outside the storage."""


class RowIndexTypeError(StorageError, TypeError, ValueError):
    """An index is of a kind that does not name rows."""


class SampleError(StorageError, ValueError):
    """A value does not fit its column: shape, dtype, row count or text."""


class MissingColumnError(SampleError, KeyError):
    """A sample lacks a column, or a column of this name does not exist."""

    @override
    def __str__(self) -> str:
        # KeyError would print the repr of the message.
        return str(self.args[0]) if self.args else ""


class CapacityError(StorageError, ValueError, AssertionError):
    """More rows than the capacity, or a change of length of a bounded storage."""


class StorageArgumentError(StorageError, ValueError, AssertionError):
    """An argument of a storage's constructor or factory is out of range."""


class StorageExistsError(StorageError, FileExistsError, AssertionError):
    """The target directory holds something already."""


class MissingStorageError(StorageError, FileNotFoundError, AssertionError):
    """There is no storage at this path."""


class StorageSpaceError(StorageError, OSError):
    """The disk is full or failing; nothing that was acknowledged is lost.

    `errno` and `strerror` are those of the failed call.
    """

    def __init__(self, message: str = "", *, code: int | None = None, **facts: object) -> None:
        super().__init__(message, code=code, **facts)
        if code is not None:
            self.errno = code
            self.strerror = os.strerror(code)

    @override
    def __str__(self) -> str:
        # OSError would print only its errno.
        return str(self.args[0]) if self.args else ""


class FormatError(StorageError, ValueError):
    """A file is not what the format says."""


class ManifestError(FormatError, AssertionError):
    """`_metadata.json` is missing a key or holds a wrong value."""


class UnsupportedVersionError(FormatError):
    """The directory was written by a newer, incompatible version."""


class CorruptPieceError(FormatError):
    """A piece file is damaged: `path`, `rows` and the repair command are in the message."""


class SchemaMismatchError(FormatError, AssertionError):
    """The given space and the stored columns differ."""


class WorkingSetError(FormatError):
    """The working set of an interrupted writer is damaged; what is in pieces stays readable."""


class MissingPieceError(StorageError, FileNotFoundError, AssertionError):
    """A piece file that the manifest promises is not there."""
