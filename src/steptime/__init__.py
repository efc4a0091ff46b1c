"""Measure PyTorch training, compare two ways of doing it, and claim only what the machine confirms."""

from steptime import claims, machine
from steptime.claims import Verdict, claim
from steptime.compare import compare

__all__ = ["Verdict", "claim", "claims", "compare", "machine"]
