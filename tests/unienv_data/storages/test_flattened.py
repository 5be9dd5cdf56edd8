from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.base.capabilities import supports_columns, supports_flattened, supports_flush
from unienv_data.errors import (
    ManifestError,
    SampleError,
    StorageArgumentError,
    StorageExistsError,
)
from unienv_data.storages.flattened import FlattenedStorage
from unienv_data.storages.memory import MemoryStorage
from unienv_data.storages.npz_storage import NPZStorage
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import DictSpace, TextSpace, TupleSpace

SPACE: Any = DictSpace(
    B, {"a": box("uint8", (2,)), "b": TupleSpace(B, [box("float32", ()), box("int8", (1, 2))])}
)
BATCH: Any = {
    "a": np.arange(6, dtype=np.uint8).reshape(3, 2),
    "b": (np.arange(3, dtype=np.float32) / 2, np.arange(6, dtype=np.int8).reshape(3, 1, 2)),
}
FLAT = [[0, 1, 0, 0, 1], [2, 3, 0.5, 2, 3], [4, 5, 1, 4, 5]]
SIDECAR = "flattened_metadata.json"


def filled(inner: Any, path: Path | None = None, **kwargs: Any) -> FlattenedStorage:
    storage = FlattenedStorage.create(SPACE, inner, cache_path=path, **kwargs)
    storage.extend_length(3)
    storage.set(..., BATCH)
    return storage


def check(storage: Any) -> None:
    found = storage.get(...)
    assert found["a"].tolist() == BATCH["a"].tolist()
    assert found["b"][1].tolist() == BATCH["b"][1].tolist()
    assert found["b"][1].dtype == np.int8
    assert storage.get(1)["b"][0] == 0.5
    assert storage.get_flattened([2, 0]).tolist() == [FLAT[2], FLAT[0]]
    assert storage.get_flattened(1).tolist() == FLAT[1]


def test_in_memory() -> None:
    storage = filled(MemoryStorage)
    check(storage)
    storage.set_flattened(0, np.array(FLAT[2]))
    storage.set_flattened([1, 2], np.array(FLAT[:2]))
    assert storage.get(...)["a"].tolist() == [[4, 5], [0, 1], [2, 3]]
    assert storage.cache_filename is None
    assert supports_flattened(storage)
    assert not supports_columns(storage)
    assert not supports_flush(storage)


@pytest.mark.parametrize("inner", [ParquetStorage, NPZStorage])
def test_in_files(inner: Any, tmp_path: Path) -> None:
    path = tmp_path / "flat"
    with filled(inner, path) as storage:
        assert supports_flush(storage)
        storage.flush()
    facts = json.loads((path / SIDECAR).read_text())
    assert facts == {
        "storage_type": "FlattenedStorage",
        "inner_storage_type": f"{inner.__module__}.{inner.__name__}",
        "inner_storage_path": "inner_storage",
    }
    with FlattenedStorage.load_from(path, SPACE) as again:
        check(again)
        assert not again.is_mutable
        assert isinstance(again.inner_storage, inner)
    with FlattenedStorage.load_from(path, SPACE, read_only=False, compressed=True) as again:
        again.extend_length(1)
        again.set(3, {"a": [9, 9], "b": (1, [[1, 1]])})
        again.dumps(path)
    with FlattenedStorage.load_from(path, SPACE) as again:
        assert len(again) == 4


def test_an_inner_path_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "flat"
    filled(NPZStorage, path).close()
    (path / "inner_storage").rename(path / "rows")
    facts = json.loads((path / SIDECAR).read_text())
    (path / SIDECAR).write_text(json.dumps({**facts, "inner_storage_path": "rows"}))
    with FlattenedStorage.load_from(path, SPACE, read_only=False) as storage:
        check(storage)
        storage.dumps(path)
    with FlattenedStorage.load_from(path, SPACE) as storage:
        check(storage)


@pytest.mark.parametrize(
    "facts",
    [
        {"inner_storage_path": "../elsewhere"},
        {"inner_storage_path": "/etc"},
        {"inner_storage_path": "."},
        {"inner_storage_path": "C:\\rows"},
        {"inner_storage_path": "..\\rows"},
        {"inner_storage_type": "os.path"},
    ],
    ids=repr,
)
def test_files_lead_nowhere_else(facts: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "flat"
    filled(NPZStorage, path).close()
    stored = json.loads((path / SIDECAR).read_text())
    (path / SIDECAR).write_text(json.dumps({**stored, **facts}))
    with pytest.raises(ManifestError):
        FlattenedStorage.load_from(path, SPACE)


def test_what_a_leaf_cannot_hold_is_refused() -> None:
    storage = filled(MemoryStorage)
    floats, bytes_ = BATCH["b"]
    for bad in (
        {**BATCH, "a": np.full((3, 2), 300)},
        {**BATCH, "a": np.full((3, 2), 0.5)},
        {**BATCH, "b": (floats, bytes_.reshape(3, 2, 1))},
        {**BATCH, "b": (floats,)},
        {"a": BATCH["a"]},
        3,
    ):
        with pytest.raises(SampleError):
            storage.set(..., bad)
    with pytest.raises(SampleError):
        storage.set(0, {"a": [300, 0], "b": (0, [[0, 0]])})
    storage.mark_segment_start(0)
    with pytest.raises(SampleError):
        storage.append({"a": [0], "b": (0, [[0, 0]])})
    storage.append({"a": [0, 1], "b": (0, [[0, 1]])})
    storage.mark_segment_end()
    check(storage)


def test_creating(tmp_path: Path) -> None:
    with pytest.raises(StorageArgumentError, match="inner_storage_cls"):
        FlattenedStorage.create(SPACE)
    with pytest.raises(StorageArgumentError, match="flat form"):
        FlattenedStorage.create(TextSpace(B, 3), MemoryStorage)
    filled(NPZStorage, tmp_path / "flat", inner_storage_kwargs={"compressed": False}).close()
    assert not json.loads((tmp_path / "flat/inner_storage/npz_metadata.json").read_text())[
        "compressed"
    ]
    with pytest.raises(StorageExistsError):
        FlattenedStorage.create(SPACE, MemoryStorage, cache_path=tmp_path / "flat")
    with pytest.raises(TypeError, match="unheard"):
        FlattenedStorage.create(SPACE, MemoryStorage, unheard=1)


def test_segments_and_writers_pass_through() -> None:
    storage = filled(MemoryStorage)
    writer = storage.open_segment_writer()
    writer.append({"a": [7, 7], "b": (7, [[7, 7]])})
    writer.commit(1)
    assert storage.get(1)["a"].tolist() == [7, 7]
    assert storage.get_segments() is None
    assert storage.pending_segment_length == 0
    storage.shrink_length(1)
    assert len(storage) == 2
    storage.clear()
    assert len(storage) == 0
    assert storage.capacity is None
