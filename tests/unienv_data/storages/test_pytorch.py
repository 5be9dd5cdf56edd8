from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.errors import (
    MissingDependencyError,
    MissingStorageError,
    ReadOnlyError,
    SampleError,
    SchemaMismatchError,
    StorageExistsError,
)
from unienv_data.storages.pytorch import PytorchTensorStorage
from unienv_data.testing.strategies import box
from unienv_interface.errors import UnsupportedSpaceError
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"unienv-data\[torch\]"):
        PytorchTensorStorage.create(box("float32", (2,)), capacity=3, is_memmap=False)


class TestWithTorch:
    @pytest.fixture
    def torch(self) -> Any:
        return pytest.importorskip("torch")

    @pytest.fixture
    def space(self, torch: Any) -> Any:
        from unienv_interface.backends.pytorch import PyTorchComputeBackend

        return BoxSpace(PyTorchComputeBackend, -1, 100, torch.float32, shape=(2,))

    @pytest.mark.parametrize("is_memmap", [True, False])
    def test_rows(self, torch: Any, space: Any, is_memmap: bool, tmp_path: Path) -> None:
        path = tmp_path / "rows.memmap"
        storage: Any = PytorchTensorStorage.create(
            space, capacity=5, cache_path=path, is_memmap=is_memmap
        )
        assert len(storage) == storage.capacity == 5
        assert not storage.get(...).any()
        storage.set(slice(0, 3), torch.arange(6.0).reshape(3, 2))
        storage.set(torch.tensor([4, 3]), torch.tensor([[8.0, 8], [6, 6]]))
        storage.set(-5, torch.tensor([9.0, 9.0]))
        expected = [[9, 9], [2, 3], [4, 5], [6, 6], [8, 8]]
        assert storage.get(...).tolist() == expected
        mask = torch.tensor([True, False, False, True, False])
        for index, rows in ((torch.tensor([2, -1]), [2, 4]), (mask, [0, 3]), ([1, 1], [1, 1])):
            assert storage.get(index).tolist() == [expected[row] for row in rows]
        assert storage.get(2).tolist() == expected[2]
        storage.get(slice(0, 2))[...] = 0
        assert storage.get(...).tolist() == expected
        assert storage.get_segments() is None
        storage.dumps(path)
        assert np.fromfile(path, np.float32).reshape(5, 2).tolist() == expected
        again: Any = PytorchTensorStorage.load_from(
            path, space, capacity=5, is_memmap=is_memmap, compressed=True
        )
        assert again.get(...).tolist() == expected
        with pytest.raises(ReadOnlyError):
            again.set(0, torch.zeros(2))
        writer: Any = PytorchTensorStorage.load_from(path, space, capacity=5, read_only=False)
        writer.set(0, torch.zeros(2))
        writer.flush()
        assert np.fromfile(path, np.float32)[:2].tolist() == [0, 0]
        writer.dumps(tmp_path / "copy.memmap")
        assert (tmp_path / "copy.memmap").read_bytes() == path.read_bytes()

    def test_what_does_not_fit(self, torch: Any, space: Any) -> None:
        storage: Any = PytorchTensorStorage.create(space, capacity=3, is_memmap=False)
        for index, value in (
            (0, torch.zeros(1)),
            (0, torch.zeros(1, 2)),
            (slice(0, 2), torch.zeros(2)),
            (slice(0, 2), torch.zeros(3, 2)),
            (0, torch.tensor([1e300, 0], dtype=torch.float64)),
        ):
            with pytest.raises(SampleError):
                storage.set(index, value)
        storage.set(0, torch.tensor([1.5, 2], dtype=torch.float64))
        assert storage.get(0).tolist() == [1.5, 2]
        small = BoxSpace(space.backend, 0, 255, torch.uint8, shape=())
        bytes_: Any = PytorchTensorStorage.create(small, capacity=3, is_memmap=False)
        with pytest.raises(SampleError):
            bytes_.set(0, torch.tensor(300))
        bytes_.set(..., torch.tensor([1, 2, 3]))
        assert bytes_.get(...).tolist() == [1, 2, 3]

    def test_flags(self, torch: Any, space: Any, tmp_path: Path) -> None:
        flags = BinarySpace(space.backend, ())
        storage: Any = PytorchTensorStorage.create(flags, capacity=3, cache_path=tmp_path / "f")
        storage.set([0, 2], torch.tensor([True, True]))
        storage.dumps(tmp_path / "f")
        again: Any = PytorchTensorStorage.load_from(tmp_path / "f", flags, capacity=3)
        assert again.get(...).tolist() == [True, False, True]

    def test_empty_rows(self, torch: Any, space: Any, tmp_path: Path) -> None:
        empty = BoxSpace(space.backend, 0, 1, torch.float32, shape=(0,))
        PytorchTensorStorage.create(empty, capacity=3, cache_path=tmp_path / "f")
        again: Any = PytorchTensorStorage.load_from(tmp_path / "f", empty, capacity=3)
        assert tuple(again.get(...).shape) == (3, 0)

    def test_files_of_another_size(self, torch: Any, space: Any, tmp_path: Path) -> None:
        path = tmp_path / "rows"
        PytorchTensorStorage.create(space, capacity=3, cache_path=path)
        for capacity in (2, 4):
            for read_only in (True, False):
                with pytest.raises(SchemaMismatchError):
                    PytorchTensorStorage.load_from(
                        path, space, capacity=capacity, read_only=read_only
                    )
        assert path.stat().st_size == 24
        with pytest.raises(MissingStorageError):
            PytorchTensorStorage.load_from(tmp_path / "none", space, capacity=3)

    def test_arguments(self, torch: Any, space: Any, tmp_path: Path) -> None:
        with pytest.raises(UnsupportedSpaceError):
            PytorchTensorStorage.create(DictSpace(space.backend, {"a": space}), capacity=1)
        with pytest.raises(UnsupportedSpaceError):
            PytorchTensorStorage.create(box("float32", ()), capacity=1)
        wrong: list[dict[str, Any]] = [{}, {"capacity": 0}, {"capacity": 3}]
        for arguments in wrong:
            with pytest.raises(ValueError, match=r"capacity|cache_path"):
                PytorchTensorStorage.create(space, **arguments)
        with pytest.raises(ValueError, match="capacity"):
            PytorchTensorStorage.load_from(tmp_path / "rows", space)
        with pytest.raises(TypeError, match="memap"):
            PytorchTensorStorage.create(space, capacity=1, is_memap=True)
        PytorchTensorStorage.create(space, capacity=3, cache_path=tmp_path / "rows")
        with pytest.raises(StorageExistsError):
            PytorchTensorStorage.create(
                space, capacity=3, cache_path=tmp_path / "rows", memmap_existok=False
            )
        shared: Any = PytorchTensorStorage.create(
            space, capacity=3, is_memmap=False, multiprocessing=True
        )
        assert shared.is_multiprocessing_safe
