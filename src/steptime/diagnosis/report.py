"""A diagnosis: what was seen of a step, what to try first, and a picture of where a step goes."""

from steptime import bounds
from steptime.diagnosis.finding import ranked
from steptime.diagnosis.page import page
from steptime.diagnosis.python_causes import python_findings
from steptime.diagnosis.step_causes import size_finding, step_findings
from steptime.diagnosis.supply_causes import supply_findings
from steptime.style import COLOURS, Picture, figure
from steptime.units import duration, times


class Diagnosis:
    """What `diagnose` saw; shown as a page.

    name: of the step. evidence: an Evidence, all that was measured. findings: Findings, the most promising first.
    problem: the sentence that ended it early, or None.
    """

    def __init__(self, name, evidence, problem=None):
        self.name, self.evidence, self.problem = name, evidence, problem
        self.findings = _findings(evidence) if len(evidence.supply.log) else ()

    @property
    def healthy(self):
        """Whether all was seen and nothing found that is worth it: the step is near its bound."""
        return not (self.findings or self.problem or self.evidence.is_cut)

    @property
    def parts(self):
        """A Ranking of the parts of a step, by what can be gained from each."""
        return bounds.rank(where(self.evidence))

    def plot(self):
        """A Picture of where a step goes: its parts in the order they come, with what each can give at most."""
        parts = where(self.evidence)
        canvas, axes = figure(height=0.6 + 0.42 * len(parts))
        left = 0.0
        for place, (name, seconds) in enumerate(parts.items()):
            axes.barh(
                place, 1e3 * seconds, left=1e3 * left, color=COLOURS["estimate" if "batch" not in name else "call"]
            )
            share = seconds / sum(parts.values())
            bound = times(bounds.amdahl(share)) if share < 1 else "all of it"
            axes.text(1e3 * (left + seconds), place, f" {share:.0%}, {bound} at most", va="center", fontsize="small")
            left += seconds
        axes.set_yticks(range(len(parts)), list(parts))
        axes.invert_yaxis()
        axes.set_xlim(0, 1.25e3 * left)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"ms of a step of {duration(left)}")
        first = self.parts[0]
        caption = f"The largest part of a step: {first.name}, {first.share:.0%}."
        shares = ", ".join(f"{part.name} {part.share:.0%}" for part in self.parts)
        alt = f"The parts of a step of {duration(left)}, one after the other, as bars: {shares}."
        return Picture(canvas, alt, caption)

    def __repr__(self):
        return page(self)


def where(evidence):
    """{part: seconds} of a step: waits, and what the computation is made of where that was seen."""
    parts, operators = dict(evidence.parts), evidence.operators
    if operators is None:
        return parts
    compute = parts.pop("computation")
    inside = {
        "forward operators": operators.seconds("forward"),
        "backward operators": operators.seconds("backward"),
        "optimiser's operators": operators.seconds("optimiser"),
        "operators after backward": operators.seconds("after backward"),
        "Python between operators": operators.between,
    }
    whole = sum(inside.values())
    return parts | {name: compute * seconds / whole for name, seconds in inside.items() if seconds}


def _findings(evidence):
    of_step = [each for each in python_findings(evidence) + step_findings(evidence) if each]
    fixed = sum(each.share for each in of_step if each.is_worth_it)
    last = size_finding(evidence, fixed)
    return ranked([*supply_findings(evidence), *of_step, *([last] if last else [])])
