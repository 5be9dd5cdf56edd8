"""numpy columns to one Parquet file in memory; `decode` is the way back.

Pieces hold `required` fields: scalars, or flat fixed-size lists in C order, one page a column,
with page checksums. `docs/format.md` specifies them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unienv_data.errors import FormatError
from unienv_data.format.footer import Chunk, build_footer, page_header, value_range
from unienv_data.format.identity import Footer
from unienv_data.format.page_table import Page, StoredColumn, build_table, describe
from unienv_data.format.pages import (
    PARQUET_CODECS,
    compress,
    encoding_of,
    levels,
    pack_codes,
    pack_numbers,
    pack_texts,
)
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

_ALIGNMENT = 64


@dataclass(frozen=True)
class Texts:
    """Text rows as codes into their distinct values."""

    values: list[str]
    """Distinct texts."""
    codes: NDArray[np.int64]
    """Index into `values` for each row, shape ``(n,)``."""


ColumnData = NDArray[Any] | Texts
"""The rows of one column."""


def check_compression(compression: Any, columns: Sequence[Column]) -> str | None:
    """Says what is wrong with a compression argument, or None when it is fine."""
    if compression is not None and not isinstance(compression, (str, Mapping)):
        return f"compression should be a codec, a mapping or None, got {compression!r}"
    codecs = (
        [compression]
        if isinstance(compression, str)
        else list(compression.values())
        if compression
        else []
    )
    for codec in codecs:
        if str(codec).upper() not in PARQUET_CODECS:
            return f"unknown codec {codec!r}; known are {', '.join(sorted(PARQUET_CODECS))}"
        name = PARQUET_CODECS[codec.upper()][1]
        if name is not None and not pa.Codec.is_available(name):
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
    columns, description, shapes = _plan(schema, _codecs(schema, compression), footer.uuid)
    file = _File(footer.rows)
    stored = [
        (column, values)
        for column, values in zip(schema.columns, data, strict=True)
        if column.is_text or column.size
    ]
    for column, values in stored:
        count = len(values.codes if isinstance(values, Texts) else values)
        if count != footer.rows:
            raise ValueError(f"encode: column {column.name!r} has {count} of {footer.rows} rows")
    chunks = [
        _encode_texts(file, target, values)
        if isinstance(values, Texts)
        else _encode_numbers(file, target, column, values)
        for target, (column, values) in zip(columns, stored, strict=True)
    ]
    identity = json.dumps(
        {
            "uuid": footer.uuid,
            "piece": footer.piece,
            "rows": footer.rows,
            "generation": footer.generation,
            "changed": footer.changed,
        }
    )
    place = (footer.piece, footer.rows, footer.generation, footer.changed)
    table, end = build_table(description, place, file.pages, file.others)
    own = {FOOTER_KEY: identity.encode()}
    ending = build_footer(chunks, footer.rows, {SHAPES_KEY: shapes}, own)
    return memoryview(b"".join([*file.parts, table, end(ending)]))


class _File:
    """A piece in the making: its parts so far, and where they lie."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.parts: list[Any] = [b"PAR1"]
        self.size = 4
        self.others = zlib.crc32(b"PAR1")
        """CRC-32 of every byte that is no page body."""
        self.pages: list[Page] = []

    def add_page(
        self,
        codec: str,
        body: Any,
        values: int,
        encoding: str,
        *,
        aligned: int | None = None,
        dictionary: bool = False,
    ) -> tuple[int, int, int]:
        """Adds a page; gives where its header is, its bytes in the file and when decompressed.

        Args:
            codec: A name of `PARQUET_CODECS`.
            body: Its bytes, a buffer of unsigned bytes.
            values: Values on it.
            encoding: A name of `PARQUET_ENCODINGS`.
            aligned: Where in the body values begin that shall be aligned in an uncompressed file.
            dictionary: Whether it is a dictionary page.
        """
        size = len(body)
        stored = compress(codec, body)
        length = len(stored)
        crc = zlib.crc32(stored)
        header = page_header(size, length, crc, values, encoding, dictionary=dictionary)
        if codec == "NONE" and aligned is not None:
            # Values that lie aligned in the file can be gathered where they are.
            gap = bytes(-(self.size + len(header) + aligned) % _ALIGNMENT)
            self.others = zlib.crc32(gap, self.others)
            self.parts.append(gap)
            self.size += len(gap)
        start = self.size
        self.others = zlib.crc32(header, self.others)
        self.parts += [header, stored]
        self.pages.append(Page(start + len(header), length, size, values, crc))
        self.size += len(header) + length
        return start, len(header) + length, len(header) + size


def _encode_numbers(
    file: _File, target: StoredColumn, column: Column, values: NDArray[Any]
) -> Chunk:
    packed = pack_numbers(column, values, target.encoding)
    count = file.rows * column.size
    limits = None if target.is_list else value_range(values)
    head = levels(file.rows, column.size) if target.is_list else b""
    body: Any = packed
    if head:
        body = np.empty(len(head) + packed.nbytes, dtype=np.uint8)
        body[: len(head)] = np.frombuffer(head, np.uint8)
        body[len(head) :] = packed
    start, stored, size = file.add_page(
        target.codec, memoryview(body), count, target.encoding, aligned=len(head)
    )
    return Chunk(target, start, start, stored, size, count, limits)


def _encode_texts(file: _File, target: StoredColumn, values: Texts) -> Chunk:
    texts = pack_texts(values.values)
    codes = pack_codes(values.codes, len(values.values))
    start, stored, size = file.add_page(
        target.codec, texts, len(values.values), "PLAIN", dictionary=True
    )
    data_start, data_stored, data_size = file.add_page(
        target.codec, codes, file.rows, target.encoding
    )
    stored, size = stored + data_stored, size + data_size
    return Chunk(target, start, data_start, stored, size, file.rows, None)


@lru_cache(maxsize=64)
def _plan(
    schema: Schema, codecs: tuple[str, ...], uuid: str
) -> tuple[tuple[StoredColumn, ...], bytes, bytes]:
    """What every piece of a storage has in common: columns, table's description, shapes."""
    stored = [column for column in schema.columns if column.is_text or column.size]
    columns = tuple(
        StoredColumn(
            column.name,
            column.dtype.name,
            1 if column.is_text else column.size,
            not column.is_text and column.shape != (),
            codec,
            encoding_of(column, codec),
        )
        for column, codec in zip(stored, codecs, strict=True)
    )
    shapes = json.dumps({column.name: list(column.shape) for column in stored})
    return columns, describe(uuid, columns), shapes.encode()


def _physical_path(column: Column) -> str:
    is_list = not column.is_text and column.shape != ()
    return f"{column.name}.list.element" if is_list else column.name


def _codecs(schema: Schema, compression: Compression) -> tuple[str, ...]:
    """Codec of each stored column."""
    stored = [column for column in schema.columns if column.is_text or column.size]
    if compression is None:
        return ("NONE",) * len(stored)
    if isinstance(compression, str):
        names = [compression] * len(stored)
    else:
        names = [
            compression.get(column.name, compression.get(_physical_path(column), "NONE"))
            for column in stored
        ]
    codecs = tuple(name.upper() for name in names)
    for codec in codecs:
        if codec not in PARQUET_CODECS:  # of a manifest that another program wrote
            raise FormatError(
                f"encode: the manifest names the codec {codec!a}; known are "
                f"{', '.join(sorted(PARQUET_CODECS))}: give compression= when opening for writing"
            )
    return codecs
