"""Questions to a trace: asked once, and answered with None and a reason where the trace does not tell."""


class Absent(Exception):
    """What a question needs is not in the trace; the text says what and, where it is known, why."""


class question:
    """A function of a trace, made an attribute of it.

    Its answer is kept. Where the function raises Absent the answer is None and the reason stands in
    `trace.reasons` under the attribute's name.
    """

    def __init__(self, ask):
        self._ask, self.__doc__ = ask, ask.__doc__

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, trace, owner=None):
        if trace is None:
            return self
        try:
            answer = self._ask(trace)
        except Absent as absent:
            answer = None
            trace.reasons[self._name] = str(absent)
        trace.__dict__[self._name] = answer
        return answer


def need(trace, name):
    """The answer to another question; raises Absent with that question's reason where it has none."""
    answer = getattr(trace, name)
    if answer is None:
        raise Absent(trace.reasons[name])
    return answer
