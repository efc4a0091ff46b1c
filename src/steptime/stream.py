"""A queue of work that runs while its caller goes on. It stands in for a CUDA stream, on a thread instead of a GPU.

What holds of both: `launch` returns before the work is done, so timing it times the enqueueing; work runs in the order
it was launched; `synchronize` waits for it; a full queue blocks the launch; a failure surfaces at a later synchronize.
What differs: work is any Python function, and it shares the processor with its caller. They run at the same time
where the work releases the interpreter's lock, as NumPy and torch do while they compute and as sleeping does; pure
Python takes turns with its caller, 5 ms each. A launch takes 1 to 3 µs, and about 30 µs where it wakes an idle stream
(measured on two cores; a CUDA kernel's takes a few µs). The names are those of torch.cuda, whose Stream and
Event these follow.
"""

import atexit
import threading
import weakref
from collections import deque
from contextlib import nullcontext
from itertools import count
from operator import setitem
from time import perf_counter

from steptime.naming import name_of

DEPTH = 1024
"""How many launches wait at most: about as many as CUDA's own queue is seen to hold."""

recorder = None
"""The Recorder that writes down what streams are told and do, while one records."""

ELSEWHERE = " or belongs to the process that this one was forked from"


class Stream:
    """Work launched on it runs in order on a thread of its own, and writes its results to buffers that you hand it.

    Use it in a `with` block, or close it: both finish the work and end the thread; an exception in the block drops what
    is still queued. A stream that is forgotten finishes its work too, but when Python exits, what is queued is dropped.
    When work raises, what was launched after it is skipped until a synchronize has reported that. (After a failed
    kernel CUDA refuses all further work until the process ends.)
    torch.no_grad, torch.autocast and numpy.errstate hold for one thread: use them inside of the work.
    """

    def __init__(self):
        self._worker = _Worker()
        self._worker.start()
        weakref.finalize(self, self._worker.finish).atexit = False

    def launch(self, function, *arguments):
        """Enqueue `function(*arguments)` and return; where the queue is full, first wait for room.

        What the function returns is lost. Raises TypeError for what is no function, RuntimeError on a closed stream.
        """
        if not callable(function):
            kind = type(function).__name__
            raise TypeError(f"launch needs a function first, got a {kind}: pass it without calling it.")
        self._enqueue(function, arguments)

    def copy(self, target, source):
        """Enqueue a copy of an array or a tensor into another, which may be a part of one: `into[:8]`.

        A Recorder tells it from other work, as a copy from host to device, by its bytes. It moves them in memory.
        Raises TypeError for what is no array, RuntimeError on a closed stream.
        """
        if not hasattr(source, "nbytes"):
            raise TypeError(f"copy needs an array or a tensor to copy from, got a {type(source).__name__}.")
        self._enqueue(setitem, (target, ..., source), source.nbytes)

    def synchronize(self):
        """Wait until all that was launched so far is done.

        Raises RuntimeError where work raised, once for each failure, with the work's own error as the cause; and where
        work on this very stream asks, which would wait for itself.
        """
        _tell("streamSynchronize", self._worker.wait_for, self._worker.launched)

    def close(self):
        """Synchronize, end the thread and take no more work. Raises as synchronize does; the thread ends anyway."""
        self._worker.refuse_itself()
        try:
            self.synchronize()
        finally:
            self._worker.finish(drop=True)  # after Ctrl-C there is something to drop
            self._worker.join()

    def _enqueue(self, function, arguments, size=None):
        recording = recorder
        if recording is None:
            self._worker.put(function, arguments)
            return
        function, correlation = recording.work(function, self._worker.number, size)
        with recording.call("streamLaunch", correlation):
            self._worker.put(function, arguments)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
        else:
            self._worker.finish(drop=True)
            self._worker.join()


