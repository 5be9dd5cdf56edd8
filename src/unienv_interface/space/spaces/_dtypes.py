"""Dtypes of any backend as seen by numpy, where bounds are compared and numbers are drawn."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from unienv_interface.backends.serialization import serialize_dtype

__all__ = ["castable", "host_dtype"]


def host_dtype(backend: Any, dtype: Any) -> np.dtype[Any]:
    """The numpy dtype of the same values; float32 for those it has not, such as bfloat16."""
    try:
        return np.dtype(serialize_dtype(backend, backend.concrete_dtype(dtype)))
    except ValueError:
        return np.dtype(np.float32)


@lru_cache(maxsize=4096)
def castable(backend: Any, source: Any, target: Any) -> bool:
    """Whether numpy's safe rule lets values of `source` be values of `target`."""
    if source == target:
        return True
    try:
        names = serialize_dtype(backend, source), serialize_dtype(backend, target)
    except ValueError:
        return False
    return bool(np.can_cast(np.dtype(names[0]), np.dtype(names[1]), "safe"))
