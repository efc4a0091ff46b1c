"""Read any file of torch.profiler without torch, and ask it where the time went."""

from steptime.trace.health import Health, NotATrace
from steptime.trace.read import Trace, read

__all__ = ["Health", "NotATrace", "Trace", "read"]
