"""Writes the golden directories of the running format version.

    python tests/golden/make_ours.py tests/golden/1.0

Run once for each format version, with the release that introduced it, and never again: the point
of the directories is that later releases read what this one wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from content import COUNT, DTYPES, SHAPES, batch

from unienv_data.format.manifest import FORMAT_VERSION
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, TextSpace

sys.path.insert(0, str(Path(__file__).parent))


def space() -> DictSpace:
    """A column of every dtype and shape, and a text."""
    children: dict[str, Any] = {"text": TextSpace(B, 12)}
    for number, dtype in enumerate(DTYPES):
        shape = SHAPES[number % len(SHAPES)]
        if dtype == "bool":
            children[dtype] = BinarySpace(B, shape)
        else:
            children[dtype] = BoxSpace(B, -np.inf, np.inf, np.dtype(dtype).type, shape=shape)
    return DictSpace(B, children)


def main(target: Path) -> None:
    """Writes a growing storage, a bounded one, a lone space and a wrapped buffer."""
    if target.name != FORMAT_VERSION:
        raise SystemExit(f"this library writes {FORMAT_VERSION}, the directory says {target.name}")
    for name, capacity in (("growing", None), ("bounded", COUNT)):
        with ParquetStorage.create(
            space(), cache_path=target / name, capacity=capacity, piece_size=4
        ) as storage:
            if capacity is None:
                storage.extend_length(COUNT)
            storage.set(slice(0, COUNT), batch())
    with ParquetStorage.create(
        BoxSpace(B, -1.0, 1.0, np.float32, shape=(2, 3)), cache_path=target / "lone", piece_size=4
    ) as storage:
        storage.extend_length(COUNT)
        storage.set(slice(0, COUNT), np.arange(COUNT * 6, dtype=np.float32).reshape(COUNT, 2, 3))
    with ReplayBuffer.create(
        ParquetStorage,
        DictSpace(B, {"x": BoxSpace(B, -np.inf, np.inf, np.int64, shape=())}),
        cache_path=str(target / "buffer"),
        capacity=5,
        maintain_segment_metadata=True,
        piece_size=2,
    ) as buffer:
        for start in (0, 3, 6):
            buffer.extend({"x": np.arange(start, start + 3)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
