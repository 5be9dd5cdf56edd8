"""The table of pages at the end of a piece: where its pages lie, and a checksum of all the rest.

It stands between the last page and Parquet's footer, where other readers do not look. With it a
piece is read without parsing Thrift, and a flipped bit anywhere in the file is found: pages have a
checksum each, and the table one of every other byte, the footer included. `docs/format.md`
specifies it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from unienv_data.errors import FormatError

__all__ = ["Page", "PageTable", "StoredColumn", "build_table", "read_table"]

MAGIC = b"UNIENVPT"
_PARQUET = b"PAR1"
_HEAD = struct.Struct("<8sI")  # magic, bytes of the description
_PLACE = struct.Struct("<4q")  # piece, rows, generation, changed
_PAGE = struct.Struct("<4QI")  # offset, stored bytes, bytes, values, CRC-32 of the stored bytes
_CRC = struct.Struct("<I")
_TAIL = struct.Struct("<I8s")  # bytes of the table, magic
_PARQUET_TAIL = struct.Struct("<I4s")  # bytes of the footer, magic
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class StoredColumn:
    """What a piece says about one of its columns."""

    name: str
    dtype: str
    """numpy name; ``object`` is text, on a dictionary page and a page of codes."""
    elements: int
    """Values a row."""
    is_list: bool
    """Whether rows are lists, which have level bytes; scalars and texts are not."""
    codec: str
    """A name of `PARQUET_CODECS`."""
    encoding: str
    """A name of `PARQUET_ENCODINGS`, of the page of values or codes."""

    numpy_dtype: np.dtype[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numpy_dtype", np.dtype(self.dtype))

    @property
    def pages(self) -> int:
        """How many pages it has."""
        return 2 if self.dtype == "object" else 1


@dataclass(frozen=True)
class Page:
    """The body of one page."""

    offset: int
    stored: int
    """Bytes in the file."""
    size: int
    """Bytes when decompressed."""
    values: int
    crc: int
    """CRC-32 of the bytes in the file."""


@dataclass(frozen=True)
class PageTable:
    """Everything about a piece but its values."""

    uuid: str
    piece: int
    rows: int
    generation: int
    changed: int
    columns: tuple[StoredColumn, ...]
    pages: tuple[tuple[Page, ...], ...]
    """Pages of each column."""


def describe(uuid: str, columns: Sequence[StoredColumn]) -> bytes:
    """The part of the table that all pieces of a storage share."""
    facts = [
        {
            "name": c.name,
            "dtype": c.dtype,
            "elements": c.elements,
            "is_list": c.is_list,
            "codec": c.codec,
            "encoding": c.encoding,
        }
        for c in columns
    ]
    return json.dumps({"uuid": uuid, "columns": facts}, separators=(",", ":")).encode()


@lru_cache(maxsize=64)
def _parse_description(text: bytes) -> tuple[str, tuple[StoredColumn, ...]]:
    try:
        facts = json.loads(text)
        columns = tuple(
            StoredColumn(
                str(fact["name"]),
                str(fact["dtype"]),
                int(fact["elements"]),
                bool(fact["is_list"]),
                str(fact["codec"]),
                str(fact["encoding"]),
            )
            for fact in facts["columns"]
        )
        return str(facts["uuid"]), columns
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"its page table is not readable ({error})") from error


def build_table(
    description: bytes, place: tuple[int, int, int, int], pages: Sequence[Page], others: int
) -> tuple[bytes, Callable[[bytes], bytes]]:
    """Builds a table around the checksum that it will hold.

    Args:
        description: From `describe`.
        place: Piece, rows, generation, changed.
        pages: All pages, in the order of the columns.
        others: CRC-32 of all bytes before the table that are no page body.

    Returns:
        The table's bytes before the checksum, and a function that gives the bytes from the
        checksum to the end of the file for Parquet's `footer`.
    """
    before = b"".join(
        [
            _HEAD.pack(MAGIC, len(description)),
            description,
            _PLACE.pack(*place),
            *(_PAGE.pack(p.offset, p.stored, p.size, p.values, p.crc) for p in pages),
        ]
    )
    length = len(before) + _CRC.size + _TAIL.size
    crc = zlib.crc32(before, others)

    def end(footer: bytes) -> bytes:
        after = _TAIL.pack(length, MAGIC) + footer + _PARQUET_TAIL.pack(len(footer), _PARQUET)
        return _CRC.pack(zlib.crc32(after, crc)) + after

    return before, end


def read_table(size: int, read: Callable[[int, int], bytes | memoryview]) -> PageTable | None:
    """Reads and verifies a piece's table.

    Args:
        size: Bytes of the file.
        read: Gives the bytes of an offset and a length.

    Returns:
        The table, or None where the file has none: another program wrote it.

    Raises:
        FormatError: The table, or what its checksum covers, is damaged.
    """
    end = size - _PARQUET_TAIL.size
    if end < _TAIL.size:
        return None
    footer, parquet = _PARQUET_TAIL.unpack(read(end, _PARQUET_TAIL.size))
    tail_at = end - footer - _TAIL.size
    if parquet != _PARQUET or tail_at < 0:
        return None
    length, magic = _TAIL.unpack(read(tail_at, _TAIL.size))
    if magic != MAGIC:
        return None
    start = tail_at + _TAIL.size - length
    if start < len(_PARQUET) or length > _MOST_BYTES:
        raise FormatError(f"its page table claims {length} bytes")
    data = bytes(read(start, length - _TAIL.size))
    table = _parse(data)
    crc = _crc_of_others(table, start, data, read(tail_at, size - tail_at), read)
    if crc != _CRC.unpack_from(data, len(data) - _CRC.size)[0]:
        raise FormatError("its page headers, page table or footer do not match their checksum")
    return table


def _parse(data: bytes) -> PageTable:
    try:
        magic, described = _HEAD.unpack_from(data)
        position = _HEAD.size + described
        uuid, columns = _parse_description(data[_HEAD.size : position])
        place = _PLACE.unpack_from(data, position)
        position += _PLACE.size
        pages = []
        for column in columns:
            own = []
            for _ in range(column.pages):
                own.append(Page(*_PAGE.unpack_from(data, position)))
                position += _PAGE.size
            pages.append(tuple(own))
    except struct.error as error:
        raise FormatError(f"its page table is cut short ({error})") from error
    if magic != MAGIC or position + _CRC.size != len(data):
        raise FormatError("its page table does not have the length it claims")
    piece, rows, generation, changed = place
    return PageTable(uuid, piece, rows, generation, changed, columns, tuple(pages))


def _crc_of_others(
    table: PageTable,
    start: int,
    data: bytes,
    after: bytes | memoryview,
    read: Callable[[int, int], bytes | memoryview],
) -> int:
    """CRC-32 of every byte of the file that is no page body and not the checksum itself."""
    crc = position = 0
    for own in table.pages:
        for page in own:
            if not position <= page.offset <= page.offset + page.stored <= start:
                raise FormatError("its page table names pages outside of the file")
            crc = zlib.crc32(read(position, page.offset - position), crc)
            position = page.offset + page.stored
    crc = zlib.crc32(read(position, start - position), crc)
    crc = zlib.crc32(data[: -_CRC.size], crc)
    return zlib.crc32(after, crc)
