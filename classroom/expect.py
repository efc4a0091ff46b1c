"""Is an answer the right one: of the right kind, in the right shape, with the right values?"""

from numbers import Number

import numpy as np

from steptime.answers import agreement, is_tensor


def expect(answer, right, same=0.0):
    """Raise AssertionError, with one sentence, unless an answer is what it has to be.

    same: how far its numbers may be off, relative to the largest in the right one (see `steptime.answers.difference`).
    """
    if kind(answer) != kind(right):
        raise AssertionError(f"the answer is {kind(answer)}, not {kind(right)}")
    if right is None:
        return
    verdict = agreement(right, answer, same)
    if not verdict.answer:
        raise AssertionError(f"the answer is another one: {verdict.evidence}")


def kind(value):
    """What a value is, in words that are the same for two values of one type and shape.

    A number is a number, whether Python's or NumPy's; of arrays and tensors the exact type counts.
    """
    if isinstance(value, np.ndarray) or is_tensor(value):
        name = "an array" if isinstance(value, np.ndarray) else "a tensor"
        return f"{name} of {str(value.dtype).removeprefix('torch.')} with shape {tuple(value.shape)}"
    if isinstance(value, (bool, np.bool_)):
        return "True or False"
    if isinstance(value, Number):
        return "a complex number" if isinstance(value, complex) else "a number"
    if isinstance(value, (list, tuple)):
        kinds = " and ".join(sorted({kind(item) for item in value}))
        return f"a {type(value).__name__} of {len(value)}" + (f" ({kinds})" if kinds else "")
    if isinstance(value, dict):
        return f"a dict with {', '.join(f'{key!r}: {kind(value[key])}' for key in sorted(value, key=repr))}"
    return "None" if value is None else f"a {type(value).__name__}"
