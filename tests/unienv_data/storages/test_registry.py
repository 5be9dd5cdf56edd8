from __future__ import annotations

from pathlib import Path

import pytest

from unienv_data.errors import ManifestError, MissingDependencyError, StorageArgumentError
from unienv_data.storages import registry
from unienv_data.storages.flattened import FlattenedStorage
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.storages.registry import (
    known_storages,
    register,
    resolve_inside,
    resolve_storage,
)


def test_registered_names_lead_to_classes() -> None:
    assert resolve_storage("unienv_data.storages.parquet.ParquetStorage") is ParquetStorage
    assert resolve_storage("ParquetStorage") is ParquetStorage
    # The original library moved it; its older files name the old place.
    old = "unienv_data.storages.common.FlattenedStorage"
    assert resolve_storage(old) is FlattenedStorage
    assert "unienv_data.storages.npz_storage.NPZStorage" in known_storages()


@pytest.mark.parametrize("name", ["os.system", "unienv_data.storages.parquet.np", "", "subprocess"])
def test_other_names_are_never_imported(name: str) -> None:
    with pytest.raises(ManifestError, match="register"):
        resolve_storage(name)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    register("not_installed_here.Storage", extra="video")
    with pytest.raises(MissingDependencyError, match=r"unienv-data\[video\]"):
        resolve_storage("not_installed_here.Storage")
    with pytest.raises(StorageArgumentError):
        register("Bare")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd"])
def test_paths_do_not_leave_the_directory(tmp_path: Path, path: str) -> None:
    with pytest.raises(ManifestError, match="outside"):
        resolve_inside(tmp_path, path)
    assert resolve_inside(tmp_path, "storage") == tmp_path / "storage"
