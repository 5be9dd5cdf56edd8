"""The piece files alone hold the whole data for any Parquet reader, each row once."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.oracle import assert_batches_equal
from unienv_data.testing.strategies import NUMBER_DTYPES, batch_of, box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, DictSpace, TextSpace

ROWS = 19
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (3,), (1, 1), (2, 3))


def space() -> DictSpace:
    children: dict[str, Any] = {"text": TextSpace(B, 12)}
    for shape in SHAPES:
        suffix = "x".join(map(str, shape)) or "scalar"
        children[f"bool_{suffix}"] = BinarySpace(B, shape)
        for dtype in NUMBER_DTYPES:
            children[f"{dtype}_{suffix}"] = box(dtype, shape)
    return DictSpace(B, children)


@pytest.fixture(scope="module", params=["snappy", "zstd", "gzip", "brotli", "lz4", None])
def data(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("readers") / "storage"
    values: dict[str, Any] = batch_of(space(), ROWS, np.random.default_rng(1))
    # Text with a NUL is kept by us; some readers end it there, so it is not part of this test.
    values["text"] = np.array([text.replace("\0", "0") for text in values["text"]], dtype=object)
    with ParquetStorage.create(
        space(), cache_path=path, piece_size=8, compression=request.param
    ) as storage:
        storage.extend_length(ROWS)
        storage.set(..., values)
        storage.shrink_length(2)  # cuts a piece and leaves none behind
        storage.extend_length(2)
        storage.set(slice(ROWS - 2, ROWS), {k: v[-2:] for k, v in values.items()})
    return path, values


def as_arrays(columns: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Flat lists of other readers, in the shape that the manifest gives them."""
    result = {}
    for name, expected in values.items():
        column = columns[name]
        if name == "text":
            array = np.empty(len(column), dtype=object)
            array[:] = list(column)
        elif expected.ndim == 1:
            array = np.array(list(column), dtype=expected.dtype)
        else:
            array = np.array([list(row) for row in column], dtype=expected.dtype)
            array = array.reshape(expected.shape)
        result[name] = array
    return result


def equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal values; NaN payloads are lost where a reader goes through Python floats."""
    assert list(found) == list(expected)
    for name, values in expected.items():
        if values.dtype.kind == "f":
            np.testing.assert_array_equal(found[name], values, err_msg=name)
            assert found[name].dtype == values.dtype
        else:
            assert_batches_equal(found[name], values)


def test_pyarrow(data: tuple[Path, dict[str, Any]]) -> None:
    path, values = data
    files = sorted(glob.glob(str(path / "part-*.parquet")))
    table = ds.dataset(files).to_table()
    assert table.num_rows == ROWS
    equal(as_arrays({n: table.column(n).to_pylist() for n in values}, values), values)
    # pyarrow leaves names that begin with an underscore alone: the directory works as well.
    assert pq.read_table(path).num_rows == ROWS


def test_pandas(data: tuple[Path, dict[str, Any]]) -> None:
    path, values = data
    files = sorted(glob.glob(str(path / "part-*.parquet")))
    frame = pd.concat([pd.read_parquet(file) for file in files])
    equal(as_arrays({name: frame[name] for name in values}, values), values)


def test_duckdb(data: tuple[Path, dict[str, Any]]) -> None:
    path, values = data
    wanted = {name: array for name, array in values.items() if not name.startswith("float16")}
    names = ", ".join(f'"{name}"' for name in wanted)
    rows = duckdb.sql(f"SELECT {names} FROM read_parquet('{path}/part-*.parquet')").fetchall()
    columns = {name: [row[k] for row in rows] for k, name in enumerate(wanted)}
    equal(as_arrays(columns, wanted), wanted)
    # DuckDB widens float16; the values are the same.
    halves = duckdb.sql(
        f"SELECT float16_scalar FROM read_parquet('{path}/part-*.parquet')"
    ).fetchall()
    found = np.array([row[0] for row in halves]).astype(np.float16)
    np.testing.assert_array_equal(found, values["float16_scalar"])


def test_polars(data: tuple[Path, dict[str, Any]]) -> None:
    path, values = data
    frame = pl.read_parquet(f"{path}/part-*.parquet")
    assert frame.schema["float32_2x3"] == pl.Array(pl.Float32, 6)
    equal(as_arrays({name: frame[name].to_list() for name in values}, values), values)


def test_a_directory_of_other_writers_files(tmp_path: Path) -> None:
    """Uneven files with no manifest, of pandas, DuckDB and Polars, become one buffer."""
    vectors = [[float(3 * r + k) for k in range(3)] for r in range(9)]
    texts = [f"t{r}" for r in range(9)]
    pd.DataFrame({"v": vectors[:2], "t": texts[:2]}).to_parquet(tmp_path / "a.parquet")
    frame = pl.DataFrame(
        {"v": vectors[2:7], "t": texts[2:7]}, schema_overrides={"v": pl.List(pl.Float64)}
    )
    frame.write_parquet(tmp_path / "b.parquet", row_group_size=2)
    rest = pd.DataFrame({"v": vectors[7:], "t": texts[7:]})
    duckdb.sql(f"COPY (SELECT v, t FROM rest) TO '{tmp_path}/c.parquet' (FORMAT parquet)")
    assert len(rest) == 2
    buffer = ParquetStorage.load_replay_buffer_from_raw_parquet(tmp_path)
    assert len(buffer) == 9
    assert_batches_equal(buffer.get_at(...)["v"], np.array(vectors))
    assert buffer.get_at([8, 0, 2, 6])["t"].tolist() == ["t8", "t0", "t2", "t6"]
    assert buffer.get_at(4)["v"].tolist() == vectors[4]
    buffer.storage.dumps(tmp_path / "copy")
    buffer.close()
    _, _, space = ParquetStorage.build_space_from_parquet_file(tmp_path / "copy")
    with ParquetStorage.load_from(tmp_path / "copy", space) as copy:  # now in even pieces
        assert_batches_equal(copy.get(...)["v"], np.array(vectors))
