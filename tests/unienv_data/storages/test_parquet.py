"""ParquetStorage: what its documentation page promises, and the faults it must not have."""

from __future__ import annotations

import gc
import inspect
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from unienv_data.errors import (
    CapacityError,
    CommitConflictError,
    CorruptPieceError,
    ForkedWriterError,
    MissingPieceError,
    MissingStorageError,
    ReadOnlyError,
    RowIndexError,
    RowIndexTypeError,
    SampleError,
    SchemaMismatchError,
    SegmentStateError,
    StorageArgumentError,
    StorageClosedError,
    StorageExistsError,
    StorageLockedError,
    StorageSpaceError,
)
from unienv_data.format.checked import sealed
from unienv_data.storages import parquet
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.oracle import assert_batches_equal, take
from unienv_data.testing.strategies import NUMBER_DTYPES, SHAPES, batch_of, box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.errors import UnsupportedSpaceError
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, TextSpace, TupleSpace

RNG = np.random.default_rng(0)


def space() -> DictSpace:
    return DictSpace(
        B,
        {
            "obs": box("float32", (4,)),
            "reward": box("float64", ()),
            "count": box("uint8", ()),
            "done": BinarySpace(B, ()),
            "task": TextSpace(B, 8),
        },
    )


def batch(count: int, start: int = 0) -> dict[str, Any]:
    rows = np.arange(start, start + count)
    return {
        "count": (rows % 251).astype(np.uint8),
        "done": rows % 3 == 0,
        "obs": (rows[:, None] * 4 + np.arange(4)).astype(np.float32),
        "reward": rows / 7.0,
        "task": np.array([f"t{row % 5}" for row in rows], dtype=object),
    }


def sample(row: int) -> dict[str, Any]:
    result: dict[str, Any] = take(batch(1, row), 0)
    return result


def grown(path: Path, count: int, **options: Any) -> ParquetStorage:
    storage = ParquetStorage.create(space(), cache_path=path, piece_size=4, **options)
    if count:
        storage.extend_length(count)
        storage.set(slice(0, count), batch(count))
    return storage


def listing(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and "_work" not in file.parts
    }


# -- names and signatures ------------------------------------------------------------------------


def test_public_signatures_are_the_documented_ones() -> None:
    def parameters(function: Any) -> list[str]:
        return [str(p).split(":")[0].split("=")[0].strip() for p in
                inspect.signature(function).parameters.values()]  # fmt: skip

    assert " ".join(parameters(ParquetStorage.__init__)) == (
        "self single_instance_space storage_dir capacity piece_size num_pieces total_len "
        "column_specs column_shapes read_only compression"
    )
    assert " ".join(parameters(ParquetStorage.create)) == (
        "single_instance_space *args capacity cache_path multiprocessing piece_size compression "
        "**kwargs"
    )
    assert " ".join(parameters(ParquetStorage.load_from)) == (
        "path single_instance_space capacity read_only multiprocessing **kwargs"
    )
    defaults = inspect.signature(ParquetStorage.create).parameters
    assert (defaults["piece_size"].default, defaults["compression"].default) == (1024, "snappy")
    assert parquet.__all__ == ["ParquetSpaceType", "ParquetStorage"]
    assert ParquetStorage.single_file_ext is None
    assert ParquetStorage.DEFAULT_KEY == "data"
    assert ParquetStorage[int, int, int, int, int] is not None  # type: ignore[misc]


def test_the_constructor_opens_a_directory_whose_facts_it_is_told(tmp_path: Path) -> None:
    grown(tmp_path / "s", 6).close()
    specs = [
        ("count", np.dtype("uint8"), ()),
        ("done", np.dtype(bool), ()),
        ("obs", np.dtype("float32"), (4,)),
        ("reward", np.dtype("float64"), ()),
        ("task", np.dtype(object), ()),
    ]
    shapes = {name: shape for name, _, shape in specs}
    storage = ParquetStorage(space(), str(tmp_path / "s"), None, 4, 2, 6, specs, shapes, True)
    assert_batches_equal(storage.get(...), batch(6))
    storage.close()
    with pytest.raises(StorageArgumentError, match="total_len is 6, the caller says 7"):
        ParquetStorage(space(), str(tmp_path / "s"), None, 4, 2, 7, specs, shapes, True)
    with pytest.raises(StorageArgumentError, match="piece_size"):
        ParquetStorage(space(), str(tmp_path / "s"), None, 5, 2, 6, specs, shapes, True)


