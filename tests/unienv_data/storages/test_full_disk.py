"""A disk that is really full: a small tmpfs, where this machine lets tests mount one."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.errors import StorageSpaceError
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import DictSpace, TextSpace

SPACE = DictSpace(B, {"x": box("float64", (8,)), "t": TextSpace(B, 200)})


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place],
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode != 0:
        pytest.skip("this user may not mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def rows(start: int, count: int) -> dict[str, Any]:
    numbers = range(start, start + count)
    return {
        "x": np.array([np.full(8, n) for n in numbers], dtype=np.float64),
        "t": [f"{n}-" * 20 for n in numbers],
    }


def read(buffer: Any) -> tuple[list[float], list[str]]:
    batch = buffer.get_at(...)
    return batch["x"][:, 0].tolist(), batch["t"].tolist()


@pytest.mark.parametrize("how", ["append", "extend", "set"])
def test_nothing_is_lost_and_the_call_works_once_there_is_space(small_disk: Path, how: str) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(os.urandom(700_000))
    path = small_disk / "b"
    buffer: Any = ReplayBuffer.create(ParquetStorage, SPACE, cache_path=str(path), piece_size=64)

    def write(start: int, count: int) -> None:
        if how == "append":
            for row in range(count):
                sample = rows(start + row, 1)
                buffer.append({"x": sample["x"][0], "t": sample["t"][0]})
        else:
            buffer.extend(rows(start, count))
            if how == "set":
                buffer.set_at(slice(0, 20), rows(0, 20))

    def fill() -> None:
        while True:
            write(len(buffer), 20)

    with pytest.raises(OSError, match="free disk space"):
        fill()
    count = len(buffer)
    expected = rows(0, count)
    assert count > 1000
    # Everything can be read although the disk is full, and nothing is a SIGBUS.
    assert read(buffer) == (expected["x"][:, 0].tolist(), expected["t"])
    ballast.unlink()
    for attempt in range(2):  # an error that the background kept is raised once
        try:
            write(count, 20)
            break
        except OSError:
            assert attempt == 0
            assert len(buffer) == count
    assert len(buffer) == count + 20
    if how == "append":
        buffer.mark_segment_end()
    buffer.close()
    with ReplayBuffer.load_from(path, backend=B) as reader:
        expected = rows(0, count + 20)
        assert read(reader) == (expected["x"][:, 0].tolist(), expected["t"])


def test_unset_rows_are_read_from_a_full_disk(small_disk: Path) -> None:
    storage = ParquetStorage.create(
        SPACE, capacity=4000, cache_path=small_disk / "s", piece_size=64
    )
    storage.set(slice(0, 10), rows(0, 10))
    (small_disk / "ballast").write_bytes(os.urandom(1_200_000))
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "more").write_bytes(os.urandom(1_000_000))
    assert storage.get(slice(0, 10))["x"][:, 0].tolist() == list(range(10))
    # A typed refusal is right as well; a dead process is not.
    with contextlib.suppress(StorageSpaceError):
        assert not storage.get(slice(64, 4000))["x"].any()
    (small_disk / "ballast").unlink()
    (small_disk / "more").unlink()
    assert not storage.get(slice(64, 4000))["x"].any()
    storage.close()
