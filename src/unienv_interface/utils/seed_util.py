"""Seeds drawn from other seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["next_seed", "next_seed_rng"]

_LARGEST = 2**31 - 1


def next_seed(np_rng: np.random.Generator) -> int:
    """A seed drawn from a numpy generator."""
    return int(np_rng.integers(_LARGEST))


def next_seed_rng(rng: Any, backend: Any) -> tuple[Any, int]:
    """A seed drawn from a backend's random number generator: ``(rng, seed)``."""
    rng, drawn = backend.random.random_discrete_uniform((1,), 0, _LARGEST, rng=rng)
    return rng, int(drawn[0])
