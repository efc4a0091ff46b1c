"""One observed call: its answer, and what else the function did."""

import sys
import time
from collections import namedtuple
from contextlib import redirect_stdout

import numpy as np
import pytest
import torch

from steptime.observe import observe


def test_an_answer_that_a_later_call_writes_over_is_kept():
    buffer = np.zeros(3)

    def fill():
        buffer[:] += 1
        return buffer

    first, second = observe(fill, ()), observe(fill, ())
    assert first.answer.tolist() == [1, 1, 1] and second.answer.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        (np.ones(3), lambda x: x.__imul__(2)),
        (torch.ones(3), lambda x: x.add_(1)),
        ([3, 1, 2], lambda x: x.sort()),
        ({"a": [1, 2]}, lambda x: x["a"].pop()),
        (bytearray(b"ab"), lambda x: x.append(1)),
        ([np.zeros(2), "b"], lambda x: x[0].fill(1)),
        ([], lambda x: x.append(1)),
    ],
)
def test_a_changed_argument_is_named_by_its_place(argument, change):
    def spoil(_, x):
        change(x)

    with pytest.raises(ValueError, match="spoil changes its argument 2, so each call would get another one"):
        observe(spoil, (0, argument))


@pytest.mark.parametrize(
    "argument",
    [
        np.ones(3),
        np.array([np.nan]),
        torch.ones(3, requires_grad=True) * 2,
        [1, "a", None, object()],
        {"x": torch.ones(2)},
        object(),
        torch.nn.Linear(2, 2),
        namedtuple("Batch", "x y")(np.ones(2), 1),
        range(3),
        (),
        np.array([np.nan, None], dtype=object),
        np.array(["NaT"], "M8[s]"),
        torch.ones(2, device="meta"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_argument_left_alone_counts_as_left_alone(argument):
    assert observe(lambda x: 7, (argument,)).answer == 7


def test_a_model_may_change():
    model = torch.nn.Linear(2, 2)
    observe(lambda m: torch.nn.init.zeros_(m.weight), (model,))
    assert not model.weight.any()


def test_what_is_printed_by_its_bytes_comes_through(capfdbinary):
    with open(1, "w", closefd=False) as screen, redirect_stdout(screen):
        observe(lambda: sys.stdout.buffer.write(b"bytes"), ())
    assert capfdbinary.readouterr().out == b"bytes"


def test_printing_is_heard_and_shown(capsys):
    assert observe(lambda: print("hello"), ()).printed and capsys.readouterr().out == "hello\n"
    assert not observe(lambda: 1, ()).printed


@pytest.mark.parametrize("unfinished", [lambda: (n for n in range(3)), lambda: map(abs, [1]), lambda: iter([1])])
def test_work_that_is_still_to_be_done_is_a_sentence(unfinished):
    with pytest.raises(TypeError, match="whose work is still to be done: let it finish"):
        observe(unfinished, ())


def test_a_coroutine_is_work_still_to_be_done():
    async def later():
        return 1

    coroutine = later()
    with pytest.raises(TypeError, match="returns a coroutine"):
        observe(lambda: coroutine, ())
    coroutine.close()


def test_a_long_first_call_is_announced_and_a_short_one_is_not(capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["steptime.observe"], "PATIENCE", 0.2)
    observe(time.sleep, (0.01,))
    assert capsys.readouterr().err == ""
    observe(time.sleep, (0.6,))
    assert capsys.readouterr().err == "sleep is still in its first call after 0.2 s. Ctrl-C ends it.\n"
