"""`_metadata.json`: what a storage directory holds. O(1) in size, whatever the number of rows.

The first five keys are the original library's; a directory that has only those is read too.
`docs/format.md` describes every key.
"""

from __future__ import annotations

import json
import math
import os
import uuid as uuid_module
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unienv_data.errors import ManifestError, UnsupportedVersionError
from unienv_data.format.checked import load_object, sealed, verified
from unienv_data.format.codec import Compression
from unienv_data.format.schema import Column, Schema
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.space import Space
from unienv_interface.space.space_utils.serialization_utils import json_to_space, space_to_json

__all__ = ["FORMAT_VERSION", "LedgerRecord", "Manifest", "valid_json"]

FORMAT_VERSION = "1.1"
"""Major and minor version of the directory format. Readers refuse another major by name."""


@dataclass(frozen=True)
class LedgerRecord:
    """Ring position of the buffer that owns the storage, committed with its rows."""

    head: int
    """Rows ever written."""
    tail: int
    """Rows ever given up."""
    maintained: bool
    """Whether the owner keeps segments."""


@dataclass(frozen=True)
class Manifest:
    """The parsed manifest."""

    piece_size: int
    """Rows a piece."""
    num_rows: int
    """Rows that count; further rows and pieces are ignored."""
    schema: Schema
    compression: Compression
    uuid: str | None = None
    """Identity of the storage, repeated in each piece; None in directories of other writers."""
    generation: int = 0
    """Grows by one with each commit."""
    capacity: int | None = None
    """Fixed number of rows, None for a growing storage."""
    space: Mapping[str, Any] | None = None
    """The complete space as JSON data."""
    synced_rows: int = 0
    """Rows that were safe from power loss when this manifest was written."""
    boot: str | None = None
    """Boot of the machine under which rows beyond `synced_rows` were written."""
    is_materialized: bool = True
    """False while a bounded storage has no pieces yet: all its rows are zeros."""
    adopted_pieces: int = 0
    """Leading pieces that another program may have written, without this storage's uuid."""
    ledger: LedgerRecord | None = None
    writer: str = ""
    """Library and version that wrote it."""
    shortened: int = 0
    """Last commit that took rows away: a piece written after it says so in its footer."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys that this version does not know; they are kept."""

    @property
    def is_foreign(self) -> bool:
        """Whether another program wrote (or rewrote) the manifest."""
        return self.uuid is None

    @classmethod
    def new(
        cls,
        space: Space[Any, Any, Any, Any],
        schema: Schema,
        *,
        piece_size: int,
        capacity: int | None,
        compression: Compression,
        writer: str,
    ) -> Manifest:
        """The manifest of an empty storage."""
        return cls(
            piece_size=piece_size,
            num_rows=capacity or 0,
            schema=schema,
            compression=compression,
            uuid=uuid_module.uuid4().hex,
            capacity=capacity,
            space=valid_json(space_to_json(space)),
            is_materialized=capacity is None,
            writer=writer,
        )

    def next(self, **changes: Any) -> Manifest:
        """A copy of the following generation."""
        return replace(self, generation=self.generation + 1, **changes)

    def shorter(self, num_rows: int, **changes: Any) -> Manifest:
        """A copy of the following generation with fewer rows."""
        synced = min(self.synced_rows, num_rows)
        changes = {"num_rows": num_rows, "synced_rows": synced, **changes}
        return self.next(shortened=self.generation + 1, **changes)

    # -- JSON --------------------------------------------------------------------------------

    def dump(self) -> bytes:
        """The file's bytes."""
        compression = self.compression
        data: dict[str, Any] = {
            "piece_size": self.piece_size,
            "num_rows": self.num_rows,
            "column_shapes": {column.name: list(column.shape) for column in self.schema.columns},
            "compression": dict(compression) if isinstance(compression, Mapping) else compression,
            "column_dtypes": {column.name: _dtype_name(column) for column in self.schema.columns},
            "format_version": FORMAT_VERSION,
            "uuid": self.uuid,
            "generation": self.generation,
            "capacity": self.capacity,
            "root": "dict" if self.schema.is_dict else "single",
            "synced_rows": self.synced_rows,
            "boot": self.boot,
            "is_materialized": self.is_materialized,
            "adopted_pieces": self.adopted_pieces,
            "shortened": self.shortened,
            "ledger": None
            if self.ledger is None
            else {
                "head": self.ledger.head,
                "tail": self.ledger.tail,
                "maintained": self.ledger.maintained,
            },
            "writer": self.writer,
            "space": self.space,
        }
        data.update({key: value for key, value in self.extra.items() if key not in data})
        return (json.dumps(sealed(data), indent=2, allow_nan=False) + "\n").encode()

    @classmethod
    def parse(cls, text: bytes, path: str) -> Manifest:
        """Reads the file's bytes.

        Raises:
            ManifestError: No JSON object, or a key is missing or of the wrong type.
            UnsupportedVersionError: Written by a newer major version.
        """
        remedy = f"`unienv-data repair {os.path.dirname(path) or '.'}` rebuilds it"
        data = load_object(text, path, remedy)
        version = data.get("format_version")
        if version is not None and str(version).split(".")[0] != FORMAT_VERSION.split(".")[0]:
            raise UnsupportedVersionError(
                f"{path} is of format version {version}, this library reads "
                f"{FORMAT_VERSION.split('.')[0]}.x; install a newer unienv-data",
                path=path,
                expected=FORMAT_VERSION,
                found=version,
            )
        # A later major version may compute it otherwise; those before 1.1 have none.
        data = verified(data, path, remedy, required=version not in (None, "1.0"))
        try:
            json.dumps(data, allow_nan=False)
        except (ValueError, RecursionError) as error:
            raise ManifestError(
                f"{path} holds a number that is none ({error}); {remedy}", path=path
            ) from error
        reader = _Reader(data, path)
        piece_size = reader.count("piece_size", least=1)
        num_rows = reader.count("num_rows")
        space_json = data.get("space")
        schema = _schema(reader, space_json)
        ledger = data.get("ledger")
        known = set(_KEYS)
        if version is None:  # the original library's; what it does not write is not ours
            return cls(piece_size, num_rows, schema, _compression(reader))
        return cls(
            piece_size=piece_size,
            num_rows=num_rows,
            schema=schema,
            compression=_compression(reader),
            uuid=reader.text("uuid"),
            generation=reader.count("generation"),
            capacity=None if data.get("capacity") is None else reader.count("capacity"),
            space=space_json if isinstance(space_json, dict) else None,
            synced_rows=reader.count("synced_rows"),
            boot=data.get("boot"),
            is_materialized=bool(data.get("is_materialized", True)),
            adopted_pieces=reader.count("adopted_pieces") if "adopted_pieces" in data else 0,
            shortened=reader.count("shortened") if "shortened" in data else 0,
            ledger=_ledger(_Reader(ledger, path)) if isinstance(ledger, dict) else None,
            writer=str(data.get("writer", "")),
            extra={key: value for key, value in data.items() if key not in known},
        )


