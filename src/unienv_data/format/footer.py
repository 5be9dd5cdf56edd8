"""Parquet's headers and footer of a piece, in Thrift.

What depends on the columns alone (the schema, the column order, the Arrow schema that lets Arrow
restore its types) is taken from an empty file that pyarrow writes, once for each schema.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unienv_data.format.page_table import StoredColumn
from unienv_data.format.pages import PARQUET_CODECS, PARQUET_ENCODINGS
from unienv_data.format.thrift import I16, LIST, STRUCT, Struct, raw_fields, zigzag

__all__ = ["WRITER", "Chunk", "arrow_type", "build_footer", "page_header", "value_range"]

WRITER = "unienv-data version 0.1"
"""What pieces of ours name as their writer (`created_by`)."""

# Enums of parquet.thrift.
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PHYSICAL = {"?": 0, "O": 6, "e": 7, "f": 4, "d": 5}  # by numpy character
_INT32, _INT64 = 1, 2

_SCHEMA, _ROW_GROUPS, _KEY_VALUES, _COLUMN_ORDERS = 2, 4, 5, 7
_ARROW_SCHEMA = b"ARROW:schema"


@dataclass(frozen=True)
class Chunk:
    """What the footer says about one column's pages."""

    column: StoredColumn
    start: int
    """Offset of the first page's header."""
    data_start: int
    """Offset of the header of the page of values or codes."""
    stored: int
    """Bytes in the file, headers included."""
    size: int
    """Bytes when decompressed, headers included."""
    values: int
    range: tuple[bytes, bytes] | None
    """Least and greatest value, in PLAIN encoding."""


def arrow_type(column: StoredColumn) -> pa.DataType:
    """The Arrow type of a column."""
    if column.dtype == "object":
        return pa.string()
    dtype = np.dtype(column.dtype)
    element = pa.bool_() if dtype == np.bool_ else pa.from_numpy_dtype(dtype)
    if not column.is_list:
        return element
    return pa.list_(pa.field("element", element, nullable=False), column.elements)


@lru_cache(maxsize=64)
def _template(
    columns: tuple[StoredColumn, ...], metadata: tuple[tuple[bytes, bytes], ...]
) -> tuple[bytes, bytes, bytes]:
    """Encoded schema and column orders of a file of these columns, and its Arrow schema."""
    fields = [pa.field(column.name, arrow_type(column), nullable=False) for column in columns]
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, pa.schema(fields, metadata=dict(metadata))).close()
    data = sink.getvalue().to_pybytes()
    (size,) = struct.unpack_from("<I", data, len(data) - 8)
    parts = raw_fields(data[-8 - size : -8])
    arrow = pq.read_metadata(pa.BufferReader(data)).metadata[_ARROW_SCHEMA]
    return parts[_SCHEMA], parts[_COLUMN_ORDERS], arrow


def page_header(
    size: int, stored: int, crc: int, values: int, encoding: str, *, dictionary: bool = False
) -> bytes:
    """The header of a page.

    Args:
        size: Bytes of its body, decompressed.
        stored: Bytes of its body in the file.
        crc: CRC-32 of these.
        values: Values on it.
        encoding: A name of `PARQUET_ENCODINGS`.
        dictionary: Whether it is a dictionary page.
    """
    signed = crc - (1 << 32) if crc >> 31 else crc
    header = Struct().i32(1, _DICTIONARY_PAGE if dictionary else _DATA_PAGE)
    header.i32(2, size).i32(3, stored).i32(4, signed)
    header.field(7 if dictionary else 5, STRUCT, _page_kind(values, encoding, dictionary))
    return header.finish()


@lru_cache(maxsize=256)
def _page_kind(values: int, encoding: str, dictionary: bool) -> bytes:
    """The part of a header that depends on the kind of page."""
    number = PARQUET_ENCODINGS[encoding]
    if dictionary:
        return Struct().i32(1, values).i32(2, number).finish()
    level_encoding = PARQUET_ENCODINGS["RLE"]
    header = Struct().i32(1, values).i32(2, number)
    return header.i32(3, level_encoding).i32(4, level_encoding).finish()


