"""Batches from processes of one's own, where the DataLoader does not fit: a bounded queue that shuts down cleanly.

Each producer has a pipe of its own, so that one that is killed spoils nothing but its own. The consumer hands out jobs,
a few ahead to each, and takes the batches in the order of the jobs: no more can be under way than were handed out.
"""

import multiprocessing
import pickle
import traceback
from collections import deque
from contextlib import suppress
from itertools import islice
from queue import SimpleQueue
from threading import Thread

PATIENCE = 5.0  # seconds for a producer to finish the job it is at, after which it is ended


def pipeline(produce, jobs, producers=2, ahead=2, context=None):
    """Iterate over `produce(job)` for each of the jobs, in order, made by processes: a generator.

    produce: a function that other processes can import. jobs: any iterable, even without end, best of small things such
    as numbers or paths, which a producer holds until their turn. ahead: how many jobs each producer is handed at most
    before its batches are taken. context: of multiprocessing; by default that of the system.
    The producers end with the last batch, and when the generator is closed or forgotten. An error in the consumer's
    loop keeps it as long as the traceback is kept, in a notebook until the next error: use contextlib.closing there.
    Raises what `produce` raises, with the producer's own traceback as a note; RuntimeError where a producer dies;
    ValueError where producers or ahead is less than 1.
    """
    if min(producers, ahead) < 1:
        raise ValueError(f"pipeline: it takes one producer and one job ahead at least, not {producers} and {ahead}.")
    return _batches(produce, iter(jobs), producers, ahead, context or multiprocessing.get_context())


def _batches(produce, jobs, producers, ahead, context):
    stopped = context.RawValue("b", 0)  # without a lock, which a producer that is killed could take with it
    crew = []
    try:
        for _ in range(producers):
            crew.append(_Producer(produce, stopped, context))
        waiting = deque()  # the producers whose batches are to come, in the order of the jobs
        for place, job in enumerate(islice(jobs, producers * ahead)):
            waiting.append(crew[place % producers].hand(job))
        while waiting:
            producer = waiting.popleft()
            batch = producer.take()
            for job in islice(jobs, 1):
                waiting.append(producer.hand(job))
            yield batch
    finally:
        stopped.value = 1
        for producer in crew:
            producer.dismiss()
        for producer in crew:
            producer.join()


class _Producer:
    """A process with the consumer's end of its pipe."""

    def __init__(self, produce, stopped, context):
        self._pipe, other_end = context.Pipe()
        arguments = (other_end, self._pipe, produce, stopped)
        self._process = context.Process(target=_work, args=arguments, name="producer", daemon=True)
        self._process.start()
        other_end.close()  # now only the process holds it, and its death is the end of the pipe

    def hand(self, job):
        try:
            self._pipe.send((job,))
        except OSError:
            self._report_death()
        return self

    def take(self):
        try:
            batch, error = self._pipe.recv()
        except (EOFError, OSError):
            self._report_death()
        if error is not None:
            raise error
        return batch

    def dismiss(self):
        with suppress(OSError):  # where it is gone already
            self._pipe.send(())

    def join(self):
        """Throw away what it still sends, lest it wait for ever with a full pipe, until it ends or is ended."""
        with suppress(EOFError, OSError):
            while self._pipe.poll(PATIENCE):
                self._pipe.recv_bytes()
            self._process.terminate()
        self._process.join(PATIENCE)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self._pipe.close()

    def _report_death(self):
        self._process.join(PATIENCE)
        raise RuntimeError(f"A producer died, with exit code {self._process.exitcode}.") from None


def _work(pipe, consumers_end, produce, stopped):
    """What a producer does: one job after the other, until it is told to stop or its consumer is gone."""
    consumers_end.close()  # a process that is forked gets a copy, which would keep the pipe open for ever
    messages = SimpleQueue()
    Thread(target=_receive, args=(pipe, messages), daemon=True).start()
    with suppress(OSError, KeyboardInterrupt):
        while (message := pickle.loads(messages.get())) and not stopped.value:
            pipe.send_bytes(_pickled(produce, *message))


def _receive(pipe, messages):
    """Take each message as it comes: a consumer that waited to hand out a job would not take the batch sent to it."""
    try:
        with suppress(EOFError, OSError):
            while True:
                messages.put(pipe.recv_bytes())
    finally:
        messages.put(pickle.dumps(()))


def _pickled(produce, job):
    try:
        return pickle.dumps((produce(job), None))
    except Exception as error:
        error.add_note(f"In a producer, at job {job!r}:\n{traceback.format_exc()}")
        return _pickled_error(error)


def _pickled_error(error):
    try:
        pickled = pickle.dumps((None, error))
        pickle.loads(pickled)  # some errors can be pickled and not be made again
        return pickled
    except Exception:
        return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
