"""Metadata over whole trees of spaces, and the usual descriptions of sensors and actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from typing import Any

from unienv_interface.errors import SpaceMismatchError
from unienv_interface.space.metadata import SpaceMetadata
from unienv_interface.space.space import Space
from unienv_interface.space.spaces import (
    BatchedSpace,
    DictSpace,
    GraphSpace,
    TupleSpace,
    UnionSpace,
)

__all__ = [
    "action_metadata",
    "annotate",
    "child_spaces",
    "common_metadata",
    "depth_metadata",
    "find_spaces_by_metadata",
    "image_metadata",
    "iterate_metadata",
    "merge_metadata",
    "metadata",
    "metadata_issues",
    "proprio_metadata",
    "spaces_equal_with_metadata",
    "strip_metadata",
    "validate_metadata",
]

AnySpace = Space[Any, Any, Any, Any]
Path = tuple[str | int, ...]

_PIXELS = ("rgb", "rgba", "bgr", "bgra", "gray")
_LEAST_AXES = {"HW": 2, "HWC": 3, "CHW": 3}


def child_spaces(space: AnySpace) -> list[tuple[Any, AnySpace]]:
    """Key and space of each child; none for a leaf.

    Children of a Dict go by key, of a Tuple or Union by position, and those of other spaces by the
    name of the constructor's argument.
    """
    return _children(space)


@singledispatch
def _children(space: Any) -> list[tuple[Any, AnySpace]]:
    return []


@_children.register
def _(space: DictSpace) -> list[tuple[Any, AnySpace]]:
    return list(space.spaces.items())


@_children.register(TupleSpace)
@_children.register(UnionSpace)
def _(space: Any) -> list[tuple[Any, AnySpace]]:
    return list(enumerate(space.spaces))


@_children.register
def _(space: BatchedSpace) -> list[tuple[Any, AnySpace]]:
    return [("single_space", space.single_space)]


@_children.register
def _(space: GraphSpace) -> list[tuple[Any, AnySpace]]:
    both = {
        "node_feature_space": space.node_feature_space,
        "edge_feature_space": space.edge_feature_space,
    }
    return [(key, child) for key, child in both.items() if child is not None]


@singledispatch
def _with_children(space: Any, children: Sequence[tuple[Any, AnySpace]]) -> AnySpace:
    """The same space over other children."""
    result: AnySpace = space
    return result


@_with_children.register
def _(space: DictSpace, children: Sequence[tuple[Any, AnySpace]]) -> AnySpace:
    return DictSpace(space.backend, children, space.device, space.metadata)


@_with_children.register(TupleSpace)
@_with_children.register(UnionSpace)
def _(space: Any, children: Sequence[tuple[Any, AnySpace]]) -> AnySpace:
    kind: Callable[..., AnySpace] = type(space)
    return kind(space.backend, [child for _, child in children], space.device, space.metadata)


@_with_children.register
def _(space: BatchedSpace, children: Sequence[tuple[Any, AnySpace]]) -> AnySpace:
    return BatchedSpace(children[0][1], space.batch_shape, space.metadata)


@_with_children.register
def _(space: GraphSpace, children: Sequence[tuple[Any, AnySpace]]) -> AnySpace:
    return space.replace(**dict(children))


def _walk(space: AnySpace, path: Path = ()) -> Iterator[tuple[Path, AnySpace]]:
    yield path, space
    for key, child in child_spaces(space):
        yield from _walk(child, (*path, key))


def _joined(path: Path, separator: str = "/") -> str:
    return separator.join(map(str, path))


def iterate_metadata(space: AnySpace, separator: str = "/") -> Iterator[tuple[str, SpaceMetadata]]:
    """Joined key and metadata of every space in a tree that has some; the root's key is ""."""
    for path, child in _walk(space):
        if child.metadata:
            yield _joined(path, separator), child.metadata


def find_spaces_by_metadata(
    space: AnySpace, predicate: Callable[[AnySpace], bool] | None = None, **match: Any
) -> list[tuple[Path, AnySpace]]:
    """Path and space of every space in a tree that passes.

    Args:
        space: Root of the tree.
        predicate: Asked for each space.
        **match: Metadata entries it must have with these values.
    """
    wanted = SpaceMetadata(match)
    return [
        (path, child)
        for path, child in _walk(space)
        if (predicate is None or predicate(child))
        and all(key in child.metadata and child.metadata[key] == wanted[key] for key in wanted)
    ]


def annotate(
    space: AnySpace,
    mapping: Mapping[Any, Mapping[str, Any]],
    *,
    replace: bool = False,
    strict: bool = True,
) -> Any:
    """A copy of a tree of spaces with more metadata in it.

    Args:
        space: Root of the tree; it does not change.
        mapping: Entries to add by path: keys joined with "/", or a tuple of keys; "" and () are
            the root.
        replace: Drop the present entries of these spaces first.
        strict: Raise for paths that lead nowhere, instead of leaving them out.

    Raises:
        KeyError: A path leads nowhere.
    """
    missing = dict(mapping)

    def changed(node: AnySpace, path: Path) -> AnySpace:
        children = [(key, changed(child, (*path, key))) for key, child in child_spaces(node)]
        result = _with_children(node, children)
        for name in (path, _joined(path)):
            if name in missing:
                result = result.with_metadata(missing.pop(name), replace=replace)
        return result

    result = changed(space, ())
    if strict and missing:
        raise KeyError(f"annotate: no space at {', '.join(map(repr, missing))}")
    return result


