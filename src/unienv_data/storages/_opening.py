"""What is in a directory: its manifest, or what can be told from bare Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unienv_data.errors import CapacityError, MissingStorageError, SchemaMismatchError
from unienv_data.format.decode import read_footer, read_schema
from unienv_data.format.layout import MANIFEST_NAME, Layout, piece_path
from unienv_data.format.manifest import Manifest
from unienv_data.format.schema import Schema
from unienv_data.storages._committer import CommitRecord, read_manifest, trusted
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.space import Space
from unienv_interface.space.space_utils.serialization_utils import json_to_space

__all__ = ["Found", "find", "find_raw", "resolve_schema", "stored_space"]


@dataclass(frozen=True)
class Found:
    """A directory as it is to be read."""

    manifest: Manifest
    layout: Layout
    files: Sequence[Path] | None
    """Piece files by number where their names do not tell it."""
    record: CommitRecord | None
    """A commit that its writer did not finish."""


def find(directory: Path) -> Found:
    """Reads the manifest of a directory, cut to what may be believed after a power loss."""
    manifest, record = read_manifest(directory)
    manifest = resolve_schema(manifest, directory)
    if record is None:
        manifest = trusted(manifest, directory)
    return Found(manifest, Layout(manifest.piece_size), None, record)


def find_raw(directory: Path) -> Found:
    """Reads a directory that may have no manifest: any Parquet files, in order of their names."""
    if (directory / MANIFEST_NAME).exists():
        return find(directory)
    files = sorted(directory.glob("*.parquet"))
    if not files:
        raise MissingStorageError(
            f"{directory} holds neither {MANIFEST_NAME} nor Parquet files; check the path",
            path=str(directory),
        )
    counts = [read_footer(path)[0] for path in files]
    files = [path for path, count in zip(files, counts, strict=True) if count]
    starts = np.concatenate([[0], np.cumsum([count for count in counts if count])]).tolist()
    schema = read_schema(files[0] if files else sorted(directory.glob("*.parquet"))[0])
    manifest = Manifest(max([*counts, 1]), sum(counts), schema, "snappy")
    return Found(manifest, Layout(manifest.piece_size, starts[:-1]), files, None)


def resolve_schema(manifest: Manifest, directory: Path) -> Manifest:
    """Fills in dtypes that old manifests lack, from the first piece."""
    unknown = [column for column in manifest.schema.columns if column.dtype.kind == "V"]
    if not unknown:
        return manifest
    shapes = {column.name: column.shape for column in manifest.schema.columns}
    found = read_schema(piece_path(directory, 0), shapes)
    by_name = {column.name: column for column in found.columns}
    missing = [name for name in shapes if name not in by_name]
    if missing:
        raise SchemaMismatchError(
            f"{directory}: the manifest names the column {missing[0]!r}, the pieces do not",
            column=missing[0],
        )
    columns = tuple(by_name[name] for name in shapes)
    return replace(manifest, schema=Schema(columns, is_dict=manifest.schema.is_dict))


def stored_space(manifest: Manifest) -> Space[Any, Any, Any, Any]:
    """The space as it was given to `create`, else the widest one that fits the columns."""
    if manifest.space is not None:
        space: Space[Any, Any, Any, Any] = json_to_space(manifest.space, NumpyComputeBackend, None)
        return space
    return manifest.schema.to_space()


def check_capacity(manifest: Manifest, capacity: int | None, place: str) -> int | None:
    """The capacity to use: the stored one, or the caller's for directories that do not say.

    Raises:
        CapacityError: The caller's differs from the stored one.
    """
    stored = manifest.capacity if not manifest.is_foreign else capacity
    if capacity is not None and (stored != capacity or manifest.num_rows != capacity):
        raise CapacityError(
            f"{place}: capacity {capacity} was asked for, the storage has "
            f"{'no capacity' if stored is None else stored} and {manifest.num_rows} rows; "
            "open it with capacity=None",
            expected=stored,
            found=capacity,
        )
    return stored
