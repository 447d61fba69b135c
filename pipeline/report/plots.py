"""Draws plots as SVG with Vega, without a browser. The colours are variables of the page's style.

Each plot is small enough for a phone's screen, with letters that can be read there.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

import vl_convert

from groundrows.pipeline.report.figures import STEPS, Bin, Timeline

WIDTH = 300
HEIGHT = 150
# The version of Vega-Lite that plots are made with. Fixed, so that a newer library does not change the plots.
VEGA_LITE = "5.20"
# Labels are measured in this font, so that they have enough room. The page shows them in its own font.
FONT = "Liberation Sans"
SVG = "http://www.w3.org/2000/svg"
ET.register_namespace("", SVG)

_CONFIG: dict[str, Any] = {
    "view": {"stroke": None},
    "mark": {"aria": False},
    "font": FONT,
    "axis": {
        "labelColor": "var(--ink-2)",
        "titleColor": "var(--ink-2)",
        "gridColor": "var(--line)",
        "domainColor": "var(--line-2)",
        "tickColor": "var(--line-2)",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titlePadding": 7,
        "labelPadding": 5,
        "labelOverlap": "greedy",
    },
    "axisX": {"grid": False, "tickSize": 4},
    "axisY": {
        "domain": False,
        "ticks": False,
        "tickCount": 4,
        "titleAlign": "left",
        "titleAngle": 0,
        "titleAnchor": "end",
        "titleX": 0,
        "titleY": -8,
        "titleBaseline": "bottom",
    },
    "bar": {"color": "var(--plot)"},
    "line": {"color": "var(--plot)", "strokeWidth": 2},
    "rule": {"color": "var(--plot-2)", "strokeWidth": 1.5},
}
_LEGEND: dict[str, Any] = {
    "title": None,
    "orient": "top",
    "labelColor": "var(--ink-2)",
    "labelFontSize": 11,
    "symbolType": "stroke",
    "offset": 6,
}
# Dashes distinguish the lines for people who can't see the colours.
_DASHES = [[1, 0], [5, 3], [2, 2]]
# A time axis has room for at least this many spans, so that a short run is not one wide bar.
LEAST_SPANS = 8
MOST_TICKS = 4
# Distance of a legend above the picture when the axis has a title there, in pixels.
ABOVE_TITLE = 24


def histogram(
    bins: Sequence[Bin],
    x: str,
    y: str,
    *,
    marks: Sequence[tuple[float, str]] = (),
    log: bool = False,
    form: str = ".1f",
) -> str:
    """Draw a histogram, with lines at some values. A legend above the picture names the lines.

    Args:
        bins: The bins, in order and without gaps.
        x: The title of the values' axis.
        y: The title of the counts' axis.
        marks: The values to mark, with their names.
        log: Whether the axis is logarithmic.
        form: The format of the values on the axis, in d3's notation.
    """
    values = [
        {"low": each.low, "high": each.high, "n": each.count, "say": f"{_range(each)}: {each.count:,}"}
        for each in bins
    ]
    scale: dict[str, Any] = {"type": "log"} if log else {}
    scale |= {"domain": [bins[0].low, bins[-1].high], "nice": False}
    along = {
        "type": "quantitative",
        "scale": scale,
        "axis": {"title": x, "format": form, "tickCount": 5},
    }
    across = {"x": {"field": "low", **along}, "x2": {"field": "high"}}
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "rect", "color": "var(--plot)", "stroke": "var(--surface)", "strokeWidth": 1},
            "encoding": across | {"y": _count(y, max(each.count for each in bins)), "y2": {"datum": 0}},
        },
        _whole(across),
    ]
    if marks:
        layers.append(_marks("x", marks, along))
    return _svg({"data": {"values": values}, "layer": layers})


def bars(counts: Sequence[tuple[str, int]], x: str, y: str, *, angle: int = 0) -> str:
    """Draw a bar for each name, in the given order."""
    values = [{"name": name, "n": count, "say": f"{name}: {count:,}"} for name, count in counts]
    across = {
        "x": {
            "field": "name",
            "type": "nominal",
            "sort": None,
            "axis": {"title": x, "labelAngle": angle, "ticks": False, "labelOverlap": False},
        }
    }
    layers = [
        {
            "mark": {"type": "bar"},
            "encoding": across | {"y": _count(y, max(count for _, count in counts))},
        },
        _whole(across),
    ]
    return _svg({"data": {"values": values}, "layer": layers})


def rates(timeline: Timeline, limit: float | None, what: str = "calls") -> str:
    """Draw calls per minute over time, or of something else, with the limit if there was one."""
    end = timeline.moments[-1].begin + timeline.step
    values = [
        {
            "begin": each.begin * 1_000,
            "end": (each.begin + timeline.step) * 1_000,
            "n": each.per_minute,
            "say": f"{each.per_minute:,.0f} a minute",
        }
        for each in timeline.moments
    ]
    across = _times(timeline, end)
    count = _count(f"{what} a minute", max(limit or 0, *(each.per_minute for each in timeline.moments)))
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "rect", "color": "var(--plot)"},
            "encoding": across | {"y": count, "y2": {"datum": 0}},
        },
        _whole(across),
    ]
    if limit:
        layers.append(_marks("y", [(limit, f"limit {limit:,.0f}")], count))
    return _svg({"data": {"values": values}, "layer": layers})


def latencies(timeline: Timeline) -> str:
    """Draw the median and the 95th percentile of latency over time."""
    values = [
        {
            "begin": (each.begin + timeline.step / 2) * 1_000,
            "ms": ms,
            "which": which,
            "say": f"{which}: {ms:,.0f} ms",
        }
        for each in timeline.moments
        for which, ms in (("median", each.p50), ("95th percentile", each.p95))
        if ms is not None
    ]
    end = timeline.moments[-1].begin + timeline.step
    x = {key: value for key, value in _times(timeline, end).items() if key == "x"}
    look = {"domain": ["median", "95th percentile"], "range": ["var(--plot)", "var(--plot-2)"]}
    dash = {"domain": look["domain"], "range": _DASHES[:2]}
    layers = [
        {
            "mark": {"type": "line", "point": False},
            "encoding": x
            | {
                "y": {
                    "field": "ms",
                    "type": "quantitative",
                    "axis": {"title": None, "labelExpr": "format(datum.value, ',~r') + ' ms'"},
                },
                "color": {"field": "which", "type": "nominal", "scale": look, "legend": _LEGEND},
                "strokeDash": {"field": "which", "type": "nominal", "scale": dash, "legend": _LEGEND},
            },
        },
        {
            "mark": {"type": "point", "filled": True, "size": 18, "aria": True},
            "encoding": x
            | {
                "y": {"field": "ms", "type": "quantitative"},
                "color": {"field": "which", "type": "nominal", "scale": look, "legend": None},
                "description": {"field": "say"},
            },
        },
    ]
    return _svg({"data": {"values": values}, "layer": layers})


def thresholds(grounded: Sequence[int], asked: float) -> str:
    """Draw the number of grounded answers at each threshold, with a line that the page's slider moves."""
    last = len(grounded) - 1
    values = [
        {"at": step / last, "n": count, "say": f"{step / last:.2f}: {count:,}"}
        for step, count in enumerate(grounded)
    ]
    x = {
        "x": {
            "field": "at",
            "type": "quantitative",
            "axis": {"title": "threshold", "format": ".1f", "tickCount": 5},
        }
    }
    count = _count("answers grounded", grounded[0])
    layers = [
        {
            "mark": {"type": "area", "color": "var(--plot)", "opacity": 0.22, "interpolate": "step-before"},
            "encoding": x | {"y": count},
        },
        {
            "mark": {"type": "line", "interpolate": "step-before"},
            "encoding": x | {"y": count},
        },
    ]
    drawn = ET.fromstring(_svg({"data": {"values": values}, "layer": layers}))
    inner = drawn[0]
    line = {"class": "cursor", "y1": "0", "y2": str(HEIGHT), "stroke": "var(--plot-2)", "stroke-width": "2"}
    place = f"{asked * WIDTH:.1f}"
    ET.SubElement(inner, f"{{{SVG}}}line", line | {"x1": place, "x2": place, "data-width": str(WIDTH)})
    return ET.tostring(drawn, encoding="unicode")


