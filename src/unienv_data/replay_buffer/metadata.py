"""`metadata.json`: what a replay buffer's directory holds beside its storage.

The file belongs to the original library's format; one further key, `ledger`, ties it to a commit
of the storage. It is replaced as a whole, so that readers see the old file or the new one.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unienv_data.errors import ManifestError, MissingStorageError
from unienv_data.format.checked import CHECKSUM_KEY, parse_object, sealed
from unienv_data.io.atomic import replace_file, space_error, sync_directory
from unienv_data.replay_buffer.segments import Segment, is_pair

__all__ = ["COMING_NAME", "METADATA_NAME", "TYPE_NAME", "BufferMetadata", "LedgerMark"]

METADATA_NAME = "metadata.json"
TYPE_NAME = "ReplayBuffer"

COMING_NAME = f"{METADATA_NAME}.next"

_INFINITY = "\ue000infinity\ue001"


@dataclass(frozen=True)
class LedgerMark:
    """Ring position when the file was written, and the storage's commit of that moment."""

    generation: int
    head: int
    tail: int


@dataclass(frozen=True)
class BufferMetadata:
    """The content of one `metadata.json`.

    Attributes:
        count: Rows alive.
        offset: Physical position of the oldest.
        capacity: Rows of the ring; None for a growing buffer.
        storage_cls: Full name of the storage's class.
        storage_path_relative: Where the storage lies in the directory.
        space: JSON form of the space of one sample.
        physical_segments: Inclusive physical pairs, oldest first; None when not maintained.
        ledger: None in files of the original library.
    """

    count: int
    offset: int
    capacity: int | None
    storage_cls: str
    storage_path_relative: str
    space: dict[str, Any]
    physical_segments: list[Segment] | None
    ledger: LedgerMark | None = None

    def write(self, directory: Path, *, sync: bool) -> None:
        """Replaces the file in `directory`; with `sync` it is safe from power loss on return."""
        replace_file(directory / METADATA_NAME, self._dump(), sync=sync)

    def announce(self, directory: Path) -> None:
        """Writes the file of a commit that is about to happen; `settle` gives it its name."""
        replace_file(directory / COMING_NAME, self._dump(), sync=True)

    @staticmethod
    def settle(directory: Path) -> None:
        """Makes the announced file the file: its commit has happened."""
        try:
            os.replace(directory / COMING_NAME, directory / METADATA_NAME)
        except OSError as error:
            raise space_error(error, directory / METADATA_NAME, "dumps") from error
        sync_directory(directory)

    def newest(self, directory: str | os.PathLike[str], generation: int) -> BufferMetadata:
        """This, or the announced file when its commit has happened and nobody settled it.

        Args:
            directory: The buffer's directory.
            generation: The commit that the storage shows.
        """
        try:
            coming = type(self).read(directory, name=COMING_NAME)
        except (MissingStorageError, ManifestError):
            return self
        if self.ledger is None or coming.ledger is None:
            return self
        is_next = self.ledger.generation < coming.ledger.generation <= generation
        return coming if is_next else self

    def _dump(self) -> bytes:
        segments = self.physical_segments
        data: dict[str, Any] = {
            "type": TYPE_NAME,
            "count": self.count,
            "offset": self.offset,
            "capacity": self.capacity,
            "storage_cls": self.storage_cls,
            "storage_path_relative": self.storage_path_relative,
            "single_instance_space": _without_infinity(self.space),
            "physical_segments": None if segments is None else [list(pair) for pair in segments],
        }
        if self.ledger is not None:
            data["ledger"] = dict(vars(self.ledger))
        # The checksum is of what the file parses to, infinities included.
        data = {**data, CHECKSUM_KEY: sealed(_infinite(data))[CHECKSUM_KEY]}
        text = json.dumps(data)
        # 1e999 is valid JSON and reads as infinity, where the bare token Infinity is not valid.
        for sign in ("-", ""):
            text = text.replace(json.dumps(sign + _INFINITY), f"{sign}1e999")
        return text.encode()

    @staticmethod
    def peek(directory: str | os.PathLike[str], name: str = METADATA_NAME) -> dict[str, Any] | None:
        """The raw content, None when there is no file or it describes something else.

        Raises:
            ManifestError: The file is damaged.
        """
        path = Path(directory) / name
        try:
            text = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError as error:
            raise ManifestError(
                f"open: {path} is a directory, no file; restore it from a copy, or open the "
                "storage inside the directory by itself",
                path=str(path),
            ) from error
        data = parse_object(
            text,
            f"open: {path}",
            "restore it from a copy, or open the storage inside the directory by itself",
        )
        return data if data.get("type") == TYPE_NAME else None

    @classmethod
    def read(cls, directory: str | os.PathLike[str], name: str = METADATA_NAME) -> BufferMetadata:
        """Reads and checks the file.

        Raises:
            MissingStorageError: There is no such file.
            ManifestError: It describes something else, or a key is missing or wrong.
        """
        path = Path(directory) / name
        data = cls.peek(directory, name)
        if data is None:
            if path.exists():
                raise ManifestError(f"open: {path} does not describe a {TYPE_NAME}", path=str(path))
            raise MissingStorageError(
                f"open: {path} does not exist; give the directory that a {TYPE_NAME} was created "
                "in or dumped to",
                path=str(path),
            )
        reader = _Reader(str(path), data)
        capacity = data.get("capacity")
        if capacity is not None:
            capacity = reader.count("capacity")
            if capacity == 0:
                raise reader.wrong("capacity", "a positive number or null")
        metadata = cls(
            count=reader.count("count"),
            offset=reader.count("offset"),
            capacity=capacity,
            storage_cls=reader.typed("storage_cls", str),
            storage_path_relative=reader.file_name("storage_path_relative"),
            space=reader.typed("single_instance_space", dict),
            physical_segments=reader.segments(),
            ledger=reader.ledger(),
        )
        if capacity is not None and metadata.count > capacity:
            raise reader.wrong("count", f"at most the capacity, {capacity}")
        return metadata


