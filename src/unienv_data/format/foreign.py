"""Parquet files of other writers to numpy columns, through pyarrow, checksums verified.

They may hold nullable fields, variable lists of equal length, large or dictionary text, several
row groups: they are read too, or refused by column and row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unienv_data.errors import (
    CorruptPieceError,
    MissingPieceError,
    SchemaMismatchError,
    StorageError,
)
from unienv_data.format.codec import FOOTER_KEY, SHAPES_KEY, ColumnData, Texts
from unienv_data.format.identity import DAMAGE, Footer, check_identity, damaged
from unienv_data.format.schema import Column, Schema

__all__ = ["decode_foreign", "open_parquet", "read_foreign_footer", "read_schema"]

_WHOLE_FILE_BYTES = 16 << 20


def open_parquet(path: Path) -> pq.ParquetFile:
    """Opens a file with checksums verified on read; missing and damaged ones are named."""
    try:
        source = pa.OSFile(str(path))
        if source.size() <= _WHOLE_FILE_BYTES:
            source = pa.BufferReader(source.read())
        return pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False)
    except FileNotFoundError as error:
        raise MissingPieceError(
            f"{path} is missing, though the manifest counts its rows; restore it from a copy",
            path=str(path),
        ) from error
    except DAMAGE as error:
        raise CorruptPieceError(
            f"{path} is no readable Parquet file ({error}); restore it from a copy",
            path=str(path),
        ) from error


def read_foreign_footer(path: Path) -> tuple[int, Footer | None]:
    """Rows of a file, and its identity when it is a piece of ours.

    Raises:
        MissingPieceError: No such file.
        CorruptPieceError: The footer does not parse.
    """
    with _damage_named(path, 0):
        file = open_parquet(path)
        _check_has_table(file, path)
        return file.metadata.num_rows, _footer(file.metadata.metadata)


def _check_has_table(file: pq.ParquetFile, path: Path) -> None:
    if (file.metadata.created_by or "").startswith("unienv-data "):
        raise CorruptPieceError(
            f"{path} has lost its page table: bytes at its end were changed; restore it from a "
            "copy",
            path=str(path),
            rows=file.metadata.num_rows,
        )


def _arrow_schema(file: pq.ParquetFile, path: Path) -> pa.Schema:
    try:
        return file.schema_arrow
    except DAMAGE as error:
        raise CorruptPieceError(
            f"{path} has a damaged footer ({error}); restore it from a copy", path=str(path)
        ) from error


def _footer(metadata: Mapping[bytes, bytes] | None) -> Footer | None:
    text = (metadata or {}).get(FOOTER_KEY)
    if text is None:
        return None
    try:
        facts = json.loads(text)
        return Footer(
            str(facts["uuid"]),
            int(facts["piece"]),
            int(facts["rows"]),
            int(facts["generation"]),
            int(facts.get("changed", 0)),
        )
    except (ValueError, KeyError, TypeError):
        return None


def read_schema(path: Path, shapes: Mapping[str, Sequence[int]] | None = None) -> Schema:
    """The columns of a Parquet file.

    Args:
        path: The file.
        shapes: Shapes of list columns; when None, those the file's own metadata gives.

    Raises:
        SchemaMismatchError: A column is of a type that no space has.
    """
    with _damage_named(path, 0):
        file = open_parquet(path)
        arrow = _arrow_schema(file, path)
        if shapes is None:
            shapes = json.loads((file.metadata.metadata or {}).get(SHAPES_KEY, b"{}"))
        columns = tuple(_column_of(field, shapes.get(field.name), path) for field in arrow)
    lone = len(columns) == 1 and columns[0].name == "data"
    return Schema(columns, is_dict=not lone)


def _column_of(field: pa.Field, shape: Sequence[int] | None, path: Path) -> Column:
    arrow_type = field.type
    if pa.types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        return Column(field.name, np.dtype(object))
    found = (1,) if pa.types.is_fixed_size_list(arrow_type) else ()
    if pa.types.is_fixed_size_list(arrow_type):
        found = (arrow_type.list_size,)
        arrow_type = arrow_type.value_type
    elif pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        if shape is None:
            length = _list_length(field.name, path)
            found = (length,)
        arrow_type = arrow_type.value_type
    if not (pa.types.is_boolean(arrow_type) or pa.types.is_integer(arrow_type)) and not (
        pa.types.is_floating(arrow_type)
    ):
        raise SchemaMismatchError(
            f"{path}: column {field.name!r} is of Arrow type {field.type}, which no space holds; "
            "stored are bools, integers, floats, their lists of one length, and text",
            path=str(path),
            column=field.name,
            found=str(field.type),
        )
    dtype = np.dtype(arrow_type.to_pandas_dtype())
    return Column(field.name, dtype, tuple(shape) if shape is not None else found)


def _list_length(name: str, path: Path) -> int:
    """Length of a variable-length list column's first row: all rows must agree when read."""
    file = open_parquet(path)
    if file.metadata.num_rows == 0:
        return 0
    first = next(file.iter_batches(batch_size=1, columns=[name], use_threads=False))
    return len(first.column(0)[0])


