"""numpy columns to one Parquet file in memory; `decode` is the way back.

Pieces hold `required` fields: scalars, or flat fixed-size lists in C order, one page a column,
with page checksums. `docs/format.md` specifies them.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unienv_data.format.schema import Column, Schema

__all__ = [
    "FOOTER_KEY",
    "SHAPES_KEY",
    "ColumnData",
    "Compression",
    "Footer",
    "Texts",
    "check_compression",
    "encode",
]

Compression = str | Mapping[str, str] | None
"""A codec for all columns, codecs by column, or None for uncompressed."""

FOOTER_KEY = b"unienv_data"
"""Key of a piece's identity in the file's metadata."""

SHAPES_KEY = b"column_shapes"
"""Key of the shapes of its columns."""

_CODECS = frozenset({"NONE", "SNAPPY", "GZIP", "BROTLI", "LZ4", "ZSTD"})


@dataclass(frozen=True)
class Footer:
    """What a lone piece says about itself."""

    uuid: str
    """Storage it belongs to."""
    piece: int
    """Its number."""
    rows: int
    """Rows in it."""
    generation: int
    """Commit that wrote it."""
    changed: int = 0
    """Last commit that changed rows which the piece had before; 0 when rows were only added."""


@dataclass(frozen=True)
class Texts:
    """Text rows as codes into their distinct values."""

    values: list[str]
    """Distinct texts."""
    codes: NDArray[np.int64]
    """Index into `values` for each row, shape ``(n,)``."""


ColumnData = NDArray[Any] | Texts
"""The rows of one column."""


def check_compression(compression: Compression, columns: Sequence[Column]) -> str | None:
    """Says what is wrong with a compression argument, or None when it is fine."""
    codecs = (
        [compression]
        if isinstance(compression, str)
        else list(compression.values())
        if compression
        else []
    )
    for codec in codecs:
        if str(codec).upper() not in _CODECS:
            return f"unknown codec {codec!r}; known are {', '.join(sorted(_CODECS))}"
        name = "uncompressed" if codec.upper() == "NONE" else codec.lower()
        if name != "uncompressed" and not pa.Codec.is_available(name):
            return f"codec {codec!r} is not in this build of pyarrow"
    if isinstance(compression, Mapping):
        known = {path for column in columns for path in (column.name, _physical_path(column))}
        for name in compression:
            if name not in known:
                return f"compression names the column {name!r}; there are {sorted(known)}"
    return None


def encode(
    schema: Schema, data: Sequence[ColumnData], footer: Footer, compression: Compression
) -> memoryview:
    """Encodes one piece.

    Args:
        schema: Columns of the storage.
        data: One entry a column of `schema`, each of `footer.rows` rows; those of columns
            without elements are ignored.
        footer: Identity of the piece.
        compression: As given to `create`.

    Returns:
        The bytes of a Parquet file of one row group and one page a column.
    """
    stored = [
        (column, values)
        for column, values in zip(schema.columns, data, strict=True)
        if column.is_text or column.size
    ]
    arrays = [_to_arrow(column, values) for column, values in stored]
    arrow_schema = pa.schema(
        [pa.field(column.name, _arrow_type(column), nullable=False) for column, _ in stored],
        metadata={
            SHAPES_KEY: json.dumps({column.name: list(column.shape) for column, _ in stored}),
            FOOTER_KEY: json.dumps(
                {
                    "uuid": footer.uuid,
                    "piece": footer.piece,
                    "rows": footer.rows,
                    "generation": footer.generation,
                    "changed": footer.changed,
                }
            ),
        },
    )
    table = pa.Table.from_arrays(arrays, schema=arrow_schema)
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=max(footer.rows, 1),
        compression=_write_compression(compression, [column for column, _ in stored]),
        use_dictionary=[column.name for column, _ in stored if column.is_text] or False,
        # Statistics let query engines skip pieces; on wide lists nobody asks and they cost time.
        write_statistics=[
            column.name for column, _ in stored if not column.is_text and column.shape == ()
        ]
        or False,
        write_page_checksum=True,
        **_page_options(max(footer.rows, 1)),
    )
    return memoryview(sink.getvalue())


@lru_cache(maxsize=1)
def _write_parameters() -> frozenset[str]:
    parameters = set(inspect.signature(pq.write_table).parameters)
    return frozenset(parameters | set(inspect.signature(pq.ParquetWriter.__init__).parameters))


def _page_options(rows: int) -> dict[str, int]:
    """One page a column: a page ends only where one of these limits is reached."""
    wanted = {"data_page_size": (1 << 31) - 1, "write_batch_size": rows, "max_rows_per_page": rows}
    known = _write_parameters()
    return {key: value for key, value in wanted.items() if key in known}


def _physical_path(column: Column) -> str:
    is_list = not column.is_text and column.shape != ()
    return f"{column.name}.list.element" if is_list else column.name


def _write_compression(compression: Compression, columns: Sequence[Column]) -> str | dict[str, str]:
    if compression is None:
        return "NONE"
    if isinstance(compression, str):
        return compression.upper()
    by_path = {}
    for column in columns:
        path = _physical_path(column)
        codec = compression.get(column.name, compression.get(path, "NONE"))
        by_path[path] = codec.upper()
    return by_path


def _arrow_type(column: Column) -> pa.DataType:
    if column.is_text:
        return pa.string()
    element = pa.bool_() if column.dtype == np.bool_ else pa.from_numpy_dtype(column.dtype)
    if column.shape == ():
        return element
    return pa.list_(pa.field("element", element, nullable=False), column.size)


def _to_arrow(column: Column, values: ColumnData) -> pa.Array:
    if isinstance(values, Texts):
        return pa.array(values.values, type=pa.string()).take(pa.array(values.codes))
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    if column.shape == ():
        return flat
    return pa.FixedSizeListArray.from_arrays(flat, type=_arrow_type(column))
