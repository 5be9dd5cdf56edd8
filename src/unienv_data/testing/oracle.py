"""The obvious storage: one list of rows a column. Slow, and right."""

from __future__ import annotations

from typing import Any

import numpy as np

from unienv_interface.space import DictSpace, TextSpace

__all__ = ["Oracle", "assert_batches_equal", "rows_of", "take"]


def _zero(space: Any) -> Any:
    if isinstance(space, TextSpace):
        return ""
    return np.zeros(space.shape, dtype=np.dtype(space.dtype if space.dtype is not None else bool))


class Oracle:
    """Rows of a flat space as plain Python lists.

    Bounded ones start full of zeros; growing ones start empty.
    """

    def __init__(self, space: Any, capacity: int | None = None) -> None:
        self.space = space
        self.children = dict(space.spaces) if isinstance(space, DictSpace) else {None: space}
        self.columns: dict[Any, list[Any]] = {
            key: [_zero(child) for _ in range(capacity or 0)]
            for key, child in self.children.items()
        }

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def _parts(self, batch: Any) -> dict[Any, Any]:
        return batch if isinstance(self.space, DictSpace) else {None: batch}

    def grow(self, count: int) -> None:
        """Adds rows of zeros."""
        for key, child in self.children.items():
            self.columns[key].extend(_zero(child) for _ in range(count))

    def shrink(self, count: int) -> None:
        """Drops the last rows."""
        for rows in self.columns.values():
            del rows[len(rows) - count :]

    def set_rows(self, rows: list[int], batch: Any) -> None:
        """Overwrites rows one after the other."""
        for key, values in self._parts(batch).items():
            for position, row in enumerate(rows):
                value = values[position]
                self.columns[key][row] = value if isinstance(value, str) else np.array(value)

    def get_rows(self, rows: list[int]) -> Any:
        """Rows as a batch."""
        parts = {}
        for key, child in self.children.items():
            values = [self.columns[key][row] for row in rows]
            if isinstance(child, TextSpace):
                array = np.empty(len(values), dtype=object)
                array[:] = values
            else:
                zero = _zero(child)
                array = np.zeros((len(values), *zero.shape), dtype=zero.dtype)
                for position, value in enumerate(values):
                    array[position] = value
            parts[key] = array
        return parts if isinstance(self.space, DictSpace) else parts[None]

    def all(self) -> Any:
        """Every row."""
        return self.get_rows(list(range(len(self))))


def rows_of(batch: Any) -> int:
    """Number of rows of a batch."""
    return len(next(iter(batch.values()))) if isinstance(batch, dict) else len(batch)


def take(batch: Any, index: Any) -> Any:
    """Rows of a batch held in memory, as numpy indexes them."""
    if isinstance(batch, dict):
        return {key: take(values, index) for key, values in batch.items()}
    if isinstance(batch, tuple):
        return tuple(take(values, index) for values in batch)
    return np.asarray(batch)[index]


def assert_batches_equal(found: Any, expected: Any) -> None:
    """Equal bit for bit, of the same dtype and shape; texts are exact `str`."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), type(found)
        assert list(found) == list(expected), (list(found), list(expected))
        for key, values in expected.items():
            try:
                assert_batches_equal(found[key], values)
            except AssertionError as error:
                raise AssertionError(f"column {key!r}: {error}") from error
        return
    if isinstance(expected, tuple):
        assert isinstance(found, tuple), type(found)
        for part, values in zip(found, expected, strict=True):
            assert_batches_equal(part, values)
        return
    if isinstance(expected, str):
        assert type(found) is str, type(found)
        assert found == expected, (found, expected)
        return
    expected = np.asarray(expected)
    assert isinstance(found, (np.ndarray, np.generic)), type(found)
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    if expected.dtype == object:
        assert all(type(text) is str for text in found.tolist()), "not exact str"
        assert found.tolist() == expected.tolist(), (found.tolist(), expected.tolist())
    else:
        assert found.tobytes() == expected.tobytes(), (found, expected)
