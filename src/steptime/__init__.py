"""Measure PyTorch training, compare two ways of doing it, and claim only what the machine confirms."""

from steptime import claims, machine, trace
from steptime.annotate import annotate
from steptime.claims import Verdict, claim, claim_on
from steptime.compare import compare
from steptime.diagnosis import diagnose
from steptime.measure import bench
from steptime.sequential import PairedRatios

__all__ = [
    "PairedRatios",
    "Verdict",
    "annotate",
    "bench",
    "claim",
    "claim_on",
    "claims",
    "compare",
    "diagnose",
    "machine",
    "trace",
]