def value_range(values: NDArray[Any]) -> tuple[bytes, bytes] | None:
    """Least and greatest of scalar values, for engines that skip pieces; None if undefined.

    NaN has no order, and a zero at either end may be of either sign, as the format asks.
    """
    if not values.size or values.dtype == np.float16:
        return None
    least, most = values.min(), values.max()
    if values.dtype.kind == "f":
        if np.isnan(least) or np.isnan(most):
            return None
        least = -abs(least) if least == 0 else least
        most = abs(most) if most == 0 else most
    if values.dtype == np.bool_:
        return bytes((int(least),)), bytes((int(most),))
    stored = np.dtype("<i4") if values.dtype.itemsize < 4 else values.dtype.newbyteorder("<")
    return np.asarray(least, stored).tobytes(), np.asarray(most, stored).tobytes()


def _physical(column: StoredColumn) -> int:
    dtype = np.dtype(column.dtype)
    known = _PHYSICAL.get(dtype.char)
    if known is not None:
        return known
    return _INT64 if dtype.itemsize == 8 else _INT32


@lru_cache(maxsize=1024)
def _column_facts(column: StoredColumn) -> Struct:
    """What the footer says about a column in every piece."""
    is_text = column.dtype == "object"
    names = ("PLAIN", "RLE", column.encoding) if is_text else (column.encoding, "RLE")
    encodings = tuple(PARQUET_ENCODINGS[name] for name in names)
    path = (column.name, "list", "element") if column.is_list else (column.name,)
    facts = Struct().i32(1, _physical(column)).enums(2, encodings).texts(3, path)
    return facts.i32(4, PARQUET_CODECS[column.codec][0])


def _column_chunk(chunk: Chunk) -> bytes:
    facts = _column_facts(chunk.column).copy().i64(5, chunk.values)
    facts.i64(6, chunk.size).i64(7, chunk.stored).i64(9, chunk.data_start)
    if chunk.data_start != chunk.start:
        facts.i64(11, chunk.start)
    statistics = Struct().i64(3, 0)
    if chunk.range is not None:
        statistics.binary(5, chunk.range[1]).binary(6, chunk.range[0])
    facts.field(12, STRUCT, statistics.finish())
    return Struct().i64(2, 0).field(3, STRUCT, facts.finish()).finish()


def build_footer(
    chunks: Sequence[Chunk], rows: int, shared: dict[bytes, bytes], own: dict[bytes, bytes]
) -> bytes:
    """The footer of a file of one row group.

    Args:
        chunks: One a column.
        rows: Rows in the file; a file of none has no row group.
        shared: Key-value metadata that every piece of the storage has; Arrow's schema has it too.
        own: Key-value metadata of this piece.
    """
    columns = tuple(chunk.column for chunk in chunks)
    schema, orders, arrow = _template(columns, tuple(shared.items()))
    groups = []
    if rows:
        group = Struct().structs(1, [_column_chunk(chunk) for chunk in chunks])
        group.i64(2, sum(chunk.size for chunk in chunks)).i64(3, rows)
        group.i64(5, chunks[0].start if chunks else 4)
        group.i64(6, sum(chunk.stored for chunk in chunks)).field(7, I16, zigzag(0))
        groups.append(group.finish())
    pairs = [
        Struct().binary(1, key).binary(2, value).finish()
        for key, value in {**shared, **own, _ARROW_SCHEMA: arrow}.items()
    ]
    footer = Struct().i32(1, 2).field(_SCHEMA, LIST, schema).i64(3, rows)
    footer.structs(_ROW_GROUPS, groups).structs(_KEY_VALUES, pairs)
    footer.binary(6, WRITER.encode()).field(_COLUMN_ORDERS, LIST, orders)
    return footer.finish()
