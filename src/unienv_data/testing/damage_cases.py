"""Small stores for `damage`: their files as bytes, and the rows that may be read from them."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unienv_data.replay_buffer.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.oracle import take
from unienv_data.testing.strategies import batch_of, box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, DictSpace, TextSpace

__all__ = ["Case", "damage_cases"]

_ROWS, _PIECE = 11, 4

SPACE = DictSpace(
    B,
    {
        "f": box("float32", (3,)),
        "n": box("int64", ()),
        "u": box("uint8", (2, 2)),
        "b": BinarySpace(B, ()),
        "t": TextSpace(B, 12),
    },
)

_UPSTREAM_KEYS = ("piece_size", "num_rows", "column_shapes", "compression", "column_dtypes")


@dataclass(frozen=True)
class Case:
    """One store."""

    name: str
    files: Mapping[str, bytes]
    committed: list[Mapping[str, Any]]
    """Batches of all rows that a reader may see."""
    states: list[Mapping[str, Any]]
    """Those that a writer may see."""
    space: DictSpace = SPACE
    is_buffer: bool = False
    is_checked: bool = True
    """Whether its files carry checksums."""
    segments: list[tuple[int, int]] | None = None


class _PowerFailureError(Exception):
    pass


def _batch(seed: int, count: int) -> Any:
    return batch_of(SPACE, count, np.random.default_rng(seed))


def _files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def _storage(path: Path, compression: str | None, capacity: int | None = None) -> Any:
    batch = _batch(1, _ROWS)
    with ParquetStorage.create(
        SPACE, cache_path=path, piece_size=_PIECE, compression=compression, capacity=capacity
    ) as storage:
        if capacity is None:
            storage.extend_length(_ROWS)
        storage.set(slice(0, _ROWS), batch)
    return batch


def _plain(root: Path, compression: str | None) -> Case:
    name = f"plain-{compression}"
    batch = _storage(root / name, compression)
    return Case(name, _files(root / name), [batch], [batch])


def _bounded(root: Path) -> Case:
    batch = _storage(root / "bounded", "zstd", _ROWS)
    return Case("bounded", _files(root / "bounded"), [batch], [batch])


def _foreign(root: Path) -> Case:
    """A directory as the original library writes it, without any checksum."""
    from unienv_data.testing.foreign import write_plain

    path = root / "foreign"
    batch = _storage(path, "snappy")
    manifest = json.loads((path / "_metadata.json").read_bytes())
    (path / "_metadata.json").write_text(
        json.dumps({key: manifest[key] for key in _UPSTREAM_KEYS}), encoding="utf-8"
    )
    for piece in sorted(path.glob("part-*.parquet")):
        write_plain(piece)
    return Case("foreign", _files(path), [batch], [batch], is_checked=False)


def _committing(root: Path, renamed: int) -> Case:
    """A commit that ended after some of its renames."""
    name = f"committing-{renamed}"
    path = root / name
    before = _storage(path, "snappy")
    after = _batch(2, _ROWS)
    storage = ParquetStorage.load_from(path, SPACE, read_only=False)
    storage.set(slice(0, _ROWS), after)
    assert storage._writer is not None
    committer = storage._writer.committer
    finish = committer._finish

    def stop(record: Any) -> None:
        for staged, piece in record.renames[:renamed]:
            (path / staged).replace(path / f"part-{piece:06d}.parquet")
        raise _PowerFailureError

    committer._finish = stop  # type: ignore[method-assign]
    with contextlib.suppress(_PowerFailureError):
        storage.flush()
    files = {key: data for key, data in _files(path).items() if not key.startswith("_work/")}
    committer._finish = finish  # type: ignore[method-assign]
    storage._let_go(remove=False)
    return Case(name, files, [before, after], [before, after])


def _interrupted(root: Path, name: str, capacity: int | None) -> Case:
    """Rows of a writer that died before it sealed them."""
    path = root / name
    before = _storage(path, "snappy", capacity)
    storage = ParquetStorage.load_from(path, SPACE, read_only=False)
    after = {key: values.copy() for key, values in before.items()}
    changed = _batch(3, 3)
    storage.set(slice(0, 3), changed)
    for key in after:
        after[key][:3] = changed[key]
    if capacity is None:
        more = _batch(4, 10)
        for row in range(10):
            storage.append_row(len(storage), take(more, row))
        after = {key: np.concatenate([values, more[key]]) for key, values in after.items()}
    assert storage._writer is not None
    storage._writer.sealer.drain()  # files are copied one by one: nothing may move meanwhile
    files = _files(path)
    storage._let_go(remove=False)
    manifest = json.loads(files["_metadata.json"])
    shown = {
        key: np.concatenate([before[key], after[key][_ROWS:]])[: manifest["num_rows"]]
        for key in before
    }
    # A kept copy of the manifest may stand in for a damaged one.
    return Case(name, files, [shown, before], [after])


def _buffer(root: Path, capacity: int | None) -> Case:
    name = "buffer" if capacity is None else "ring"
    path = root / name
    batch = _batch(5, 9)
    with ReplayBuffer.create(
        ParquetStorage, SPACE, cache_path=str(path), capacity=capacity,
        maintain_segment_metadata=True, piece_size=2,
    ) as buffer:  # fmt: skip
        for start in (0, 3, 6):
            buffer.extend({key: values[start : start + 3] for key, values in batch.items()})
            buffer.mark_segment_end()
    alive = 9 if capacity is None else capacity
    rows = {key: values[-alive:] for key, values in batch.items()}
    segments = [(0, 3), (3, 6), (6, 9)] if capacity is None else [(0, 2), (2, 5)]
    return Case(name, _files(path), [rows], [rows], is_buffer=True, segments=segments)


def damage_cases(root: Path) -> list[Case]:
    """Makes the stores below `root`, which is emptied afterwards."""
    root.mkdir(parents=True, exist_ok=True)
    cases = [
        _plain(root, "snappy"),
        _plain(root, None),
        _plain(root, "gzip"),
        _bounded(root),
        _foreign(root),
        _committing(root, 0),
        _committing(root, 2),
        _interrupted(root, "interrupted", None),
        _interrupted(root, "interrupted-bounded", _ROWS),
        _buffer(root, None),
        _buffer(root, 5),
    ]
    shutil.rmtree(root)
    return cases
