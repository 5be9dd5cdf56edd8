"""The small JSON file in which a storage keeps what its rows' files do not say."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unienv_data.errors import ManifestError, MissingStorageError
from unienv_data.io.atomic import replace_file

__all__ = ["read_sidecar", "write_sidecar"]


def write_sidecar(
    directory: str | os.PathLike[str],
    name: str,
    storage_type: str,
    data: Mapping[str, Any],
    *,
    sync: bool = True,
) -> None:
    """Replaces ``<directory>/<name>`` as a whole; `sync` makes it safe from power loss."""
    text = json.dumps({"storage_type": storage_type, **data})
    replace_file(Path(directory) / name, text.encode(), sync=sync)


def read_sidecar(directory: str | os.PathLike[str], name: str, storage_type: str) -> dict[str, Any]:
    """The data of ``<directory>/<name>``.

    Raises:
        MissingStorageError: There is no such file.
        ManifestError: It is damaged, or of another storage.
    """
    path = Path(directory) / name
    try:
        data = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingStorageError(
            f"{path} is missing: there is no {storage_type} in {directory}", path=str(path)
        ) from error
    except (ValueError, RecursionError, IsADirectoryError) as error:
        raise ManifestError(f"{path} is no JSON text ({error})", path=str(path)) from error
    found = data.get("storage_type") if isinstance(data, dict) else None
    if found != storage_type:
        raise ManifestError(
            f"{path} describes a {found}, expected {storage_type}",
            path=str(path),
            expected=storage_type,
            found=found,
        )
    result: dict[str, Any] = data
    return result
