"""How a storage is to be opened, beside what it holds: budgets, directories, durability."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unienv_data.errors import StorageArgumentError

__all__ = ["Options"]

_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DEFAULT_BANK_BYTES = 64 << 30


def parse_bytes(text: str, name: str) -> int:
    """Bytes of a text such as ``2G`` or ``512MiB``.

    Raises:
        StorageArgumentError: It is none; `name` says what was given.
    """
    digits = text.strip().lower().removesuffix("ib").removesuffix("b")
    suffix = digits[-1:] if digits[-1:].isalpha() else ""
    number = digits[: len(digits) - len(suffix)]
    try:
        return int(float(number) * _SUFFIXES[suffix])
    except (ValueError, KeyError, OverflowError):
        raise StorageArgumentError(
            f"{name} should be a number of bytes such as 2G, got {text!r}",
            expected="bytes",
            found=text,
        ) from None


def _environment_bytes(name: str) -> int | None:
    text = os.environ.get(name)
    return None if text is None else parse_bytes(text, f"environment variable {name}")


def _memory_bytes() -> int:
    """Memory this process may use: of the machine, or of its control group when less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


@dataclass(frozen=True)
class Options:
    """Keyword arguments of `create` and `load_from` that are this library's own.

    Attributes:
        cache_bytes: Memory for decoded rows of a read-only storage, in bytes or as a text such as
            ``"2G"``. Default: environment variable
            `UNIENV_DATA_CACHE_BYTES`, then a quarter of the machine's memory.
        bank_bytes: Disk for decoded rows. Default: `UNIENV_DATA_BANK_BYTES`, then 64 GiB or half
            of what is free where the bank lies, whichever is less.
        cache_dir: Where banks of read-only storages lie. Default: `UNIENV_DATA_CACHE_DIR`, then
            memory while all rows fit `cache_bytes`, then the user's cache directory.
        work_dir: Where the bank of a writable storage lies. Default: inside the data set.
        durability: "power" syncs what `flush` returns for; "process" leaves the syncs out.
        on_damage: "raise" finds damage when a row of it is read. "skip", for reading only, reads
            every piece once when it opens and lists the rows to leave out: `damaged_rows`.
        flush_interval_s: A segment end flushes when the last flush is longer ago than this.
    """

    cache_bytes: int | str | None = None
    bank_bytes: int | str | None = None
    cache_dir: str | os.PathLike[str] | None = None
    work_dir: str | os.PathLike[str] | None = None
    durability: str = "power"
    flush_interval_s: float = 30.0
    on_damage: str = "raise"

    def __post_init__(self) -> None:
        if self.durability not in ("power", "process"):
            raise StorageArgumentError(
                f"durability should be 'power' or 'process', got {self.durability!r}",
                expected="'power' or 'process'",
                found=self.durability,
            )
        if self.on_damage not in ("raise", "skip"):
            raise StorageArgumentError(
                f"on_damage should be 'raise' or 'skip', got {self.on_damage!r}",
                expected="'raise' or 'skip'",
                found=self.on_damage,
            )
        for name in ("cache_bytes", "bank_bytes"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, parse_bytes(value, name))
            elif value is not None and (not isinstance(value, numbers.Real) or value < 0):
                raise StorageArgumentError(
                    f"{name} should be a number of bytes or a text such as '2G', got {value!r}",
                    expected="bytes",
                    found=value,
                )
        if not self.flush_interval_s >= 0:
            raise StorageArgumentError(
                f"flush_interval_s should not be negative, got {self.flush_interval_s!r}"
            )

    @classmethod
    def take(cls, keywords: Mapping[str, Any]) -> tuple[Options, dict[str, Any]]:
        """Splits keyword arguments into options and the rest."""
        known = {name: keywords[name] for name in cls.__dataclass_fields__ if name in keywords}
        rest = {name: value for name, value in keywords.items() if name not in known}
        return cls(**known), rest

    def memory_budget(self) -> int:
        """Bytes of memory for decoded rows."""
        if self.cache_bytes is not None:
            return int(self.cache_bytes)
        from_environment = _environment_bytes("UNIENV_DATA_CACHE_BYTES")
        return _memory_bytes() // 4 if from_environment is None else from_environment

    def disk_budget(self, directory: Path) -> int:
        """Bytes of disk for decoded rows in a bank below `directory`."""
        if self.bank_bytes is not None:
            return int(self.bank_bytes)
        from_environment = _environment_bytes("UNIENV_DATA_BANK_BYTES")
        if from_environment is not None:
            return from_environment
        status = os.statvfs(directory)
        return min(_DEFAULT_BANK_BYTES, status.f_bavail * status.f_frsize // 2)
