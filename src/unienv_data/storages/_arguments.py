"""Arguments of ParquetStorage: what is refused, and the manifest that the others make."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unienv_data.errors import StorageArgumentError, StorageExistsError
from unienv_data.format.codec import Compression, check_compression
from unienv_data.format.layout import Layout
from unienv_data.format.manifest import Manifest
from unienv_data.format.schema import Schema
from unienv_data.storages._version import WRITER

__all__ = ["KEEP", "adopted", "check_count", "check_target", "new_manifest"]

KEEP: Any = object()
"""Stands for an argument that was not given."""


def check_count(name: str, value: Any, least: int) -> None:
    """Refuses what is no int of at least `least`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise StorageArgumentError(f"{name} should be an int, got {value!r}", found=value)
    if value < least:
        raise StorageArgumentError(
            f"{name} should be at least {least}, got {value}", expected=least, found=value
        )


def new_manifest(
    space: Any, directory: Path, capacity: int | None, piece_size: int, compression: Compression
) -> Manifest:
    """The manifest of a storage to be created.

    Raises:
        UnsupportedSpaceError: The space cannot be stored.
        StorageArgumentError: Another argument is out of range.
    """
    schema = Schema.from_space(space, f"create {directory}")
    check_count("piece_size", piece_size, 1)
    if capacity is not None:
        check_count("capacity", capacity, 1)
    problem = check_compression(compression, schema.columns)
    if problem is not None:
        raise StorageArgumentError(f"create {directory}: {problem}", found=compression)
    return Manifest.new(
        space,
        schema,
        piece_size=int(piece_size),
        capacity=capacity if capacity is None else int(capacity),
        compression=compression,
        writer=WRITER,
    )


def check_target(directory: Path) -> None:
    """Refuses a directory that holds anything.

    Raises:
        StorageExistsError: Names the ways out.
    """
    if directory.exists() and (not directory.is_dir() or os.listdir(directory)):
        raise StorageExistsError(
            f"create: {directory} holds something already; choose another directory, delete "
            "this one, or open it with load_from(..., read_only=False)",
            path=str(directory),
        )


def adopted(manifest: Manifest, space: Any, capacity: int | None, compression: Any) -> Manifest:
    """The manifest to write with: made ours when another program wrote it.

    Args:
        manifest: What was found.
        space: The caller's space.
        capacity: The capacity that was agreed on.
        compression: For pieces from now on, or `KEEP`.
    """
    if manifest.is_foreign:
        fresh = Manifest.new(
            space,
            Schema.from_space(space),
            piece_size=manifest.piece_size,
            capacity=capacity,
            compression=manifest.compression,
            writer=WRITER,
        )
        manifest = replace(
            fresh,
            num_rows=manifest.num_rows,
            is_materialized=True,
            adopted_pieces=Layout(manifest.piece_size).count(manifest.num_rows),
        )
    if compression is not KEEP and compression != manifest.compression:
        manifest = replace(manifest, compression=compression)
    return manifest
