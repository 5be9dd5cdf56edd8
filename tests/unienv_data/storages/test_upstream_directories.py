"""Directories of the smaller storages pass between this library and the original one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, sys
import numpy as np
from unienv_data import ReplayBuffer
from unienv_data.storages.flattened import FlattenedStorage
from unienv_data.storages.npz_storage import NPZStorage
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BoxSpace, DictSpace

action, root = sys.argv[1:]
box = BoxSpace(B, -100, 100, np.float32, shape=(2,))
space = DictSpace(B, {"a": box, "b": BoxSpace(B, 0, 100, np.int64, shape=())})
values = np.arange(10, dtype=np.float32).reshape(5, 2)
if action == "write":
    rows = ReplayBuffer.create(NPZStorage, box, cache_path=root + "/rows", capacity=None)
    rows.extend(values)
    rows.dumps(root + "/rows")
    flat = ReplayBuffer.create(
        FlattenedStorage, space, NPZStorage, cache_path=root + "/flat", capacity=7
    )
    flat.extend({"a": values, "b": np.arange(5)})
    flat.dumps(root + "/flat")
else:
    rows = ReplayBuffer.load_from(root + "/rows", backend=B)
    flat = ReplayBuffer.load_from(root + "/flat", backend=B)
    batch = flat.get_at(slice(0, 5))
    print(json.dumps([
        rows.get_at(slice(0, len(rows))).tolist(), flat.capacity, len(flat),
        batch["a"].tolist(), batch["b"].tolist(), str(batch["b"].dtype),
    ]))
"""


@pytest.mark.upstream
@pytest.mark.parametrize("reader_is_ours", [True, False])
def test_npz_and_flattened(tmp_path: Path, upstream_python: Path, reader_is_ours: bool) -> None:
    def run(ours: bool, action: str) -> str:
        python: Any = sys.executable if ours else upstream_python
        environment = {k: v for k, v in os.environ.items() if ours or not k.startswith("PYTHON")}
        return subprocess.run(
            [python, "-c", PROGRAM, action, str(tmp_path)],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        ).stdout

    run(not reader_is_ours, "write")
    values = [[2 * row, 2 * row + 1] for row in range(5)]
    expected = [values, 7, 5, values, list(range(5)), "int64"]
    assert json.loads(run(reader_is_ours, "read")) == expected
