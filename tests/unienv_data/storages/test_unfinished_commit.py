"""Commits that fail after their record is in place: what follows goes on from them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.errors import StorageSpaceError
from unienv_data.format.layout import COMMIT_NAME, MANIFEST_NAME
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.replay_buffer.metadata import COMING_NAME, BufferMetadata
from unienv_data.storages import _committer
from unienv_data.storages.parquet import ParquetStorage
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BoxSpace, DictSpace

SPACE = DictSpace(B, {"i": BoxSpace(B, -np.inf, np.inf, np.int64, shape=())})


def numbers(storage: Any) -> list[int]:
    found: list[int] = storage.get(...)["i"].tolist()
    return found


def committed(path: Path, rows: int) -> ParquetStorage:
    storage = ParquetStorage.create(SPACE, cache_path=path, piece_size=4)
    storage.extend_length(rows)
    storage.set(..., {"i": np.arange(rows)})
    storage.flush()
    return storage


@pytest.mark.parametrize("failing", ["rename of a piece", "manifest"])
def test_a_commit_that_failed_half_way_is_finished_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "s"
    storage = committed(path, 12)
    storage.set([1, 5, 9], {"i": np.array([101, 105, 109])})
    real = os.replace
    seen = []

    def replace(source: Any, target: Any) -> None:
        seen.append(os.path.basename(target))
        wanted = MANIFEST_NAME if failing == "manifest" else "part-000001.parquet"
        if seen[-1] == wanted:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(StorageSpaceError):
        storage.flush()
    assert (path / COMMIT_NAME).exists()
    # A reader goes by the record: the new rows, wherever they lie.
    expected = [0, 101, 2, 3, 4, 105, 6, 7, 8, 109, 10, 11]
    with ParquetStorage.load_from(path, SPACE) as reader:
        assert numbers(reader) == expected
    monkeypatch.setattr(os, "replace", real)
    # Growth after it, and no flush: what openers find is the later state, not the record's.
    storage.extend_length(4)
    storage.set(slice(12, 16), {"i": np.arange(12, 16)})
    assert storage._writer is not None
    storage._writer.sealer.drain()
    assert not (path / COMMIT_NAME).exists()
    with ParquetStorage.load_from(path, SPACE) as reader:
        assert numbers(reader) == [*expected, 12, 13, 14, 15]
    storage.shrink_length(10)
    storage.close()
    with ParquetStorage.load_from(path, SPACE) as reader:
        assert numbers(reader) == expected[:6]


def test_a_record_that_could_not_be_removed_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    storage = committed(path, 8)
    storage.set([1], {"i": np.array([101])})
    monkeypatch.setattr(_committer, "remove_quietly", lambda path: None)
    storage.flush()
    monkeypatch.undo()
    assert (path / COMMIT_NAME).exists()
    storage.shrink_length(6)
    storage.extend_length(1)
    storage.set([2], {"i": np.array([7])})
    storage._let_go(remove=False)  # as a kill
    with ParquetStorage.load_from(path, SPACE, read_only=False) as again:
        assert numbers(again) == [0, 101, 7]
    assert sorted(os.listdir(path)) == [MANIFEST_NAME, "part-000000.parquet"]


def test_a_dump_over_an_earlier_one_changes_rows_and_segments_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = ReplayBuffer.create(
        ParquetStorage,
        SPACE,
        cache_path=tmp_path / "b",
        piece_size=4,
        maintain_segment_metadata=True,
    )
    copy = tmp_path / "copy"

    def opened() -> tuple[list[int], Any]:
        with ReplayBuffer.load_from(copy, backend=B) as found:
            return found.get_at(...)["i"].tolist(), found.get_segments()

    buffer.extend({"i": np.arange(3)})
    buffer.dumps(copy)
    first = opened()
    assert first == ([0, 1, 2], [(0, 3)])
    buffer.extend({"i": np.arange(3, 8)})

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ParquetStorage, "dumps", killed)
        with pytest.raises(KeyboardInterrupt):
            buffer.dumps(copy)
    assert (copy / COMING_NAME).exists()
    assert opened() == first
    with monkeypatch.context() as patch:
        patch.setattr(BufferMetadata, "settle", killed)
        with pytest.raises(KeyboardInterrupt):
            buffer.dumps(copy)
    assert json.loads((copy / "metadata.json").read_bytes())["count"] == 3
    second = ([*range(8)], [(0, 3), (3, 8)])
    assert opened() == second
    buffer.dumps(copy)
    assert opened() == second
    assert sorted(os.listdir(copy)) == ["metadata.json", "storage"]
    buffer.close()
