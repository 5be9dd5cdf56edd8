"""Where the bank of a writable storage lies: inside `_work`, or where `work_dir=` put it.

In the latter case `_work/bank_at.json` says where, so that whoever opens the directory after a
crash finds the rows, with or without the same `work_dir=`.
"""

from __future__ import annotations

import json
from pathlib import Path

from unienv_data.io.atomic import remove_quietly, replace_file

__all__ = ["bank_directory", "forget_bank", "remember_bank"]

_POINTER = "bank_at.json"


def bank_directory(work: Path) -> Path:
    """Where the bank is, or would be by default."""
    try:
        path = json.loads((work / _POINTER).read_bytes())
    except (OSError, ValueError):
        return work / "bank"
    return Path(path) if isinstance(path, str) else work / "bank"


def remember_bank(work: Path, bank: Path) -> None:
    """Writes down where the bank is going to be, before it is made."""
    if bank == work / "bank":
        remove_quietly(work / _POINTER)
    else:
        replace_file(work / _POINTER, json.dumps(str(bank.resolve())).encode(), sync=True)


def forget_bank(work: Path) -> None:
    """Removes what was written down; the bank is gone."""
    remove_quietly(work / _POINTER)
