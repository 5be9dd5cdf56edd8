"""Metadata over trees of spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.space import BoxSpace, DictSpace, TextSpace, TupleSpace
from unienv_interface.space import metadata_utils as mu
from unienv_interface.testing import KINDS, spaces, various

CAMERA = BoxSpace(B, 0, 255, np.uint8, shape=(4, 4, 3))
ARM = BoxSpace(B, -1, 1, np.float32, shape=(2,))
ROBOT = DictSpace(B, {"camera": CAMERA, "state": {"arm": ARM, "parts": TupleSpace(B, [ARM])}})


def noted() -> Any:
    return mu.annotate(
        ROBOT,
        {
            "": {"robot": "r"},
            "camera": mu.image_metadata(fps=30.0),
            ("state", "arm"): mu.proprio_metadata(units="rad", names=["x", "y"]),
            "state/parts/0": {"part": 0},
        },
    )


def test_children() -> None:
    assert mu.child_spaces(ARM) == []
    assert mu.child_spaces(ROBOT) == [("camera", CAMERA), ("state", ROBOT["state"])]
    assert [key for key, _ in mu.child_spaces(various(B)["union"])] == [0, 1]
    assert [key for key, _ in mu.child_spaces(various(B)["batched"])] == ["single_space"]
    assert [key for key, _ in mu.child_spaces(various(B)["graph"])] == [
        "node_feature_space",
        "edge_feature_space",
    ]


def test_annotate() -> None:
    space = noted()
    assert space == ROBOT
    assert ROBOT.metadata == ROBOT["camera"].metadata == {}
    assert dict(mu.iterate_metadata(space)) == {
        "": {"robot": "r"},
        "camera": {"kind": "image", "format": "rgb", "layout": "HWC", "fps": 30.0},
        "state/arm": {"kind": "proprio", "units": "rad", "names": ("x", "y")},
        "state/parts/0": {"part": 0},
    }
    more = mu.annotate(space, {"camera": {"a": 1}})
    assert more["camera"].metadata["kind"] == "image"
    other = mu.annotate(space, {"camera": {"a": 1}}, replace=True)
    assert other["camera"].metadata == {"a": 1}
    with pytest.raises(KeyError, match="nowhere"):
        mu.annotate(space, {"nowhere": {}})
    assert mu.annotate(space, {"nowhere": {}}, strict=False) == space


@pytest.mark.parametrize("kind", KINDS)
def test_strip_and_merge(kind: str) -> None:
    plain = various(B)[kind]
    paths = {key: {"at": str(key)} for key, _ in mu.child_spaces(plain)}
    space = mu.annotate(plain, {(key,): entry for key, entry in paths.items()})
    space = space.with_metadata(root=1)
    assert space == plain
    bare = mu.strip_metadata(space)
    assert bare == plain
    assert list(mu.iterate_metadata(bare)) == []
    assert mu.spaces_equal_with_metadata(mu.merge_metadata(plain, space), space)
    assert not mu.spaces_equal_with_metadata(plain, space)


@given(spaces())
def test_trees(space: Any) -> None:
    noted_space = mu.annotate(space, {(): {"a": 1}})
    assert mu.spaces_equal_with_metadata(noted_space, space.with_metadata(a=1))
    assert mu.strip_metadata(noted_space) == space


def test_find() -> None:
    space = noted()
    assert mu.find_spaces_by_metadata(space, kind="image") == [(("camera",), CAMERA)]
    assert mu.find_spaces_by_metadata(space, names=["x", "y"]) == [(("state", "arm"), ARM)]
    paths = [path for path, _ in mu.find_spaces_by_metadata(space, lambda s: s.shape == (2,))]
    assert paths == [("state", "arm"), ("state", "parts", 0)]


def test_common() -> None:
    a, b = ARM.with_metadata(a=1), ARM.with_metadata(a=1, b=2)
    assert mu.common_metadata([a, a]) == {"a": 1}
    assert mu.common_metadata([a, b]) == {}
    assert mu.common_metadata([]) == {}


def test_descriptions() -> None:
    assert mu.metadata("x", a=1, b=None) == {"kind": "x", "a": 1}
    assert mu.metadata(None, a=1) == {"a": 1}
    assert mu.image_metadata() == {"kind": "image", "format": "rgb", "layout": "HWC"}
    assert mu.depth_metadata() == {"kind": "depth", "units": "m", "layout": "HW"}
    assert mu.proprio_metadata(frame="base") == {"kind": "proprio", "frame": "base"}
    assert mu.action_metadata(normalized=True, range=[-1, 1], extra=2) == {
        "kind": "action",
        "normalized": True,
        "range": [-1, 1],
        "extra": 2,
    }


def test_issues() -> None:
    assert mu.metadata_issues(noted()) == []
    mu.validate_metadata(noted())
    wrong = mu.annotate(
        ROBOT,
        {
            "": {"fps": -1},
            "camera": {"kind": "image", "format": "depth", "units": 3},
            "state/arm": {"layout": "HWC", "names": ["x"], "range": [0]},
        },
    )
    issues = mu.metadata_issues(wrong)
    assert len(issues) == 6
    assert issues[0].startswith("the root: 'fps'")
    with pytest.raises(ValueError, match="state/arm"):
        mu.validate_metadata(wrong)
    assert mu.metadata_issues(TextSpace(B, 3, metadata={"names": ["a"]})) == []