def strip_metadata(space: AnySpace) -> Any:
    """The same tree of spaces without metadata."""
    children = [(key, strip_metadata(child)) for key, child in child_spaces(space)]
    return _with_children(space, children).with_metadata(replace=True)


def merge_metadata(space: AnySpace, other: AnySpace) -> Any:
    """A tree of spaces with the metadata of another tree added, where both have a space."""
    theirs = {path: child.metadata for path, child in _walk(other) if child.metadata}
    return annotate(space, theirs, strict=False)


def common_metadata(spaces: Iterable[AnySpace]) -> SpaceMetadata:
    """The metadata of all spaces when they agree, else none."""
    every = [space.metadata for space in spaces]
    agree = bool(every) and all(each == every[0] for each in every)
    return every[0] if agree else SpaceMetadata()


def spaces_equal_with_metadata(a: AnySpace, b: AnySpace) -> bool:
    """Whether two trees of spaces are equal, metadata included."""
    return a == b and dict(iterate_metadata(a)) == dict(iterate_metadata(b))


def metadata(kind: str | None, **fields: Any) -> dict[str, Any]:
    """A description of what a space holds; fields that are None are left out."""
    return {key: value for key, value in {"kind": kind, **fields}.items() if value is not None}


def image_metadata(
    *,
    format: str | None = "rgb",  # noqa: A002 - the name of the entry
    layout: str | None = "HWC",
    source: str | None = None,
    fps: float | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Describes images: order of colours and of axes, camera, frames a second."""
    return metadata("image", format=format, layout=layout, source=source, fps=fps, **extra)


def depth_metadata(
    *,
    units: str | None = "m",
    layout: str | None = "HW",
    source: str | None = None,
    fps: float | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Describes depth images: unit of length, order of axes, camera, frames a second."""
    return metadata("depth", units=units, layout=layout, source=source, fps=fps, **extra)


def proprio_metadata(
    *,
    units: str | Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    frame: str | None = None,
    rotation: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Describes a robot's own state: units and names of the elements, frame of reference."""
    return metadata("proprio", units=units, names=names, frame=frame, rotation=rotation, **extra)


def action_metadata(
    *,
    control: str | None = None,
    mode: str | None = None,
    units: str | Sequence[str] | None = None,
    normalized: bool | None = None,
    range: Sequence[Any] | None = None,  # noqa: A002 - the name of the entry
    names: Sequence[str] | None = None,
    frame: str | None = None,
    rotation: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Describes actions: what they control and how, their units, range and names."""
    return metadata(
        "action",
        control=control,
        mode=mode,
        units=units,
        normalized=normalized,
        range=range,
        names=names,
        frame=frame,
        rotation=rotation,
        **extra,
    )


def metadata_issues(space: AnySpace) -> list[str]:
    """What is wrong with the usual metadata entries in a tree of spaces, one line each."""
    return [
        f"{_joined(path) or 'the root'}: {issue}"
        for path, child in _walk(space)
        for issue in _issues(child.metadata, getattr(child, "shape", None))
    ]


def _issues(entries: Mapping[str, Any], shape: Any) -> Iterator[str]:
    kind, layout = entries.get("kind"), entries.get("layout")
    pixels = entries.get("format")
    if kind == "image" and pixels is not None and pixels not in _PIXELS:
        yield f"'format' is one of {', '.join(_PIXELS)}, got {pixels!r}"
    if layout in _LEAST_AXES and shape is not None and len(shape) < _LEAST_AXES[layout]:
        yield f"layout {layout} has {_LEAST_AXES[layout]} axes, the space has shape {shape}"
    fps = entries.get("fps")
    if fps is not None and (
        isinstance(fps, bool) or not isinstance(fps, (int, float)) or not fps > 0
    ):
        yield f"'fps' is a positive number, got {fps!r}"
    for name in ("names", "units"):
        value = entries.get(name)
        if value is None or (name == "units" and isinstance(value, str)):
            continue
        if not isinstance(value, tuple) or any(not isinstance(each, str) for each in value):
            yield f"{name!r} is a list of texts, got {value!r}"
        elif shape and len(value) != shape[-1]:
            yield f"{name!r} has {len(value)} entries for a last axis of length {shape[-1]}"
    limits = entries.get("range")
    if limits is not None and (not isinstance(limits, tuple) or len(limits) != 2):
        yield f"'range' is [low, high], got {limits!r}"


def validate_metadata(space: AnySpace) -> None:
    """Refuses metadata that `metadata_issues` finds fault with.

    Raises:
        SpaceMismatchError: It names every issue (ValueError).
    """
    issues = metadata_issues(space)
    if issues:
        raise SpaceMismatchError("metadata: " + "; ".join(issues), issues=issues)
