"""`verify`: what is wrong with a data set. Never writes."""

from __future__ import annotations

import os
from pathlib import Path

from unienv_data.errors import MissingStorageError, StorageError
from unienv_data.format.layout import COMMIT_NAME, MANIFEST_NAME, WORK_NAME
from unienv_data.replay_buffer.metadata import METADATA_NAME, BufferMetadata
from unienv_data.tools.findings import Finding, Progress, Report
from unienv_data.tools.survey import (
    Survey,
    check_piece,
    is_unreadable,
    storage_directories,
    value_problem,
)

__all__ = ["verify"]


def verify(
    path: str | os.PathLike[str], *, full: bool = False, progress: Progress | None = None
) -> Report:
    """Looks for damage in a storage, or in a buffer and its storages.

    Args:
        path: The directory; also one that the original library wrote.
        full: Read every page and compare values with the space. Otherwise manifests, footers and
            sizes only.
        progress: Called with pieces done and pieces in all.

    Raises:
        MissingStorageError: There is no data set at this path.
    """
    root = Path(path)
    directories = storage_directories(root)
    if not directories and not (root / METADATA_NAME).exists():
        raise MissingStorageError(
            f"verify: {root} holds neither {MANIFEST_NAME} nor pieces; check the path",
            path=str(root),
        )
    surveys = [Survey.of(directory) for directory in directories]
    findings: list[Finding] = []
    is_usable = bool(surveys)
    total = sum(sum(1 for _ in s.pieces()) for s in surveys if s.manifest is not None)
    done = 0
    for survey in surveys:
        findings += _state(survey, root)
        if survey.manifest is None:
            is_usable = False
            continue
        for piece, start, stop in survey.pieces():
            finding = _piece(survey, piece, start, stop, root, full=full)
            if finding is not None:
                findings.append(finding)
            done += 1
            if progress is not None:
                progress(done, total)
    if (root / METADATA_NAME).exists():
        found = _buffer(root, surveys)
        is_usable = is_usable and all(finding.kind != "buffer" for finding in found)
        findings += found
    rows = sum(survey.manifest.num_rows for survey in surveys if survey.manifest is not None)
    return Report(str(root), rows, total, full, is_usable, tuple(findings))


def _repair(root: Path, what: str) -> str:
    return f"`unienv-data repair {root}` {what}"


def _state(survey: Survey, root: Path) -> list[Finding]:
    directory, findings = survey.directory, []

    def add(
        kind: str, name: str, expected: str, found: str, remedy: str, rows: tuple[int, int] = (0, 0)
    ) -> None:
        ranges = (rows,) if rows[1] > rows[0] else ()
        findings.append(Finding(kind, str(directory / name), ranges, expected, found, remedy))

    if survey.manifest_error is not None:
        stand_in = "" if survey.manifest is None else "; the last synced one stands in"
        add(
            "manifest", MANIFEST_NAME, "a readable manifest", f"{survey.manifest_error}{stand_in}",
            _repair(root, "rebuilds it where the pieces suffice"),
        )  # fmt: skip
    if survey.record_error is not None:
        add(
            "commit_record", COMMIT_NAME, "a readable commit record", str(survey.record_error),
            _repair(root, "sets it aside, or completes the commit"),
        )  # fmt: skip
    elif survey.record is not None and not survey.writer_is_alive:
        add(
            "commit_record", COMMIT_NAME, "no commit under way",
            f"one of {len(survey.record.renames)} pieces that its writer did not finish",
            "open it once for writing, or " + _repair(root, "finishes it"),
        )  # fmt: skip
    if survey.writer_is_alive:
        add(
            "running_writer", WORK_NAME, "any", "a writer has it open", "nothing is to be done",
        )  # fmt: skip
    elif survey.working is not None and survey.working.error is not None:
        add(
            "working_set", str(survey.working.bank), "an intact working set",
            str(survey.working.error), _repair(root, "sets it aside"),
        )  # fmt: skip
    elif survey.working is not None and survey.manifest is not None:
        working, counted = survey.working, survey.manifest.num_rows
        more = max(working.rows - counted, 0) if survey.manifest.capacity is None else 0
        add(
            "unsealed_rows", WORK_NAME, "no working set without its writer",
            f"{more} new rows and changes in {len(working.dirty)} pieces that are not sealed",
            "open it once for writing, or " + _repair(root, "seals them"),
            (counted, counted + more),
        )  # fmt: skip
    elif survey.has_work:
        add(
            "leftover", WORK_NAME, "no working set without its writer",
            "one without rows of this boot", _repair(root, "removes nothing but moves it away"),
        )  # fmt: skip
    for name in (*survey.leftovers, *survey.surplus()):
        add(
            "leftover", name, "no such file", "one that counts for nothing",
            _repair(root, "moves it away"),
        )  # fmt: skip
    for name in survey.foreign:
        add("foreign_file", name, "any", "a file of another program", "it is left alone")
    manifest = survey.manifest
    if manifest is not None and manifest.ledger is not None:
        head, tail = manifest.ledger.head, manifest.ledger.tail
        limit = manifest.num_rows if manifest.capacity is None else tail + manifest.capacity
        if not tail <= head <= limit:
            add(
                "ledger", MANIFEST_NAME, f"0 <= tail <= head <= {limit}",
                f"head {head}, tail {tail}", _repair(root, "says what it can do"),
            )  # fmt: skip
    return findings


def _piece(
    survey: Survey, piece: int, start: int, stop: int, root: Path, *, full: bool
) -> Finding | None:
    path = survey.path(piece)
    rows = ((start, stop),)
    try:
        data = check_piece(survey, piece, stop - start, full=full)
    except (StorageError, OSError) as error:
        if not is_unreadable(error) and not isinstance(error, OSError):
            raise
        kind = "damaged_piece" if path.exists() else "missing_piece"
        return Finding(
            kind, str(path), rows, f"piece {piece} of {stop - start} rows", str(error),
            "restore it from a copy, or " + _repair(root, "sets it aside"),
        )  # fmt: skip
    if data is None:
        return None
    problem = value_problem(survey.counted, data, stop - start)
    if problem is None:
        return None
    return Finding(
        "values", str(path), rows, *problem, "it reads as it is; nothing is changed by a repair"
    )


def _buffer(root: Path, surveys: list[Survey]) -> list[Finding]:
    path = str(root / METADATA_NAME)
    try:
        metadata = BufferMetadata.read(root)
    except StorageError as error:
        return [
            Finding(
                "buffer", path, (), "a readable description of the buffer", str(error),
                "restore it from a copy; its storage opens by itself",
            )
        ]  # fmt: skip
    findings = []
    storage = root / metadata.storage_path_relative
    mine = [s for s in surveys if s.directory == storage or storage in s.directory.parents]
    known = [s.counted.num_rows for s in mine if s.manifest is not None]
    is_current = not any(s.writer_is_alive or s.working is not None for s in mine)
    if known and is_current and metadata.count > min(known):
        findings.append(
            Finding(
                "buffer_rows", path, ((min(known), metadata.count),),
                f"at most {min(known)} rows, as the storage has", f"{metadata.count}",
                _repair(root, "brings both in line"),
            )
        )  # fmt: skip
    limit = metadata.capacity if metadata.capacity is not None else metadata.count
    outside = [
        pair for pair in metadata.physical_segments or [] if not 0 <= min(pair) <= max(pair) < limit
    ]
    if outside and is_current:
        findings.append(
            Finding(
                "segments", path, (), f"segments within {limit} rows", f"{outside[:3]}",
                _repair(root, "brings both in line"),
            )
        )  # fmt: skip
    return findings
