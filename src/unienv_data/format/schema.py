"""Columns: how a space is stored, and what a value must be to be stored.

`Schema.from_space` turns a space into columns; `Column.check_row` and `Column.check_batch` are
the only gate through which values reach a file.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unienv_data.errors import (
    MissingColumnError,
    SampleError,
    SchemaMismatchError,
    StorageArgumentError,
)
from unienv_data.format.values import ValueRefusedError, cast_exactly
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.errors import UnsupportedSpaceError
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, Space, TextSpace

__all__ = ["DEFAULT_KEY", "Column", "Schema"]

DEFAULT_KEY = "data"
"""Column name of a storage whose space is not a DictSpace."""

# Text read from foreign files has no declared limit; upstream assumes this one.
FOREIGN_TEXT_LENGTH = 4096

_DTYPES = frozenset(
    np.dtype(name)
    for name in (
        [
            "bool",
            "float16",
            "float32",
            "float64",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
        ]
    )
)
_OBJECT = np.dtype(object)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Column:
    """One column: a fixed-size numeric or bool array a row, or one text a row."""

    name: str
    dtype: np.dtype[Any]
    """Element dtype; `object` for text, whose values are exact `str`."""
    shape: tuple[int, ...] = ()
    """Shape of one row's value."""
    min_length: int = 0
    """Least characters of a text."""
    max_length: int | None = None
    """Most characters of a text, None for no limit."""
    charset: frozenset[str] | None = None
    """Allowed characters of a text, None for all."""

    @property
    def is_text(self) -> bool:
        """Whether rows are `str`."""
        return self.dtype == _OBJECT

    @property
    def size(self) -> int:
        """Elements a row."""
        return math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes a row in memory; a text counts its 8-byte code."""
        return 8 if self.is_text else self.size * self.dtype.itemsize

    def describe(self) -> str:
        """Type and shape for messages: ``float32 (4,)``."""
        return "text" if self.is_text else f"{self.dtype} {self.shape}"

    def zeros(self, count: int) -> NDArray[Any]:
        """`count` rows as they read before they are set."""
        if self.is_text:
            return np.full(count, "", dtype=object)
        return np.zeros((count, *self.shape), dtype=self.dtype)

    # -- values ------------------------------------------------------------------------------

    def check_row(self, value: Any, place: str) -> Any:
        """Gives one row's value in stored form.

        Args:
            value: An array of this column's shape, a number for shape ``()``, or a `str`.
            place: Operation and storage for the message.

        Returns:
            An array or scalar of exactly this dtype and shape, or an exact `str`.

        Raises:
            SampleError: Shape, dtype or text does not fit.
        """
        if self.is_text:
            return self._check_text(value, place)
        return self._check_array(value, self.shape, place)

    def check_batch(self, value: Any, count: int, place: str) -> Any:
        """Gives `count` rows' values in stored form.

        Args:
            value: An array of shape ``(count, *shape)``, or `count` texts in a sequence.
            count: Number of rows.
            place: Operation and storage for the message.

        Returns:
            An array of exactly this dtype and shape ``(count, *shape)``; a list of `str` for text.

        Raises:
            SampleError: Row count, shape, dtype or text does not fit.
        """
        if self.is_text:
            return self._check_texts(value, count, place)
        return self._check_array(value, (count, *self.shape), place)

    def _check_array(self, value: Any, shape: tuple[int, ...], place: str) -> NDArray[Any]:
        if type(value) is np.ndarray and value.dtype == self.dtype and value.shape == shape:
            return value if value.dtype.isnative else value.astype(self.dtype)
        if isinstance(value, (np.ndarray, np.generic)):
            array, rounding = np.asarray(value), False
        else:
            if value is None or isinstance(value, (str, bytes, Mapping)):
                raise self._refused(place, shape, f"a {type(value).__name__}")
            try:
                array = np.asarray(value)
            except (ValueError, TypeError, OverflowError, RuntimeError) as error:
                raise self._refused(place, shape, f"a {type(value).__name__} ({error})") from error
            # Python numbers carry no dtype of their own; floats are taken at this column's.
            rounding = not hasattr(value, "dtype")
        if array.shape != shape:
            raise self._refused(place, shape, f"{array.dtype} {array.shape}", array.shape)
        try:
            return cast_exactly(array, self.dtype, rounding=rounding)
        except ValueRefusedError as refusal:
            raise self._refused(
                place, shape, f"{array.dtype} {array.shape}: {refusal}", array.shape
            ) from None

    def _refused(
        self, place: str, shape: tuple[int, ...], found: str, found_shape: Any = None
    ) -> SampleError:
        rows = len(shape) > len(self.shape)
        if rows and found_shape and found_shape[0] != shape[0] and found_shape[1:] == shape[1:]:
            remedy = f"give one value a row: {shape[0]} rows"
        else:
            remedy = "cast or reshape"
        return SampleError(
            f"{place}: column {self.name!r} expects {self.dtype} {shape}, got {found}; {remedy}",
            column=self.name,
            expected=f"{self.dtype} {shape}",
            found=found,
        )

    def _check_text(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise SampleError(
                f"{place}: column {self.name!r} expects str, got {type(value).__name__}; "
                "convert it first (numbers, bytes and None are never made into text)",
                column=self.name,
                expected="str",
                found=type(value).__name__,
            )
        text = value if type(value) is str else str.__str__(value)
        length = len(text)
        if length < self.min_length or (self.max_length is not None and length > self.max_length):
            limits = f"{self.min_length} to {self.max_length} characters"
            if self.max_length is None:
                limits = f"at least {self.min_length} characters"
            is_short = length < self.min_length
            remedy = "smaller min_length" if is_short else "larger max_length"
            raise SampleError(
                f"{place}: column {self.name!r} expects {limits}, got {length}; "
                f"change the text or declare a {remedy}",
                column=self.name,
                expected=limits,
                found=length,
            )
        if self.charset is not None and not self.charset.issuperset(text):
            wrong = sorted(set(text) - self.charset)[0]
            raise SampleError(
                f"{place}: column {self.name!r} does not allow the character {wrong!r}; "
                "replace it or widen the charset",
                column=self.name,
                expected="a character of the charset",
                found=wrong,
            )
        if not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise SampleError(
                    f"{place}: column {self.name!r} cannot hold {text[error.start]!r}, a lone "
                    "surrogate, which is no Unicode text; decode the source with errors='replace'",
                    column=self.name,
                    expected="Unicode text",
                    found=text[error.start],
                ) from error
        return text

    def _check_texts(self, value: Any, count: int, place: str) -> list[str]:
        if isinstance(value, np.ndarray):
            shape: tuple[int, ...] = value.shape
            if value.dtype.kind not in "OU":
                raise SampleError(
                    f"{place}: column {self.name!r} expects {count} texts, got an array of "
                    f"{value.dtype}; convert the values to str first",
                    column=self.name,
                    expected=f"{count} texts",
                    found=str(value.dtype),
                )
        elif isinstance(value, (list, tuple)):
            shape = (len(value),)
        else:
            raise SampleError(
                f"{place}: column {self.name!r} expects a sequence of {count} texts, got "
                f"{type(value).__name__}",
                column=self.name,
                expected=f"{count} texts",
                found=type(value).__name__,
            )
        if shape != (count,):
            raise SampleError(
                f"{place}: column {self.name!r} expects {count} texts, got shape {shape}; "
                "give one text a row",
                column=self.name,
                expected=(count,),
                found=shape,
            )
        texts = value.tolist() if isinstance(value, np.ndarray) else list(value)
        if self._all_fit(texts):
            return texts
        return [self._check_text(text, place) for text in texts]

    def _all_fit(self, texts: list[Any]) -> bool:
        """Whether `_check_text` would give every text back as it is; False is no verdict."""
        if not texts or set(map(type, texts)) != {str}:
            return False
        distinct = set(texts)
        lengths = set(map(len, distinct))
        if min(lengths) < self.min_length:
            return False
        if self.max_length is not None and max(lengths) > self.max_length:
            return False
        joined = "".join(distinct)
        if self.charset is not None and not self.charset.issuperset(joined):
            return False
        return joined.isascii() or not _SURROGATE.search(joined)


@dataclass(frozen=True)
class Schema:
    """The columns of a storage, in order, and whether a row is a mapping or one bare value."""

    columns: tuple[Column, ...]
    is_dict: bool
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(column.name for column in self.columns))

    # -- from and to spaces ------------------------------------------------------------------

    @classmethod
    def from_space(cls, space: Space[Any, Any, Any, Any], place: str = "ParquetStorage") -> Schema:
        """Reads the columns off a space.

        Args:
            space: A flat DictSpace of Box, Binary and Text spaces, or one of these, on numpy.
            place: Named in errors.

        Raises:
            UnsupportedSpaceError: Nested, of another kind, or of another array backend.
        """
        if not isinstance(space, Space):
            raise UnsupportedSpaceError(f"{place}: expects a space, got {space!r}")
        if space.backend is not NumpyComputeBackend:
            raise UnsupportedSpaceError(
                f"{place}: stores numpy arrays, got a space of backend {space.backend}; "
                "convert it with space.to(NumpyComputeBackend)",
                expected="numpy",
                found=str(space.backend),
            )
        if isinstance(space, DictSpace):
            children = [(str(key), child) for key, child in space.spaces.items()]
            keys: list[Any] = list(space.spaces)
            wrong = [key for key in keys if not isinstance(key, str)]
            if wrong:
                raise UnsupportedSpaceError(
                    f"{place}: column names are str, got {wrong[0]!r}", found=wrong[0]
                )
            return cls(tuple(_column(key, child, place) for key, child in children), True)
        return cls((_column(DEFAULT_KEY, space, place),), False)

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns that a piece file can hold: those with elements."""
        return tuple(column for column in self.columns if column.is_text or column.size)

    def to_space(self) -> Space[Any, Any, Any, Any]:
        """The widest space whose samples have these columns: unbounded, any text."""
        spaces: dict[str, Space[Any, Any, Any, Any]] = {
            column.name: _space(column) for column in self.columns
        }
        if self.is_dict:
            return DictSpace(NumpyComputeBackend, list(spaces.items()))
        return spaces[DEFAULT_KEY]

    def fingerprint(self) -> int:
        """63 bits that differ between schemas whose bytes are laid out differently."""
        text = repr([(c.name, c.dtype.str, c.shape) for c in self.columns])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1

    def check_same(self, stored: Schema, place: str, *, subset: bool) -> None:
        """Refuses to read stored bytes as something else.

        Args:
            stored: What the directory holds.
            place: Named in errors.
            subset: Whether leaving columns out is allowed.

        Raises:
            SchemaMismatchError: Names the first key that differs, with both types.
        """
        if self.is_dict != stored.is_dict:
            kinds = {True: "a DictSpace", False: "one bare space"}
            raise SchemaMismatchError(
                f"{place}: holds {kinds[stored.is_dict]}, the given space is {kinds[self.is_dict]}",
                expected=kinds[stored.is_dict],
                found=kinds[self.is_dict],
            )
        mine = {column.name: column for column in self.columns}
        theirs = {column.name: column for column in stored.columns}
        for name, column in mine.items():
            if name not in theirs:
                raise SchemaMismatchError(
                    f"{place}: has no column {name!r}; it holds {sorted(theirs)}",
                    column=name,
                    expected=sorted(theirs),
                    found=name,
                )
            other = theirs[name]
            if (column.dtype, column.shape) != (other.dtype, other.shape):
                raise SchemaMismatchError(
                    f"{place}: column {name!r} holds {other.describe()}, the given space says "
                    f"{column.describe()}; open it with the stored space "
                    "(build_space_from_parquet_file gives it)",
                    column=name,
                    expected=other.describe(),
                    found=column.describe(),
                )
        missing = [name for name in theirs if name not in mine]
        if missing and not subset:
            raise SchemaMismatchError(
                f"{place}: the given space lacks the column {missing[0]!r}; a subset of the "
                "columns can only be opened read-only",
                column=missing[0],
                expected=sorted(theirs),
                found=sorted(mine),
            )

    # -- values ------------------------------------------------------------------------------

    def check_row(self, value: Any, place: str) -> list[Any]:
        """One sample as a list of stored values, in column order. Extra keys are ignored."""
        if not self.is_dict:
            return [self.columns[0].check_row(value, place)]
        values = self._fields(value, place)
        return [c.check_row(v, place) for c, v in zip(self.columns, values, strict=True)]

    def check_batch(self, value: Any, count: int, place: str) -> list[Any]:
        """A batch of `count` rows as a list of stored arrays, in column order."""
        if not self.is_dict:
            return [self.columns[0].check_batch(value, count, place)]
        values = self._fields(value, place)
        return [c.check_batch(v, count, place) for c, v in zip(self.columns, values, strict=True)]

    def _fields(self, value: Any, place: str) -> list[Any]:
        if not isinstance(value, Mapping):
            raise SampleError(
                f"{place}: expects a mapping with the keys {list(self.names)}, got "
                f"{type(value).__name__}",
                expected=list(self.names),
                found=type(value).__name__,
            )
        missing = [name for name in self.names if name not in value]
        if missing:
            raise MissingColumnError(
                f"{place}: the sample lacks the key {missing[0]!r}; it needs {list(self.names)}",
                column=missing[0],
                expected=list(self.names),
                found=[str(key) for key in value],
            )
        return [value[name] for name in self.names]

    def pack(self, values: Sequence[Any]) -> Any:
        """Column values in order, as the caller's sample or batch."""
        if self.is_dict:
            return dict(zip(self.names, values, strict=True))
        return values[0]


