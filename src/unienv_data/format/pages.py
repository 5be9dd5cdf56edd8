"""Values of one column to the body of a Parquet page, and back.

A page body of ours is level bytes, then values; every level is the greatest, since nothing is null
and every list has the same length. Source: "Data Pages" and "Encodings" of
the Apache Parquet format.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unienv_data.errors import FormatError
from unienv_data.format.schema import Column
from unienv_data.format.thrift import varint

__all__ = [
    "PARQUET_CODECS",
    "PARQUET_ENCODINGS",
    "compress",
    "decompress",
    "encoding_of",
    "levels",
    "pack_codes",
    "pack_numbers",
    "pack_texts",
    "plain_size",
    "unpack_codes",
    "unpack_numbers",
    "unpack_texts",
]

PARQUET_CODECS = {
    "NONE": (0, None),
    "SNAPPY": (1, "snappy"),
    "GZIP": (2, "gzip"),
    "BROTLI": (4, "brotli"),
    "ZSTD": (6, "zstd"),
    "LZ4": (7, "lz4_raw"),
}
"""Name of a codec -> its number in Parquet, its name in pyarrow."""

PARQUET_ENCODINGS = {"PLAIN": 0, "RLE": 3, "RLE_DICTIONARY": 8, "BYTE_STREAM_SPLIT": 9}
"""Name of an encoding -> its number in Parquet."""

Buffer = bytes | memoryview


def compress(codec: str, body: Any) -> Buffer:
    """Compresses a page body with a codec of `PARQUET_CODECS`."""
    name = PARQUET_CODECS[codec][1]
    if name is None:
        return memoryview(body)
    stored: bytes = pa.Codec(name).compress(body, asbytes=True)
    return stored


def decompress(codec: str, body: Buffer, size: int) -> Buffer:
    """Gives the `size` bytes that were compressed.

    Raises:
        OSError: They are not what the codec wrote.
    """
    name = PARQUET_CODECS[codec][1]
    if name is None:
        return body
    found: bytes = pa.Codec(name).decompress(body, size, asbytes=True)
    return found


@lru_cache(maxsize=256)
def levels(rows: int, elements: int) -> bytes:
    """Level bytes of `rows` lists of `elements` values each, none of them null.

    Repetition levels: 0 where a list begins, else 1; definition levels: all 1. Each is a length
    of 4 bytes, then one run in the RLE / bit-packed hybrid of width 1.
    """
    count = rows * elements
    if elements == 1:
        repetition = varint(count << 1) + b"\0"
    else:
        pattern = np.ones(-(-count // 8) * 8, dtype=np.uint8)
        pattern[:count:elements] = 0
        packed = np.packbits(pattern, bitorder="little")
        repetition = varint(len(packed) << 1 | 1) + packed.tobytes()
    definition = varint(count << 1) + b"\1"
    return b"".join(
        struct.pack("<I", len(encoded)) + encoded for encoded in (repetition, definition)
    )


def plain_size(column: Column, rows: int) -> int:
    """Bytes of the values of a column of numbers in PLAIN encoding."""
    count = rows * column.size
    if column.dtype == np.bool_:
        return -(-count // 8)
    return count * _stored_dtype(column.dtype).itemsize


@lru_cache(maxsize=32)
def _stored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Parquet has no integers below 32 bits; these are widened."""
    if dtype.kind in "iu" and dtype.itemsize < 4:
        return np.dtype("<i4")
    stored: np.dtype[Any] = dtype.newbyteorder("<")
    return stored


def encoding_of(column: Column, codec: str) -> str:
    """How the values of a column are encoded under a codec.

    zstd is asked for where size matters: floats are split into streams of their first bytes,
    their second bytes and so on, which are alike in smooth trajectories.
    """
    if column.is_text:
        return "RLE_DICTIONARY"
    splits = codec == "ZSTD" and column.dtype.kind == "f" and column.dtype.itemsize >= 4
    return "BYTE_STREAM_SPLIT" if splits else "PLAIN"