def _count(title: str, most: float) -> dict[str, Any]:
    """Return an axis of counts up to `most`, with labels at whole numbers only."""
    ticks = max(1, min(MOST_TICKS, math.floor(most)))
    return {
        "field": "n",
        "type": "quantitative",
        "axis": {"title": title, "format": "~s", "tickCount": ticks},
    }


def _whole(across: dict[str, Any]) -> dict[str, Any]:
    """Return an invisible bar of full height, so that the pointer can hit a small bar, too."""
    mark = {"type": "rect", "color": "var(--plot)", "opacity": 0, "aria": True}
    return {
        "mark": mark,
        "encoding": across | {"y": {"value": 0}, "y2": {"value": "height"}, "description": {"field": "say"}},
    }


def _marks(channel: str, marks: Sequence[tuple[float, str]], along: dict[str, Any]) -> dict[str, Any]:
    """Return lines across the picture. A legend names them, because bars could cover names in the picture."""
    names = [name for _, name in marks]
    legend = _LEGEND | {"symbolStrokeColor": "var(--plot-2)", "offset": ABOVE_TITLE}
    dashes = {"domain": names, "range": _DASHES[: len(names)]}
    return {
        "data": {"values": [{"at": value, "name": name} for value, name in marks]},
        "mark": {"type": "rule"},
        "encoding": {
            channel: along | {"field": "at"},
            "strokeDash": {"field": "name", "type": "nominal", "scale": dashes, "legend": legend},
        },
    }


