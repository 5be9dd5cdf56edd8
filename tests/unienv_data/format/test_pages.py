from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unienv_data.errors import FormatError
from unienv_data.format.pages import (
    compress,
    decompress,
    levels,
    pack_codes,
    pack_numbers,
    pack_texts,
    unpack_codes,
    unpack_numbers,
    unpack_texts,
)
from unienv_data.format.schema import Column


def hybrid(data: bytes, count: int) -> list[int]:
    """A plain reader of the RLE / bit-packed hybrid of width 1, for runs of either kind."""
    values: list[int] = []
    position = 0
    while position < len(data):
        head = shift = 0
        while True:
            byte = data[position]
            position += 1
            head |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if head & 1:
            for byte in data[position : position + (head >> 1)]:
                values += [byte >> bit & 1 for bit in range(8)]
            position += head >> 1
        else:
            values += [data[position]] * (head >> 1)
            position += 1
    return values[:count]


@given(rows=st.integers(0, 300), elements=st.integers(1, 40))
def test_levels_say_where_lists_begin_and_that_nothing_is_null(rows: int, elements: int) -> None:
    data = levels(rows, elements)
    size = int.from_bytes(data[:4], "little")
    repetition, rest = data[4 : 4 + size], data[4 + size :]
    assert int.from_bytes(rest[:4], "little") == len(rest) - 4
    count = rows * elements
    assert hybrid(repetition, count) == [int(i % elements > 0) for i in range(count)]
    assert hybrid(rest[4:], count) == [1] * count


@given(
    distinct=st.sampled_from([1, 2, 3, 8, 9, 255, 256, 257, 70_000]),
    rows=st.integers(0, 100),
    seed=st.integers(0, 1000),
)
def test_codes_survive(distinct: int, rows: int, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, distinct, rows)
    packed = pack_codes(codes, distinct)
    assert packed[0] == max((distinct - 1).bit_length(), 1)
    assert unpack_codes(packed, rows, distinct).tolist() == codes.tolist()


@pytest.mark.parametrize(
    ("body", "rows", "distinct", "message"),
    [
        (pack_codes(np.array([2, 1]), 4), 2, 3, "code"),
        (pack_codes(np.array([2, 1]), 3) + b"x", 2, 3, "no single run"),
        (pack_codes(np.array([2, 1]), 3), 20, 3, "no single run"),
        (pack_codes(np.array([0, 0]), 1), 3, 1, "not all 0"),
    ],
)
def test_codes_that_lie_are_refused(body: bytes, rows: int, distinct: int, message: str) -> None:
    if message == "code":
        body = pack_codes(np.array([3, 1]), 4)
    with pytest.raises(FormatError, match=message):
        unpack_codes(body, rows, distinct)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=5)))
def test_texts_survive(values: list[str]) -> None:
    assert unpack_texts(pack_texts(values), len(values)) == values


def test_texts_must_fill_their_page() -> None:
    body = pack_texts(["a", "bc"])
    for wrong in (body + b"x", body[:-1]):
        with pytest.raises(FormatError, match="2 texts take"):
            unpack_texts(wrong, 2)


def test_a_widened_number_that_does_not_fit_is_refused() -> None:
    body = np.array([1, 300], "<i4").tobytes()
    with pytest.raises(FormatError, match="does not fit uint8"):
        unpack_numbers(Column("x", np.dtype("uint8")), body, 0, 2, "PLAIN")


@pytest.mark.parametrize("codec", ["NONE", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4"])
def test_codecs(codec: str) -> None:
    body = b"abcabcabc" * 50
    assert bytes(decompress(codec, compress(codec, body), len(body))) == body


@given(st.integers(0, 50), st.sampled_from(["float32", "float64"]))
def test_split_floats_survive_bit_by_bit(rows: int, dtype: str) -> None:
    column = Column("x", np.dtype(dtype), (3,))
    raw = np.random.default_rng(rows).bytes(rows * column.row_bytes)  # NaN payloads included
    values = np.frombuffer(raw, dtype).reshape(rows, 3)
    packed = pack_numbers(column, values, "BYTE_STREAM_SPLIT")
    assert packed[: rows * 3].tolist() == list(raw[:: column.dtype.itemsize])
    found = unpack_numbers(column, packed.tobytes(), 0, rows, "BYTE_STREAM_SPLIT")
    assert found.tobytes() == raw


def test_an_encoding_that_no_piece_uses_is_refused() -> None:
    with pytest.raises(FormatError, match="RLE"):
        unpack_numbers(Column("x", np.dtype("float32")), bytes(8), 0, 2, "RLE")
