"""Directories go both ways between us and the original release, which runs in its own venv."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from content import COUNT, DTYPES, SHAPES, batch

from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.oracle import assert_batches_equal
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, TextSpace

GOLDEN = Path(__file__).parents[2] / "golden"

pytestmark = pytest.mark.upstream

# Upstream cannot write float16 into its own metadata.json.
BUFFER_DTYPES = tuple(dtype for dtype in DTYPES if dtype != "float16")


def run(python: Path, code: str, *arguments: str) -> str:
    result = subprocess.run(
        [python, "-I", "-c", code, str(GOLDEN), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def space(dtypes: Any = DTYPES) -> DictSpace:
    children: dict[str, Any] = {"text": TextSpace(B, 12)}
    for number, dtype in enumerate(DTYPES):
        shape = SHAPES[number % len(SHAPES)]
        if dtype in dtypes:
            children[dtype] = BinarySpace(B, shape) if dtype == "bool" else box(dtype, shape)
    return DictSpace(B, children)


READ = """
import sys; sys.path.insert(0, sys.argv[1])
import numpy as np
from unienv_data.storages.parquet import ParquetStorage
from content import batch, COUNT
path, capacity = sys.argv[2], int(sys.argv[3]) or None
count, _, space = ParquetStorage.build_space_from_parquet_file(path)
assert count == COUNT, count
for read_only in (True, False):
    storage = ParquetStorage.load_from(path, space, capacity=capacity, read_only=read_only)
    found, expected = storage.get(...), batch()
    assert set(found) == set(expected), found.keys()
    for key, values in expected.items():
        array = found[key]
        assert array.dtype == values.dtype and array.shape == values.shape, (key, array.dtype)
        if key == "text":
            assert array.tolist() == values.tolist(), key
        else:
            assert array.tobytes() == values.tobytes(), key
    storage.close()
print("equal")
"""


@pytest.mark.parametrize("capacity", [None, COUNT])
def test_upstream_reads_ours(tmp_path: Path, upstream_python: Path, capacity: int | None) -> None:
    path = tmp_path / "s"
    with ParquetStorage.create(
        space(), cache_path=path, piece_size=4, capacity=capacity
    ) as storage:
        if capacity is None:
            storage.extend_length(COUNT)
        storage.set(slice(0, COUNT), batch())
    assert run(upstream_python, READ, str(path), str(capacity or 0)) == "equal\n"
    # Upstream rewrote the manifest without our keys; we open it as its directory.
    with ParquetStorage.load_from(path, space(), capacity=capacity, read_only=False) as again:
        expected = {key: batch()[key] for key in again.get(0)}
        assert_batches_equal(again.get(...), expected)
        again.set(0, {key: values[1] for key, values in expected.items()})
    with ParquetStorage.load_from(path, space(), capacity=capacity) as reader:
        for values in expected.values():
            values[0] = values[1]
        assert_batches_equal(reader.get(...), expected)


READ_BUFFER = """
import sys
import numpy as np
from unienv_data import ReplayBuffer
from unienv_interface.backends.numpy import NumpyComputeBackend as B
path, step = sys.argv[2], sys.argv[3]
buffer = ReplayBuffer.load_from(path, backend=B, read_only=step == "read")
low = buffer.single_space["x"].low.tolist()
print(buffer.get_at(...)["x"].tolist(), buffer.get_segments(), low)
if step == "write":
    buffer.extend({"x": np.array([100.0, 101.0])})
    buffer.dumps(path)
buffer.close()
"""


def test_buffers_go_back_and_forth(tmp_path: Path, upstream_python: Path) -> None:
    unbounded = DictSpace(B, {"x": BoxSpace(B, -np.inf, np.inf, np.float64, shape=())})
    path = tmp_path / "b"
    with ReplayBuffer.create(
        ParquetStorage,
        unbounded,
        cache_path=str(path),
        capacity=5,
        maintain_segment_metadata=True,
        piece_size=2,
    ) as buffer:
        buffer.extend({"x": np.arange(3.0)})
        buffer.extend({"x": np.arange(3.0, 7.0)})
    out = run(upstream_python, READ_BUFFER, str(path), "write")
    assert out == "[2.0, 3.0, 4.0, 5.0, 6.0] [(0, 1), (1, 5)] -inf\n"
    with ReplayBuffer.load_from(path, backend=B, read_only=False) as buffer:
        assert buffer.get_at(...)["x"].tolist() == [4, 5, 6, 100, 101]
        assert buffer.get_segments() == [(0, 3), (3, 5)]
        buffer.extend({"x": np.array([7.0])})
    out = run(upstream_python, READ_BUFFER, str(path), "read")
    assert out == "[5.0, 6.0, 100.0, 101.0, 7.0] [(0, 2), (2, 4), (4, 5)] -inf\n"
    json.loads((path / "metadata.json").read_bytes())


def test_a_growing_buffer_of_every_dtype(tmp_path: Path, upstream_python: Path) -> None:
    path = tmp_path / "b"
    with ReplayBuffer.create(
        ParquetStorage, space(BUFFER_DTYPES), cache_path=str(path), piece_size=4
    ) as buffer:
        buffer.extend(batch(BUFFER_DTYPES))
    code = """
import sys; sys.path.insert(0, sys.argv[1])
from unienv_data import ReplayBuffer
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from content import batch
buffer = ReplayBuffer.load_from(sys.argv[2], backend=B)
found = buffer.get_at(...)
for key, values in batch(set(found) - {"text"}).items():
    assert found[key].tobytes() == values.tobytes() or key == "text", key
print(len(buffer), len(found))
"""
    assert run(upstream_python, code, str(path)) == f"{COUNT} {len(BUFFER_DTYPES) + 1}\n"
