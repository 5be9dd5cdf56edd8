from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unienv_data.errors import CapacityError, SampleError, StorageArgumentError
from unienv_data.storages.memory import MemoryStorage
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space.space_utils import batch_utils as sbu
from unienv_interface.testing import drawn, load_backend, same, various


def arrays(value: Any) -> Any:
    """A sample whose scalars are arrays: a storage gives numpy's own for shape ``()``."""
    if isinstance(value, dict):
        return {key: arrays(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(arrays, value))
    return np.asarray(value) if isinstance(value, np.generic) else value


KINDS = [name for name in various(B) if name not in ("dynamic", "graph", "nodes")]


@pytest.mark.parametrize("backend", ["numpy", "pytorch", "jax"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("capacity", [None, 20])
def test_every_kind_of_space(backend: str, kind: str, capacity: int | None) -> None:
    space = various(load_backend(backend))[kind]
    storage = MemoryStorage.create(space, capacity=capacity)
    samples = drawn(space, count=20)
    if capacity is None:
        storage.extend_length(20)
    storage.set(slice(0, 10), sbu.concatenate(space, samples[:10]))
    for row in range(10, 20):
        storage.set(row, samples[row])
    assert all(same(arrays(storage.get(row)), samples[row]) for row in range(20))
    assert same(storage.get([13, -20]), sbu.concatenate(space, [samples[13], samples[0]]))


def test_growing_keeps_rows() -> None:
    space = various(B)["mixed"]
    storage = MemoryStorage.create(space)
    samples = drawn(space, count=100)
    storage.mark_segment_start(0)
    for row, sample in enumerate(samples):
        storage.extend_length(1)
        storage.append(sample)
        assert len(storage) == row + 1
    assert all(same(arrays(storage.get(row)), samples[row]) for row in range(100))


def test_what_does_not_fit_changes_nothing() -> None:
    space = various(B)["dict"]
    storage = MemoryStorage.create(space, capacity=2)
    good = sbu.concatenate(space, drawn(space, count=2))
    storage.set(..., good)
    for bad in (
        {"b": good["b"]},
        {**good, "b": good["b"][:1]},
        {**good, "b": np.full((2, 2), 1e300)},
        {**good, "a": {**good["a"], "y": np.array([2**40, 0])}},
    ):
        with pytest.raises(SampleError):
            storage.set(..., bad)
    assert same(storage.get(...), good)


def test_arguments() -> None:
    space: Any = various(B)["box"]
    for capacity in (0, -1):
        with pytest.raises(AssertionError):
            MemoryStorage.create(space, capacity=capacity)
    with pytest.raises(TypeError):
        MemoryStorage.create(space, capacty=3)
    storage = MemoryStorage.create(space, capacity=3, compressed=True)
    for change in (storage.extend_length, storage.shrink_length):
        with pytest.raises(CapacityError):
            change(1)
    growing = MemoryStorage.create(space)
    for length in (0, -1):
        with pytest.raises(StorageArgumentError):
            growing.extend_length(length)
    with pytest.raises(StorageArgumentError):
        growing.shrink_length(1)
    for refused in (
        lambda: storage.dumps("anywhere"),
        lambda: MemoryStorage.load_from("anywhere", space),
    ):
        with pytest.raises(StorageArgumentError):
            refused()
    assert storage.cache_filename is None
    assert not storage.is_multiprocessing_safe
