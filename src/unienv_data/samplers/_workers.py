"""Processes that call methods of a sampler and send the results back.

Each worker has a pipe of its own, so that one that dies takes no lock with it. A thread in the
worker takes tasks from the pipe at once; the parent therefore never waits to hand one out, and a
worker that waits to send a result never keeps the parent from sending.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
import time
import traceback
import weakref
from collections.abc import Sequence
from multiprocessing import connection as mp_connection
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.shared_memory import SharedMemory
from typing import Any, NoReturn, TypeAlias

from unienv_data.errors import UniEnvError

__all__ = ["WorkerDiedError", "WorkerPool"]

CLOSE_TIMEOUT_S = 5.0


class WorkerDiedError(UniEnvError, RuntimeError):
    """A worker process ended on its own: it was killed, ran out of memory, or never started."""


class RemoteTracebackError(Exception):
    """The traceback in the worker, as the cause of the exception that the caller gets."""


# -- messages ---------------------------------------------------------------------------------


Pickled: TypeAlias = tuple[bytes, list[pickle.PickleBuffer]]


def pickled(value: Any) -> Pickled:
    """A value as bytes, with the memory of its numpy arrays beside them, not copied."""
    buffers: list[pickle.PickleBuffer] = []
    return pickle.dumps(value, protocol=5, buffer_callback=buffers.append), buffers


def send_message(
    connection: Connection, head: tuple[int, bool], value: Pickled, *, share: bool
) -> None:
    """Sends a result.

    Args:
        connection: Where to.
        head: Number of the task, and whether it went well.
        value: The result, or the exception.
        share: Put arrays in shared memory instead of sending them.
    """
    text, buffers = value
    views = [buffer.raw() for buffer in buffers]
    sizes = [view.nbytes for view in views]
    total, name = sum(sizes), None
    if share and total:
        block = SharedMemory(create=True, size=total)
        name, start = block.name, 0
        target: Any = block.buf
        for view in views:
            target[start : start + view.nbytes] = view
            start += view.nbytes
        block.close()
    connection.send_bytes(pickle.dumps((*head, sizes, name)))
    connection.send_bytes(text)
    if name is None:
        for view in views:
            if view.nbytes:
                connection.send_bytes(view)


def receive_message(connection: Connection) -> tuple[int, bool, bytes, list[bytearray]]:
    """What `send_message` sent, with the value still pickled beside its buffers."""
    task, is_good, sizes, name = pickle.loads(connection.recv_bytes())
    text = connection.recv_bytes()
    buffers = [bytearray(size) for size in sizes]
    if name is None:
        for buffer in buffers:
            if buffer:
                connection.recv_bytes_into(buffer)
    else:
        block, start = SharedMemory(name), 0
        source: Any = block.buf
        for buffer in buffers:
            buffer[:] = source[start : start + len(buffer)]
            start += len(buffer)
        block.close()
        block.unlink()
    return task, is_good, text, buffers


# -- in the worker ----------------------------------------------------------------------------


def serve(
    connection: Connection, sampler: Any, inherited: Sequence[Connection], share: bool
) -> None:
    """What a worker does until it is told to stop, or its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is the parent's to handle
    for other in inherited:
        other.close()
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_receive_tasks, args=(connection, tasks, stop), daemon=True).start()
    while True:
        task = tasks.get()
        if stop.is_set():
            return
        try:
            _do(connection, sampler, task, share)
        except OSError:  # the parent closed its end
            return


def _receive_tasks(
    connection: Connection, tasks: queue.SimpleQueue[Any], stop: threading.Event
) -> None:
    while not stop.is_set():
        try:
            task = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            task = None
        if task is None:
            stop.set()
        tasks.put(task)


def _do(connection: Connection, sampler: Any, task: Any, share: bool) -> None:
    number, seed, method, arguments = task
    try:
        sampler.manual_seed(seed)
        value = pickled(getattr(sampler, method)(*arguments))
    except Exception as error:  # noqa: BLE001 - all of them are the caller's
        send_message(connection, (number, False), pickled(_portable(error)), share=False)
    else:
        send_message(connection, (number, True), value, share=share)


def _portable(error: Exception) -> tuple[Exception, str]:
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever its pickling raises
        return RuntimeError(f"{type(error).__name__}: {error}"), text
    return error, text


# -- in the parent ----------------------------------------------------------------------------


