"""Random numbers between bounds that may differ from element to element."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["draw"]

_WORD = 1 << 64
_SMALL = 1 << 31


def draw(backend: Any, shape: tuple[int, ...], low: Any, high: Any, rng: Any) -> tuple[Any, Any]:
    """Numbers between closed bounds, as a numpy array of the bounds' dtype.

    Integers are uniform. Floats are uniform between two finite bounds, exponential from one, and
    normal without.

    Args:
        backend: Whose random numbers to use.
        shape: Shape of the result.
        low: numpy array that broadcasts to `shape`.
        high: Likewise, of the same dtype.
        rng: The backend's random number generator.

    Returns:
        The generator and the numbers.
    """
    if low.dtype.kind in "iu":
        return _integers(backend, shape, low, high, rng)
    return _floats(backend, shape, low, high, rng)


def _integers(backend: Any, shape: Any, low: Any, high: Any, rng: Any) -> tuple[Any, Any]:
    if low.size == high.size == 1:
        first, last = int(low.item()), int(high.item())
        if first >= -_SMALL and last < _SMALL - 1:
            rng, drawn = backend.random.random_discrete_uniform(shape, first, last + 1, rng=rng)
            return rng, np.asarray(backend.to_numpy(drawn)).astype(low.dtype)
    rng, drawn = backend.random.random_discrete_uniform((4, *shape), 0, 1 << 16, rng=rng)
    parts = np.asarray(backend.to_numpy(drawn)).astype(np.uint64)
    words = _shifted(parts[0], 48) | _shifted(parts[1], 32) | _shifted(parts[2], 16) | parts[3]
    begin = np.broadcast_to(low, shape).astype(np.uint64)  # modulo 2**64 from here on
    with np.errstate(over="ignore"):
        widths = np.broadcast_to(high, shape).astype(np.uint64) - begin + np.uint64(1)
    if bool(((widths != 0) & (widths <= 1 << 32)).all()):
        offsets = (words >> np.uint64(32)) * widths >> np.uint64(32)
    else:  # a width of 0 stands for 2**64, all words
        offsets = np.array(
            [
                word * (width or _WORD) >> 64
                for word, width in zip(words.ravel().tolist(), widths.ravel().tolist(), strict=True)
            ],
            dtype=np.uint64,
        ).reshape(shape)
    with np.errstate(over="ignore"):
        return rng, np.asarray(begin + offsets).astype(low.dtype)


def _shifted(words: Any, bits: int) -> Any:
    return words << np.uint64(bits)  # numpy 1 shifts no unsigned scalar by an int


def _floats(backend: Any, shape: Any, low: Any, high: Any, rng: Any) -> tuple[Any, Any]:
    below, above = np.isfinite(low), np.isfinite(high)
    both, one, none = below & above, below ^ above, ~(below | above)

    def drawn(function: Any) -> Any:
        nonlocal rng
        rng, values = function(shape, rng=rng)
        return np.asarray(backend.to_numpy(values), np.float64)

    wide_low, wide_high = low.astype(np.float64), high.astype(np.float64)
    values = np.zeros(shape)
    with np.errstate(all="ignore"):
        if both.any():
            unit = drawn(backend.random.random_uniform)
            values = np.where(both, wide_low * (1 - unit) + wide_high * unit, values)
        if one.any():
            tail = drawn(backend.random.random_exponential)
            values = np.where(one, np.where(below, wide_low + tail, wide_high - tail), values)
        if none.any():
            values = np.where(none, drawn(backend.random.random_normal), values)
        largest = float(np.finfo(low.dtype).max)
        values = np.clip(values, -largest, largest).astype(low.dtype)
    return rng, np.asarray(np.clip(values, low, high))
