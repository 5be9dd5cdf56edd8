from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unienv_data.errors import (
    CorruptPieceError,
    FormatError,
    MissingPieceError,
    SchemaMismatchError,
    UnsupportedVersionError,
)
from unienv_data.format import codec, pages
from unienv_data.format.codec import Footer, Texts, encode
from unienv_data.format.decode import decode, read_footer, read_schema
from unienv_data.format.schema import Column, Schema
from unienv_data.testing.oracle import assert_batches_equal
from unienv_data.testing.strategies import batch_of, dict_spaces

FOOTER = Footer("u" * 32, 7, 5, 3)


def prepared(schema: Schema, batch: Any, rows: int) -> list[Any]:
    data = schema.check_batch(batch, rows, "test")
    result: list[Any] = []
    for column, values in zip(schema.columns, data, strict=True):
        if column.is_text:
            distinct = sorted(set(values))
            codes = np.array([distinct.index(text) for text in values], dtype=np.int64)
            result.append(Texts(distinct, codes))
        else:
            result.append(values)
    return result


def unpacked(values: Any) -> Any:
    if not isinstance(values, Texts):
        return values
    array = np.empty(len(values.codes), dtype=object)
    array[:] = [values.values[code] for code in values.codes]
    return array


@settings(max_examples=60, deadline=None)
@given(
    space=dict_spaces(),
    rows=st.integers(0, 12),
    seed=st.integers(0, 2**32 - 1),
    compression=st.sampled_from([None, "snappy", "zstd", "gzip", "lz4", "brotli"]),
)
def test_every_bit_survives(
    tmp_path_factory: pytest.TempPathFactory, space: Any, rows: int, seed: int, compression: Any
) -> None:
    schema = Schema.from_space(space)
    batch = batch_of(space, rows, np.random.default_rng(seed))
    footer = Footer("u", 0, rows, 1)
    path = tmp_path_factory.mktemp("codec") / "part-000000.parquet"
    path.write_bytes(encode(schema, prepared(schema, batch, rows), footer, compression))
    if not schema.stored:
        return
    data, found = decode(path, schema.columns, rows, "u", 0)
    assert found == footer
    assert_batches_equal(schema.pack([unpacked(values) for values in data]), batch)


@pytest.fixture
def piece(tmp_path: Path) -> tuple[Path, Schema]:
    schema = Schema(
        (
            Column("vector", np.dtype("float32"), (2, 3)),
            Column("text", np.dtype(object)),
            Column("flag", np.dtype(bool)),
            Column("small", np.dtype("uint8")),
        ),
        is_dict=True,
    )
    batch = {
        "vector": np.arange(30, dtype=np.float32).reshape(5, 2, 3),
        "text": ["a", "b", "a", "", "c"],
        "flag": np.array([True, False, True, True, False]),
        "small": np.arange(5, dtype=np.uint8),
    }
    path = tmp_path / "part-000007.parquet"
    path.write_bytes(encode(schema, prepared(schema, batch, 5), FOOTER, "snappy"))
    return path, schema


def test_a_piece_is_one_row_group_of_required_fields_one_page_a_column(
    piece: tuple[Path, Schema],
) -> None:
    path, _ = piece
    file = pq.ParquetFile(path)
    assert file.metadata.num_row_groups == 1
    assert [field.nullable for field in file.schema_arrow] == [False] * 4
    assert file.schema_arrow.field("vector").type == pa.list_(
        pa.field("element", pa.float32(), nullable=False), 6
    )
    group = file.metadata.row_group(0)
    for number in range(group.num_columns):
        column = group.column(number)
        is_text = column.path_in_schema == "text"
        assert ("RLE_DICTIONARY" in column.encodings) == is_text, column.path_in_schema
        assert column.compression == "SNAPPY"


def test_many_rows_stay_on_one_page(tmp_path: Path) -> None:
    rows = 50_000
    schema = Schema((Column("x", np.dtype("float64"), (3,)),), is_dict=True)
    values = np.arange(rows * 3, dtype=np.float64).reshape(rows, 3)
    path = tmp_path / "part-000000.parquet"
    path.write_bytes(encode(schema, [values], Footer("u", 0, rows, 1), None))
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    # Levels take few bytes: a second page would add another header, a second run of levels and
    # a second checksum, but the values alone fill the chunk but for less than a page's overhead.
    assert column.total_uncompressed_size - values.nbytes < rows
    (found,), _ = decode(path, schema.columns, rows, "u", 0)
    assert_batches_equal(found, values)


