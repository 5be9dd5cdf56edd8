"""What is true of every storage, as a test class to subclass.

    class TestMine(StorageConformance):
        def make(self, space, capacity, path): return MyStorage.create(space, ...)
        def reopen(self, space, capacity, path, read_only): return MyStorage.load_from(...)

A subclass says what it cannot do; those tests are skipped with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from unienv_data.base.capabilities import supports_columns
from unienv_data.errors import StorageError
from unienv_data.testing.oracle import assert_batches_equal, take
from unienv_data.testing.strategies import batch_of, box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, DictSpace, TextSpace, TupleSpace

__all__ = ["FLAT", "SPACES", "StorageConformance"]

COUNT = 9

SPACES: dict[str, Any] = {
    "scalar": box("float64", ()),
    "one": box("int16", (1,)),
    "vector": box("float32", (3,)),
    "image": box("uint8", (2, 2, 3)),
    "half": box("float16", (2,)),
    "wide": box("uint64", (1, 2)),
    "empty": box("float32", (3, 0)),
    "flags": BinarySpace(B, (2,)),
    "flag": BinarySpace(B, ()),
    "text": TextSpace(B, 12),
    "dict": DictSpace(
        B, {"a": box("float32", (2,)), "b": BinarySpace(B, ()), "t": TextSpace(B, 12)}
    ),
    "tree": DictSpace(
        B,
        {
            "d": DictSpace(B, {"a": box("float32", (2,)), "b": BinarySpace(B, ())}),
            "t": TupleSpace(B, [box("uint8", (2, 2)), box("int16", ())]),
        },
    ),
}

FLAT = tuple(name for name in SPACES if name != "tree")
"""Spaces that are one column, or a dict of columns."""

INDEXES: tuple[Any, ...] = (
    slice(2, 7),
    slice(None),
    slice(7, 2),
    slice(None, None, 2),
    slice(None, None, -1),
    slice(-3, None),
    ...,
    [1, 5, 1, -1],
    (0, 8),
    range(2, 8, 3),
    [],
    np.array([3, 3, 0]),
    np.array([7, 2], dtype=np.uint64),
    np.arange(COUNT) % 3 == 0,
    [True, False, True] * 3,
)


class StorageConformance:
    """The contract of `SpaceStorage`, run against one storage."""

    storable: ClassVar[tuple[str, ...]] = FLAT
    """Keys of `SPACES` that the storage takes."""
    can_grow: ClassVar[bool] = True
    can_be_bounded: ClassVar[bool] = True
    can_reopen: ClassVar[bool] = True
    can_pickle: ClassVar[bool] = False
    keeps_every_bit: ClassVar[bool] = True
    """False where flattening promotes dtypes: values are compared, not bits."""

    # -- what a subclass says ----------------------------------------------------------------

    def make(self, space: Any, capacity: int | None, path: Path) -> Any:
        """A new storage at a path that does not exist."""
        raise NotImplementedError

    def reopen(self, space: Any, capacity: int | None, path: Path, *, read_only: bool) -> Any:
        """The storage that `make` made there, which was closed."""
        raise NotImplementedError

    # -- fixtures ----------------------------------------------------------------------------

    @pytest.fixture(params=sorted(SPACES))
    def space(self, request: pytest.FixtureRequest) -> Any:
        """Each space in turn."""
        if request.param not in self.storable:
            pytest.skip(f"{type(self).__name__} does not store the space {request.param!r}")
        return SPACES[request.param]

    @pytest.fixture(params=["growing", "bounded"])
    def capacity(self, request: pytest.FixtureRequest) -> int | None:
        """Growing and bounded."""
        if request.param == "growing":
            if not self.can_grow:
                pytest.skip(f"{type(self).__name__} does not grow")
            return None
        if not self.can_be_bounded:
            pytest.skip(f"{type(self).__name__} has no capacity")
        return COUNT

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Where the storage goes."""
        return tmp_path / "storage"

    @pytest.fixture
    def filled(self, path: Path) -> Iterator[tuple[Any, Any]]:
        """A storage of the first storable space with `COUNT` rows, and its rows."""
        capacity = None if self.can_grow else COUNT
        storage, values = self._fill(SPACES[self._some()], capacity, path)
        yield storage, values
        storage.close()

    def _some(self) -> str:
        return "vector" if "vector" in self.storable else self.storable[0]

    def _fill(self, space: Any, capacity: int | None, path: Path) -> tuple[Any, Any]:
        storage = self.make(space, capacity, path)
        values = self._batch(space, COUNT, 1)
        if capacity is None:
            storage.extend_length(COUNT)
        storage.set(slice(0, COUNT), values)
        return storage, values

    def _batch(self, space: Any, count: int, seed: int) -> Any:
        values = batch_of(space, count, np.random.default_rng(seed))
        return values if self.keeps_every_bit else _tame(values)

    def _equal(self, found: Any, expected: Any) -> None:
        if self.keeps_every_bit:
            assert_batches_equal(found, expected)
        else:
            _assert_values_equal(found, expected)

    # -- tests -------------------------------------------------------------------------------

    def test_round_trip(self, space: Any, capacity: int | None, path: Path) -> None:
        """What is read is what was written, before and after reopening."""
        storage, values = self._fill(space, capacity, path)
        assert len(storage) == COUNT
        assert storage.capacity == capacity
        self._equal(storage.get(...), values)
        self._equal(storage.get([COUNT - 1, 0]), take(values, [COUNT - 1, 0]))
        if not self.can_reopen:
            storage.close()
            return
        storage.dumps(storage.cache_filename)
        storage.close()
        again = self.reopen(space, capacity, path, read_only=True)
        assert not again.is_mutable
        self._equal(again.get(...), values)
        again.close()

    @pytest.mark.parametrize("index", INDEXES, ids=repr)
    def test_every_index_kind(self, filled: tuple[Any, Any], index: Any) -> None:
        """As numpy, for reading and for writing."""
        storage, values = filled
        as_numpy = np.arange(COUNT)[_numpy_index(index)]
        self._equal(storage.get(index), take(values, as_numpy))
        new = self._batch(storage.single_instance_space, len(as_numpy), 2)
        storage.set(index, new)
        expected = np.array(values)
        expected[as_numpy] = new
        self._equal(storage.get(...), expected)

    @pytest.mark.parametrize("index", [0, -1, np.int32(3), np.uint8(4)], ids=repr)
    def test_single_rows(self, filled: tuple[Any, Any], index: Any) -> None:
        """An int gives and takes one sample."""
        storage, values = filled
        self._equal(np.asarray(storage.get(index)), values[int(index)])
        new = self._batch(storage.single_instance_space, 1, 3)[0]
        storage.set(index, new)
        self._equal(np.asarray(storage.get(int(index))), new)

    @pytest.mark.parametrize("index", [COUNT, -COUNT - 1, [0, COUNT], np.ones(COUNT + 1, bool)])
    def test_rows_outside(self, filled: tuple[Any, Any], index: Any) -> None:
        """An `IndexError`, and nothing changes."""
        storage, values = filled
        with pytest.raises(IndexError):
            storage.get(index)
        with pytest.raises(IndexError):
            storage.set(index, values)
        self._equal(storage.get(...), values)

    @pytest.mark.parametrize("index", [1.0, "1", None, np.array([0.5]), [[0, 1]], True])
    def test_what_names_no_rows(self, filled: tuple[Any, Any], index: Any) -> None:
        """A `TypeError`."""
        storage, _ = filled
        with pytest.raises(TypeError):
            storage.get(index)

    def test_what_does_not_fit_is_refused(self, filled: tuple[Any, Any]) -> None:
        """Wrong counts, shapes and dtypes change nothing."""
        storage, values = filled
        for index, value in (
            (slice(0, 2), values[:3]),
            ([0, 1, 2], values[:2]),
            ([], values[:1]),
            (slice(0, 2), values[0]),
            (slice(0, 1), np.zeros((1, *values.shape[1:], 2), values.dtype)),
            (slice(0, 1), np.zeros((1, 1, *values.shape[1:]), values.dtype)),
            (0, np.zeros((1, *values.shape[1:]), values.dtype)),
            (0, np.zeros(values.shape[1:], np.complex64)),
            (0, np.full(values.shape[1:], "1")),
            (0, None),
            (0, {"value": values[0]}),
        ):
            with pytest.raises((StorageError, ValueError, TypeError)):
                storage.set(index, value)
            self._equal(storage.get(...), values)

    def test_keys(self, path: Path) -> None:
        """One that is missing is refused, and nothing changes; surplus ones are left out."""
        if "dict" not in self.storable:
            pytest.skip(f"{type(self).__name__} stores no dicts")
        capacity = None if self.can_grow else COUNT
        storage, values = self._fill(SPACES["dict"], capacity, path)
        new = self._batch(SPACES["dict"], COUNT, 7)
        for wrong in (
            {key: value for key, value in new.items() if key != "b"},
            {**new, "b": new["b"][:-1]},
        ):
            with pytest.raises((StorageError, ValueError)):
                storage.set(..., wrong)
            self._equal(storage.get(...), values)
        storage.set(..., {**new, "more": new["a"]})
        self._equal(storage.get(...), new)
        storage.close()

    @pytest.mark.parametrize(
        ("dtype", "value"),
        [
            ("uint8", 300),
            ("uint8", -1),
            ("uint8", 1.5),
            ("int16", float("nan")),
            ("float32", 1e300),
            ("float16", 1e6),
        ],
    )
    def test_a_value_that_would_change_is_refused(
        self, path: Path, dtype: str, value: float
    ) -> None:
        """Numbers are never wrapped, cut or made infinite."""
        capacity = None if self.can_grow else COUNT
        storage, values = self._fill(box(dtype, (2,)), capacity, path)
        for index, shape in ((0, (2,)), ([1, 2], (2, 2))):
            with pytest.raises((StorageError, ValueError)):
                storage.set(index, np.full(shape, value))
        self._equal(storage.get(...), values)
        storage.close()

    def test_what_was_given_is_not_kept(self, filled: tuple[Any, Any]) -> None:
        """The caller may reuse its arrays."""
        storage, _ = filled
        new = self._batch(storage.single_instance_space, COUNT, 8)
        given = np.array(new)
        storage.set(..., given)
        given[...] = 0
        self._equal(storage.get(...), new)

    def test_results_are_copies(self, filled: tuple[Any, Any]) -> None:
        """Writing into a result does not reach the storage."""
        storage, values = filled
        for index in (slice(0, COUNT), [0, 1]):
            storage.get(index)[...] = 0
        self._equal(storage.get(...), values)

    def test_segments(self, filled: tuple[Any, Any]) -> None:
        """Opened once, appended to, ended."""
        storage, _ = filled
        with pytest.raises(RuntimeError):
            storage.append(self._batch(storage.single_instance_space, 1, 4)[0])
        storage.mark_segment_end()
        storage.abort_segment()
        storage.mark_segment_start(2)
        assert storage.has_open_segment
        with pytest.raises(AssertionError):
            storage.mark_segment_start(2)
        new = self._batch(storage.single_instance_space, 3, 5)
        for sample in new:
            storage.append(sample)
        storage.mark_segment_end()
        assert not storage.has_open_segment
        self._equal(storage.get(slice(2, 5)), new)

    def test_a_segment_goes_on_after_a_sample_that_was_refused(
        self, filled: tuple[Any, Any]
    ) -> None:
        """The refused sample leaves no row behind."""
        storage, _ = filled
        new = self._batch(storage.single_instance_space, 2, 9)
        storage.mark_segment_start(3)
        storage.append(new[0])
        with pytest.raises((StorageError, ValueError)):
            storage.append(np.zeros((7, *new.shape[1:]), new.dtype))
        assert storage.has_open_segment
        storage.append(new[1])
        storage.mark_segment_end()
        self._equal(storage.get(slice(3, 5)), new)

    def test_segment_writers(self, filled: tuple[Any, Any]) -> None:
        """Several at once, each storing its own rows."""
        storage, values = filled
        first, second = storage.open_segment_writer(), storage.open_segment_writer()
        new = self._batch(storage.single_instance_space, 4, 6)
        for position in range(2):
            first.append(new[position])
            second.append(new[position + 2])
        assert (len(first), second.length, first.is_finished) == (2, 2, False)
        self._equal(storage.get(...), values)
        second.commit(5)
        first.finish()
        first.commit(0)
        with pytest.raises(RuntimeError):
            first.append(new[0])
        self._equal(storage.get([0, 1, 5, 6]), new)
        third = storage.open_segment_writer()
        third.append(new[0])
        third.abort()
        self._equal(storage.get([0, 1, 5, 6]), new)

    def test_growing_and_shrinking(self, path: Path) -> None:
        """New rows are zeros; dropped rows do not come back."""
        if not self.can_grow:
            pytest.skip(f"{type(self).__name__} does not grow")
        space = SPACES[self._some()]
        storage, values = self._fill(space, None, path)
        storage.shrink_length(4)
        storage.extend_length(6)
        assert len(storage) == COUNT + 2
        self._equal(storage.get(slice(0, COUNT - 4)), values[: COUNT - 4])
        assert not np.asarray(storage.get(slice(COUNT - 4, None))).any()
        storage.clear()
        assert len(storage) == 0
        assert len(storage.get(...)) == 0
        storage.close()

    def test_bounded(self, path: Path) -> None:
        """The length is the capacity, and rows are zeros at first."""
        if not self.can_be_bounded:
            pytest.skip(f"{type(self).__name__} has no capacity")
        storage = self.make(SPACES[self._some()], COUNT, path)
        assert len(storage) == COUNT
        assert not np.asarray(storage.get(...)).any()
        storage.close()

    def test_read_only(self, path: Path) -> None:
        """Changes are refused."""
        if not self.can_reopen:
            pytest.skip(f"{type(self).__name__} has no file")
        capacity = None if self.can_grow else COUNT
        space = SPACES[self._some()]
        storage, values = self._fill(space, capacity, path)
        storage.dumps(storage.cache_filename)
        storage.close()
        reader = self.reopen(space, capacity, path, read_only=True)
        with pytest.raises((StorageError, AssertionError)):
            reader.set(0, values[0])
        if capacity is None:
            for change in (reader.extend_length, reader.shrink_length):
                with pytest.raises((StorageError, AssertionError)):
                    change(1)
        assert len(reader) == COUNT
        self._equal(reader.get(...), values)
        reader.close()

    def test_writing_goes_on_after_reopening(self, capacity: int | None, path: Path) -> None:
        """What a second writer changes is there for a third."""
        if not self.can_reopen:
            pytest.skip(f"{type(self).__name__} has no file")
        space = SPACES[self._some()]
        storage, values = self._fill(space, capacity, path)
        storage.dumps(storage.cache_filename)
        storage.close()
        writer = self.reopen(space, capacity, path, read_only=False)
        assert writer.is_mutable
        new = self._batch(space, 2, 10)
        writer.set([3, 0], new)
        if capacity is None:
            writer.extend_length(1)
            writer.set(COUNT, new[0])
        writer.dumps(writer.cache_filename)
        writer.close()
        expected = np.array(values)
        expected[[3, 0]] = new
        if capacity is None:
            expected = np.concatenate([expected, new[:1]])
        reader = self.reopen(space, capacity, path, read_only=True)
        self._equal(reader.get(...), expected)
        reader.close()

    def test_pickling(self, filled: tuple[Any, Any]) -> None:
        """A copy reads the same rows."""
        import pickle

        if not self.can_pickle:
            pytest.skip(f"{type(self).__name__} is not pickled")
        storage, values = filled
        copy = pickle.loads(pickle.dumps(storage))
        self._equal(copy.get(...), values)
        copy.close()

    def test_columns(self, path: Path) -> None:
        """A view of one key, where the storage gives one."""
        if "dict" not in self.storable:
            pytest.skip(f"{type(self).__name__} stores no dicts")
        capacity = None if self.can_grow else COUNT
        storage, values = self._fill(SPACES["dict"], capacity, path)
        if supports_columns(storage):
            self._equal(storage.get_column("a").get([3, 1]), values["a"][[3, 1]])
        storage.close()

    def test_the_context_manager_closes_and_close_repeats(self, path: Path) -> None:
        """Closing twice is fine."""
        with self.make(SPACES[self._some()], COUNT if self.can_be_bounded else None, path) as s:
            assert s.single_instance_space == SPACES[self._some()]
        s.close()


def _numpy_index(index: Any) -> Any:
    if isinstance(index, (list, tuple, range)):
        return np.array(list(index), dtype=np.int64 if not len(index) else None)
    return index


def _tame(values: Any) -> Any:
    """Small whole numbers: exact in every dtype that flattening promotes to."""
    if isinstance(values, dict):
        return {key: _tame(value) for key, value in values.items()}
    if isinstance(values, tuple):
        return tuple(map(_tame, values))
    if values.dtype.kind in "biuf" and values.dtype != np.bool_:
        rng = np.random.default_rng(len(values))
        return rng.integers(0, 100, values.shape).astype(values.dtype)
    return values


def _assert_values_equal(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert set(found) == set(expected)
        for key, values in expected.items():
            _assert_values_equal(found[key], values)
        return
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        for part, values in zip(found, expected, strict=True):
            _assert_values_equal(part, values)
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)
