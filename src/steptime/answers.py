"""How far two answers are apart: the question before every question about speed."""

import math
import sys
from numbers import Number

import numpy as np

from steptime.claims import Verdict


class Unlike(Exception):
    """Two answers that no tolerance can reconcile: another type, shape, length or set of keys."""


def difference(expected, actual):
    """The largest difference between two answers, relative to the largest magnitude in the expected one.

    Takes numbers, arrays, tensors, and tuples, lists and dicts of them; for anything else the difference is 0
    where the two compare equal and infinite where they do not. NaN equals NaN, and infinity the infinity of its sign.
    Raises Unlike, with one sentence, where types, shapes, lengths or keys differ.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        if expected.keys() != actual.keys():
            raise Unlike(f"one has the keys {_some(expected)}, the other {_some(actual)}")
        return max((difference(expected[key], actual[key]) for key in expected), default=0.0)
    if _is_list(expected) and _is_list(actual):
        if len(expected) != len(actual):
            raise Unlike(f"one has {len(expected)} items, the other {len(actual)}")
        if not all(isinstance(item, Number) for item in (*expected, *actual)):
            return max((difference(*pair) for pair in zip(expected, actual, strict=True)), default=0.0)
    if _is_numeric(expected) and _is_numeric(actual):
        return _array_difference(_array(expected), _array(actual))
    if type(expected) is not type(actual):
        raise Unlike(f"one is {_kind(expected)}, the other {_kind(actual)}")
    if isinstance(expected, np.ndarray):
        return 0.0 if np.array_equal(expected, actual) else math.inf
    try:
        return 0.0 if expected == actual else math.inf
    except Exception:
        raise Unlike(f"two of {_kind(expected)} cannot be compared") from None


def agreement(expected, actual, same):
    """Verdict: are two answers at most `same` apart, as `difference` measures it?

    Nobody can tell where both are None: a function that returns nothing shows nothing.
    """
    if expected is None and actual is None:
        return Verdict(None, "both return None: let them return what they compute")
    try:
        worst = difference(expected, actual)
    except Unlike as unlike:
        return Verdict(False, str(unlike))
    shown = f"{worst:.1g}" if worst else "exactly"
    evidence = shown if worst <= same else f"{shown} apart, {same:g} allowed"
    return Verdict(worst <= same, evidence, margin=same / worst if worst else None)


def _array_difference(expected, actual):
    if expected.shape != actual.shape:
        raise Unlike(f"one has the shape {expected.shape}, the other {actual.shape}")
    kinds = expected.dtype.kind + actual.dtype.kind
    if not set(kinds) & set("fc"):
        if np.array_equal(expected, actual):
            return 0.0
        whole, others = expected.ravel().tolist(), actual.ravel().tolist()  # as floats, 2**53 + 1 would be 2**53
        return max(abs(e - a) for e, a in zip(whole, others, strict=True)) / (max(map(abs, whole)) or 1)
    wide = complex if "c" in kinds else float
    expected, actual = expected.astype(wide), actual.astype(wide)
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], actual[~finite], equal_nan=True) or not np.isfinite(actual[finite]).all():
        return math.inf
    scale = np.abs(expected[finite]).max(initial=0.0)
    return float(np.abs(expected[finite] - actual[finite]).max(initial=0.0) / (scale or 1.0))


def _is_list(answer):
    return isinstance(answer, (list, tuple))


def is_tensor(answer):
    """True for a torch.Tensor; does not import torch."""
    torch = sys.modules.get("torch")  # a tensor can only exist where torch is imported already
    return torch is not None and isinstance(answer, torch.Tensor)


def _is_numeric(answer):
    if _is_list(answer):
        return all(isinstance(item, Number) for item in answer)
    if isinstance(answer, (Number, np.ndarray, np.generic)):
        return _array(answer).dtype.kind in "biufc"
    return is_tensor(answer)


def _array(answer):
    if not is_tensor(answer):
        return np.asarray(answer)
    answer = answer.detach().to("cpu").to_dense().resolve_conj()
    return (answer.double() if answer.is_floating_point() else answer).numpy()


def _kind(answer):
    return "None" if answer is None else f"a {type(answer).__name__}"


def _some(keys, most=5):
    names = sorted(map(str, keys))
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
