from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from typing_extensions import Self, override

from unienv_data.batches import SliceStackedBatch, ToBackendOrDeviceBatch, TransformedBatch
from unienv_data.errors import ReadOnlyError
from unienv_data.testing.batches import ArrayBatch, numbered
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BoxSpace, DictSpace, TextSpace
from unienv_interface.transformations import DataTransformation, IdentityTransformation


class Doubled(DataTransformation):
    """The entry x of a sample, times two, as float64."""

    has_inverse = True

    def __init__(self) -> None:
        self.is_closed = False

    @override
    def get_target_space_from_source(self, source_space: Any) -> Any:
        return BoxSpace(B, -2e6, 2e6, np.float64, shape=source_space["x"].shape)

    @override
    def transform(self, source_space: Any, data: Any) -> Any:
        assert source_space["x"].shape[-1:] == data["x"].shape[-1:]
        assert len(source_space["x"].shape) == data["x"].ndim
        return data["x"].astype(np.float64) * 2

    @override
    def direction_inverse(self, source_space: Any = None) -> Any:
        return Halved()

    @override
    def serialize(self, source_space: Any = None) -> dict[str, Any]:
        return {}

    @classmethod
    @override
    def deserialize_from(cls, json_data: Mapping[str, Any], source_space: Any = None) -> Self:
        return cls()

    @override
    def close(self) -> None:
        self.is_closed = True


class Halved(Doubled):
    @override
    def get_target_space_from_source(self, source_space: Any) -> Any:
        raise NotImplementedError

    @override
    def transform(self, source_space: Any, data: Any) -> Any:
        assert len(source_space.shape) == data.ndim
        return {"x": (data / 2).astype(np.float32), "end": np.zeros(data.shape[:-1], dtype=bool)}


class OneWay(Doubled):
    has_inverse = False


class IdOnly(Doubled):
    @override
    def get_target_space_from_source(self, source_space: Any) -> Any:
        return DictSpace(B, {"number": source_space["id"]})

    @override
    def transform(self, source_space: Any, data: Any) -> Any:
        return {"number": data["id"]}


def test_samples_and_batches_are_transformed() -> None:
    batch = TransformedBatch(numbered(0, 5), Doubled())
    assert len(batch) == 5
    assert batch.single_space == BoxSpace(B, -2e6, 2e6, np.float64, shape=(2,))
    assert batch.get_at(3).tolist() == [6, -6]
    assert batch.get_at([3, -1]).tolist() == [[6, -6], [8, -8]]
    assert batch.get_at(...).shape == (5, 2)
    assert batch.get_flattened_at(slice(0, 2)).tolist() == [[0, 0], [2, -2]]
    data, metadata = batch.get_at_with_metadata([1])
    assert data.tolist() == [[2, -2]]
    assert metadata is not None
    assert metadata["id"].tolist() == [1]


def test_metadata_are_transformed() -> None:
    batch: Any = TransformedBatch(numbered(0, 5), Doubled(), IdOnly())
    assert list(batch.single_metadata_space.spaces) == ["number"]
    assert batch.get_at_with_metadata([1, 4])[1]["number"].tolist() == [1, 4]
    bare: Any = TransformedBatch(numbered(0, 5, has_metadata=False), Doubled(), IdOnly())
    assert bare.single_metadata_space is None
    assert bare.get_at_with_metadata(0)[1] is None


def test_writing_passes_through_the_inverse() -> None:
    source = numbered(0, 5)
    batch = TransformedBatch(source, Doubled())
    assert batch.is_mutable
    batch.set_at(1, np.array([8.0, -8.0]))
    batch.set_at([2, 3], np.array([[10.0, -10.0], [12.0, -12.0]]))
    batch.set_flattened_at(4, np.array([14.0, -14.0]))
    batch.extend(np.array([[16.0, -16.0]]))
    batch.append(np.array([18.0, -18.0]))
    batch.extend_flattened(np.array([[20.0, -20.0]]))
    assert source.data["x"][:, 0].tolist() == [0, 4, 5, 6, 7, 8, 9, 10]
    del batch[0]
    assert len(source) == 7


