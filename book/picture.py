"""Draw the pictures that open the book, from the two small traces that chapter 03 reads too."""

import sys

from book.chapters import ROOT
from book.traces import FOLDER
from steptime import trace
from steptime.style import COLOURS, figure

DOCS = ROOT / "docs"
ROWS = {"loader_in_main": "the training\nloads its data", "loader_with_workers": "four workers\nload ahead"}


def main():
    """Write docs/front.png and docs/timeline.png."""
    traces = {name: trace.read(FOLDER / f"{name}.json.gz") for name in ROWS}
    opening(traces).savefig(DOCS / "front.png", dpi=150, metadata={"Software": None})
    timeline = traces["loader_in_main"].plot(10, 11).figure
    timeline.savefig(DOCS / "timeline.png", dpi=110, metadata={"Software": None})


def opening(traces):
    """A Figure of two recordings of one training on one scale: in every step the wait for data, and the rest."""
    canvas, axes = figure(8.0, 2.8)
    waits, works = [], []
    for row, seen in enumerate(traces.values()):
        for step, content in zip(seen.steps, seen.step_contents, strict=True):
            start, wait = step.start / 1e3, content.wait_ms
            waits = axes.barh(row, wait, 0.55, start, color=COLOURS["gap"], edgecolor="white", linewidth=1.5)
            works = axes.barh(row, step.ms - wait, 0.55, start + wait, color=COLOURS["kernel"], edgecolor="white")
        axes.text(seen.span.ms + 2, row, f"{seen.span.ms:.0f} ms", va="center", fontsize=13, fontweight="bold")
    axes.set(xlabel="ms from the start of the first step", xlim=(0, 182), yticks=[0, 1], yticklabels=ROWS.values())
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0, labelsize=12)
    axes.legend([waits, works], ["waiting for data", "computing"], frameon=False, loc="lower right", fontsize=12)
    axes.set_title("Four steps of one training, recorded twice", loc="left", fontsize=13)
    return canvas


if __name__ == "__main__":
    sys.exit(main())
