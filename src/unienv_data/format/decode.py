"""One piece file to numpy columns, every byte that is used verified by a checksum.

Pieces of ours carry a page table and are read without Parquet's metadata; files of other writers
go through pyarrow (`foreign.py`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import Self

from unienv_data.errors import (
    FormatError,
    MissingPieceError,
    SchemaMismatchError,
    UnsupportedVersionError,
)
from unienv_data.format.codec import ColumnData, Texts
from unienv_data.format.foreign import decode_foreign, read_foreign_footer, read_schema
from unienv_data.format.identity import DAMAGE, Footer, check_identity, damaged
from unienv_data.format.page_table import Page, PageTable, StoredColumn, read_table
from unienv_data.format.pages import (
    PARQUET_CODECS,
    PARQUET_ENCODINGS,
    decompress,
    levels,
    plain_size,
    unpack_codes,
    unpack_numbers,
    unpack_texts,
)
from unienv_data.format.schema import Column

__all__ = ["decode", "read_footer", "read_schema"]

_WHOLE_FILE_BYTES = 16 << 20


def decode(
    path: Path, columns: Sequence[Column], rows: int, uuid: str | None, piece: int | None
) -> tuple[list[ColumnData], Footer | None]:
    """Reads columns of one piece file, checksums verified.

    Args:
        path: The file.
        columns: Which columns; those without elements come back empty-shaped.
        rows: How many rows the manifest counts in it; more may be there.
        uuid: Storage it must belong to, None for files of any writer.
        piece: Its number, None for files of any writer.

    Returns:
        One array of shape ``(n, *column.shape)``, or `Texts`, a column, of all ``n >= rows`` rows
        in the file; and the file's footer. Arrays are made to be copied from: they may be
        read-only and unaligned.

    Raises:
        MissingPieceError: No such file.
        CorruptPieceError: Damaged, too short, or of another storage.
        SchemaMismatchError: A column is missing, of another type, or holds a null.
    """
    try:
        with _File(path) as file:
            table = read_table(file.size, file.read)
            if table is not None:
                return _decode_own(file, table, columns, rows, uuid, piece)
    except (*DAMAGE, FormatError) as error:
        raise _named(path, error, rows) from error
    return decode_foreign(path, columns, rows, uuid, piece)


def read_footer(path: Path) -> tuple[int, Footer | None]:
    """Rows of a file, and its identity when it is a piece of ours; everything but values verified.

    Raises:
        MissingPieceError: No such file.
        CorruptPieceError: It is damaged.
    """
    try:
        with _File(path) as file:
            table = read_table(file.size, file.read)
    except (*DAMAGE, FormatError) as error:
        raise _named(path, error, 0) from error
    if table is None:
        return read_foreign_footer(path)
    return table.rows, _footer_of(table)


def _footer_of(table: PageTable) -> Footer:
    return Footer(table.uuid, table.piece, table.rows, table.generation, table.changed)


def _named(path: Path, error: BaseException, rows: int) -> Exception:
    """The error to raise for a file: as it is when it names the file already."""
    if isinstance(error, FileNotFoundError):
        return MissingPieceError(
            f"{path} is missing, though the manifest counts its rows; restore it from a copy",
            path=str(path),
        )
    if isinstance(error, FormatError) and type(error) is not FormatError:
        return error
    return damaged(path, error, rows)


class _File:
    """Bytes of a file by offset: small files are read whole, of large ones what is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.size = os.fstat(self._descriptor).st_size
            self._whole: memoryview | None = None
            if self.size <= _WHOLE_FILE_BYTES:
                self._whole = memoryview(os.pread(self._descriptor, self.size, 0))
        except BaseException:
            os.close(self._descriptor)
            raise

    def read(self, offset: int, length: int) -> bytes | memoryview:
        """`length` bytes at `offset`."""
        if self._whole is not None:
            found: bytes | memoryview = self._whole[offset : offset + length]
        else:
            found = os.pread(self._descriptor, length, offset)
        if len(found) != length:
            raise FormatError(f"it ends before byte {offset + length}")
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _decode_own(
    file: _File,
    table: PageTable,
    columns: Sequence[Column],
    rows: int,
    uuid: str | None,
    piece: int | None,
) -> tuple[list[ColumnData], Footer]:
    footer = _footer_of(table)
    check_identity(file.path, footer, table.rows, rows, uuid, piece)
    by_name = {
        stored.name: (stored, pages)
        for stored, pages in zip(table.columns, table.pages, strict=True)
    }
    result: list[ColumnData] = []
    for column in columns:
        if not column.is_text and column.size == 0:
            result.append(column.zeros(table.rows))
            continue
        found = by_name.get(column.name)
        if found is None:
            raise SchemaMismatchError(
                f"{file.path}: has no column {column.name!r}, it holds {sorted(by_name)}",
                path=str(file.path),
                column=column.name,
            )
        stored, pages = found
        _check_type(file.path, stored, column)
        if stored.codec not in PARQUET_CODECS or stored.encoding not in PARQUET_ENCODINGS:
            raise UnsupportedVersionError(
                f"{file.path}: column {column.name!r} is stored as {stored.codec}, "
                f"{stored.encoding}, by a newer version; install a newer unienv-data",
                path=str(file.path),
                column=column.name,
            )
        if column.is_text:
            result.append(_texts(file, stored, pages, table.rows))
        else:
            result.append(_numbers(file, stored, pages[0], column, table.rows))
    return result, footer


def _check_type(path: Path, stored: StoredColumn, column: Column) -> None:
    size = 1 if column.is_text else column.size
    is_list = not column.is_text and column.shape != ()
    same = stored.numpy_dtype == column.dtype and stored.elements == size
    if not same or stored.is_list != is_list:
        kind = f"{stored.dtype} [{stored.elements}]" if stored.is_list else stored.dtype
        raise SchemaMismatchError(
            f"{path}: column {column.name!r} is of type {kind}, expected {column.describe()}",
            path=str(path),
            column=column.name,
            expected=column.describe(),
            found=kind,
        )


def _body(file: _File, stored: StoredColumn, page: Page) -> bytes | memoryview:
    data = file.read(page.offset, page.stored)
    if zlib.crc32(data) != page.crc:
        raise FormatError(f"column {stored.name!r} does not match its checksum")
    body = decompress(stored.codec, data, page.size)
    if len(body) != page.size:
        raise FormatError(f"column {stored.name!r} has {len(body)} bytes, not {page.size}")
    return body


def _numbers(
    file: _File, stored: StoredColumn, page: Page, column: Column, rows: int
) -> ColumnData:
    head = levels(rows, column.size) if stored.is_list else b""
    expected = len(head) + plain_size(column, rows)
    if page.size != expected:
        raise FormatError(f"column {stored.name!r} has {page.size} bytes, {rows} rows {expected}")
    body = _body(file, stored, page)
    if body[: len(head)] != head:
        raise FormatError(f"column {stored.name!r} has lists of other lengths, or nulls")
    return unpack_numbers(column, body, len(head), rows, stored.encoding)


def _texts(file: _File, stored: StoredColumn, pages: tuple[Page, ...], rows: int) -> Texts:
    dictionary, codes = pages
    if codes.values != rows:
        raise FormatError(f"column {stored.name!r} has {codes.values} codes for {rows} rows")
    values = unpack_texts(_body(file, stored, dictionary), dictionary.values)
    return Texts(values, unpack_codes(_body(file, stored, codes), rows, len(values)))