def test_importing_it_is_light() -> None:
    code = (
        "import sys, unienv_data.storages.parquet;"
        "print([m for m in ('torch','jax','av','h5py','datasets','pandas') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout.strip() == b"[]"


# -- values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*NUMBER_DTYPES, "bool"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("capacity", [None, 7])
def test_every_dtype_in_every_shape(
    tmp_path: Path, dtype: str, shape: tuple[int, ...], capacity: int | None
) -> None:
    lone = BinarySpace(B, shape) if dtype == "bool" else box(dtype, shape)
    values = batch_of(lone, 7, RNG)
    with ParquetStorage.create(
        lone, cache_path=tmp_path / "s", piece_size=3, capacity=capacity, durability="process"
    ) as storage:
        if capacity is None:
            storage.extend_length(7)
        storage.set(slice(0, 7), values)
        assert_batches_equal(storage.get(...), values)
    with ParquetStorage.load_from(tmp_path / "s", lone) as reader:
        assert_batches_equal(reader.get(...), values)
        assert_batches_equal(reader.get([6, 0, -2]), values[[6, 0, 5]])
        assert_batches_equal(np.asarray(reader.get(3)), values[3])
        assert_batches_equal(reader.get([]), values[:0])


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("obs", np.zeros((8, 1)), r"'obs' expects float32 \(2, 4\), got float64 \(8, 1\)"),
        ("obs", np.zeros((2, 4, 1), np.float32), "reshape"),
        ("obs", np.zeros(4, np.float32), r"\(2, 4\)"),
        ("obs", np.float32(1), r"\(2, 4\)"),
        ("obs", np.zeros((5, 4), np.float32), "one value a row: 2 rows"),
        ("obs", [[1, 2, 3, 4], [1, 2, 3]], "'obs'"),
        ("obs", None, "NoneType"),
        ("obs", np.full((2, 4), 1e300), "overflows float32"),
        ("obs", np.zeros((2, 4), complex), "no numbers"),
        ("obs", np.zeros((2, 4), object), "no numbers"),
        ("count", np.array([300, 0]), "300 is outside uint8"),
        ("count", np.array([-1, 0]), "-1 is outside uint8"),
        ("count", np.array([np.nan, 0.0]), "nan is no uint8"),
        ("count", np.array([1.9, 0.0]), "1.9 is no uint8"),
        ("count", ["1", "2"], "no numbers"),
        ("count", np.array([1, 2, 3]), "one value a row"),
        ("done", np.array([1, 0]), "no bools"),
        ("done", np.array([0.0, 1.0]), "no bools"),
        ("task", [None, "a"], "expects str, got NoneType"),
        ("task", [b"a", "a"], "expects str, got bytes"),
        ("task", [1, "a"], "expects str, got int"),
        ("task", ["123456789", "a"], "0 to 8 characters, got 9"),
        ("task", ["\ud800", "a"], "lone surrogate"),
        ("task", ["a"], "expects 2 texts"),
        ("task", "ab", "sequence of 2 texts"),
        ("task", np.array([1, 2]), "array of int64"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_changes(
    tmp_path: Path, key: str, value: Any, message: str
) -> None:
    storage = grown(tmp_path / "s", 6)
    storage.flush()
    before = listing(tmp_path / "s")
    bad = batch(2)
    bad[key] = value
    for index in (slice(1, 3), [4, 5], [-1, 0]):
        with pytest.raises(SampleError, match=message):
            storage.set(index, bad)
    storage.extend_length(2)
    with pytest.raises(SampleError, match=message):
        storage.set(slice(6, 8), bad)
    assert_batches_equal(storage.get(slice(0, 6)), batch(6))
    storage.shrink_length(2)
    assert len(storage) == 6
    storage.flush()
    assert listing(tmp_path / "s") == before
    storage.set(slice(1, 3), batch(2, 50))
    assert_batches_equal(storage.get(slice(1, 3)), batch(2, 50))
    storage.close()


def test_single_samples_are_checked_as_well(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 3)
    storage.mark_segment_start(3)
    for key, value in [
        ("obs", np.zeros((1, 4), np.float32)),
        ("obs", 1.0),
        ("reward", np.zeros(1)),
        ("reward", "1"),
        ("count", 256),
        ("count", -1),
        ("count", 1.5),
        ("done", 1),
        ("task", None),
        ("task", "123456789"),
    ]:
        bad = sample(9)
        bad[key] = value
        with pytest.raises(SampleError, match=f"'{key}'"):
            storage.set(1, bad)
        with pytest.raises(SampleError, match=f"'{key}'"):
            storage.append(bad)
    missing = sample(9)
    del missing["done"]
    with pytest.raises(KeyError, match="'done'"):
        storage.append(missing)
    with pytest.raises(SampleError, match="'done'"):
        storage.set(0, missing)
    with pytest.raises(SampleError, match="mapping"):
        storage.append(3)
    storage.append(sample(3))
    storage.mark_segment_end()
    assert_batches_equal(storage.get(...), batch(4))
    storage.close()


def test_values_that_keep_their_meaning_are_accepted(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 2)
    storage.set(
        0, {"obs": [1, 2, 3, 4], "reward": 1, "count": 7, "done": True, "task": "x", "extra": 1}
    )
    storage.set(
        1,
        {
            "obs": np.array([0.1, 0.2, 0.3, 0.4]),
            "reward": np.float32(0.5),
            "count": np.int64(255),
            "done": np.bool_(False),
            "task": np.str_("y"),
        },
    )
    expected = {
        "count": np.array([7, 255], np.uint8),
        "done": np.array([True, False]),
        "obs": np.array([[1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4]], np.float32),
        "reward": np.array([1.0, 0.5]),
        "task": np.array(["x", "y"], object),
    }
    assert_batches_equal(storage.get(...), expected)
    storage.close()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: np.asfortranarray(a),
        lambda a: a[::-1][::-1],
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a.astype(">f4"),
        lambda a: np.lib.stride_tricks.as_strided(a, a.shape, a.strides, writeable=False),
    ],
)
def test_awkward_memory_layouts(tmp_path: Path, view: Any) -> None:
    values = RNG.normal(size=(9, 3)).astype(np.float32)
    with ParquetStorage.create(box("float32", (3,)), cache_path=tmp_path / "s") as storage:
        storage.extend_length(9)
        storage.set(slice(0, 9), view(values))
        storage.set(4, view(values)[4])
        assert_batches_equal(storage.get(...), values)


def test_results_are_fresh_and_writable(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 6)
    chosen: list[Any] = [..., slice(0, 3), [0, 1], 2]
    for index in chosen:
        first = storage.get(index)
        first["obs"][...] = -1
        if index != 2:
            first["task"][0] = "no"
        assert_batches_equal(storage.get(index), take(batch(6), index if index != 2 else 2))
    kept = RNG.normal(size=4).astype(np.float32)
    value = sample(0) | {"obs": kept}
    storage.set(0, value)
    kept[:] = 0
    assert storage.get(0)["obs"].any()
    storage.close()


def test_types_of_results(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 2)
    one = storage.get(1)
    assert type(one["reward"]) is np.float64
    assert type(one["done"]) is np.bool_
    assert type(one["task"]) is str
    assert type(one["obs"]) is np.ndarray
    many = storage.get([1])
    assert many["task"].dtype == object
    assert type(many["task"][0]) is str
    storage.close()


# -- indexes ---------------------------------------------------------------------------------


def indexes() -> list[Any]:
    return [
        slice(2, 9),
        slice(None),
        slice(8, 2),
        slice(None, None, 3),
        slice(None, None, -1),
        slice(-3, None),
        slice(-100, 100),
        ...,
        [1, 5, 1, -1],
        (0, 9),
        range(2, 8, 2),
        range(3, 7),
        [],
        np.array([], dtype=np.int64),
        np.array([], dtype=np.float64),
        np.array([3, 3, 0]),
        np.array([7, 2], dtype=np.uint64),
        np.array([-1, -10], dtype=np.int8),
        np.arange(10) % 3 == 0,
        [True, False] * 5,
        np.zeros(10, bool),
    ]


@pytest.mark.parametrize("index", indexes(), ids=repr)
@pytest.mark.parametrize("read_only", [False, True])
def test_get_and_set_agree_with_numpy(tmp_path: Path, index: Any, read_only: bool) -> None:
    storage = grown(tmp_path / "s", 10)
    as_numpy = list(index) if isinstance(index, (range, tuple)) else index
    if isinstance(as_numpy, (list, np.ndarray)) and len(as_numpy) == 0:
        as_numpy = np.array([], np.int64)
    expected = take(batch(10), as_numpy)
    if read_only:
        storage.close()
        storage = ParquetStorage.load_from(tmp_path / "s", space())
        assert_batches_equal(storage.get(index), expected)
        storage.close()
        return
    count = len(expected["done"])
    storage.set(index, batch(count, 100))
    whole = batch(10)
    for key, values in batch(count, 100).items():
        whole[key][as_numpy] = values
    assert_batches_equal(storage.get(...), whole)
    assert_batches_equal(storage.get(index), take(whole, as_numpy))
    storage.close()


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (10, RowIndexError),
        (-11, RowIndexError),
        ([0, 10], RowIndexError),
        (np.array([-11]), RowIndexError),
        (np.array([2**63], dtype=np.uint64), RowIndexError),
        (2**70, RowIndexError),
        ([2**70], RowIndexError),
        (np.ones(9, bool), RowIndexError),
        ([True] * 11, RowIndexError),
        (np.array([0.0, 1.0]), RowIndexTypeError),
        (1.0, RowIndexTypeError),
        ("1", RowIndexTypeError),
        (None, RowIndexTypeError),
        (True, RowIndexTypeError),
        (np.True_, RowIndexTypeError),
        ([[0, 1]], RowIndexTypeError),
        (np.zeros((2, 2), int), RowIndexTypeError),
        (np.array([0, 1], object), RowIndexTypeError),
        ([0, True], RowIndexTypeError),
        ([0, 1.0], RowIndexTypeError),
        (slice("a", None), RowIndexTypeError),
        ({0: 1}, RowIndexTypeError),
    ],
    ids=repr,
)
def test_wrong_indexes(tmp_path: Path, index: Any, error: type[Exception]) -> None:
    storage = grown(tmp_path / "s", 10)
    with pytest.raises(error):
        storage.get(index)
    with pytest.raises(error):
        storage.set(index, batch(1))
    assert_batches_equal(storage.get(...), batch(10))
    storage.close()