def _times(timeline: Timeline, end: float) -> dict[str, Any]:
    missing = max(LEAST_SPANS - len(timeline.moments), 0)
    begin = timeline.moments[0].begin - missing // 2 * timeline.step
    end += (missing - missing // 2) * timeline.step
    span = end - begin
    form, least = ("%H:%M:%S", 1) if span < 600 else ("%H:%M", 60) if span < 36 * 3_600 else ("%d %b", 86_400)
    return {
        "x": {
            "field": "begin",
            "type": "temporal",
            "scale": {"type": "utc", "domain": [begin * 1_000, end * 1_000], "nice": False},
            "axis": {
                "title": "UTC",
                "format": form,
                "values": [each * 1_000 for each in _ticks(begin, end, least)],
                "labelFlush": False,
            },
        },
        "x2": {"field": "end"},
    }


def _ticks(begin: float, end: float, least: int) -> list[int]:
    """Return round moments for an axis, in seconds since the epoch; few enough that labels don't overlap."""
    steps = [step for step in STEPS if step >= least]
    longest = max(STEPS[-1], math.ceil((end - begin) / (MOST_TICKS - 1)))
    for step in [*steps, longest]:
        ticks = list(range(math.ceil(begin / step) * step, math.floor(end) + 1, step))
        if len(ticks) <= MOST_TICKS:
            break
    return ticks


def _range(each: Bin) -> str:
    return f"{_figure(each.low)} to {_figure(each.high)}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _svg(spec: dict[str, Any]) -> str:
    """Draw a plot, and remove from the picture what the page does not need."""
    whole = {
        "width": WIDTH,
        "height": HEIGHT,
        "padding": 4,
        "background": None,
        "config": _CONFIG,
        **spec,
    }
    return _tidied(vl_convert.vegalite_to_svg(whole, vl_version=VEGA_LITE))


def _tidied(drawn: str) -> str:
    """Remove Vega's accessibility roles from a picture, and turn the bars' labels into tooltips.

    Screen readers don't need them: the page describes each picture in words and has its figures in a table.
    """
    root = ET.fromstring(drawn)
    for element in root.iter():
        said = element.attrib.pop("aria-label", None)
        shape = element.attrib.pop("aria-roledescription", None)
        for name in ("role", "aria-hidden", "class", "pointer-events", "font-family"):
            element.attrib.pop(name, None)
        if said is not None and shape in ("rect mark", "bar", "point"):
            title = ET.Element(f"{{{SVG}}}title")
            title.text = said
            element.insert(0, title)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("aria-hidden", "true")
    root.set("focusable", "false")
    return ET.tostring(root, encoding="unicode")
