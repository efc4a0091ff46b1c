"""How the helper's pictures look, and how a notebook shows them: on white, readable in both themes, with alt text."""

import base64
import html
import io
from dataclasses import dataclass
from typing import Any

COLOURS = {
    "pairs": "#9aa5b1",
    "estimate": "#0b5cad",
    "threshold": "#b3261e",
    "label": "#c9d3dd",
    "operator": "#7fb2e5",
    "call": "#e0a030",
    "kernel": "#0b5cad",
    "copy": "#2e8b57",
    "gap": "#f6d5d2",
}


@dataclass(frozen=True)
class Picture:
    """A figure with the words for those who cannot see it.

    figure: a matplotlib Figure, to be saved with `figure.savefig(path)`. alt: what it shows. caption: what to see.
    """

    figure: Any
    alt: str
    caption: str

    def _repr_html_(self):
        # As HTML because JupyterLab gives no alt text to a picture shown as image/png.
        png = io.BytesIO()
        self.figure.savefig(png, format="png", dpi=110, metadata={"Software": None})
        source = base64.b64encode(png.getvalue()).decode()
        image = f'<img alt="{html.escape(self.alt)}" src="data:image/png;base64,{source}">'
        return f"<figure>{image}<figcaption>{html.escape(self.caption)}</figcaption></figure>"


def figure(width=7.0, height=3.2):
    """An empty (Figure, Axes) in the book's style, in inches; no window opens."""
    from matplotlib.figure import Figure  # not at the top: it takes half a second

    canvas = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = canvas.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e3e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    return canvas, axes
