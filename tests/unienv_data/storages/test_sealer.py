from __future__ import annotations

import threading
from typing import Any

import pytest

from unienv_data.storages._sealer import Sealer


def test_whoever_waits_for_the_queue_is_told_when_another_thread_empties_it() -> None:
    sealer = Sealer(lambda piece: None, lambda: None)
    placeholder: Any = threading.current_thread()
    sealer._thread = placeholder  # as one that has not woken up yet
    assert sealer.submit(1)
    waiting = threading.Event()

    def drain() -> None:
        waiting.set()
        sealer.drain()

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    waiting.wait()
    while not sealer._changed._waiters:  # type: ignore[attr-defined]
        pass
    sealer.forget()
    thread.join(30)
    assert not thread.is_alive()


def test_pieces_are_sealed_in_order_and_errors_are_raised_once() -> None:
    sealed = []
    error = OSError("full")

    def seal(piece: int) -> None:
        sealed.append(piece)
        if piece == 2:
            raise error

    sealer = Sealer(seal, lambda: None)
    for piece in range(4):
        while not sealer.submit(piece):
            sealer.drain()
    sealer.drain()
    assert sealed == [0, 1, 2, 3]
    with pytest.raises(OSError, match="full") as caught:
        sealer.raise_error()
    assert caught.value is error
    sealer.raise_error()
    sealer.close()
    assert not sealer.submit(5)
