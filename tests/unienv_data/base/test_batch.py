from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from unienv_data.base import BatchBase
from unienv_data.base.batch import is_single
from unienv_data.errors import ReadOnlyError
from unienv_data.testing.batches import numbered
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace

SPACE: Any = DictSpace(
    B, {"a": BoxSpace(B, -100, 100, np.float32, shape=(2,)), "b": BoxSpace(B, -9, 9, np.float32)}
)
DATA = {
    "a": np.arange(8, dtype=np.float32).reshape(4, 2),
    "b": np.arange(4, dtype=np.float32),
}
FLAT = np.concatenate([DATA["a"], DATA["b"][:, None]], axis=1)
NUMBERS = {"number": np.arange(4)}


class Rows(BatchBase[Any, Any, Any, Any, Any]):
    def __init__(self) -> None:
        metadata = DictSpace(B, {"number": BoxSpace(B, 0, 9, np.int64, shape=())})
        super().__init__(SPACE, metadata)
        self.written: list[Any] = []

    @override
    def __len__(self) -> int:
        return 4


class Plain(Rows):
    has_metadata = False

    @override
    def get_at(self, idx: Any) -> Any:
        return {key: value[idx] for key, value in DATA.items()}

    @override
    def set_at(self, idx: Any, value: Any) -> None:
        self.written.append((idx, value))

    @override
    def extend(self, value: Any) -> None:
        self.written.append(value)


class PlainWithMetadata(Rows):
    has_metadata = True

    @override
    def get_at_with_metadata(self, idx: Any) -> Any:
        return {k: v[idx] for k, v in DATA.items()}, {k: v[idx] for k, v in NUMBERS.items()}


class Flat(Rows):
    has_metadata = False

    @override
    def get_flattened_at(self, idx: Any) -> Any:
        return FLAT[idx]

    @override
    def set_flattened_at(self, idx: Any, value: Any) -> None:
        self.written.append((idx, value))

    @override
    def extend_flattened(self, value: Any) -> None:
        self.written.append(value)


class FlatWithMetadata(Rows):
    has_metadata = True

    @override
    def get_flattened_at_with_metadata(self, idx: Any) -> Any:
        return FLAT[idx], {key: value[idx] for key, value in NUMBERS.items()}


@pytest.mark.parametrize("kind", [Plain, PlainWithMetadata, Flat, FlatWithMetadata])
@pytest.mark.parametrize("index", [2, np.int64(1), slice(1, 3), np.array([3, 0])], ids=repr)
def test_each_way_to_read_gives_the_others(kind: Any, index: Any) -> None:
    batch = kind()
    data, metadata = batch.get_at_with_metadata(index)
    flat, again = batch.get_flattened_at_with_metadata(index)
    for found in (data, batch.get_at(index), batch[index]):
        assert found["a"].tolist() == DATA["a"][index].tolist()
        assert found["b"].tolist() == DATA["b"][index].tolist()
        assert found["a"].dtype == np.float32
    for found in (flat, batch.get_flattened_at(index)):
        assert found.tolist() == FLAT[index].tolist()
    for found in (metadata, again):
        if kind.has_metadata:
            assert found["number"].tolist() == NUMBERS["number"][index].tolist()
        else:
            assert found is None


def test_a_batch_that_overrides_nothing() -> None:
    batch = Rows()
    for read in (
        batch.get_at,
        batch.get_flattened_at,
        batch.get_at_with_metadata,
        batch.get_flattened_at_with_metadata,
    ):
        with pytest.raises(NotImplementedError, match="Rows"):
            read(0)
    for write in (batch.set_at, batch.set_flattened_at):
        with pytest.raises(ReadOnlyError):
            write(0, FLAT[0])
    for add in (batch.extend, batch.extend_flattened, batch.append, batch.append_flattened):
        with pytest.raises(ReadOnlyError):
            add(_some(add.__name__))
    with pytest.raises(NotImplementedError):
        del batch[0]


def _some(name: str) -> Any:
    """What a method of this name takes."""
    single = name.startswith("append")
    if name.endswith("flattened"):
        return FLAT[0] if single else FLAT
    return {key: value[0] if single else value for key, value in DATA.items()}


def test_each_way_to_write_gives_the_others() -> None:
    plain = Plain()
    plain.set_flattened_at(1, FLAT[2])
    plain.set_flattened_at([0, 1], FLAT[:2])
    plain[3] = {"a": 1}
    plain.extend_flattened(FLAT[:2])
    plain.append_flattened(FLAT[3])
    plain.append({key: value[1] for key, value in DATA.items()})
    assert plain.written[0][1]["a"].tolist() == [4, 5]
    assert plain.written[1][1]["b"].tolist() == [0, 1]
    assert plain.written[2] == (3, {"a": 1})
    assert plain.written[3]["a"].tolist() == [[0, 1], [2, 3]]
    assert plain.written[4]["a"].tolist() == [[6, 7]]
    assert plain.written[5]["b"].tolist() == [1]
    flat = Flat()
    flat.set_at(1, {key: value[2] for key, value in DATA.items()})
    flat.set_at([0, 1], {key: value[:2] for key, value in DATA.items()})
    flat.extend(DATA)
    assert flat.written[0][1].tolist() == FLAT[2].tolist()
    assert flat.written[1][1].tolist() == FLAT[:2].tolist()
    assert flat.written[2].tolist() == FLAT.tolist()


@pytest.mark.parametrize("chunk_size", [1, 3, 8, 100])
def test_extending_from_another_batch(chunk_size: int) -> None:
    batch, other = numbered(0, 2), numbered(10, 9)
    batch.extend_from(other, chunk_size=chunk_size)
    assert batch.data["x"][:, 0].tolist() == [0, 1, *range(10, 19)]
    batch.extend_from(batch, chunk_size=chunk_size)
    assert len(batch) == 22


def test_the_spaces_of_batches() -> None:
    batch: Any = Plain()
    assert batch.backend is B
    assert batch.device is None
    assert batch._batched_space["a"].shape == (1, 2)
    assert batch._batched_metadata_space["number"].shape == (1,)


def test_the_context_manager_closes() -> None:
    with numbered(0, 2) as batch:
        pass
    assert batch.log == ["close"]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (1, True),
        (np.int8(1), True),
        (np.array(1), True),
        (np.array([1]), False),
        ([1], False),
        (slice(1), False),
        (..., False),
    ],
)
def test_is_single(index: Any, expected: bool) -> None:
    assert is_single(index) is expected


def test_flags_come_back_as_flags() -> None:
    batch: Any = numbered(0, 3, ends=(1,))
    assert isinstance(batch.single_space["end"], BinarySpace)
    flat = batch.get_flattened_at(...)
    batch.set_flattened_at([0, 1, 2], flat[::-1])
    assert batch.data["end"].tolist() == [False, True, False]
    assert batch.data["x"][:, 0].tolist() == [2, 1, 0]