@pytest.mark.parametrize("compression", ["snappy", None])
def test_any_flipped_bit_is_an_error(piece: tuple[Path, Schema], compression: str | None) -> None:
    path, schema = piece
    data, footer = decode(path, schema.columns, 5, FOOTER.uuid, 7)
    assert footer is not None
    path.write_bytes(encode(schema, data, footer, compression))
    decode(path, schema.columns, 5, FOOTER.uuid, 7)
    whole = path.read_bytes()
    silent, unnamed = [], []
    for position in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[position] ^= 1 << bit
            path.write_bytes(changed)
            try:
                decode(path, schema.columns, 5, FOOTER.uuid, 7)
            except CorruptPieceError as error:
                if str(path) not in str(error):
                    unnamed.append((position, bit))
            else:
                silent.append((position, bit))
    assert (silent, unnamed) == ([], [])


def test_damage_of_one_column_leaves_the_others_readable(piece: tuple[Path, Schema]) -> None:
    path, schema = piece
    whole = bytearray(path.read_bytes())
    before, _ = decode(path, schema.columns[1:], 5, FOOTER.uuid, 7)
    group = pq.ParquetFile(path).metadata.row_group(0)
    first = group.column(0)
    whole[first.data_page_offset + first.total_compressed_size - 1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(CorruptPieceError, match="column 'vector' does not match its checksum"):
        decode(path, schema.columns, 5, FOOTER.uuid, 7)
    after, _ = decode(path, schema.columns[1:], 5, FOOTER.uuid, 7)
    for old, new in zip(before, after, strict=True):
        assert_batches_equal(unpacked(new), unpacked(old))


def test_a_piece_that_lost_its_page_table_is_damaged(piece: tuple[Path, Schema]) -> None:
    path, schema = piece
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    at = len(whole) - 8 - footer - 8  # the table's magic
    path.write_bytes(whole[:at] + bytes(8) + whole[at + 8 :])
    with pytest.raises(CorruptPieceError, match="lost its page table"):
        decode(path, schema.columns, 5, FOOTER.uuid, 7)


def test_an_encoding_of_a_later_version_is_refused_by_name(
    piece: tuple[Path, Schema], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, schema = piece
    data, footer = decode(path, schema.columns, 5, FOOTER.uuid, 7)
    assert footer is not None
    monkeypatch.setattr(codec, "encoding_of", lambda *_: "DELTA_BINARY_PACKED")
    monkeypatch.setitem(pages.PARQUET_ENCODINGS, "DELTA_BINARY_PACKED", 5)
    numbers = Schema(schema.columns[2:], is_dict=True)
    codec._plan.cache_clear()
    path.write_bytes(encode(numbers, data[2:], footer, None))
    codec._plan.cache_clear()
    monkeypatch.undo()
    with pytest.raises(UnsupportedVersionError, match="DELTA_BINARY_PACKED, by a newer version"):
        decode(path, numbers.columns, 5, FOOTER.uuid, 7)


def test_a_piece_rewritten_by_pyarrow_is_read_through_pyarrow(piece: tuple[Path, Schema]) -> None:
    path, schema = piece
    before, _ = decode(path, schema.columns, 5, FOOTER.uuid, 7)
    table = pq.read_table(path)
    own = {**table.schema.metadata, **pq.read_metadata(path).metadata}
    pq.write_table(table.replace_schema_metadata(own), path)
    after, footer = decode(path, schema.columns, 5, FOOTER.uuid, 7)
    assert footer == FOOTER
    for old, new in zip(before, after, strict=True):
        assert_batches_equal(unpacked(new), unpacked(old))


@settings(max_examples=60, deadline=None)
@given(
    space=dict_spaces(),
    rows=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
    compression=st.sampled_from([None, "snappy", "zstd", "gzip", "lz4", "brotli"]),
)
def test_pyarrow_reads_the_same_from_our_pages(
    tmp_path_factory: pytest.TempPathFactory, space: Any, rows: int, seed: int, compression: Any
) -> None:
    schema = Schema.from_space(space)
    batch = batch_of(space, rows, np.random.default_rng(seed))
    path = tmp_path_factory.mktemp("codec") / "part-000000.parquet"
    footer = Footer("u", 0, rows, 1)
    path.write_bytes(encode(schema, prepared(schema, batch, rows), footer, compression))
    if not schema.stored:
        return
    table = pq.read_table(path, page_checksum_verification=True)
    table.validate(full=True)
    rewritten = path.with_name("again.parquet")
    pq.write_table(table, rewritten)  # with pyarrow's encoders, read by its decoders
    ours, _ = decode(path, schema.columns, rows, None, None)
    theirs, _ = decode(rewritten, schema.columns, rows, None, None)
    for own, other in zip(ours, theirs, strict=True):
        assert_batches_equal(unpacked(own), unpacked(other))


@pytest.mark.parametrize("compression", ["snappy", None])
def test_statistics_of_scalars(tmp_path: Path, compression: str | None) -> None:
    values: dict[str, Any] = {
        "f": np.array([2.5, -1.5, 0.0], np.float32),
        "zero": np.array([0.0, -0.0, 0.0]),
        "nan": np.array([1.0, np.nan, 2.0]),
        "i": np.array([-3, 7, 0], np.int8),
        "u": np.array([0, 2**64 - 1, 5], np.uint64),
        "b": np.array([True, True, False]),
        "half": np.array([1.0, 2.0, 3.0], np.float16),
    }
    columns = tuple(Column(name, array.dtype) for name, array in values.items())
    schema = Schema((*columns, Column("v", np.dtype("float32"), (2,))), is_dict=True)
    path = tmp_path / "part-000000.parquet"
    data = [*values.values(), np.zeros((3, 2), np.float32)]
    path.write_bytes(encode(schema, data, Footer("u", 0, 3, 1), compression))
    group = pq.ParquetFile(path).metadata.row_group(0)
    found = {}
    for number in range(group.num_columns):
        statistics = group.column(number).statistics
        name = group.column(number).path_in_schema
        assert statistics.null_count == 0, name
        has_range = statistics.has_min_max
        found[name] = (statistics.min, statistics.max) if has_range else None
    assert found == {
        "f": (-1.5, 2.5),
        "zero": (0.0, 0.0),
        "nan": None,
        "i": (-3, 7),
        "u": (0, 2**64 - 1),
        "b": (False, True),
        "half": None,
        "v.list.element": None,
    }
    least, most = found["zero"] or (1.0, 1.0)
    assert np.signbit([least, most]).tolist() == [True, False]


def test_zstd_splits_floats_and_makes_smooth_trajectories_small(tmp_path: Path) -> None:
    rows = 1024
    schema = Schema(
        (Column("q", np.dtype("float32"), (7,)), Column("n", np.dtype("int64"))), is_dict=True
    )
    steps = np.random.default_rng(0).standard_normal((rows, 7)) * 1e-3
    data: list[Any] = [
        np.cumsum(np.cumsum(steps, axis=0), axis=0).astype(np.float32),
        np.arange(rows),
    ]
    path = tmp_path / "part-000000.parquet"
    sizes = {}
    for compression in ("snappy", "zstd"):
        path.write_bytes(encode(schema, data, Footer("u", 0, rows, 1), compression))
        group = pq.ParquetFile(path).metadata.row_group(0)
        sizes[compression] = group.column(0).total_compressed_size
        assert_batches_equal(
            pq.read_table(path)["q"].combine_chunks().values.to_numpy(), data[0].reshape(-1)
        )
    assert group.column(0).encodings == ("BYTE_STREAM_SPLIT", "RLE")
    assert group.column(1).encodings == ("PLAIN", "RLE")
    assert sizes["zstd"] <= 0.8 * data[0].nbytes < sizes["snappy"]


def test_values_of_uncompressed_numbers_lie_aligned(tmp_path: Path) -> None:
    schema = Schema(
        (
            Column("vector", np.dtype("float64"), (3,)),
            Column("t", np.dtype("int64")),
            Column("one", np.dtype("float32"), (1,)),
        ),
        is_dict=True,
    )
    data = [np.arange(15.0).reshape(5, 3), np.arange(5), np.arange(5, dtype="f4").reshape(5, 1)]
    path = tmp_path / "part-000000.parquet"
    path.write_bytes(encode(schema, data, Footer("u", 0, 5, 1), None))
    whole = path.read_bytes()
    for values in data:
        assert whole.find(values.tobytes()) % 64 == 0
    assert_batches_equal(pq.read_table(path)["t"].to_numpy(), data[1])


def test_wrong_identity_is_named(piece: tuple[Path, Schema]) -> None:
    path, schema = piece
    with pytest.raises(CorruptPieceError, match="piece 7 of storage"):
        decode(path, schema.columns, 5, FOOTER.uuid, 8)
    with pytest.raises(CorruptPieceError, match="expected piece 7"):
        decode(path, schema.columns, 5, "another", 7)
    with pytest.raises(CorruptPieceError, match="holds 5 rows, the manifest counts 6"):
        decode(path, schema.columns, 6, FOOTER.uuid, 7)


def test_missing_truncated_and_empty_files(piece: tuple[Path, Schema], tmp_path: Path) -> None:
    path, schema = piece
    with pytest.raises(MissingPieceError):
        read_footer(tmp_path / "part-000001.parquet")
    whole = path.read_bytes()
    for size in (0, 3, 100, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(CorruptPieceError):
            decode(path, schema.columns, 5, FOOTER.uuid, 7)


def test_footer_and_schema_are_read_back(piece: tuple[Path, Schema]) -> None:
    path, schema = piece
    assert read_footer(path) == (5, FOOTER)
    found = read_schema(path)
    assert [(c.name, c.dtype, c.shape) for c in found.columns] == [
        (c.name, c.dtype, c.shape) for c in schema.columns
    ]


def column(array: pa.Array, tmp_path: Path, **options: Any) -> Path:
    path = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"x": array}), path, **options)
    return path


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32())),
        pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.large_list(pa.float32())),
        pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
        pa.array([None, [1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))[1:],
    ],
)
@pytest.mark.parametrize("row_group_size", [1, 2, 100])
def test_lists_of_other_writers(array: pa.Array, row_group_size: int, tmp_path: Path) -> None:
    path = column(array, tmp_path, row_group_size=row_group_size)
    wanted = Column("x", np.dtype("float32"), (2,))
    (found,), footer = decode(path, [wanted], 3, None, None)
    assert footer is None
    assert_batches_equal(found, np.array([[1, 2], [3, 4], [5, 6]], np.float32))


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", "b\0", "a"], pa.large_string()),
        pa.array(["a", "b\0", "a"]).dictionary_encode(),
        pa.array(["a", "b\0", "a"]),
    ],
)
def test_texts_of_other_writers(array: pa.Array, tmp_path: Path) -> None:
    (found,), _ = decode(column(array, tmp_path), [Column("x", np.dtype(object))], 3, None, None)
    assert unpacked(found).tolist() == ["a", "b\0", "a"]


