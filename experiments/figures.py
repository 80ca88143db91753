"""Pictures of results, as SVG and PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "momentmix"  # the same picture is the same file
import matplotlib.pyplot as plt
import numpy as np

__all__ = ["dots", "plt", "save"]


def save(figure: Any, path: Path) -> None:
    figure.savefig(path.with_name(path.name + ".svg"), metadata={"Date": None})
    figure.savefig(path.with_name(path.name + ".png"), dpi=110)
    plt.close(figure)


def dots(ax: Any, groups: list[np.ndarray], colours: list[str]) -> None:
    """One column of translucent dots a group, so that overlap shows."""
    for x, (values, colour) in enumerate(zip(groups, colours, strict=True)):
        ax.plot(
            np.full(len(values), x),
            values,
            "o",
            color=colour,
            alpha=0.3,
            markersize=8,
            markeredgewidth=0,
        )
    ax.set_xticks([])
    ax.set_xlim(-0.7, len(groups) - 0.3)