class Event:
    """A place in a stream, and the time at which the stream's work came there."""

    def __init__(self):
        self._worker, self._place, self._time = None, 0, []

    def record(self, stream):
        """Put it behind all that was launched on the stream so far; what it recorded before is forgotten."""
        self._worker, self._time = stream._worker, []
        time = self._time  # lest work that is still queued for an earlier record writes to this one
        self._place = self._worker.put(lambda: time.append(perf_counter()), ())

    def query(self):
        """True where the stream has come here, or the event was never recorded."""
        return self._worker is None or self._worker.done >= self._place

    def synchronize(self):
        """Wait until the stream has come here. Raises as the stream's synchronize does."""
        if self._worker is not None:
            _tell("eventSynchronize", self._worker.wait_for, self._place)

    def elapsed_time(self, end):
        """Milliseconds from this event to `end`.

        Raises RuntimeError where the stream has not come to both: not recorded, not yet, or skipped after a failure.
        """
        if not (self._time and end._time):
            raise RuntimeError("Both events must be recorded and reached before a time lies between them: synchronize.")
        return 1e3 * (end._time[0] - self._time[0])


def synchronize():
    """Wait for all streams of this process. Raises as a stream's synchronize does, for the first that failed."""
    for worker in _living():
        _tell("deviceSynchronize", worker.wait_for, worker.launched)


def _tell(name, wait, place):
    """Wait for a place, and have that recorded as a call of this name."""
    recording = recorder
    with recording.call(name) if recording else nullcontext():
        wait(place)


class _Worker(threading.Thread):
    """The thread with its queue. It knows no Stream, so that a stream that nobody holds any more can be noticed.

    launched, done: how many pieces of work, the skipped ones included. number: of the stream, counted from 1.
    """

    _numbers = count(1)

    def __init__(self):
        super().__init__(name="steptime stream", daemon=True)
        self.launched, self.done, self.number = 0, 0, next(self._numbers)
        self._queue, self._changed = deque(), threading.Condition()
        self._is_closed, self._drops = False, False
        self._failure = None  # (name of the work, its error) until it is reported
        _workers.add(self)

    def put(self, function, arguments):
        """Enqueue work; its place, counted from 1."""
        with self._changed:
            if len(self._queue) >= DEPTH:
                self._wait_until(lambda: len(self._queue) < DEPTH)
            if self._is_closed or not self.is_alive():
                raise RuntimeError(f"This stream is closed{ELSEWHERE}: no more work can be launched on it.")
            self._queue.append((function, arguments))
            self.launched += 1
            self._changed.notify_all()
            return self.launched

    def wait_for(self, place):
        """Wait until the work of that place is done, or, after a failure, until all that it spoils is skipped."""
        with self._changed:
            self._wait_until(lambda: self.done >= (self.launched if self._failure else place))
            failure, self._failure = self._failure, None
        if failure:
            name, error = failure
            raise RuntimeError(f"{name}, launched on a stream, raised {type(error).__name__}: {error}") from error

    def finish(self, drop=False):
        """Take no more work; do what is queued, or drop it."""
        if self.is_alive():
            with self._changed:
                self._is_closed, self._drops = True, self._drops or drop
                self._changed.notify_all()

    def refuse_itself(self):
        """Raises RuntimeError where work on this stream asks to wait for it."""
        if threading.current_thread() is self:
            raise RuntimeError("Work on a stream cannot wait for that stream: it would wait for itself.")

    def run(self):
        while self._next():
            failure = None if self._failure or self._drops else self._do(*self._queue[0])
            with self._changed:
                self._queue.popleft()
                self._failure = self._failure or failure
                del failure  # an idle stream keeps nothing alive
                self.done += 1
                self._changed.notify_all()
        _workers.discard(self)
        if self._failure:  # nobody will synchronize any more, so let Python print it
            raise self._failure[1]

    def _next(self):
        """Wait for work; False where none will come."""
        with self._changed:
            while not (self._queue or self._is_closed):
                self._changed.wait()
            return bool(self._queue)

    def _do(self, function, arguments):
        try:
            function(*arguments)
        except BaseException as error:
            return name_of(function), error
        return None

    def _wait_until(self, is_so):
        self.refuse_itself()
        while not is_so():
            if not self.is_alive():
                raise RuntimeError(f"This stream is closed{ELSEWHERE}: it will never get there.")
            self._changed.wait(0.1)  # not for ever: Windows heeds Ctrl-C only between two waits


_workers = set()


def _living():
    """The workers whose thread runs: in a forked process those of its parent do not."""
    return [worker for worker in tuple(_workers) if worker.is_alive()]


@atexit.register
def _leave():
    """Let the piece of work that runs end, a second at most: a thread that Python stops inside of torch crashes it."""
    workers = _living()
    for worker in workers:
        worker.finish(drop=True)
    for worker in workers:
        worker.join(1)
