"""The colours of components, on light and on dark."""

from __future__ import annotations

#: One for each component, repeated from the first if there are more. The first ones are those of
#: Okabe and Ito, the others differ from them; all are visible on white and on black. As nobody can
#: tell many colours apart, pictures and tables show numbers with them.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#8A6D3B",
    "#7A7A7A",
    "#7B3FE4",
    "#3FAE2A",
    "#D63AC7",
    "#D7204E",
    "#9C8CFF",
    "#4B7A12",
    "#F08A7A",
    "#A8A832",
)


def component_colour(component: int) -> str:
    """The colour of a component, by its number."""
    return COLOURS[component % len(COLOURS)]


def text_on(colour: str) -> str:
    """White if it is legible on a colour, by WCAG's contrast ratio, else almost black."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > 3.3 else "#111111"
