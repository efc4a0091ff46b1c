"""What torch.compile has done so far: graphs, and seconds spent on compiling them."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Compilations:
    """graphs: how many were compiled since the program began. seconds: how long that took in all."""

    graphs: int = 0
    seconds: float = 0.0

    def __sub__(self, earlier):
        return Compilations(self.graphs - earlier.graphs, self.seconds - earlier.seconds)


def compilations():
    """The Compilations of this process so far; none where nobody called torch.compile."""
    if "torch._dynamo.utils" not in sys.modules:  # importing it takes a second
        return Compilations()
    from torch._dynamo.utils import compilation_time_metrics, counters

    return Compilations(
        counters["stats"].get("unique_graphs", 0), sum(compilation_time_metrics.get("_compile.compile_inner", ()))
    )