def test_the_last_value_of_a_repeated_row_wins(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 4)
    storage.set([2, 2, 2], batch(3, 20))
    assert_batches_equal(storage.get([2]), batch(1, 22))
    storage.close()


def test_an_empty_storage(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 0)
    empty: list[Any] = [..., [], slice(0, 5), np.zeros(0, bool)]
    for index in empty:
        assert_batches_equal(storage.get(index), batch(0))
    with pytest.raises(RowIndexError):
        storage.get(0)
    storage.close()


# -- the directory ---------------------------------------------------------------------------


def test_create_leaves_a_loadable_directory_at_once(tmp_path: Path) -> None:
    writer = grown(tmp_path / "s", 0)
    with ParquetStorage.load_from(tmp_path / "s", space()) as reader:
        assert len(reader) == 0
    assert json.loads((tmp_path / "s" / "_metadata.json").read_bytes())["num_rows"] == 0
    writer.close()


def test_create_never_touches_what_is_there(tmp_path: Path) -> None:
    grown(tmp_path / "s", 5).close()
    before = listing(tmp_path / "s")
    with pytest.raises(FileExistsError, match="load_from"):
        grown(tmp_path / "s", 0)
    assert listing(tmp_path / "s") == before
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageExistsError):
        grown(tmp_path / "file", 0)
    (tmp_path / "empty").mkdir()
    grown(tmp_path / "empty", 1).close()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"piece_size": 0}, StorageArgumentError),
        ({"piece_size": 1.5}, StorageArgumentError),
        ({"piece_size": True}, StorageArgumentError),
        ({"capacity": 0}, StorageArgumentError),
        ({"capacity": -3}, StorageArgumentError),
        ({"compression": "best"}, StorageArgumentError),
        ({"compression": {"nope": "gzip"}}, StorageArgumentError),
        ({"compression": {"obs": 3}}, StorageArgumentError),
        ({"durability": "none"}, StorageArgumentError),
        ({"cache_bytes": -1}, StorageArgumentError),
        ({"cache_path": None}, StorageArgumentError),
        ({"piecesize": 3}, TypeError),
    ],
)
def test_wrong_arguments_make_nothing(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        ParquetStorage.create(space(), **({"cache_path": tmp_path / "s"} | arguments))
    assert not (tmp_path / "s").exists()


def test_spaces_that_cannot_be_stored(tmp_path: Path) -> None:
    nested = DictSpace(B, {"a": DictSpace(B, {"b": box("float32", ())})})
    for wrong in (nested, TupleSpace(B, [box("float32", ())])):
        with pytest.raises(UnsupportedSpaceError):
            ParquetStorage.create(wrong, cache_path=tmp_path / "s")  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        ParquetStorage.create(nested, cache_path=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_keywords_of_other_storages_pass_and_misspelt_ones_do_not(tmp_path: Path) -> None:
    grown(tmp_path / "s", 1).close()
    ParquetStorage.load_from(tmp_path / "s", space(), compressed=False, is_memmap=True).close()
    with pytest.raises(TypeError, match="readonly"):
        ParquetStorage.load_from(tmp_path / "s", space(), readonly=False)


def test_opening_with_another_space_or_capacity(tmp_path: Path) -> None:
    grown(tmp_path / "s", 5).close()
    path = tmp_path / "s"

    def other(**changes: Any) -> DictSpace:
        children = dict(space().spaces)
        for key, child in changes.items():
            if child is None:
                del children[key]
            else:
                children[key] = child
        return DictSpace(B, children)

    with pytest.raises(SchemaMismatchError, match=r"'obs' holds float32 \(4,\).*float64 \(4,\)"):
        ParquetStorage.load_from(path, other(obs=box("float64", (4,))))
    with pytest.raises(SchemaMismatchError, match=r"'obs' holds float32 \(4,\).*float32 \(2, 2\)"):
        ParquetStorage.load_from(path, other(obs=box("float32", (2, 2))))
    with pytest.raises(SchemaMismatchError, match="no column 'more'"):
        ParquetStorage.load_from(path, other(more=box("float64", (4,))))
    with pytest.raises(SchemaMismatchError, match="lacks the column 'obs'"):
        ParquetStorage.load_from(path, other(obs=None), read_only=False)
    with pytest.raises(SchemaMismatchError, match="one bare space"):
        ParquetStorage.load_from(path, box("float32", (4,)))
    with pytest.raises(CapacityError):
        ParquetStorage.load_from(path, space(), capacity=5)
    with ParquetStorage.load_from(path, other(obs=None, task=None)) as subset:
        rest = batch(5)
        del rest["obs"], rest["task"]
        assert_batches_equal(subset.get(...), rest)
    ParquetStorage.load_from(path, space(), read_only=False).close()  # no lock was left behind


@pytest.mark.parametrize(
    "name",
    ["data", "a.b", "a/b", 'quo"te', "list", "element", "naïve 漢", "列.list.element", "x y"],
)
def test_column_names(tmp_path: Path, name: str) -> None:
    children = {name: box("int16", (2,)), "other": TextSpace(B, 4)}
    for count in (1, 2):
        named = DictSpace(B, dict(list(children.items())[:count]))
        values = batch_of(named, 5, RNG)
        path = tmp_path / str(count)
        with ParquetStorage.create(named, cache_path=path, compression={name: "gzip"}) as storage:
            storage.extend_length(5)
            storage.set(..., values)
        with ParquetStorage.load_from(path, named) as reader:
            assert_batches_equal(reader.get(...), values)
            assert_batches_equal(reader.get_column(name).get(...), values[name])
        _, _, found = ParquetStorage.build_space_from_parquet_file(path)
        assert found == named


def test_key_order_is_the_callers(tmp_path: Path) -> None:
    pairs = [("z", box("int8", ())), ("a", box("int8", ()))]
    ordered = DictSpace(B, pairs)
    with ParquetStorage.create(ordered, cache_path=tmp_path / "s") as storage:
        storage.extend_length(2)
        storage.set(..., {"z": np.array([1, 2], np.int8), "a": np.array([3, 4], np.int8)})
    swapped = DictSpace(B, pairs[::-1])
    for how in (True, False):
        with ParquetStorage.load_from(tmp_path / "s", swapped, read_only=how) as storage:
            assert list(storage.get(...)) == ["a", "z"]
            assert storage.get(0) == {"a": 3, "z": 1}
            if not how:
                storage.set(0, {"z": np.int8(9), "a": np.int8(8)})
                storage.mark_segment_start(2)
                storage.append({"z": np.int8(6), "a": np.int8(5)})
                storage.mark_segment_end()
                assert storage.get([0, 2])["z"].tolist() == [9, 6]
                assert storage.get([0, 2])["a"].tolist() == [8, 5]


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "brotli", "lz4", "NONE", None])
def test_compression_by_name(tmp_path: Path, compression: Any) -> None:
    grown(tmp_path / "s", 9, compression=compression).close()
    group = pq.ParquetFile(tmp_path / "s" / "part-000001.parquet").metadata.row_group(0)
    expected = {None: "UNCOMPRESSED", "NONE": "UNCOMPRESSED"}.get(compression)
    for number in range(group.num_columns):
        assert group.column(number).compression == (expected or compression.upper())
    with ParquetStorage.load_from(tmp_path / "s", space()) as reader:
        assert_batches_equal(reader.get(...), batch(9))


