"""LeRobot datasets as batches.

Not there yet: the name can be imported, so that programs which only mention it run; building one
says so. Issue 5 of this project and those after it bring the reader.
"""

from __future__ import annotations

from typing import Any, NoReturn

from unienv_interface.errors import UniEnvError

__all__ = ["LeRobotAsUniEnvDataset"]


class _NotThereYetError(UniEnvError, NotImplementedError):
    """The feature is planned and not in this version."""


class LeRobotAsUniEnvDataset:
    """A LeRobot dataset as a read-only batch. Building one raises `NotImplementedError`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse()

    @classmethod
    def from_local(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises: not in this version."""
        _refuse()

    @classmethod
    def from_hub(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises: not in this version."""
        _refuse()


def _refuse() -> NoReturn:
    raise _NotThereYetError(
        "reading LeRobot datasets is not in this version of unienv-data; convert the Parquet files "
        "of its data/ folder with ParquetStorage.load_replay_buffer_from_raw_parquet meanwhile"
    )
