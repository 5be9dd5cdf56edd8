from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unienv_data.errors import FormatError
from unienv_data.format.thrift import I32, LIST, STRUCT, Struct, list_of, raw_fields, varint, zigzag


def test_numbers_as_the_protocol_describes_them() -> None:
    assert varint(50399) == bytes([0xDF, 0x89, 0x03])
    assert [zigzag(n)[0] for n in (0, -1, 1, -2, 2)] == [0, 1, 2, 3, 4]
    assert zigzag(2**31 - 1) == varint(2**32 - 2)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=20), st.integers(0, 40))
def test_fields_are_found_again(number: int, data: bytes, count: int) -> None:
    inner = Struct().i64(1, number).finish()
    items = [zigzag(value) for value in range(count)]
    whole = (
        Struct()
        .i64(1, number)
        .binary(2, data)
        .field(7, LIST, list_of(I32, items))
        .structs(8, [inner] * count)
        .field(9, STRUCT, inner)
        .finish()
    )
    fields = raw_fields(whole)
    assert fields == {
        1: zigzag(number),
        2: varint(len(data)) + data,
        7: list_of(I32, items),
        8: list_of(STRUCT, [inner] * count),
        9: inner,
    }


def test_a_copy_goes_on_by_itself() -> None:
    first = Struct().i32(1, 5)
    second = first.copy().i32(2, 6)
    first.i32(3, 7)
    assert set(raw_fields(first.finish())) == {1, 3}
    assert set(raw_fields(second.finish())) == {1, 2}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x15", "ends in the middle"),
        (b"\x18\x05ab", "ends in the middle"),
        (b"\x1f\x00", "unknown Thrift type"),
        (b"\x16" + b"\xff" * 12, "longer than 64 bits"),
        (b"\x1c" * 100, "nested too deeply"),
    ],
)
def test_bytes_that_are_no_struct(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        raw_fields(data)