class WorkerPool:
    """Hands out tasks, and gives results in whatever order they are asked for.

    Owns the processes. Not thread-safe.
    """

    def __init__(
        self,
        sampler: Any,
        n_workers: int,
        context: Any,
        *,
        daemon: bool,
        poll_s: float,
        share: bool,
    ) -> None:
        """Starts the workers.

        Args:
            sampler: Object with `manual_seed` and the methods to call.
            n_workers: Number of processes.
            context: A multiprocessing context.
            daemon: Whether the processes end with their parent.
            poll_s: Seconds between two looks at whether they live, while waiting.
            share: Whether arrays come through shared memory.
        """
        self._poll_s = poll_s
        self._workers: list[tuple[BaseProcess, Connection]] = []
        self._owners: dict[int, int] = {}
        self._waiting = [0] * n_workers
        self._results: dict[int, tuple[bool, bytes, list[bytearray]]] = {}
        self._forgotten: set[int] = set()
        self._count = 0
        self._finalizer = weakref.finalize(self, _stop, self._workers, os.getpid())
        if share:
            resource_tracker.ensure_running()  # one for all processes
        forks = context.get_start_method() == "fork"
        for _ in range(n_workers):
            ours, theirs = context.Pipe()
            inherited = [*(connection for _, connection in self._workers), ours] if forks else []
            process = context.Process(
                target=serve, args=(theirs, sampler, inherited, share), daemon=daemon
            )
            try:
                process.start()
            except BaseException:
                ours.close()
                self.close()
                raise
            finally:
                theirs.close()
            self._workers.append((process, ours))

    def submit(self, seed: int, method: str, arguments: tuple[Any, ...]) -> int:
        """Hands out a task to the worker with the fewest, and gives its number."""
        self._require_alive()
        number, self._count = self._count, self._count + 1
        worker = self._waiting.index(min(self._waiting))
        message = pickle.dumps((number, seed, method, arguments))
        try:
            self._workers[worker][1].send_bytes(message)
        except OSError as error:
            self._raise_died(worker, error)
        self._waiting[worker] += 1
        self._owners[number] = worker
        return number

    def result(self, number: int) -> Any:
        """The result of a task, which is over then; raises what the worker raised."""
        while number not in self._results:
            self._require_alive()
            self._receive()
        is_good, text, buffers = self._results.pop(number)
        value = pickle.loads(text, buffers=buffers)
        if is_good:
            return value
        error, trace = value
        raise error from RemoteTracebackError(f"in a worker process:\n{trace}")

    def forget(self, number: int) -> None:
        """Drops a task; its result is not wanted any more."""
        if self._results.pop(number, None) is None and number in self._owners:
            self._forgotten.add(number)

    def _require_alive(self) -> None:
        if not self._workers:
            raise WorkerDiedError("the workers of this sampler have ended; make another one")

    def _receive(self) -> None:
        connections = {connection: n for n, (_, connection) in enumerate(self._workers)}
        for ready in mp_connection.wait(list(connections), timeout=self._poll_s):
            worker = connections[ready]  # type: ignore[index]
            try:
                number, is_good, text, buffers = receive_message(self._workers[worker][1])
            except (EOFError, OSError) as error:
                self._raise_died(worker, error)
            except BaseException:  # Ctrl+C in the middle of a message: what follows is garbage
                self.close()
                raise
            self._waiting[self._owners.pop(number)] -= 1
            if number in self._forgotten:
                self._forgotten.discard(number)
            else:
                self._results[number] = is_good, text, buffers
            return
        for worker, (process, connection) in enumerate(self._workers):
            if not process.is_alive() and not connection.poll():
                self._raise_died(worker, None)

    def _raise_died(self, worker: int, cause: BaseException | None) -> NoReturn:
        process = self._workers[worker][0]
        process.join(CLOSE_TIMEOUT_S)
        code = process.exitcode
        self.close()
        raise WorkerDiedError(
            f"worker {worker} of the sampler ended on its own with exit code {code}; its output "
            "says more. A program that starts processes by spawn needs "
            "`if __name__ == '__main__':` around what it does",
            worker=worker,
            exitcode=code,
        ) from cause

    def close(self) -> None:
        """Stops the workers and waits for them."""
        self._finalizer()


def _stop(workers: list[tuple[BaseProcess, Connection]], pid: int) -> None:
    if os.getpid() != pid:
        return  # a forked child: they are its parent's
    for _, connection in workers:
        try:
            connection.send_bytes(pickle.dumps(None))
        except OSError:
            continue
    deadline = time.monotonic() + CLOSE_TIMEOUT_S
    for process, connection in workers:
        # A worker may be about to send; what it sends is dropped.
        while process.is_alive() and time.monotonic() < deadline:
            ready = mp_connection.wait([connection, process.sentinel], timeout=0.1)
            if connection in ready:
                try:
                    receive_message(connection)
                except (EOFError, OSError):
                    process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.terminate()
        process.join()
        connection.close()
    workers.clear()
