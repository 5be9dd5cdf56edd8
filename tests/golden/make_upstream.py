"""Writes the golden directories of the original library; run with its interpreter.

.venv-upstream/bin/python tests/golden/make_upstream.py tests/golden/upstream-0.0.1b16
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from content import COUNT, DTYPES, SHAPES, batch

from unienv_data import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, TextSpace

sys.path.insert(0, str(Path(__file__).parent))

RELEASE = "0.0.1b16"


def main(target: Path) -> None:
    """Writes the same content as `make_ours.py`."""
    if metadata.version("unienv") != RELEASE:
        raise SystemExit(f"this script is for unienv {RELEASE}")
    children: dict[str, Any] = {"text": TextSpace(B, 12)}
    for number, dtype in enumerate(DTYPES):
        shape = SHAPES[number % len(SHAPES)]
        if dtype == "bool":
            children[dtype] = BinarySpace(B, shape)
        else:
            children[dtype] = BoxSpace(B, -np.inf, np.inf, np.dtype(dtype).type, shape=shape)
    space = DictSpace(B, children)
    target.mkdir(parents=True, exist_ok=True)
    for name, capacity in (("growing", None), ("bounded", COUNT)):
        storage = ParquetStorage.create(
            space, cache_path=str(target / name), capacity=capacity, piece_size=4
        )
        if capacity is None:
            storage.extend_length(COUNT)
        storage.set(slice(0, COUNT), batch())
        storage.close()
    lone = BoxSpace(B, -1.0, 1.0, np.float32, shape=(2, 3))
    storage = ParquetStorage.create(lone, cache_path=str(target / "lone"), piece_size=4)
    storage.extend_length(COUNT)
    storage.set(slice(0, COUNT), np.arange(COUNT * 6, dtype=np.float32).reshape(COUNT, 2, 3))
    storage.close()
    buffer = ReplayBuffer.create(
        ParquetStorage,
        DictSpace(B, {"x": BoxSpace(B, -np.inf, np.inf, np.int64, shape=())}),
        cache_path=str(target / "buffer"),
        capacity=5,
        maintain_segment_metadata=True,
        piece_size=2,
    )
    for start in (0, 3, 6):
        buffer.extend({"x": np.arange(start, start + 3)})
    buffer.dumps(str(target / "buffer"))
    buffer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
