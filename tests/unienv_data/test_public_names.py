from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest

PACKAGES = [
    "unienv_data",
    "unienv_data.base",
    "unienv_data.base.common",
    "unienv_data.batches",
    "unienv_data.samplers",
]

ORIGINAL = {
    "BatchBase",
    "BatchSampler",
    "BatchT",
    "BufferedSegmentWriter",
    "CombinedBatch",
    "FrameStackedBatch",
    "IndexableType",
    "MappedSegmentWriter",
    "MultiprocessingSampler",
    "ReplayBuffer",
    "SamplerArrayType",
    "SamplerBatchT",
    "SamplerDeviceType",
    "SamplerDtypeType",
    "SamplerRNGType",
    "SegmentWriter",
    "SliceStackedBatch",
    "SpaceStorage",
    "StepSampler",
    "SubIndexedBatch",
    "SubItemBatch",
    "ToBackendOrDeviceBatch",
    "TransformedBatch",
}


@pytest.mark.parametrize("name", PACKAGES)
def test_listed_names_are_there_and_sorted(name: str) -> None:
    module = importlib.import_module(name)
    names = module.__all__
    assert names == sorted(set(names))
    assert all(hasattr(module, each) for each in names)


def test_the_names_of_the_original_library() -> None:
    assert set(importlib.import_module("unienv_data").__all__) >= ORIGINAL


def test_importing_needs_nothing_optional() -> None:
    program = (
        "import json, sys, unienv_data\n"
        "heavy = {'torch', 'jax', 'av', 'h5py', 'datasets', 'tqdm', 'pandas', 'gymnasium'}\n"
        "print(json.dumps(sorted(heavy & set(sys.modules))))\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(result.stdout) == []


@pytest.mark.parametrize(
    "name",
    ["parquet", "memory", "npz_storage", "flattened", "pytorch", "registry", "_list_storage"],
)
def test_every_storage_module_is_importable(name: str) -> None:
    importlib.import_module(f"unienv_data.storages.{name}")
