"""As much of Thrift's compact protocol as Parquet's headers and footers need.

Source: thrift.apache.org, "Thrift Compact protocol"; the structures are those of `parquet.thrift`
of the Apache Parquet format.
"""

from __future__ import annotations

from unienv_data.errors import FormatError

__all__ = [
    "I16",
    "I32",
    "I64",
    "LIST",
    "STRUCT",
    "Struct",
    "list_of",
    "raw_fields",
    "varint",
    "zigzag",
]

_TRUE, _FALSE, _BYTE, I16, I32, I64, _DOUBLE, _BINARY, LIST, _SET, _MAP, STRUCT = range(1, 13)
_DEEPEST = 32


def varint(value: int) -> bytes:
    """An unsigned number in groups of seven bits, least first."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    """A signed number: small ones of either sign stay short."""
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def list_of(kind: int, items: list[bytes]) -> bytes:
    """A list of encoded items of one type."""
    count = len(items)
    head = bytes((count << 4 | kind,)) if count < 15 else bytes((0xF0 | kind,)) + varint(count)
    return head + b"".join(items)


class Struct:
    """One struct in the making; fields are given in ascending order of their numbers."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._last = 0

    def copy(self) -> Struct:
        """A struct that begins with the same fields."""
        twin = Struct()
        twin._data += self._data
        twin._last = self._last
        return twin

    def field(self, number: int, kind: int, encoded: bytes) -> Struct:
        """Adds a field whose value is encoded already."""
        self._data.append((number - self._last) << 4 | kind)
        self._data += encoded
        self._last = number
        return self

    def _number(self, number: int, kind: int, value: int) -> Struct:
        data = self._data
        data.append((number - self._last) << 4 | kind)
        self._last = number
        value = value << 1 if value >= 0 else (-value << 1) - 1
        while value >= 0x80:
            data.append(value & 0x7F | 0x80)
            value >>= 7
        data.append(value)
        return self

    def i32(self, number: int, value: int) -> Struct:
        """Adds a 32-bit number or an enum."""
        return self._number(number, I32, value)

    def i64(self, number: int, value: int) -> Struct:
        """Adds a 64-bit number."""
        return self._number(number, I64, value)

    def binary(self, number: int, value: bytes) -> Struct:
        """Adds bytes or text."""
        return self.field(number, _BINARY, varint(len(value)) + value)

    def enums(self, number: int, values: tuple[int, ...]) -> Struct:
        """Adds a list of enums."""
        return self.field(number, LIST, list_of(I32, [zigzag(value) for value in values]))

    def texts(self, number: int, values: tuple[str, ...]) -> Struct:
        """Adds a list of texts."""
        encoded = [value.encode() for value in values]
        items = [varint(len(value)) + value for value in encoded]
        return self.field(number, LIST, list_of(_BINARY, items))

    def structs(self, number: int, values: list[bytes]) -> Struct:
        """Adds a list of finished structs."""
        return self.field(number, LIST, list_of(STRUCT, values))

    def flag(self, number: int, value: bool) -> Struct:
        """Adds a bool."""
        return self.field(number, _TRUE if value else _FALSE, b"")

    def finish(self) -> bytes:
        """The encoded struct."""
        return bytes(self._data) + b"\0"


def raw_fields(data: bytes) -> dict[int, bytes]:
    """The top fields of an encoded struct, each as its encoded value.

    Raises:
        FormatError: The bytes are no struct.
    """
    fields = {}
    try:
        position, number = 0, 0
        while data[position]:
            head = data[position]
            position += 1
            if head >> 4:
                number += head >> 4
            else:
                signed, position = _read_varint(data, position)
                number = (signed >> 1) ^ -(signed & 1)
            start = position
            position = _skip(data, position, head & 0x0F, 0)
            fields[number] = data[start:position]
    except IndexError:
        raise FormatError("a Thrift struct ends in the middle of a field") from None
    return fields


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise FormatError("a Thrift number is longer than 64 bits")


def _skip(data: bytes, position: int, kind: int, depth: int) -> int:
    if depth > _DEEPEST:
        raise FormatError("Thrift structs are nested too deeply")
    if kind in (_TRUE, _FALSE):
        return position
    if kind == _BYTE:
        return position + 1
    if kind in (I16, I32, I64):
        return _read_varint(data, position)[1]
    if kind == _DOUBLE:
        return position + 8
    if kind == _BINARY:
        size, position = _read_varint(data, position)
        return position + size
    if kind in (LIST, _SET):
        return _skip_list(data, position, depth)
    if kind == STRUCT:
        while data[position]:
            head = data[position]
            position += 1
            if not head >> 4:
                _, position = _read_varint(data, position)
            position = _skip(data, position, head & 0x0F, depth + 1)
        return position + 1
    raise FormatError(f"unknown Thrift type {kind}")


def _skip_list(data: bytes, position: int, depth: int) -> int:
    head = data[position]
    position += 1
    count, kind = head >> 4, head & 0x0F
    if count == 15:
        count, position = _read_varint(data, position)
    for _ in range(count):
        # Bools in a list take a byte each.
        inner = _BYTE if kind in (_TRUE, _FALSE) else kind
        position = _skip(data, position, inner, depth + 1)
    return position
