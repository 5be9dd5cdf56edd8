"""Storage classes by name. Names in files lead to a class only through this register.

A file may come from anywhere; importing whatever it names would run foreign code. Third parties
`register` their storages before they open files that name them.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from unienv_data.errors import ManifestError, MissingDependencyError, StorageArgumentError

__all__ = ["known_storages", "register", "resolve_inside", "resolve_storage"]


@dataclass(frozen=True)
class _Entry:
    module: str
    name: str
    extra: str | None


_entries: dict[str, _Entry] = {}
_aliases = {
    "unienv_data.storages.common.FlattenedStorage": (
        "unienv_data.storages.flattened.FlattenedStorage"
    )
}


def register(full_name: str, *, extra: str | None = None) -> None:
    """Lets files name a storage class.

    Args:
        full_name: ``module.ClassName``.
        extra: The extra of this distribution that it needs, for the message when it is missing.
    """
    module, _, name = full_name.rpartition(".")
    if not module:
        raise StorageArgumentError(f"register: {full_name!r} is no 'module.ClassName'")
    _entries[full_name] = _Entry(module, name, extra)


for _name, _extra in (
    ("parquet.ParquetStorage", None),
    ("memory.MemoryStorage", None),
    ("npz_storage.NPZStorage", None),
    ("flattened.FlattenedStorage", None),
    ("pytorch.PytorchTensorStorage", "torch"),
):
    register(f"unienv_data.storages.{_name}", extra=_extra)


def known_storages() -> list[str]:
    """Registered names, sorted."""
    return sorted(_entries)


def resolve_storage(full_name: str) -> Any:
    """The class of a name, full or (as some files have it) bare.

    Raises:
        ManifestError: Nothing of this name is registered.
        MissingDependencyError: It needs an extra that is not installed.
    """
    entry = _entries.get(_aliases.get(full_name, full_name))
    if entry is None:
        bare = [e for e in _entries.values() if e.name == full_name]
        entry = bare[0] if len(bare) == 1 else None
    if entry is None:
        raise ManifestError(
            f"no storage called {full_name!r} is registered; known are "
            f"{', '.join(known_storages())}. Files may only name registered storages: see "
            "unienv_data.storages.registry.register",
            found=full_name,
        )
    try:
        return getattr(importlib.import_module(entry.module), entry.name)
    except ImportError as error:
        hint = f": pip install 'unienv-data[{entry.extra}]'" if entry.extra else ""
        raise MissingDependencyError(f"{full_name} cannot be imported ({error}){hint}") from error


def resolve_inside(directory: str | os.PathLike[str], relative: str) -> Path:
    """A path that a file names, which must stay inside the file's directory.

    Raises:
        ManifestError: It is absolute or leads outside, or is the directory itself.
    """
    root = Path(directory)
    # A file written elsewhere may hold the other system's separators.
    for kind in (PurePosixPath, PureWindowsPath):
        path = kind(relative)
        if path.anchor or ".." in path.parts:
            raise ManifestError(
                f"{root} names the path {relative!r}, which leads outside of it", path=str(root)
            )
        if not path.parts:
            raise ManifestError(f"{root} names itself as a part of it", path=str(root))
    return root / relative