@pytest.mark.parametrize(
    ("array", "wanted", "message"),
    [
        (pa.array([1.0, None], pa.float32()), Column("x", np.dtype("float32")), "null at row 1"),
        (pa.array(["a", None]), Column("x", np.dtype(object)), "null at row 1"),
        (pa.array([[1.0], None], pa.list_(pa.float32(), 1)), Column("x", np.dtype("float32"), (1,)),
         "null at row 1|is damaged"),
        (pa.array([[1.0], [None]], pa.list_(pa.float32(), 1)),
         Column("x", np.dtype("float32"), (1,)), "null element at row 1"),
        (pa.array([[1.0], [1.0, 2.0]], pa.list_(pa.float32())),
         Column("x", np.dtype("float32"), (1,)), "list of 2 at row 1"),
        (pa.array([1, 2], pa.int32()), Column("x", np.dtype("int64")), "expected int64"),
        (pa.array([1, 2], pa.int32()), Column("x", np.dtype(object)), "expected text"),
        (pa.array(["a", "b"]), Column("x", np.dtype("float32")), "expected float32"),
        (pa.array([[1], [2]], pa.list_(pa.int64(), 1)), Column("x", np.dtype("int64"), (2,)),
         r"expected int64 \(2,\)"),
        (pa.array([1, 2]), Column("y", np.dtype("int64")), "has no column 'y'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_column_and_row(
    array: pa.Array, wanted: Column, message: str, tmp_path: Path
) -> None:
    # Older pyarrow itself refuses a null among fixed-size lists, as damage.
    with pytest.raises((SchemaMismatchError, CorruptPieceError), match=message):
        decode(column(array, tmp_path), [wanted], 2, None, None)


def test_a_codec_that_no_one_knows_is_named_when_writing() -> None:
    schema = Schema((Column("x", np.dtype("float32")),), is_dict=True)
    for compression in ("\ud800", {"x": "lzo"}):
        with pytest.raises(FormatError, match="the manifest names the codec"):
            encode(schema, [np.zeros(2, "f4")], Footer("u", 0, 2, 1), compression)