def test_without_an_inverse_nothing_can_be_written() -> None:
    batch = TransformedBatch(numbered(0, 5), OneWay())
    assert not batch.is_mutable
    writes: list[Callable[[], Any]] = [
        lambda: batch.set_at(1, np.zeros(2)),
        lambda: batch.extend(np.zeros((1, 2))),
        lambda: batch.append(np.zeros(2)),
    ]
    for write in writes:
        with pytest.raises(ReadOnlyError):
            write()
    assert len(batch.batch) == 5


def test_a_read_only_batch_stays_read_only() -> None:
    source = numbered(0, 5)
    source.is_mutable = False
    with pytest.raises(ReadOnlyError):
        TransformedBatch(source, Doubled()).set_at(0, np.zeros(2))


def test_closing_closes_the_transformations_only() -> None:
    source, own, other = numbered(0, 5), Doubled(), IdOnly()
    TransformedBatch(source, own, other).close()
    assert own.is_closed
    assert other.is_closed
    assert "close" not in source.log


def test_the_identity() -> None:
    batch = TransformedBatch(numbered(0, 5), IdentityTransformation())
    assert batch.single_space == numbered(0, 1).single_space
    assert batch.get_at([4])["x"].tolist() == [[4, -4]]


def test_another_device() -> None:
    source = numbered(0, 5)
    batch: Any = ToBackendOrDeviceBatch(source, device="cpu")
    assert batch.device == "cpu"
    assert batch.backend is B
    assert batch.get_at([3])["x"].tolist() == [[3, -3]]
    assert batch.get_at_with_metadata(3)[1]["id"] == 3
    assert batch.get_flattened_at([3]).tolist() == [[0, 3, -3]]
    assert batch.get_flattened_at_with_metadata([3])[1]["id"].tolist() == [3]
    assert batch.get_column("x").get_at(2).tolist() == [2, -2]
    batch.set_at(0, numbered(9, 1).get_at(0))
    batch.append(numbered(10, 1).get_at(0))
    assert source.data["x"][:, 0].tolist() == [9, 1, 2, 3, 4, 10]
    batch.close()
    assert "close" not in source.log


def test_texts_move_unchanged() -> None:
    source = ArrayBatch(TextSpace(B, 5), np.array(["a", "b"], dtype=object))
    batch: Any = ToBackendOrDeviceBatch(source, B)
    assert batch.get_at(...).tolist() == ["a", "b"]
    assert batch.get_at(1) == "b"


def test_flat_windows_keep_their_frames() -> None:
    windows = SliceStackedBatch(numbered(0, 5), np.array([-1, 0]))
    batch: Any = ToBackendOrDeviceBatch(windows, device="cpu")
    assert batch.get_flattened_at([3]).tolist() == [[[0, 2, -2], [0, 3, -3]]]


@pytest.mark.parametrize("name", ["pytorch", "jax"])
def test_another_backend(name: str) -> None:
    from unienv_interface.testing import load_backend

    backend = load_backend(name)
    source = numbered(0, 5)
    batch: Any = ToBackendOrDeviceBatch(source, backend)
    assert batch.backend is backend
    assert batch.single_space.backend is backend
    for index in ([3, 1], backend.asarray([3, 1]), np.array([3, 1])):
        data, metadata = batch.get_at_with_metadata(index)
        assert backend.is_backendarray(data["x"])
        assert backend.to_numpy(data["x"])[:, 0].tolist() == [3, 1]
        assert backend.to_numpy(metadata["id"]).tolist() == [3, 1]
    mask = backend.asarray([True, False, False, False, True])
    assert backend.to_numpy(batch.get_at(mask)["x"])[:, 0].tolist() == [0, 4]
    assert backend.is_backendarray(batch.get_flattened_at([3]))
    batch.set_at([0], {"x": backend.asarray([[7.0, 7.0]]), "end": backend.asarray([True])})
    assert source.data["x"][0].tolist() == [7, 7]
    back: Any = ToBackendOrDeviceBatch(batch, B)
    assert back.get_at([0, 4])["x"][:, 0].tolist() == [7, 4]
    windows: Any = SliceStackedBatch(
        batch,
        backend.asarray([-1, 0]),
        SliceStackedBatch.get_valid_mask_function_with_episode_end_key("end"),
    )
    data, metadata = windows.get_at_with_metadata(backend.asarray([0, 3]))
    assert backend.to_numpy(data["x"])[..., 0].tolist() == [[7, 7], [2, 3]]
    assert backend.is_backendarray(metadata["slice_valid_mask"])
