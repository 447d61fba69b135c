import re
import xml.etree.ElementTree as ET

import pytest

from pipeline.report import plots
from pipeline.report.figures import Bin, Moment, Timeline

SVG = "{http://www.w3.org/2000/svg}"
BINS = [Bin(each / 10, (each + 1) / 10, each * 1_000) for each in range(10)]
TIMELINE = Timeline(
    60, [Moment(60.0 * each, 10.0 * each, 100.0, 200.0 if each else None) for each in range(8)]
)
DRAWN = {
    "histogram": lambda: plots.histogram(BINS, "score", "answers"),
    "marked": lambda: plots.histogram(BINS[1:], "ms", "calls", marks=[(0.5, "median")], log=True),
    "bars": lambda: plots.bars([("none", 3), ("some", 0)], "share", "answers"),
    "rates": lambda: plots.rates(TIMELINE, 60),
    "unlimited": lambda: plots.rates(TIMELINE, None),
    "latencies": lambda: plots.latencies(TIMELINE),
    "thresholds": lambda: plots.thresholds([9, 5, 5, 0], 0.7),
    "one bin": lambda: plots.histogram([Bin(0, 1, 1)], "score", "answers"),
    "nothing": lambda: plots.bars([("none", 0)], "share", "answers"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_plot_is_a_picture_in_the_pages_colours_and_nothing_more(name):
    root = ET.fromstring(DRAWN[name]())
    assert root.tag == f"{SVG}svg"
    assert root.get("aria-hidden") == "true"
    assert len(root.get("viewBox", "").split()) == 4
    colours = {element.get(each) for element in root.iter() for each in ("fill", "stroke")} - {None}
    assert all(
        colour in ("none", "transparent") or re.fullmatch(r"var\(--[a-z0-9-]+\)", colour)
        for colour in colours
    )
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "g", "path", "line", "text", "title", "rect", "defs"}
    names = {each for element in root.iter() for each in element.attrib}
    assert not names & {"role", "href", "style", "aria-label"}


def test_bars_say_what_they_stand_for():
    titles = [element.text for element in ET.fromstring(DRAWN["histogram"]()).iter(f"{SVG}title")]
    assert titles == [f"{each / 10:.3g} to {(each + 1) / 10:.3g}: {each * 1_000:,}" for each in range(10)]


def test_points_say_what_they_stand_for():
    titles = {element.text for element in ET.fromstring(DRAWN["latencies"]()).iter(f"{SVG}title")}
    assert titles == {"median: 100 ms", "95th percentile: 200 ms"}


def test_what_says_something_can_be_pointed_at():
    parents = {child: element for element in ET.fromstring(DRAWN["rates"]()).iter() for child in element}
    for element in parents:
        if element.tag == f"{SVG}title":
            assert parents[element].get("fill", "none") != "none"


def test_the_limit_is_drawn_only_when_there_is_one():
    assert ">limit 60<" in plots.rates(TIMELINE, 60)
    assert ">limit" not in plots.rates(TIMELINE, None)


def test_the_cursor_stands_at_the_threshold():
    (cursor,) = [
        each
        for each in ET.fromstring(DRAWN["thresholds"]()).iter(f"{SVG}line")
        if each.get("class") == "cursor"
    ]
    assert float(cursor.get("x1", "")) == float(cursor.get("x2", "")) == 0.7 * plots.WIDTH