_KEYS = (
    "piece_size",
    "num_rows",
    "column_shapes",
    "compression",
    "column_dtypes",
    "format_version",
    "uuid",
    "generation",
    "capacity",
    "root",
    "synced_rows",
    "boot",
    "is_materialized",
    "adopted_pieces",
    "shortened",
    "ledger",
    "writer",
    "space",
)


class _Reader:
    """Typed access to parsed JSON: every wrong type is named."""

    def __init__(self, data: Mapping[str, Any], path: str) -> None:
        self.data = data
        self.path = path

    def count(self, key: str, least: int = 0) -> int:
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**62:
            raise self.wrong(key, f"an integer of at least {least}", value)
        return value

    def text(self, key: str) -> str:
        value = self._get(key)
        if not isinstance(value, str):
            raise self.wrong(key, "a string", value)
        return value

    def mapping(self, key: str) -> dict[str, Any]:
        value = self._get(key)
        if not isinstance(value, dict):
            raise self.wrong(key, "an object", value)
        return value

    def wrong(self, key: str, expected: str, found: object) -> ManifestError:
        return ManifestError(
            f"{self.path}: key {key!r} should be {expected}, got {found!r:.80}",
            path=self.path,
            key=key,
            expected=expected,
            found=found,
        )

    def _get(self, key: str) -> Any:
        if key not in self.data:
            raise ManifestError(f"{self.path}: the key {key!r} is missing", path=self.path, key=key)
        return self.data[key]


def _ledger(reader: _Reader) -> LedgerRecord:
    return LedgerRecord(
        reader.count("head"), reader.count("tail"), bool(reader.data.get("maintained", False))
    )


def _compression(reader: _Reader) -> Compression:
    value = reader.data.get("compression", "snappy")
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict) and all(isinstance(codec, str) for codec in value.values()):
        return value
    raise reader.wrong("compression", "a codec, an object of codecs, or null", value)


def _schema(reader: _Reader, space_json: object) -> Schema:
    shapes = reader.mapping("column_shapes")
    for name, shape in shapes.items():
        if not isinstance(shape, list) or not all(
            isinstance(axis, int) and not isinstance(axis, bool) and 0 <= axis < 2**31
            for axis in shape
        ):
            raise reader.wrong(f"column_shapes[{name}]", "a list of axis lengths", shape)
    if isinstance(space_json, dict):
        try:
            space = json_to_space(space_json, NumpyComputeBackend, None)
            schema = Schema.from_space(space, reader.path)
        except Exception as error:
            # Whatever a damaged description makes the space constructors raise.
            raise ManifestError(
                f"{reader.path}: key 'space' does not describe a storable space ({error})",
                path=reader.path,
                key="space",
            ) from error
        found = {column.name: list(column.shape) for column in schema.columns}
        if found != shapes:
            raise reader.wrong("column_shapes", f"{found}, as the space says", shapes)
        return schema
    dtypes = reader.mapping("column_dtypes") if reader.data.get("column_dtypes") else {}
    columns = []
    for name, shape in shapes.items():
        dtype = dtypes.get(name)
        try:
            columns.append(Column(name, np.dtype(dtype if dtype else "V0"), tuple(shape)))
        except (TypeError, ValueError) as error:
            raise reader.wrong(f"column_dtypes[{name}]", "a numpy dtype", dtype) from error
    lone = len(columns) == 1 and columns[0].name == "data"
    return Schema(tuple(columns), is_dict=not lone)


def _dtype_name(column: Column) -> str:
    return "object" if column.is_text else column.dtype.name


def valid_json(value: Any) -> Any:
    """Infinite bounds as strings, which every JSON reader accepts; ours reads both."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): valid_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [valid_json(entry) for entry in value]
    return value