def pack_numbers(column: Column, values: NDArray[Any], encoding: str) -> NDArray[np.uint8]:
    """The values of all rows as bytes; may alias `values`."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if column.dtype == np.bool_:
        return np.packbits(flat, bitorder="little")
    stored = flat.astype(_stored_dtype(column.dtype), copy=False).view(np.uint8)
    if encoding == "BYTE_STREAM_SPLIT":
        return np.ascontiguousarray(stored.reshape(-1, column.dtype.itemsize).T).reshape(-1)
    return stored


def unpack_numbers(
    column: Column, body: Buffer, start: int, rows: int, encoding: str
) -> NDArray[Any]:
    """Rows of shape ``(rows, *column.shape)`` from values at `start`; may alias `body`.

    The array may be unaligned: it is made to be copied from.
    """
    count = rows * column.size
    if column.dtype == np.bool_:
        packed = np.frombuffer(body, np.uint8, -(-count // 8), start)
        flat: NDArray[Any] = np.unpackbits(packed, count=count, bitorder="little").view(np.bool_)
    elif encoding == "BYTE_STREAM_SPLIT":
        width = column.dtype.itemsize
        streams = np.frombuffer(body, np.uint8, count * width, start).reshape(width, count)
        split = np.ascontiguousarray(streams.T).reshape(-1).view(_stored_dtype(column.dtype))
        flat = split.astype(column.dtype, copy=False)
    elif encoding != "PLAIN":
        raise FormatError(f"numbers are encoded as {encoding}, which no piece uses")
    else:
        stored = np.frombuffer(body, _stored_dtype(column.dtype), count, start)
        flat = stored.astype(column.dtype, copy=False)
        if flat is not stored and not np.array_equal(flat, stored):
            raise FormatError(f"a number does not fit {column.dtype}")
    return flat.reshape((rows, *column.shape))


def pack_texts(values: list[str]) -> bytes:
    """Texts in PLAIN encoding: each its length in 4 bytes, then UTF-8."""
    encoded = [value.encode() for value in values]
    return b"".join([len(text).to_bytes(4, "little") + text for text in encoded])


def unpack_texts(body: Buffer, count: int) -> list[str]:
    """`count` texts in PLAIN encoding.

    Raises:
        FormatError: They do not fill the body exactly.
        UnicodeDecodeError: They are no UTF-8.
    """
    data = bytes(body)
    texts = []
    position = 0
    for _ in range(count):
        start = position + 4
        position = start + int.from_bytes(data[position:start], "little")
        texts.append(data[start:position].decode())
    if position != len(data):
        raise FormatError(f"{count} texts take {position} bytes, there are {len(data)}")
    return texts


def pack_codes(codes: NDArray[np.int64], distinct: int) -> bytes:
    """Dictionary codes: their width in bits, then one bit-packed run."""
    if distinct <= 1:
        return _all_zero(len(codes))
    width = (distinct - 1).bit_length()
    groups = -(-len(codes) // 8)
    padded = np.zeros(groups * 8, dtype="<u4")
    padded[: len(codes)] = codes
    bits = np.unpackbits(padded.view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    packed = np.packbits(bits[:, :width].reshape(-1), bitorder="little")
    return bytes((width,)) + varint(groups << 1 | 1) + packed.tobytes()


def _all_zero(rows: int) -> bytes:
    """One run of zeros, a bit wide."""
    return b"\1" + varint(rows << 1) + b"\0"


def unpack_codes(body: Buffer, rows: int, distinct: int) -> NDArray[np.int64]:
    """The codes that `pack_codes` packed.

    Raises:
        FormatError: They are not laid out as it does, or beyond the dictionary.
    """
    if distinct <= 1:
        if bytes(body) != _all_zero(rows):
            raise FormatError("dictionary codes are not all 0 over a dictionary of one text")
        return np.zeros(rows, dtype=np.int64)
    width = (distinct - 1).bit_length()
    groups = -(-rows // 8)
    head = bytes((width,)) + varint(groups << 1 | 1)
    if bytes(body[: len(head)]) != head or len(body) != len(head) + groups * width:
        raise FormatError(f"dictionary codes are no single run of {width} bits for {rows} rows")
    packed = np.frombuffer(body, np.uint8, groups * width, len(head))
    bits = np.zeros((groups * 8, 32), dtype=np.uint8)
    bits[:, :width] = np.unpackbits(packed, bitorder="little").reshape(-1, width)
    codes = np.packbits(bits, axis=1, bitorder="little").view("<u4").reshape(-1)[:rows]
    if rows and int(codes.max()) >= distinct:
        raise FormatError(f"dictionary code {int(codes.max())} of {distinct} texts")
    return codes.astype(np.int64)