def test_compression_by_column(tmp_path: Path) -> None:
    codecs = {"obs.list.element": "zstd", "reward": "gzip"}
    grown(tmp_path / "s", 4, compression=codecs).close()
    group = pq.ParquetFile(tmp_path / "s" / "part-000000.parquet").metadata.row_group(0)
    found = {
        group.column(n).path_in_schema: group.column(n).compression
        for n in range(group.num_columns)
    }
    assert found == {
        "obs.list.element": "ZSTD",
        "reward": "GZIP",
        "count": "UNCOMPRESSED",
        "done": "UNCOMPRESSED",
        "task": "UNCOMPRESSED",
    }
    assert json.loads((tmp_path / "s/_metadata.json").read_bytes())["compression"] == codecs


def test_the_directory_after_each_step(tmp_path: Path) -> None:
    path = tmp_path / "s"

    def pieces() -> list[int]:
        return [pq.read_metadata(file).num_rows for file in sorted(path.glob("part-*.parquet"))]

    def counted() -> int:
        rows: int = json.loads((path / "_metadata.json").read_bytes())["num_rows"]
        return rows

    storage = grown(path, 0)
    storage.extend_length(3)
    storage.set(..., batch(3))
    assert (pieces(), counted()) == ([], 0)
    storage.flush()
    assert (pieces(), counted()) == ([3], 3)
    storage.extend_length(7)
    storage.set(slice(3, 10), batch(7, 3))
    assert storage._writer is not None
    storage._writer.sealer.drain()
    assert (pieces(), counted()) == ([4, 4], 8)
    storage.dumps(path)
    assert (pieces(), counted()) == ([4, 4, 2], 10)
    storage.shrink_length(4)
    assert (pieces(), counted()) == ([4, 2], 6)
    storage.extend_length(1)
    storage.set(6, sample(6))
    storage.close()
    assert (pieces(), counted()) == ([4, 3], 7)
    assert not (path / "_work").exists()
    storage = ParquetStorage.load_from(path, space(), read_only=False)
    assert_batches_equal(storage.get(...), batch(7))
    storage.clear()
    assert (pieces(), counted(), len(storage)) == ([], 0, 0)
    storage.close()
    assert os.listdir(path) == ["_metadata.json"]


def test_bounded_storages(tmp_path: Path) -> None:
    path = tmp_path / "s"
    storage = ParquetStorage.create(space(), capacity=10, cache_path=path, piece_size=4)
    assert len(storage) == storage.capacity == 10
    zeros = storage.get(...)
    assert not zeros["obs"].any()
    assert zeros["task"].tolist() == [""] * 10
    assert list(path.glob("part-*")) == []
    for operation in (storage.extend_length, storage.shrink_length):
        with pytest.raises(AssertionError):
            operation(1)
    storage.set(slice(2, 5), batch(3))
    storage.clear()
    assert_batches_equal(storage.get(slice(2, 5)), batch(3))
    storage.close()
    sizes = [pq.read_metadata(file).num_rows for file in sorted(path.glob("part-*.parquet"))]
    assert sizes == [4, 4, 2]
    with ParquetStorage.load_from(path, space(), capacity=10) as reader:
        assert reader.capacity == 10
        assert_batches_equal(reader.get(slice(2, 5)), batch(3))
        assert not reader.get(9)["obs"].any()
    with pytest.raises(CapacityError):
        ParquetStorage.load_from(path, space(), capacity=11)


def test_rows_beyond_the_length_are_never_read(tmp_path: Path) -> None:
    """Growth over shrunk rows, whose old bytes may still lie in the bank."""
    storage = grown(tmp_path / "s", 10)
    storage.shrink_length(7)
    storage.extend_length(7)
    zeros = storage.get(slice(3, 10))
    assert not zeros["obs"].any()
    assert zeros["task"].tolist() == [""] * 7
    storage.set(9, sample(5))
    assert not storage.get(8)["obs"].any()
    storage.close()
    with ParquetStorage.load_from(tmp_path / "s", space()) as reader:
        assert_batches_equal(reader.get(slice(0, 3)), batch(3))
        assert not reader.get(slice(3, 9))["obs"].any()
        assert_batches_equal(reader.get(9), sample(5))


def test_rows_never_set_do_not_count_after_reopening(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 3)
    storage.extend_length(5)
    storage.close()
    with ParquetStorage.load_from(tmp_path / "s", space()) as reader:
        assert_batches_equal(reader.get(...), batch(3))


def test_segments(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 0)
    assert storage.get_segments() is None
    states = [storage.has_open_segment]
    storage.mark_segment_end()
    storage.abort_segment()
    with pytest.raises(SegmentStateError):
        storage.append(sample(0))
    storage.mark_segment_start(0)
    states.append(storage.has_open_segment)
    assert states == [False, True]
    assert storage.pending_segment_length == 0
    with pytest.raises(AssertionError):
        storage.mark_segment_start(0)
    for row in range(9):
        storage.append(sample(row))
    storage.mark_segment_end()
    storage.mark_segment_start(9)
    storage.append(sample(50))
    storage.abort_segment()
    assert_batches_equal(storage.get(...), batch(9))
    storage.close()