@dataclass(frozen=True)
class _Reader:
    path: str
    data: Mapping[str, Any]

    def wrong(self, key: str, expected: str) -> ManifestError:
        found = self.data.get(key, "nothing")
        return ManifestError(
            f"open: {self.path}: key {key!r} should be {expected}, got {found!r:.80}",
            path=self.path,
            key=key,
            expected=expected,
            found=found,
        )

    def typed(self, key: str, kind: type[Any]) -> Any:
        value = self.data.get(key)
        if not isinstance(value, kind):
            raise self.wrong(key, f"a JSON value of type {kind.__name__}")
        return value

    def file_name(self, key: str) -> str:
        value = str(self.typed(key, str))
        try:
            is_name = bool(os.fsencode(value)) and "\0" not in value
        except UnicodeEncodeError:
            is_name = False
        if not is_name:
            raise self.wrong(key, "the name of a file")
        return value

    def count(self, key: str) -> int:
        value = self.data.get(key)
        if not _is_count(value):
            raise self.wrong(key, "a number from 0")
        return int(value)  # type: ignore[arg-type]  # _is_count has looked

    def segments(self) -> list[Segment] | None:
        value = self.data.get("physical_segments")
        if value is None:
            return None
        if not isinstance(value, list) or not all(is_pair(pair) for pair in value):
            raise self.wrong("physical_segments", "a list of pairs, or null")
        return [(pair[0], pair[1]) for pair in value]

    def ledger(self) -> LedgerMark | None:
        value = self.data.get("ledger")
        if value is None:
            return None
        names = ("generation", "head", "tail")
        if not isinstance(value, dict) or not all(_is_count(value.get(name)) for name in names):
            raise self.wrong("ledger", "an object of generation, head and tail")
        return LedgerMark(*(value[name] for name in names))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _infinite(value: Any) -> Any:
    """What `_without_infinity` took out, put back."""
    if isinstance(value, str) and value.endswith(_INFINITY):
        return -math.inf if value.startswith("-") else math.inf
    if isinstance(value, dict):
        return {key: _infinite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_infinite(entry) for entry in value]
    return value


def _without_infinity(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return _INFINITY if value > 0 else f"-{_INFINITY}"
    if isinstance(value, Mapping):
        return {str(key): _without_infinity(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_infinity(entry) for entry in value]
    return value
