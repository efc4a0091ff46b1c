"""All that is seen of a training step before anybody says why."""

from dataclasses import dataclass, field

from steptime.diagnosis import batches
from steptime.diagnosis.calls import Calls
from steptime.diagnosis.compiled import Compilations
from steptime.diagnosis.forwards import Forwards
from steptime.diagnosis.growth import Growth
from steptime.diagnosis.operators import Operators
from steptime.diagnosis.supplied import Supply
from steptime.diagnosis.trials import Sizes, Threads
from steptime.supply import SameBatch


@dataclass
class Evidence:
    """What was seen; None where it was not, and `absent` says why.

    graphs: how many were compiled while the loader supplied; compiled: in the steps after the first. half: (Operators,
    Calls) of a step on half of the batch. serial: the Supply of the same loader without its workers. preparation: Calls
    of preparing one batch. pass_start: (Calls, bytes) of the first batch of a pass. calls_of_step: how often the step
    was called. is_cut: whether there was no time for all.
    """

    supply: Supply
    seconds: float
    is_model: bool = False
    is_optimizer: bool = False
    same: SameBatch | None = None
    compiled: Compilations = field(default_factory=Compilations)
    graphs: int = 0
    operators: Operators | None = None
    calls: Calls | None = None
    forwards: Forwards | None = None
    growth: Growth | None = None
    half: tuple | None = None
    sizes: Sizes | None = None
    threads: Threads | None = None
    serial: Supply | None = None
    preparation: Calls | None = None
    pass_start: tuple | None = None
    is_autocast: bool = False
    calls_of_step: int = 0
    is_cut: bool = False
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def is_compiled(self):
        """Whether torch.compile was at work in the step."""
        return self.graphs > 0 or (self.operators is not None and self.operators.is_compiled)

    @property
    def samples(self):
        """How many samples a batch has; None where that cannot be told."""
        return batches.samples(self.supply.batch)

    @property
    def compute(self):
        """Seconds that a step computes on a batch of the loader, compiling left out: the median."""
        return self.supply.log.compute

    @property
    def plain(self):
        """Seconds that a step computes on a batch kept in place: the median."""
        return self.same.kept.compute if self.same else self.compute

    @property
    def start(self):
        """Seconds of each step's part in what a pass costs before its first batch, beyond preparing that."""
        start = self.supply.start
        if self.supply.workers and self.serial:
            start = max(0.0, start - self.serial.wait)  # the pipeline is filled
        return start / self.supply.length if self.supply.length else 0.0

    @property
    def compiling(self):
        """Seconds of each step's part in compiling after the first step."""
        return self.compiled.seconds / max(1, len(self.supply.log) - 1)

    @property
    def parts(self):
        """{part of a step: seconds}; together they are the step."""
        parts = {"wait for the batch": self.supply.wait, "start of each pass": self.start, "compiling": self.compiling}
        return {name: seconds for name, seconds in parts.items() if seconds > 0} | {"computation": self.compute}

    @property
    def step(self):
        """Seconds a step, with its part in what each pass costs."""
        return sum(self.parts.values())

    def share(self, seconds):
        """The part of the step, 0 to 1, that so many seconds of computing on the kept batch are."""
        return min(1.0, max(0.0, seconds / self.plain)) * self.compute / self.step