def decode_foreign(
    path: Path, columns: Sequence[Column], rows: int, uuid: str | None, piece: int | None
) -> tuple[list[ColumnData], Footer | None]:
    """As `decode`, for a file without a page table."""
    with _damage_named(path, rows):
        return _decode(path, columns, rows, uuid, piece)


@contextmanager
def _damage_named(path: Path, rows: int) -> Iterator[None]:
    """Whatever pyarrow raises over a file is damage of it: also bytes that are no text in names."""
    try:
        yield
    except StorageError:
        raise
    except DAMAGE as error:
        raise damaged(path, error, rows) from error


def _decode(
    path: Path, columns: Sequence[Column], rows: int, uuid: str | None, piece: int | None
) -> tuple[list[ColumnData], Footer | None]:
    file = open_parquet(path)
    _check_has_table(file, path)
    footer = _footer(file.metadata.metadata)
    check_identity(path, footer, file.metadata.num_rows, rows, uuid, piece)
    stored = [column for column in columns if column.is_text or column.size]
    known = set(file.schema_arrow.names)
    for column in stored:
        if column.name not in known:
            raise SchemaMismatchError(
                f"{path}: has no column {column.name!r}, it holds {sorted(known)}",
                path=str(path),
                column=column.name,
            )
    try:
        table = file.read(
            columns=None if len(stored) == len(known) else _paths(stored, file), use_threads=False
        )
    except DAMAGE as error:
        raise damaged(path, error, rows) from error
    result = []
    for column in columns:
        if column.is_text or column.size:
            result.append(_from_arrow(column, table.column(column.name), path))
        else:
            result.append(column.zeros(file.metadata.num_rows))
    return result, footer


def _paths(stored: Sequence[Column], file: pq.ParquetFile) -> list[str]:
    # Names with dots are ambiguous for pyarrow's column selection; read all columns then.
    if any("." in name for name in file.schema_arrow.names):
        return list(file.schema_arrow.names)
    return [column.name for column in stored]


def _from_arrow(column: Column, chunks: pa.ChunkedArray, path: Path) -> ColumnData:
    array = chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], type=array.type)
    if array.null_count:
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        raise SchemaMismatchError(
            f"{path}: column {column.name!r} has a null at row {row} of the file; fill or drop "
            "it first, a null is never read as a value",
            path=str(path),
            column=column.name,
            row=row,
        )
    if column.is_text:
        return _texts(column, array, path)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    values = array if column.shape == () else _list_values(column, array, path)
    return _numbers(column, values, path).reshape((len(array), *column.shape))


def _list_values(column: Column, array: pa.Array, path: Path) -> pa.Array:
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        if kind.list_size != column.size:
            raise _wrong_type(column, array.type, path)
        # `.values` ignores the slice's offset, `.flatten()` drops nulls: slice by hand.
        values = array.values.slice(array.offset * kind.list_size, len(array) * kind.list_size)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = np.diff(np.asarray(array.offsets))
        wrong = np.flatnonzero(lengths != column.size)
        if wrong.size:
            raise SchemaMismatchError(
                f"{path}: column {column.name!r} has a list of {int(lengths[wrong[0]])} at row "
                f"{int(wrong[0])} of the file, expected {column.size}",
                path=str(path),
                column=column.name,
                row=int(wrong[0]),
            )
        values = array.flatten()
    else:
        raise _wrong_type(column, array.type, path)
    if values.null_count:
        row = int(np.flatnonzero(np.asarray(values.is_null()))[0]) // max(column.size, 1)
        raise SchemaMismatchError(
            f"{path}: column {column.name!r} has a null element at row {row} of the file",
            path=str(path),
            column=column.name,
            row=row,
        )
    return values


def _numbers(column: Column, values: pa.Array, path: Path) -> NDArray[Any]:
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if not is_number and not pa.types.is_boolean(values.type):
        raise _wrong_type(column, values.type, path)
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    if array.dtype != column.dtype:
        raise _wrong_type(column, values.type, path)
    return array


def _texts(column: Column, array: pa.Array, path: Path) -> Texts:
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    kind = encoded.dictionary.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise _wrong_type(column, array.type, path)
    if encoded.dictionary.null_count:
        raise SchemaMismatchError(f"{path}: column {column.name!r} holds a null", path=str(path))
    try:
        values: list[str] = encoded.dictionary.to_pylist()
    except UnicodeDecodeError as error:
        raise CorruptPieceError(
            f"{path}: column {column.name!r} holds bytes that are no UTF-8 text ({error})",
            path=str(path),
            column=column.name,
        ) from error
    return Texts(values, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64))


def _wrong_type(column: Column, found: pa.DataType, path: Path) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"{path}: column {column.name!r} is of Arrow type {found}, expected {column.describe()}",
        path=str(path),
        column=column.name,
        expected=column.describe(),
        found=str(found),
    )
