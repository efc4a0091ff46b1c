"""Measure PyTorch training, compare two ways of doing it, and claim only what the machine confirms."""

from steptime import claims, machine, trace
from steptime.claims import Verdict, claim
from steptime.compare import compare
from steptime.measure import bench

__all__ = ["Verdict", "bench", "claim", "claims", "compare", "machine", "trace"]
