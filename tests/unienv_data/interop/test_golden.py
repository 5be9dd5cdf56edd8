"""Directories written long ago, by us and by the original library, are read with equal values."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from content import COUNT, batch

from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.oracle import assert_batches_equal, take
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import DictSpace

GOLDEN = Path(__file__).parents[2] / "golden"

VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if (path / "growing").is_dir())


def test_every_version_is_there() -> None:
    assert VERSIONS == ["1.0", "1.1", "upstream-0.0.1b16"]


@pytest.fixture(params=VERSIONS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A writable copy: reading must not need one, so some tests use the original."""
    shutil.copytree(GOLDEN / request.param, tmp_path / "golden")
    return tmp_path / "golden"


@pytest.mark.parametrize("name", ["growing", "bounded"])
def test_every_column(golden: Path, name: str) -> None:
    count, capacity, space = ParquetStorage.build_space_from_parquet_file(golden / name)
    assert (count, capacity) == (COUNT, COUNT)
    assert isinstance(space, DictSpace)
    expected = {key: batch()[key] for key in space.spaces}
    bound = COUNT if name == "bounded" else None
    with ParquetStorage.load_from(golden / name, space, capacity=bound) as reader:
        assert_batches_equal(reader.get(...), expected)
        assert reader.capacity == bound
    buffer = ParquetStorage.load_replay_buffer_from_raw_parquet(golden / name)
    assert len(buffer) == COUNT
    assert_batches_equal(buffer.get_at([3, -1]), take(expected, [3, -1]))
    buffer.close()


def test_a_lone_space(golden: Path) -> None:
    _, _, space = ParquetStorage.build_space_from_parquet_file(golden / "lone")
    assert space.shape == (2, 3)
    with ParquetStorage.load_from(golden / "lone", space) as reader:
        expected = np.arange(COUNT * 6, dtype=np.float32).reshape(COUNT, 2, 3)
        assert_batches_equal(reader.get(...), expected)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_wrapped_buffer(golden: Path, read_only: bool) -> None:
    buffer: Any = ReplayBuffer.load_from(golden / "buffer", backend=B, read_only=read_only)
    assert (buffer.count, buffer.offset, buffer.capacity) == (5, 4, 5)
    assert buffer.get_at(...)["x"].tolist() == [4, 5, 6, 7, 8]
    assert buffer.get_segments() == [(0, 2), (2, 5)]
    if not read_only:
        buffer.extend({"x": np.array([9, 10])})
        assert buffer.get_at(...)["x"].tolist() == [6, 7, 8, 9, 10]
    buffer.close()
    if not read_only:
        with ReplayBuffer.load_from(golden / "buffer", backend=B) as again:
            assert again.get_at(...)["x"].tolist() == [6, 7, 8, 9, 10]
            assert again.get_segments() == [(0, 3), (3, 5)]


@pytest.mark.parametrize("name", ["growing", "bounded"])
def test_they_can_be_written_to(golden: Path, name: str) -> None:
    _, _, space = ParquetStorage.build_space_from_parquet_file(golden / name)
    assert isinstance(space, DictSpace)
    expected = {key: batch()[key] for key in space.spaces}
    bound = COUNT if name == "bounded" else None
    with ParquetStorage.load_from(golden / name, space, capacity=bound, read_only=False) as storage:
        storage.set([0, 5], take(expected, [1, 2]))
        if bound is None:
            storage.mark_segment_start(COUNT)
            storage.append(take(expected, 3))
            storage.mark_segment_end()
    for key, values in expected.items():
        values[[0, 5]] = batch()[key][[1, 2]]
        if bound is None:
            expected[key] = np.concatenate([values, batch()[key][3:4]])
    with ParquetStorage.load_from(golden / name, space) as reader:
        assert_batches_equal(reader.get(...), expected)
