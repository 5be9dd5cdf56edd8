from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.errors import (
    CapacityError,
    CorruptPieceError,
    ManifestError,
    MissingStorageError,
    ReadOnlyError,
    SampleError,
    SchemaMismatchError,
    StorageExistsError,
)
from unienv_data.storages.npz_storage import NPZStorage
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.errors import UnsupportedSpaceError
from unienv_interface.space import DictSpace, TextSpace

SPACE: Any = box("int16", (2,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows"


def rows(*numbers: int) -> Any:
    return np.stack([np.array([number, -number], dtype=np.int16) for number in numbers])


def made(path: Path, capacity: int | None = None, **kwargs: Any) -> NPZStorage:
    storage = NPZStorage.create(SPACE, cache_path=path, capacity=capacity, **kwargs)
    if capacity is None:
        storage.extend_length(3)
    storage.set(slice(0, 3), rows(1, 2, 3))
    return storage


@pytest.mark.parametrize("compressed", [True, False])
def test_files(path: Path, compressed: bool) -> None:
    storage = made(path, compressed=compressed)
    assert sorted(os.listdir(path)) == ["0.npz", "1.npz", "2.npz", "npz_metadata.json"]
    assert json.loads((path / "npz_metadata.json").read_text()) == {
        "storage_type": "NPZStorage",
        "compressed": compressed,
        "capacity": None,
        "length": 3,
    }
    with np.load(path / "1.npz") as file:
        assert file["data"].tolist() == [2, -2]
    again = NPZStorage.load_from(path, SPACE)
    assert again.compressed is compressed
    assert again.get(...).tolist() == storage.get(...).tolist()
    assert storage.is_multiprocessing_safe


def test_it_can_be_loaded_at_any_time(path: Path) -> None:
    storage = NPZStorage.create(SPACE, cache_path=path)
    assert len(NPZStorage.load_from(path, SPACE)) == 0
    storage.extend_length(2)
    storage.set(1, rows(5)[0])
    assert NPZStorage.load_from(path, SPACE).get(...).tolist() == [[0, 0], [5, -5]]


def test_a_stale_copy_does_not_undo_what_came_after(path: Path) -> None:
    storage = made(path)
    stale = NPZStorage.load_from(path, SPACE, read_only=False)
    storage.extend_length(1)
    storage.set(3, rows(4)[0])
    storage.flush()
    stale.close()
    del stale
    assert len(NPZStorage.load_from(path, SPACE)) == 4


def test_shrinking_and_clearing_remove_files(path: Path) -> None:
    storage = made(path)
    storage.shrink_length(2)
    assert sorted(os.listdir(path)) == ["0.npz", "npz_metadata.json"]
    storage.clear()
    assert os.listdir(path) == ["npz_metadata.json"]
    bounded = made(path.with_name("bounded"), capacity=4)
    bounded.clear()
    assert not bounded.get(...).any()
    assert len(bounded) == 4


def test_a_row_that_does_not_fit_leaves_all_as_they_were(path: Path) -> None:
    storage = made(path)
    for value in (rows(7, 8)[:, :1], rows(7, 8, 9), np.full((2, 2), 2**20), np.full((2, 2), 0.5)):
        with pytest.raises(SampleError):
            storage.set([0, 1], value)
    assert storage.get(...).tolist() == rows(1, 2, 3).tolist()
    assert not [name for name in os.listdir(path) if name.endswith(".tmp")]


def test_creating_over_something(path: Path) -> None:
    made(path)
    before = {name: (path / name).read_bytes() for name in os.listdir(path)}
    with pytest.raises(StorageExistsError) as caught:
        NPZStorage.create(SPACE, cache_path=path)
    assert isinstance(caught.value, AssertionError)
    assert before == {name: (path / name).read_bytes() for name in os.listdir(path)}


def test_only_its_own_directory_is_dumped_to(path: Path) -> None:
    storage = made(path)
    storage.dumps(path)
    with pytest.raises(AssertionError):
        storage.dumps(path.with_name("other"))


def test_read_only(path: Path) -> None:
    made(path).close()
    reader = NPZStorage.load_from(path, SPACE)
    changes: list[Callable[[], Any]] = [
        lambda: reader.set(0, rows(1)[0]),
        lambda: reader.extend_length(1),
        lambda: reader.shrink_length(1),
        reader.clear,
    ]
    for change in changes:
        with pytest.raises(ReadOnlyError):
            change()
    reader.flush()
    assert len(reader) == 3


def test_damage_is_named(path: Path) -> None:
    storage = made(path)
    content = (path / "1.npz").read_bytes()
    for damaged in (b"", b"rubbish", content[:-40], content[:60] + b"\xff" + content[61:]):
        (path / "1.npz").write_bytes(damaged)
        with pytest.raises(CorruptPieceError, match=r"1\.npz"):
            storage.get(1)
        assert storage.get([0, 2])[:, 0].tolist() == [1, 3]
    np.savez(path / "1.npz", data=np.zeros(5))
    with pytest.raises(CorruptPieceError, match=r"float64 \(5,\)"):
        storage.get(1)
    with (path / "1.npz").open("wb") as file:
        np.save(file, np.zeros(2, np.int16))
    with pytest.raises(CorruptPieceError):
        storage.get(1)
    np.savez(path / "1.npz", other=np.zeros(2, np.int16))
    with pytest.raises(CorruptPieceError):
        storage.get(1)


def test_another_space(path: Path) -> None:
    made(path)
    for space in (box("int32", (2,)), box("int16", (1, 2))):
        with pytest.raises(SchemaMismatchError, match="int16"):
            NPZStorage.load_from(path, space)


def test_what_is_no_storage(path: Path) -> None:
    with pytest.raises(MissingStorageError):
        NPZStorage.load_from(path, SPACE)
    path.mkdir()
    for text in ("{", "[]", '{"storage_type": "ImageStorage"}'):
        (path / "npz_metadata.json").write_text(text)
        with pytest.raises(ManifestError):
            NPZStorage.load_from(path, SPACE)


def test_arguments(path: Path) -> None:
    for space in (TextSpace(B, 3), DictSpace(B, {"a": SPACE})):
        with pytest.raises(UnsupportedSpaceError):
            NPZStorage.create(space, cache_path=path)
    with pytest.raises(ValueError, match="cache_path"):
        NPZStorage.create(SPACE)
    with pytest.raises(ValueError, match="capacity"):
        NPZStorage.create(SPACE, cache_path=path, capacity=0)
    with pytest.raises(TypeError, match="compresed"):
        NPZStorage.create(SPACE, cache_path=path, compresed=True)
    assert not path.exists()
    storage = made(path, capacity=5)
    with pytest.raises(CapacityError):
        storage.extend_length(1)
    with pytest.raises(ValueError, match="capacity"):
        NPZStorage.load_from(path, SPACE, capacity=6)
    assert NPZStorage.load_from(path, SPACE, capacity=5, is_memmap=True).capacity == 5
