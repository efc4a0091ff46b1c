"""Hand it a loader and a step: where a step goes, what to try first, and which chapter tells why."""

from steptime.diagnosis.run import Unfinished, diagnose

__all__ = ["Unfinished", "diagnose"]