def test_any_number_of_segment_writers(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 0)
    writers = [storage.open_segment_writer() for _ in range(3)]
    for row in range(70):
        for number, writer in enumerate(writers):
            writer.append(sample(100 * number + row))
    bad = sample(0)
    bad["count"] = 999
    with pytest.raises(SampleError):
        writers[0].append(bad)
    assert [len(writer) for writer in writers] == [70, 70, 70]
    writers[1].commit(0)
    writers[0].finish()
    with pytest.raises(RuntimeError):
        writers[0].append(sample(0))
    writers[0].commit(70)
    writers[2].abort()
    with pytest.raises(SegmentStateError):
        writers[0].commit(0)
    assert_batches_equal(storage.get(slice(0, 70)), batch(70, 100))
    assert_batches_equal(storage.get(slice(70, 140)), batch(70))
    late = storage.open_segment_writer()
    late.append(sample(0))
    with pytest.raises(CapacityError):
        late.commit(1000)
    storage.close()


def test_a_segment_writer_wraps_around_a_bounded_storage(tmp_path: Path) -> None:
    with ParquetStorage.create(
        space(), capacity=5, cache_path=tmp_path / "s", piece_size=2
    ) as storage:
        writer = storage.open_segment_writer()
        for row in range(4):
            writer.append(sample(row))
        writer.commit(3)
        assert_batches_equal(storage.get([3, 4, 0, 1]), batch(4))
        longer = storage.open_segment_writer()
        for row in range(6):
            longer.append(sample(row))
        with pytest.raises(CapacityError):
            longer.commit(0)


def test_column_views(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 10)
    storage.flush()
    view = storage.get_column("obs")
    assert view.single_instance_space == storage.single_instance_space["obs"]  # type: ignore[index]
    assert (len(view), view.capacity, view.is_mutable) == (10, None, True)
    assert view.cache_filename == storage.cache_filename
    storage.set(3, sample(30))
    assert_batches_equal(view.get(3), sample(30)["obs"])
    view.set([1, 2], np.ones((2, 4), np.float32))
    assert storage.get(1)["obs"].tolist() == [1] * 4
    assert storage.get(1)["task"] == "t1"
    with pytest.raises(SampleError):
        view.set(0, np.ones(3, np.float32))
    view.close()
    assert_batches_equal(view.get(3), sample(30)["obs"])
    for wrong in ("nope", ["obs", "done"], []):
        with pytest.raises(AssertionError):
            storage.get_column(wrong)
    storage.close()
    with ParquetStorage.load_from(tmp_path / "s", space()) as reader:
        assert_batches_equal(reader.get_column(["task"]).get([0, 4]), batch(5)["task"][[0, 4]])
        # Only that column was decoded.
        present = reader._bank.present[: reader._bank.layout.count(10)]
        names = reader._bank.schema.names
        assert present[:, names.index("task")].any()
        assert not present[:, names.index("obs")].any()
        with pytest.raises(ReadOnlyError):
            reader.get_column("obs").set(0, np.ones(4, np.float32))


def test_read_only(tmp_path: Path) -> None:
    grown(tmp_path / "s", 5).close()
    before = listing(tmp_path / "s")
    reader = ParquetStorage.load_from(tmp_path / "s", space())
    assert not reader.is_mutable
    assert reader.is_multiprocessing_safe
    for operation in (
        lambda: reader.set(0, sample(0)),
        lambda: reader.extend_length(1),
        lambda: reader.shrink_length(1),
        lambda: reader.clear(),
        lambda: reader.mark_segment_start(5),
        lambda: reader.open_segment_writer(),
    ):
        with pytest.raises(ReadOnlyError) as caught:
            operation()
        assert isinstance(caught.value, AssertionError)
    assert_batches_equal(reader.get(np.array([0, 3])), take(batch(5), [0, 3]))
    assert reader._cached_pieces == {}
    assert len(reader._cached_piece_tables) == 1
    reader.flush()
    reader.close()
    assert listing(tmp_path / "s") == before


def test_a_read_only_directory_can_be_read(tmp_path: Path) -> None:
    grown(tmp_path / "s", 5).close()
    os.chmod(tmp_path / "s", 0o555)
    try:
        with ParquetStorage.load_from(tmp_path / "s", space()) as reader:
            assert_batches_equal(reader.get(...), batch(5))
    finally:
        os.chmod(tmp_path / "s", 0o755)


def test_closed_storages(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 5)
    storage.close()
    storage.close()
    for operation in (
        lambda: storage.get(0),
        lambda: storage.set(0, sample(0)),
        lambda: storage.flush(),
        lambda: storage.extend_length(1),
        lambda: storage.refresh(),
    ):
        with pytest.raises(StorageClosedError, match="open it again"):
            operation()
    assert "closed" in repr(storage)


def test_closing_after_the_directory_was_removed(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 5)
    storage.flush()
    shutil.rmtree(tmp_path / "s")
    storage.close()
    assert not (tmp_path / "s").exists()


def test_repr_tells_what_one_wants_to_know(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 6)
    storage.flush()
    text = repr(storage)
    for part in ("6 rows in 2 pieces of 4", "writable", "all sealed", "obs: float32 (4,)"):
        assert part in text
    storage.set(0, sample(1))
    assert "1 to seal" in repr(storage)
    storage.close()


# -- dumps, copies, helpers ------------------------------------------------------------------


def test_dumps_makes_a_complete_copy_and_replaces_an_earlier_one(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 10)
    storage.dumps(tmp_path / "copy")
    assert sorted(os.listdir(tmp_path / "copy")) == sorted(
        ["_metadata.json", *(f"part-{k:06d}.parquet" for k in range(3))]
    )
    storage.shrink_length(7)
    storage.set(0, sample(40))
    storage.dumps(tmp_path / "copy")
    with ParquetStorage.load_from(tmp_path / "copy", space()) as copy:
        assert_batches_equal(copy.get(...), storage.get(...))
    assert len(list((tmp_path / "copy").glob("part-*"))) == 1
    assert storage.cache_filename == str(tmp_path / "s")
    storage.close()
    with ParquetStorage.load_from(tmp_path / "s", space()) as reader:
        reader.dumps(tmp_path / "again")
    with ParquetStorage.load_from(tmp_path / "again", space(), read_only=False) as again:
        again.set(1, sample(77))
        assert_batches_equal(again.get(0), sample(40))


def test_dumps_refuses_what_is_not_its_own(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 4)
    other = grown(tmp_path / "other", 3)
    other.close()
    before = listing(tmp_path / "other")
    with pytest.raises(FileExistsError):
        storage.dumps(tmp_path / "other")
    assert listing(tmp_path / "other") == before
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("x")
    with pytest.raises(StorageExistsError):
        storage.dumps(tmp_path / "home")
    assert listing(tmp_path / "home") == {"thesis.txt": b"x"}
    storage.close()


def test_dumps_never_copies_damage(tmp_path: Path) -> None:
    grown(tmp_path / "s", 8).close()
    flip(tmp_path / "s" / "part-000001.parquet")
    reader = ParquetStorage.load_from(tmp_path / "s", space())
    with pytest.raises(CorruptPieceError):
        reader.dumps(tmp_path / "copy")
    reader.close()
    assert not list((tmp_path / "copy").glob("*"))


