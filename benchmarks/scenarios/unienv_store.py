"""`ParquetStorage` in a `ReplayBuffer`: ours or the original, whichever this Python imports."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from scenarios import workloads
from scenarios.timing import Session

UPSTREAM = "unienv"


class UniEnvBuffer:
    """A growing buffer.

    Args:
        directory: Of the buffer.
        workload: Which columns.
        create: Keywords of `ReplayBuffer.create`, such as `piece_size`.
        both: Keywords of `create` and of `load_from`, such as `durability`.
    """

    letters = frozenset("abcdefghij")
    is_library = True

    def __init__(
        self,
        directory: Path,
        workload: str,
        *,
        create: dict[str, Any] | None = None,
        both: dict[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        self.workload = workload
        self.create = create or {}
        self.both = both or {}
        self.buffer: Any = None
        self.views: dict[tuple[bool, str], Any] = {}

    @staticmethod
    def imports() -> str:
        """Imports the library.

        Returns:
            Distribution and version.
        """
        import unienv_data.storages.parquet  # noqa: F401

        for name in (UPSTREAM, "unienv-data"):
            try:
                return f"{name} {metadata.version(name)}"
            except metadata.PackageNotFoundError:
                continue
        return "unienv-data, not installed"

    def _create(self, directory: Path) -> Any:
        from unienv_data import ReplayBuffer
        from unienv_data.storages.parquet import ParquetStorage

        shutil.rmtree(directory, ignore_errors=True)
        return ReplayBuffer.create(
            ParquetStorage,
            workloads.space(self.workload),
            cache_path=str(directory),
            capacity=None,
            **self.create,
            **self.both,
        )

    def _load(self, *, read_only: bool) -> Any:
        from unienv_data import ReplayBuffer
        from unienv_interface.backends.numpy import NumpyComputeBackend

        return ReplayBuffer.load_from(
            str(self.directory), backend=NumpyComputeBackend, read_only=read_only, **self.both
        )

    @staticmethod
    def _close(buffer: Any) -> None:
        # The original's `close` of a buffer leaves the storage to the garbage collector.
        storage = buffer.storage
        buffer.close()
        storage.close()

    def bulk(self, rows: int) -> Session:
        """`extend`, then `dumps` to the buffer's own directory."""
        buffer = self._create(self.directory)
        return Session(
            buffer.extend,
            lambda: buffer.dumps(str(self.directory)),
            lambda: self._close(buffer),
        )

    def appending(self, rows: int) -> Session:
        """`append`, then `mark_segment_end` and `dumps`."""
        directory = self.directory.with_name(self.directory.name + "-appended")
        buffer = self._create(directory)

        def flush() -> None:
            buffer.mark_segment_end()
            buffer.dumps(str(directory))

        return Session(buffer.append, flush, lambda: self._close(buffer))

    def overwriting(self) -> Session:
        """`set_at`, then `dumps`."""
        buffer = self._load(read_only=False)
        return Session(
            buffer.set_at,
            lambda: buffer.dumps(str(self.directory)),
            lambda: self._close(buffer),
        )

    def open(self) -> None:
        """Opens the buffer read-only."""
        self.buffer = self._load(read_only=True)

    def get(self, index: Any) -> Any:
        """`ReplayBuffer.get_at`."""
        return self.buffer.get_at(index)

    def column(self, name: str, index: Any) -> Any:
        """`get_at` of a column's view, which is kept."""
        return self._view(self.buffer, name).get_at(index)

    def storage_get(self) -> Callable[[Any], Any]:
        """`ParquetStorage.get`, which `get_at` is a shell of."""
        get: Callable[[Any], Any] = self.buffer.storage.get
        return get

    def storage_column(self, name: str) -> Callable[[Any], Any]:
        """`get` of the storage's view of a column."""
        get: Callable[[Any], Any] = self._view(self.buffer.storage, name).get
        return get

    def _view(self, owner: Any, name: str) -> Any:
        key = (owner is self.buffer, name)
        if key not in self.views:
            # The original takes a list only.
            self.views[key] = owner.get_column([name])
        return self.views[key]

    def close(self) -> None:
        """Closes the buffer."""
        self.views.clear()
        if self.buffer is not None:
            self._close(self.buffer)
            self.buffer = None
