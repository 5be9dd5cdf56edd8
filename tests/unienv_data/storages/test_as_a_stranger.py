"""What a stranger stumbled over: paths, moved directories, finished writers, odd arguments."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data import StepSampler
from unienv_data.errors import (
    SampleError,
    SegmentStateError,
    StorageArgumentError,
    StorageExistsError,
)
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.samplers import MultiprocessingSampler
from unienv_data.storages.parquet import ParquetStorage
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.errors import UnsupportedSpaceError
from unienv_interface.space import BoxSpace, DictSpace, TextSpace

SPACE = DictSpace(B, {"i": BoxSpace(B, 0, 2**62, np.int64, shape=())})


def create(path: Any, **options: Any) -> Any:
    return ReplayBuffer.create(ParquetStorage, SPACE, cache_path=path, piece_size=4, **options)


def load(path: Any, **options: Any) -> Any:
    return ReplayBuffer.load_from(path, backend=B, **options)


def append(buffer: Any, *numbers: int) -> None:
    for number in numbers:
        buffer.append({"i": number})


def rows(buffer: Any) -> list[int]:
    found: list[int] = buffer.get_at(...)["i"].tolist()
    return found


def test_a_relative_path_is_meant_where_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "b")
    other = create("rec")
    append(other, *range(20))
    other.close()
    monkeypatch.chdir(tmp_path / "a")
    buffer = create("rec")
    append(buffer, 1, 2, 3)
    reader = load("rec")
    monkeypatch.chdir(tmp_path / "b")
    append(buffer, *range(100, 140))
    buffer.flush()
    assert reader.refresh() == 43
    buffer.close()
    assert rows(load(tmp_path / "a" / "rec")) == [1, 2, 3, *range(100, 140)]
    assert rows(load(tmp_path / "b" / "rec")) == list(range(20))
    storage = ParquetStorage.load_from(os.path.relpath("../a/rec/storage"), SPACE)
    monkeypatch.chdir(tmp_path)
    assert len(storage.get(...)["i"]) == 43
    assert os.path.isabs(storage.cache_filename)


def test_closing_after_the_directory_was_moved_says_so(tmp_path: Path) -> None:
    buffer = create(tmp_path / "s")
    append(buffer, *range(6))
    os.rename(tmp_path / "s", tmp_path / "moved")
    with pytest.warns(RuntimeWarning, match="removed or moved"):
        buffer.close()
    with load(tmp_path / "moved", read_only=False) as found:
        assert rows(found) == list(range(6))


@pytest.mark.parametrize("end", ["abort", "commit"])
def test_a_segment_writer_that_is_over_cannot_be_committed(tmp_path: Path, end: str) -> None:
    buffer = create(tmp_path / "s")
    writer = buffer.open_segment_writer()
    writer.append({"i": 1})
    if end == "abort":
        writer.abort()
    else:
        buffer.commit_segment(writer)
    assert len(writer) == 0
    with pytest.raises(SegmentStateError, match="committed or aborted"):
        buffer.commit_segment(writer)
    assert rows(buffer) == ([] if end == "abort" else [1])


def test_dumps_into_what_is_no_dump_is_refused(tmp_path: Path) -> None:
    buffer = create(tmp_path / "s")
    append(buffer, 1, 2)
    buffer.mark_segment_end()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "precious.txt").write_text("mine")
    with pytest.raises(StorageExistsError, match=r"precious\.txt"):
        buffer.dumps(foreign)
    assert os.listdir(foreign) == ["precious.txt"]
    buffer.close()
    with load(tmp_path / "s") as reader:
        with pytest.raises(StorageExistsError, match="inside"):
            reader.dumps(tmp_path / "s" / "storage" / "x")
        assert not (tmp_path / "s" / "storage" / "x").exists()
        for _ in range(2):  # a new directory, then an earlier dump
            reader.dumps(tmp_path / "copy")
    assert rows(load(tmp_path / "copy")) == [1, 2]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"compression": 5}, "should be a codec"),
        ({"cache_bytes": "much"}, "such as 2G"),
        ({"cache_bytes": -1}, "should be a number of bytes"),
        ({"bank_bytes": []}, "should be a number of bytes"),
    ],
)
def test_odd_arguments_are_refused_by_name(
    tmp_path: Path, options: dict[str, Any], error: str
) -> None:
    with pytest.raises(StorageArgumentError, match=error):
        ParquetStorage.create(SPACE, cache_path=tmp_path / "s", **options)
    assert not (tmp_path / "s").exists()


def test_budgets_may_be_texts(tmp_path: Path) -> None:
    storage = ParquetStorage.create(
        SPACE, cache_path=tmp_path / "s", cache_bytes="1.5GiB", bank_bytes="64k"
    )
    assert (storage._options.cache_bytes, storage._options.bank_bytes) == (3 << 29, 64 << 10)
    storage.close()


def test_no_space_is_no_space(tmp_path: Path) -> None:
    nothing: Any = None
    with pytest.raises(UnsupportedSpaceError, match="expects a space, got None"):
        ParquetStorage.create(nothing, cache_path=tmp_path / "s")


def test_arguments_of_samplers(tmp_path: Path) -> None:
    buffer = create(tmp_path / "s")
    append(buffer, 1, 2, 3)
    for wrong in (1.5, "a", True, 0):
        with pytest.raises(StorageArgumentError, match="batch_size should be an int"):
            StepSampler(buffer, batch_size=wrong)  # type: ignore[arg-type]
    buffer.close()
    sampler = StepSampler(load(tmp_path / "s"), batch_size=np.int64(2))
    with pytest.raises(StorageArgumentError, match="ctx should be one of"):
        MultiprocessingSampler(sampler, ctx="thread")
    with MultiprocessingSampler(sampler, n_workers=1, ctx="spawn") as workers:
        assert workers.sample()["i"].shape == (2,)
    assert "spawn" in multiprocessing.get_all_start_methods()


def test_an_index_error_names_the_directory_once(tmp_path: Path) -> None:
    storage = ParquetStorage.create(SPACE, cache_path=tmp_path / "s")
    with pytest.raises(IndexError, match=rf"^index of {tmp_path / 's'}: row 3 is out of range"):
        storage.get(3)
    storage.close()


def test_a_backend_is_a_class(tmp_path: Path) -> None:
    create(tmp_path / "s").close()
    with pytest.raises(StorageArgumentError, match="backend should be a backend class"):
        ReplayBuffer.load_from(tmp_path / "s", backend="numpy")  # type: ignore[arg-type]


def test_a_text_that_is_too_short_is_told_so(tmp_path: Path) -> None:
    space = DictSpace(B, {"t": TextSpace(B, 5, min_length=2)})
    storage = ParquetStorage.create(space, cache_path=tmp_path / "s")
    for text, remedy in (("a", "smaller min_length"), ("abcdef", "larger max_length")):
        with pytest.raises(SampleError, match=f"2 to 5 characters.*{remedy}"):
            storage.append_row(0, {"t": text})
    storage.close()