def _column(name: str, space: Space[Any, Any, Any, Any], place: str) -> Column:
    if isinstance(space, TextSpace):
        return Column(
            name,
            _OBJECT,
            min_length=space.min_length,
            max_length=space.max_length,
            charset=space.charset,
        )
    if isinstance(space, (BoxSpace, BinarySpace)):
        # `.type` gives numpy's one native dtype object, which arrays share: `is` compares it.
        dtype = np.dtype(np.dtype(space.dtype if space.dtype is not None else bool).type)
        if dtype not in _DTYPES:
            raise StorageArgumentError(
                f"{place}: column {name!r} has dtype {dtype}; stored are "
                f"{', '.join(sorted(str(d) for d in _DTYPES))}",
                column=name,
                found=str(dtype),
            )
        return Column(name, dtype, tuple(int(axis) for axis in space.shape or ()))
    kind = type(space).__name__
    remedy = (
        "flatten it with FlattenedStorage or give one column a key"
        if isinstance(space, DictSpace)
        else "stored are BoxSpace, BinarySpace and TextSpace"
    )
    raise NestedSpaceError(
        f"{place}: column {name!r} is a {kind}; {remedy}", column=name, found=kind
    )


class NestedSpaceError(UnsupportedSpaceError, AssertionError):
    """Upstream refuses nested spaces with an assertion."""


def _space(column: Column) -> Space[Any, Any, Any, Any]:
    if column.is_text:
        limit = FOREIGN_TEXT_LENGTH if column.max_length is None else column.max_length
        return TextSpace(
            NumpyComputeBackend, limit, min_length=column.min_length, charset=column.charset
        )
    if column.dtype == np.bool_:
        return BinarySpace(NumpyComputeBackend, column.shape, dtype=np.dtype(bool))
    low, high = (-np.inf, np.inf)
    return BoxSpace(NumpyComputeBackend, low, high, column.dtype, shape=column.shape)
