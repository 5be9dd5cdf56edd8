from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unienv_data.errors import ManifestError, UnsupportedVersionError
from unienv_data.format.checked import sealed
from unienv_data.format.manifest import LedgerRecord, Manifest
from unienv_data.format.schema import Schema
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, TextSpace


@pytest.fixture
def manifest() -> Manifest:
    space = DictSpace(
        NumpyComputeBackend,
        {
            "a": BoxSpace(NumpyComputeBackend, -np.inf, 3.0, np.float32, shape=(2, 3)),
            "b": BinarySpace(NumpyComputeBackend, ()),
            "t": TextSpace(NumpyComputeBackend, 9, min_length=1, charset="abc"),
        },
    )
    made = Manifest.new(
        space, Schema.from_space(space), piece_size=4, capacity=None, compression="zstd", writer="w"
    )
    return replace(made, num_rows=10, synced_rows=8, boot="x", ledger=LedgerRecord(10, 0, True))


def test_round_trip_keeps_everything_and_is_valid_json(manifest: Manifest) -> None:
    text = manifest.dump()
    assert Manifest.parse(text, "m") == manifest

    def refuse(token: str) -> Any:
        raise AssertionError(f"bare {token}")

    json.loads(text, parse_constant=refuse)


def test_the_original_librarys_keys_come_first(manifest: Manifest) -> None:
    data = json.loads(manifest.dump())
    assert list(data)[:5] == [
        "piece_size",
        "num_rows",
        "column_shapes",
        "compression",
        "column_dtypes",
    ]
    assert data["column_dtypes"] == {"a": "float32", "b": "bool", "t": "object"}
    assert data["column_shapes"] == {"a": [2, 3], "b": [], "t": []}


def test_unknown_keys_are_kept(manifest: Manifest) -> None:
    data = json.loads(manifest.dump())
    data["later"] = {"x": 1}
    again = json.loads(Manifest.parse(json.dumps(sealed(data)).encode(), "m").next().dump())
    assert again["later"] == {"x": 1}


def test_a_directory_of_the_original_library_is_foreign() -> None:
    text = json.dumps(
        {"piece_size": 3, "num_rows": 4, "column_shapes": {"data": [2]},
         "column_dtypes": {"data": "float32"}}
    )  # fmt: skip
    found = Manifest.parse(text.encode(), "m")
    assert found.is_foreign
    assert found.compression == "snappy"
    assert not found.schema.is_dict


def test_another_major_version_is_refused_by_name(manifest: Manifest) -> None:
    data = json.loads(manifest.dump())
    data["format_version"] = "2.0"
    with pytest.raises(UnsupportedVersionError, match=r"format version 2\.0"):
        Manifest.parse(json.dumps(data).encode(), "m")
    data["format_version"] = "1.9"
    assert Manifest.parse(json.dumps(sealed(data)).encode(), "m").num_rows == 10


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("piece_size", 0),
        ("piece_size", "4"),
        ("piece_size", True),
        ("num_rows", -1),
        ("num_rows", 1.5),
        ("num_rows", 2**63),
        ("column_shapes", []),
        ("column_shapes", {"a": [-1]}),
        ("column_shapes", {"a": [2]}),
        ("compression", 3),
        ("uuid", 3),
        ("space", {"type": "Nothing"}),
        ("ledger", {"head": -1, "tail": 0}),
    ],
)
def test_wrong_values_are_named(manifest: Manifest, key: str, value: Any) -> None:
    data = json.loads(manifest.dump())
    data[key] = value
    with pytest.raises(ManifestError):
        Manifest.parse(json.dumps(data).encode(), "m")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"3", b"\xff", b'{"piece_size": 1}'])
def test_what_is_no_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(ManifestError):
        Manifest.parse(text, "m")


@pytest.mark.parametrize("dtypes", ["x", [1], {"data": "\ud800"}, {"data": {}}, {"data": 10**18}])
def test_wrong_dtypes_of_a_foreign_manifest_are_named(dtypes: Any) -> None:
    data = {"piece_size": 3, "num_rows": 4, "column_shapes": {"data": [2]}, "column_dtypes": dtypes}
    if dtypes == {"data": {}}:  # none is given: the pieces say
        assert Manifest.parse(json.dumps(data).encode(), "m").schema.columns[0].dtype.kind == "V"
        return
    with pytest.raises(ManifestError, match="column_dtypes"):
        Manifest.parse(json.dumps(data).encode(), "m")


def test_a_changed_number_is_damage(manifest: Manifest) -> None:
    text = manifest.dump().replace(b'"num_rows": 10', b'"num_rows": 11')
    with pytest.raises(ManifestError, match="was changed since it was written"):
        Manifest.parse(text, "m")


def test_a_damaged_name_of_the_checksum_is_damage(manifest: Manifest) -> None:
    text = manifest.dump().replace(b'"checksum"', b'"chfcksum"')
    with pytest.raises(ManifestError, match="lacks its checksum"):
        Manifest.parse(text, "m")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(manifest: Manifest, number: str) -> None:
    data = json.loads(manifest.dump())
    del data["checksum"]
    data.update(format_version="1.0", later="NUMBER")
    text = json.dumps(data).replace('"NUMBER"', number)
    with pytest.raises(ManifestError, match="a number that is none"):
        Manifest.parse(text.encode(), "m")
