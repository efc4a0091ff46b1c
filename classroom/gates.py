"""The four gates of a problem that asks for speed: right, really done, faster than the noise, faster than the target.

Both functions run in other processes, the clock in this one. While it runs no input comes twice: a result kept from an
earlier call is the answer to another question, and is found out.
"""

import random
from copy import deepcopy

import numpy as np

from classroom.expect import expect
from steptime.answers import is_tensor
from steptime.compare import compare

UNSEEN = 12  # inputs of the first gate
POOL = 16  # inputs from which all those of a race are made
LOOKED_AT = 10  # answers of a race, at least; more, and ever more seldom, the more calls there are
NOISE = 1.25  # times faster: two copies of one function differ by several percent, and so do two processes
BUDGET = 6.0  # seconds of a race
LARGER = 20.0  # seconds of another, where the first could not tell


class Gates:
    """The gates for one answer, to be passed in their order.

    Each raises AssertionError, with one sentence, where the answer does not pass, and prints the figures where it does.
    answer: the function to be judged. given: the slow one, right by definition; neither in this process.
    draw: from a NumPy generator to the arguments of one call, a tuple. From call to call an array among them is changed
        in one place, where it gets another of its own values.
    same: how far an answer may be from the right one (see `steptime.answers.difference`).
    target: how many times faster the answer has to be.
    """

    def __init__(self, answer, given, draw, same, target):
        self._answer, self._given, self._draw, self._same, self._target = answer, given, draw, same, target
        self._generator = np.random.default_rng()  # without a seed: nobody can prepare for what it draws
        self._is_right, self._heat = False, None

    def right(self):
        """The answer is right on inputs that the student never saw: in type, in shape, in value."""
        for _ in range(UNSEEN):
            arguments = self._draw(self._generator)
            expect(self._answer(*arguments), self._given(*arguments), self._same)
        self._is_right = True
        print(f"right on {UNSEEN} new inputs")

    def done(self):
        """It is right, too, while the clock runs and no input comes twice."""
        if not self._is_right:
            raise AssertionError("what is not right is not timed")
        self._heat = self._new_heat(BUDGET)

    def faster(self):
        """It is faster than the given function, beyond the noise."""
        self._at_least(NOISE)

    def reaches_target(self):
        """It is as many times faster as the problem asks for."""
        self._at_least(self._target)

    def _at_least(self, x):
        if self._heat is None:
            raise AssertionError("what is not right, or not really done, is not timed")
        verdict = self._heat.at_least(x)
        if verdict.answer is None:
            self._heat = self._new_heat(LARGER)
            verdict = self._heat.at_least(x)
        if verdict.answer is False:
            raise AssertionError(f"not {x:g} times faster: {verdict.evidence}")
        print(verdict if verdict.answer else f"{verdict}: you get the benefit of the doubt")

    def _new_heat(self, budget):
        pool = [self._draw(self._generator) for _ in range(POOL)]
        return Heat(self._answer, self._given, pool, self._same, budget)


class Heat:
    """One race on inputs that never come twice, with some of the answers looked at when it is over.

    Raises AssertionError where one of these is wrong.
    """

    def __init__(self, answer, given, pool, same, budget):
        self._given, self._same, seed = given, same, random.random()
        self._fed, slow = (Fed(function, pool, seed) for function in (answer, given))
        self._race = compare(slow, self._fed, same=same, budget=budget)
        if not self._race.same.answer:
            raise AssertionError(f"while the clock runs the answer is another one: {self._race.same.evidence}")
        self._look_at_answers()
        print(self._race)

    def at_least(self, x):
        """Verdict: is the answer x times faster?"""
        verdict = self._race.at_least(x)
        self._look_at_answers()
        return verdict

    def _look_at_answers(self):
        while self._fed.kept:
            arguments, answer = self._fed.kept.pop()
            expect(answer, self._given(*arguments), self._same)


class Fed:
    """A function that is given other arguments at each call; two with one seed get the same, in the same order.

    kept: (arguments, answer) of some of the calls; which, nobody can foresee.
    """

    def __init__(self, function, pool, seed):
        self._function, self._random = function, random.Random(seed)
        self._pool, self.calls, self.kept = deepcopy(pool), 0, []

    def __call__(self):
        arguments = self._random.choice(self._pool)
        self._change(arguments)
        answer = self._function(*arguments)
        self.calls += 1
        if random.random() < LOOKED_AT / (LOOKED_AT + self.calls):
            self.kept.append((deepcopy(arguments), answer))
        return answer

    def _change(self, arguments):
        """Give one array of the arguments, in one place, another of its values."""
        array = self._random.choice([argument for argument in arguments if _is_array(argument)]).reshape(-1)
        array[self._random.randrange(len(array))] = array[self._random.randrange(len(array))]


def _is_array(argument):
    return isinstance(argument, np.ndarray) or is_tensor(argument)
