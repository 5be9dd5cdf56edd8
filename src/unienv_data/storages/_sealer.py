"""Full pieces become files in the background, a bounded number at a time.

A piece that does not fit the queue is sealed by the thread that filled it, so memory stays
bounded and nobody waits for a lock. Errors are kept and raised by the next call; the rows stay in
the bank and are sealed again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

__all__ = ["Sealer"]

_QUEUED = 4


class Sealer:
    """Owns one thread, started when first needed, and the queue of pieces."""

    def __init__(self, seal: Callable[[int], None]) -> None:
        """`seal` encodes one piece and gives it its name; it must not keep the storage alive."""
        self._seal = seal
        self._queue: deque[int] = deque()
        self._busy = False
        self._closed = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def submit(self, piece: int) -> bool:
        """Queues a piece; False when the queue is full and the caller should seal it itself."""
        with self._changed:
            if len(self._queue) >= _QUEUED or self._closed:
                return False
            self._queue.append(piece)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="unienv-data sealer", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()
        return True

    def keep(self, error: BaseException) -> None:
        """Keeps an error for the caller's next call."""
        self._error = error

    def raise_error(self) -> None:
        """Raises the error of a piece sealed earlier, once."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def forget(self) -> None:
        """Empties the queue and drops a kept error: the caller is about to seal everything."""
        with self._changed:
            self._queue.clear()
            self._error = None
            self._changed.notify_all()  # another thread may wait for the queue to be empty

    def drain(self) -> None:
        """Waits until the queue is empty and nothing is being sealed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue and not self._busy)

    def close(self) -> None:
        """Stops the thread once the queue is empty."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._queue) or self._closed)
                if not self._queue:
                    return
                piece = self._queue.popleft()
                self._busy = True
            try:
                self._seal(piece)
            except BaseException as error:  # noqa: BLE001 - raised by the next call
                self._error = error
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
