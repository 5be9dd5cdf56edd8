"""The stores by name, and what a scenario may ask of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from scenarios.numpy_memmap import NumpyColumns
from scenarios.timing import Session
from scenarios.workloads import Rows

NAMES = ("ours", "ours-unsynced", "upstream", "memmap", "take", "pyarrow", "pyarrow-table")


class Store(Protocol):
    """A place for rows: written in sessions, then opened and read.

    Attributes:
        directory: What it wrote.
        letters: Scenarios that it can take part in.
        is_library: It is a `UniEnvBuffer`, whose storage is measured by itself, too.
    """

    directory: Path
    letters: frozenset[str]
    is_library: bool

    def bulk(self, rows: int) -> Session:
        """Begins to write batches."""

    def appending(self, rows: int) -> Session:
        """Begins to append rows."""

    def open(self) -> None:
        """Opens for reading."""

    def get(self, index: Any) -> Rows:
        """Copies of rows; of one row for an int."""

    def column(self, name: str, index: Any) -> Any:
        """Copies of one column's rows."""

    def close(self) -> None:
        """Lets go; twice is allowed."""


def make(
    name: str, base: Path, workload: str, piece_size: int | None, compression: str | None
) -> Any:
    """Makes the handle of a store; nothing is written yet."""
    directory = base / name
    given: dict[str, Any] = {"piece_size": piece_size, "compression": compression}
    options = {key: value for key, value in given.items() if value is not None}
    numpy_options = {"memmap": {"mapped": True}, "take": {"mapped": True, "take": True}}
    makers: dict[str, Callable[[], Any]] = {
        "ours": lambda: _unienv(directory, workload, options, {}),
        "ours-unsynced": lambda: _unienv(directory, workload, options, {"durability": "process"}),
        "upstream": lambda: _unienv(directory, workload, options, {}),
        "memmap": lambda: NumpyColumns(directory, workload, **numpy_options["memmap"]),
        "take": lambda: NumpyColumns(directory, workload, **numpy_options["take"]),
        "pyarrow": lambda: _pyarrow("BareParquet", directory, workload, options),
        "pyarrow-table": lambda: _pyarrow("ArrowTable", directory, workload, options),
    }
    return makers[name]()


def reference(base: Path, workload: str) -> NumpyColumns:
    """The reference of every scenario."""
    return NumpyColumns(base / "reference", workload)


def _unienv(directory: Path, workload: str, create: dict[str, Any], both: dict[str, Any]) -> Any:
    from scenarios.unienv_store import UniEnvBuffer

    return UniEnvBuffer(directory, workload, create=create, both=both)


def _pyarrow(kind: str, directory: Path, workload: str, options: dict[str, Any]) -> Any:
    from scenarios import pyarrow_bare

    return getattr(pyarrow_bare, kind)(directory, workload, **options)