def test_pickled_copies(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 6)
    copy = pickle.loads(pickle.dumps(storage))
    assert not copy.is_mutable  # one writer, by lock
    assert_batches_equal(copy.get(...), batch(6))
    with pytest.raises(ReadOnlyError):
        copy.set(0, sample(0))
    copy.close()
    text = pickle.dumps(storage)
    storage.close()
    alone = pickle.loads(text)
    assert alone.is_mutable
    alone.set(0, sample(9))
    alone.close()
    reader = ParquetStorage.load_from(tmp_path / "s", space())
    again = pickle.loads(pickle.dumps(reader))
    assert_batches_equal(again.get(0), sample(9))
    reader.close()
    again.close()


def test_build_space(tmp_path: Path) -> None:
    with grown(tmp_path / "empty", 0):
        pass
    assert ParquetStorage.build_space_from_parquet_file(tmp_path / "empty") == (0, 0, space())
    bounded = DictSpace(B, {"x": BoxSpace(B, -1, 1, np.float32, shape=(2,))})
    ParquetStorage.create(bounded, capacity=5, cache_path=tmp_path / "b").close()
    assert ParquetStorage.build_space_from_parquet_file(tmp_path / "b") == (5, 5, bounded)
    # A one-key space named `data` is not a bare box.
    one = DictSpace(B, {"data": box("float32", ())})
    ParquetStorage.create(one, cache_path=tmp_path / "one").close()
    assert ParquetStorage.build_space_from_parquet_file(tmp_path / "one")[2] == one
    limited = TextSpace(B, 7, min_length=2, charset="abc")
    ParquetStorage.create(limited, cache_path=tmp_path / "t").close()
    assert ParquetStorage.build_space_from_parquet_file(tmp_path / "t")[2] == limited
    with pytest.raises(MissingStorageError):
        ParquetStorage.build_space_from_parquet_file(tmp_path / "nothing")


# -- writers and readers ---------------------------------------------------------------------


def test_one_writer(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 3)
    with pytest.raises(StorageLockedError, match=f"process {os.getpid()}"):
        ParquetStorage.load_from(tmp_path / "s", space(), read_only=False)
    code = (
        "import sys; sys.path[:0] = [sys.argv[2]]\n"
        "from unienv_data.storages.parquet import ParquetStorage as P\n"
        "s = P.build_space_from_parquet_file(sys.argv[1])[2]\n"
        "P.load_from(sys.argv[1], s, read_only=False)\n"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s"), ""], capture_output=True, check=False
    )
    assert b"StorageLockedError" in other.stderr
    assert str(os.getpid()).encode() in other.stderr
    storage.close()
    ParquetStorage.load_from(tmp_path / "s", space(), read_only=False).close()


def test_a_reader_sees_a_snapshot_and_moves_by_refresh(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 6)
    storage.flush()
    reader = ParquetStorage.load_from(tmp_path / "s", space())
    assert_batches_equal(reader.get([0]), batch(1))
    storage.extend_length(6)
    storage.set(slice(6, 12), batch(6, 6))
    storage.flush()
    assert len(reader) == 6
    assert_batches_equal(reader.get(...), batch(6))
    assert reader.refresh() == 12
    assert_batches_equal(reader.get(...), batch(12))
    storage.set(1, sample(90))
    storage.flush()
    late = ParquetStorage.load_from(tmp_path / "s", space())
    assert_batches_equal(late.get(1), sample(90))
    # The older snapshot is refused rather than shown as a mixture, until it moves on.
    with pytest.raises(CommitConflictError, match="refresh"):
        reader.get(...)
    reader.refresh()
    assert_batches_equal(reader.get(1), sample(90))
    storage.close()
    reader.close()
    late.close()


