"""What `verify` found and what `repair` did, as plain facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from typing_extensions import override

__all__ = ["Action", "Finding", "Progress", "RepairReport", "Report", "Rows"]

Rows = tuple[tuple[int, int], ...]
"""Half-open ranges of rows, ascending."""

Progress = Callable[[int, int], None]
"""Called with pieces done and pieces in all."""

_NOTES = frozenset({"running_writer", "foreign_file"})


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be, or that one should know.

    Attributes:
        kind: One of ``manifest``, ``commit_record``, ``missing_piece``, ``damaged_piece``,
            ``schema``, ``values``, ``ledger``, ``segments``, ``leftover``, ``unsealed_rows``,
            ``working_set``, ``buffer``, ``buffer_rows``; and the notes
            ``running_writer`` and ``foreign_file``.
        path: The file or directory.
        rows: Rows that cannot be read, or that are meant.
        expected: What should be there.
        found: What is there.
        remedy: What to do.
    """

    kind: str
    path: str
    rows: Rows
    expected: str
    found: str
    remedy: str

    @property
    def is_note(self) -> bool:
        """Whether nothing is wrong: a running writer, files of others."""
        return self.kind in _NOTES

    @override
    def __str__(self) -> str:
        rows = f" rows {_ranges(self.rows)}:" if self.rows else ""
        return (
            f"{self.kind}: {self.path}:{rows} expected {self.expected}, found {self.found}; "
            f"{self.remedy}"
        )


def _ranges(rows: Rows) -> str:
    shown = ", ".join(f"{start}-{stop - 1}" for start, stop in rows[:8])
    return f"{shown}, ..." if len(rows) > 8 else shown


@dataclass(frozen=True)
class Report:
    """What `verify` found.

    Attributes:
        path: What was verified.
        num_rows: Rows of its storages that the manifests count.
        num_pieces: Their pieces.
        is_full: Whether every page was read.
        is_usable: Whether it can be opened.
        findings: Notes included.
    """

    path: str
    num_rows: int
    num_pieces: int
    is_full: bool
    is_usable: bool
    findings: tuple[Finding, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing but notes was found."""
        return all(finding.is_note for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings, 2 unusable."""
        return 2 if not self.is_usable else int(not self.is_clean)


@dataclass(frozen=True)
class Action:
    """One step of a repair.

    Attributes:
        kind: ``recover``, ``manifest``, ``commit``, ``move``, ``cut``, ``give_up``, ``zero``,
            ``buffer``, or ``remains`` for what repair leaves as it is.
        path: What it is about.
        rows: Rows that this step takes out of the data set.
        what: The step in words.
    """

    kind: str
    path: str
    rows: Rows
    what: str

    @override
    def __str__(self) -> str:
        rows = f" (rows {_ranges(self.rows)})" if self.rows else ""
        return f"{self.kind}: {self.path}: {self.what}{rows}"


@dataclass(frozen=True)
class RepairReport:
    """What `repair` did, or would do.

    Attributes:
        path: What was repaired.
        is_dry_run: Whether nothing was changed.
        actions: The steps, in order; empty when there was nothing to do.
        dropped: The directory that what was taken out is moved to, None when nothing is.
        is_usable: Whether it can be opened afterwards.
    """

    path: str
    is_dry_run: bool
    actions: tuple[Action, ...]
    dropped: str | None
    is_usable: bool

    @property
    def lost_rows(self) -> Rows:
        """Rows that counted before and do not, or are zeros, afterwards."""
        return tuple(sorted({pair for action in self.actions for pair in action.rows}))

    @property
    def exit_code(self) -> int:
        """0 nothing was to be done, 1 something was, 2 it is unusable all the same."""
        return 2 if not self.is_usable else int(bool(self.actions))
