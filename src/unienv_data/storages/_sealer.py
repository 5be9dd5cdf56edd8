"""Full pieces become files in the background, a bounded number at a time.

The manifest follows when many are done or nothing more comes for a moment: replacing it for each
piece would cost more than encoding the piece. A piece that does not fit the queue is sealed by the
thread that filled it, so memory stays bounded and nobody waits for a lock. Errors are kept and
raised by the next call; the rows stay in the bank and are sealed again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

__all__ = ["Sealer"]

_QUEUED = 4
_IDLE_S = 0.02


class Sealer:
    """Owns one thread, started when first needed, and the queue of pieces."""

    def __init__(self, seal: Callable[[int], None], publish: Callable[[], None]) -> None:
        """Nothing is started yet; neither function may keep the storage alive.

        Args:
            seal: Encodes one piece and gives it its name.
            publish: Lets the manifest count what is sealed.
        """
        self._seal = seal
        self._publish = publish
        self._unpublished = False
        self._waiting = 0
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

    def note_sealed(self) -> None:
        """Says that a caller sealed a piece itself: the manifest has to follow."""
        with self._changed:
            self._unpublished = True
            self._changed.notify_all()

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
        """Waits until the queue is empty, nothing is being sealed, and the manifest followed."""
        with self._changed:
            if self._thread is None:
                return
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: not (self._queue or self._busy or self._unpublished) or self._closed
            )
            self._waiting -= 1

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
                if self._unpublished and not self._has_work():
                    self._changed.wait_for(self._is_wanted, _IDLE_S)
                elif not self._has_work():
                    self._changed.wait_for(lambda: self._has_work() or self._unpublished)
                if not self._queue and self._closed:
                    return
                piece = self._queue.popleft() if self._queue else None
                # A piece that is being sealed is published after it, not before.
                self._unpublished = piece is not None
                self._busy = True
            try:
                if piece is not None:
                    self._seal(piece)
                else:
                    self._publish()
            except BaseException as error:  # noqa: BLE001 - raised by the next call
                self._error = error
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _has_work(self) -> bool:
        return bool(self._queue) or self._closed

    def _is_wanted(self) -> bool:
        return self._has_work() or self._waiting > 0