def test_threads(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 64, durability="process")
    stop = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                found = storage.get(slice(8, 24))
                # Both columns of a row are written by one call, so they always agree.
                assert (found["obs"][:, 0] == found["reward"].astype(np.float32)).all()
        except BaseException as error:  # noqa: BLE001 - asserted below
            errors.append(error)

    def write(number: int) -> None:
        try:
            for turn in range(40):
                value = np.full(8, 100 * number + turn, np.float32)
                rows = batch(8) | {
                    "obs": np.repeat(value[:, None], 4, axis=1),
                    "reward": value.astype(np.float64),
                }
                storage.set(slice(8 + 8 * number, 16 + 8 * number), rows)
                if turn % 10 == 0:
                    storage.flush()
        except BaseException as error:  # noqa: BLE001 - asserted below
            errors.append(error)

    start = batch(8) | {"obs": np.zeros((8, 4), np.float32), "reward": np.zeros(8)}
    for first in (8, 16):
        storage.set(slice(first, first + 8), start)
    threads = [threading.Thread(target=write, args=(n,)) for n in range(2)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in [*threads, *readers]:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert not errors, errors
    assert storage.get(8)["reward"] == 39
    assert storage.get(16)["reward"] == 139
    storage.close()


def in_child(action: Any) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_reads_and_never_writes(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 10, bank_bytes=200)
    storage.flush()
    storage.set(0, sample(50))
    storage.mark_segment_start(10)
    storage.append(sample(10))  # in the middle of a piece: the child inherits its open window

    def child() -> None:
        assert not storage.is_mutable
        assert_batches_equal(storage.get(0), sample(50))
        assert_batches_equal(storage.get(slice(1, 10)), take(batch(10), slice(1, 10)))
        with pytest.raises(ForkedWriterError):
            storage.set(1, sample(60))
        with pytest.raises(ForkedWriterError):
            storage.flush()
        with pytest.raises(ForkedWriterError):
            storage.mark_segment_start(11)
        with pytest.raises(ForkedWriterError):
            storage.append(sample(66))
        storage.close()

    assert in_child(child) == 0
    storage.append(sample(11))
    storage.mark_segment_end()
    storage.set(2, sample(70))
    assert_batches_equal(storage.get(slice(10, None)), batch(2, 10))
    storage.close()
    with ParquetStorage.load_from(tmp_path / "s", space()) as reader:
        assert_batches_equal(reader.get(0), sample(50))
        assert_batches_equal(reader.get(1), sample(1))
        assert_batches_equal(reader.get(2), sample(70))

        def read() -> None:
            assert_batches_equal(reader.get(...)["obs"][3], batch(10)["obs"][3])
            assert len(reader) == 12
            reader.close()

        assert in_child(read) == 0
        assert_batches_equal(reader.get(3), sample(3))


# -- what must not be lost -------------------------------------------------------------------


def test_rows_survive_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "s"
    grown(path, 5).close()

    def child() -> None:
        storage = ParquetStorage.load_from(path, space(), read_only=False)
        storage.mark_segment_start(5)
        for row in range(5, 23):
            storage.append(sample(row))
        storage.set([0, 7], batch(2, 80))
        os.kill(os.getpid(), 9)

    assert in_child(child) == -9
    with pytest.warns(ResourceWarning, match="not sealed yet"):
        reader = ParquetStorage.load_from(path, space())
    committed = len(reader)
    assert 5 <= committed <= 20
    reader.close()
    with ParquetStorage.load_from(path, space(), read_only=False) as storage:
        assert len(storage) == 23
        expected = batch(23)
        for key, values in batch(2, 80).items():
            expected[key][[0, 7]] = values
        assert_batches_equal(storage.get(...), expected)
    with ParquetStorage.load_from(path, space()) as reader:
        assert_batches_equal(reader.get(...), expected)


def test_a_bounded_storage_survives_as_well(tmp_path: Path) -> None:
    path = tmp_path / "s"
    ParquetStorage.create(space(), capacity=9, cache_path=path, piece_size=4).close()

    def child() -> None:
        storage = ParquetStorage.load_from(path, space(), read_only=False)
        storage.set([1, 8], batch(2, 30))
        os.kill(os.getpid(), 9)

    assert in_child(child) == -9
    with pytest.warns(ResourceWarning, match="changes in 2 pieces"):
        ParquetStorage.load_from(path, space()).close()
    with ParquetStorage.load_from(path, space(), read_only=False) as storage:
        assert_batches_equal(storage.get([1, 8]), batch(2, 30))
        assert not storage.get(0)["obs"].any()


def test_a_dropped_storage_warns_and_keeps_its_rows(tmp_path: Path) -> None:
    storage = grown(tmp_path / "s", 6)
    holder = [storage]
    del storage
    with pytest.warns(ResourceWarning, match=r"without close\(\)"):
        holder.clear()
    gc.collect()
    with ParquetStorage.load_from(tmp_path / "s", space(), read_only=False) as again:
        assert_batches_equal(again.get(...), batch(6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clean = ParquetStorage.load_from(tmp_path / "s", space(), read_only=False)
        del clean
        gc.collect()
    assert not (tmp_path / "s" / "_work").exists()


def test_a_commit_that_was_interrupted_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rename of the commit either happened or still can; a reader sees the new state."""
    expected = batch(12)
    for key, values in batch(3, 60).items():
        expected[key][[0, 5, 9]] = values
    renames = 0
    for stop_after in range(8):
        path = tmp_path / str(stop_after)
        grown(path, 12).close()

        def child(path: Path = path, stop_after: int = stop_after) -> None:
            storage = ParquetStorage.load_from(path, space(), read_only=False)
            storage.set([0, 5, 9], batch(3, 60))
            real, done = os.replace, [0]

            def replace(*names: Any) -> None:
                if done[0] == stop_after:
                    os.kill(os.getpid(), 9)
                real(*names)
                done[0] += 1

            os.replace = replace  # type: ignore[assignment]
            storage.flush()
            os._exit(0)

        code = in_child(child)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader = ParquetStorage.load_from(path, space())
        recorded = (path / "_commit.json").exists()
        if recorded:
            renames += 1
            assert_batches_equal(reader.get(...), expected)
        reader.close()
        with ParquetStorage.load_from(path, space(), read_only=False) as storage:
            assert_batches_equal(storage.get(...), expected)
        with ParquetStorage.load_from(path, space()) as reader:
            assert_batches_equal(reader.get(...), expected)
        assert [n for n in os.listdir(path) if n.startswith((".", "_c"))] == []
        if code == 0:
            break
    assert renames >= 4  # three pieces and the manifest


def test_what_another_boot_left_unsynced_is_believed_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    storage = grown(path, 6)
    storage.flush()
    storage.extend_length(14)
    storage.set(slice(6, 20), batch(14, 6))
    assert storage._writer is not None
    storage._writer.sealer.drain()
    storage._let_go(remove=False)
    manifest = json.loads((path / "_metadata.json").read_bytes())
    assert (manifest["num_rows"], manifest["synced_rows"]) == (20, 6)
    manifest["boot"] = "another"
    (path / "_metadata.json").write_text(json.dumps(sealed(manifest)))
    (path / "part-000003.parquet").write_bytes(b"\0" * 700)
    monkeypatch.setattr("unienv_data.bank.journal.boot_number", lambda: 77)
    with ParquetStorage.load_from(path, space()) as reader:
        assert_batches_equal(reader.get(...), batch(12))
    with ParquetStorage.load_from(path, space(), read_only=False) as storage:
        assert_batches_equal(storage.get(...), batch(12))
    assert len(list(path.glob("part-*"))) == 3


def test_a_manifest_torn_by_a_power_loss(tmp_path: Path) -> None:
    path = tmp_path / "s"
    storage = grown(path, 6)
    storage.flush()
    storage._let_go(remove=False)
    (path / "_metadata.json").write_bytes(b"\0" * 100)
    with ParquetStorage.load_from(path, space()) as reader:
        assert_batches_equal(reader.get(...), batch(6))
    with ParquetStorage.load_from(path, space(), read_only=False) as again:
        assert_batches_equal(again.get(...), batch(6))
    json.loads((path / "_metadata.json").read_bytes())


def test_a_full_disk_loses_nothing_and_the_call_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = grown(tmp_path / "s", 6)
    storage.flush()
    real = os.posix_fallocate, os.pwrite, os.write

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    for name in ("posix_fallocate", "pwrite", "write"):
        monkeypatch.setattr(os, name, full)
    with pytest.raises(StorageSpaceError, match="free disk space"):
        storage.set([0, 1], batch(2, 50))
    storage.extend_length(20)
    with pytest.raises(OSError, match="free disk space"):
        storage.set(slice(6, 26), batch(20, 6))
    storage.shrink_length(20)
    assert_batches_equal(storage.get(...), batch(6))
    for name, function in zip(("posix_fallocate", "pwrite", "write"), real, strict=True):
        monkeypatch.setattr(os, name, function)
    storage.set([0, 1], batch(2, 50))
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageSpaceError):
        storage.flush()
    with pytest.raises(StorageSpaceError):
        storage.close()
    monkeypatch.setattr(os, "write", real[2])
    assert_batches_equal(storage.get([0, 1]), batch(2, 50))
    storage.close()
    with ParquetStorage.load_from(tmp_path / "s", space()) as reader:
        assert_batches_equal(reader.get([0, 1]), batch(2, 50))
    assert [n for n in os.listdir(tmp_path / "s") if n.startswith(".")] == []


def test_a_failure_of_the_background_sealer_reaches_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = grown(tmp_path / "s", 0)
    real = os.write

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    storage.extend_length(8)
    storage.set(..., batch(8))
    assert storage._writer is not None
    storage._writer.sealer.drain()
    storage.extend_length(4)
    with pytest.raises(StorageSpaceError):
        storage.set(slice(8, 12), batch(4, 8))
    monkeypatch.setattr(os, "write", real)
    storage.set(slice(8, 12), batch(4, 8))
    storage.close()
    with ParquetStorage.load_from(tmp_path / "s", space()) as reader:
        assert_batches_equal(reader.get(...), batch(12))


# -- damage ----------------------------------------------------------------------------------


def flip(path: Path) -> None:
    """Changes one bit of the first column's values."""
    column = pq.read_metadata(path).row_group(0).column(0)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(data)


def test_damage_is_named_and_the_rest_stays_reachable(tmp_path: Path) -> None:
    path = tmp_path / "s"
    grown(path, 12).close()
    flip(path / "part-000001.parquet")
    for read_only in (True, False):
        with ParquetStorage.load_from(path, space(), read_only=read_only) as storage:
            with pytest.raises(CorruptPieceError, match=r"part-000001\.parquet"):
                storage.get([4])
            assert_batches_equal(storage.get([0, 3, 8]), take(batch(12), [0, 3, 8]))


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "swapped", "foreign"])
def test_kinds_of_damage(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "s"
    grown(path, 12).close()
    victim = path / "part-000001.parquet"
    error: type[Exception] = CorruptPieceError
    if damage == "missing":
        victim.unlink()
        error = MissingPieceError
    elif damage == "empty":
        victim.write_bytes(b"")
    elif damage == "truncated":
        victim.write_bytes(victim.read_bytes()[:-30])
    elif damage == "swapped":
        shutil.copy(path / "part-000002.parquet", victim)
    else:
        grown(tmp_path / "other", 12).close()
        shutil.copy(tmp_path / "other" / "part-000001.parquet", victim)
    with ParquetStorage.load_from(path, space()) as reader:
        with pytest.raises(error, match=r"part-000001\.parquet"):
            reader.get(...)
        assert_batches_equal(reader.get([0, 8, 11]), take(batch(12), [0, 8, 11]))


def test_stale_pieces_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "s"
    grown(path, 4).close()
    shutil.copy(path / "part-000000.parquet", path / "part-000005.parquet")
    with ParquetStorage.load_from(path, space(), read_only=False) as storage:
        storage.extend_length(20)
        storage.set(slice(4, 24), batch(20, 4))
        assert_batches_equal(storage.get(...), batch(24))
    with ParquetStorage.load_from(path, space()) as reader:
        assert_batches_equal(reader.get(...), batch(24))


# -- budgets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [0, 300, 1000])
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_data_many_times_the_budget_is_only_slower(
    tmp_path: Path, budget: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    storage = grown(path, 0, bank_bytes=budget, durability="process")
    for start in range(0, 200, 25):
        storage.extend_length(25)
        storage.set(slice(start, start + 25), batch(25, start))
    expected = batch(200)
    rows = RNG.integers(0, 200, 60)
    storage.set(rows, take(batch(400), rows + 200))
    for key, values in take(batch(400), rows + 200).items():
        expected[key][rows] = values
    assert_batches_equal(storage.get(...), expected)
    storage.close()
    options: dict[str, Any] = {"cache_bytes": budget, "bank_bytes": budget}
    if where == "disk":
        options["cache_dir"] = tmp_path / "cache"
    with ParquetStorage.load_from(path, space(), **options) as reader:
        for _ in range(20):
            index = RNG.integers(0, 200, 30)
            assert_batches_equal(reader.get(index), take(expected, index))
        assert_batches_equal(reader.get(...), expected)
        row_bytes = sum(column.row_bytes for column in reader._schema.columns)
        assert reader._bank.resident_bytes <= budget + 3 * 4 * row_bytes


def test_readers_share_one_bank_and_memory_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "s"
    grown(path, 40).close()
    first = ParquetStorage.load_from(path, space())
    first.get(...)
    second = ParquetStorage.load_from(path, space())
    assert_batches_equal(second.get(...), batch(40))
    assert (first._bank.faults, second._bank.faults) == (10, 0)
    directory = second._bank.directory
    assert directory == first._bank.directory
    assert directory.stat().st_mode & 0o777 == 0o700
    first.close()
    assert directory.exists()
    second.close()
    if directory.parent.parent == Path("/dev/shm"):
        assert not directory.exists()


def test_a_cache_directory_is_reused_by_the_next_reader(tmp_path: Path) -> None:
    path = tmp_path / "s"
    grown(path, 40).close()
    for faults in (10, 0):
        with ParquetStorage.load_from(path, space(), cache_dir=tmp_path / "c") as reader:
            assert_batches_equal(reader.get(...), batch(40))
            assert reader._bank.faults == faults
    with ParquetStorage.load_from(path, space(), read_only=False) as writer:
        writer.set(0, sample(99))
    with ParquetStorage.load_from(path, space(), cache_dir=tmp_path / "c") as reader:
        assert_batches_equal(reader.get(0), sample(99))
        assert reader._bank.faults == 1  # only the piece that changed
    shutil.rmtree(tmp_path / "c")
    with ParquetStorage.load_from(path, space(), cache_dir=tmp_path / "c") as reader:
        assert_batches_equal(reader.get(0), sample(99))


def test_budgets_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown(tmp_path / "s", 20).close()
    monkeypatch.setenv("UNIENV_DATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UNIENV_DATA_BANK_BYTES", "1k")
    with ParquetStorage.load_from(tmp_path / "s", space()) as reader:
        assert reader._bank.directory.parent == tmp_path / "cache"
        assert reader._bank.budget_bytes == 1024
    monkeypatch.setenv("UNIENV_DATA_BANK_BYTES", "lots")
    with pytest.raises(StorageArgumentError, match="UNIENV_DATA_BANK_BYTES"):
        ParquetStorage.load_from(tmp_path / "s", space())


@pytest.mark.parametrize("again", [True, False])
def test_a_work_directory_elsewhere(tmp_path: Path, again: bool) -> None:
    """Its rows are found after a crash, also when the next writer does not name it."""
    storage = grown(tmp_path / "s", 6, work_dir=tmp_path / "work")
    assert not (tmp_path / "s" / "_work" / "bank").exists()
    storage._let_go(remove=False)
    with pytest.warns(ResourceWarning, match="new rows"):
        ParquetStorage.load_from(tmp_path / "s", space()).close()
    options: dict[str, Any] = {"work_dir": tmp_path / "work"} if again else {}
    with ParquetStorage.load_from(tmp_path / "s", space(), read_only=False, **options) as recovered:
        assert_batches_equal(recovered.get(...), batch(6))
    assert list((tmp_path / "work").iterdir()) == []
    assert not (tmp_path / "s" / "_work").exists()


def test_appending_costs_the_same_however_long_the_storage_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted: bytes written a piece do not grow with the rows stored."""
    storage = grown(tmp_path / "s", 0, durability="process")
    written = [0]
    real = os.write

    def count(descriptor: int, data: Any) -> int:
        done = real(descriptor, data)
        written[0] += done
        return done

    monkeypatch.setattr(os, "write", count)
    costs = []
    for start in range(0, 400, 100):
        written[0] = 0
        storage.extend_length(100)
        storage.set(slice(start, start + 100), batch(100, start))
        assert storage._writer is not None
        storage._writer.sealer.drain()
        costs.append(written[0])
        assert len(storage._writer.set._versions) <= 1
    assert max(costs[1:]) < 1.1 * min(costs[1:])
    storage.close()
