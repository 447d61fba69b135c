import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from groundrows.pipeline.report import plots
from groundrows.pipeline.report.figures import Bin, Moment, Timeline

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


def texts(drawn):
    return [element.text for element in ET.fromstring(drawn).iter(f"{SVG}text")]


def place(element, parents):
    """Where an element stands, from the left and from the top."""
    x = y = 0.0
    while element is not None:
        moved = re.match(r"translate\(([-\d.]+),([-\d.]+)\)", element.get("transform", ""))
        if moved:
            x, y = x + float(moved[1]), y + float(moved[2])
        element = parents.get(element)
    return x, y


def test_names_of_lines_stand_above_the_picture_and_the_title():
    root = ET.fromstring(
        plots.histogram(BINS, "ms", "calls", marks=[(0.5, "median"), (0.51, "95 %"), (0.52, "99 %")])
    )
    parents = {child: element for element in root.iter() for child in element}
    places = {each.text: place(each, parents) for each in root.iter(f"{SVG}text")}
    named = [places[name] for name in ("median", "95 %", "99 %")]
    assert len({y for _, y in named}) == 1
    assert all(second[0] - first[0] > 40 for first, second in pairwise(named))
    assert all(y < places["calls"][1] - 10 for _, y in named)


@pytest.mark.parametrize("spans", [1, 2, 3, 7, 8, 9, 50, 96])
@pytest.mark.parametrize("step", [1, 2, 5, 60, 3_600, 86_400, 604_800, 10_000_000])
def test_names_of_moments_stand_apart(spans, step):
    begin = 1_740_830_400.0 // step * step
    moments = [Moment(begin + each * step, 60.0, 1.0, 2.0) for each in range(spans)]
    root = ET.fromstring(plots.rates(Timeline(step, moments), None))
    parents = {child: element for element in root.iter() for child in element}
    named = [each for each in root.iter(f"{SVG}text") if re.search(r"\d:\d|^\d\d \w", each.text or "")]
    assert 1 <= len(named) <= 4
    assert len({each.text for each in named}) == len(named)
    places = sorted(place(each, parents)[0] for each in named)
    assert all(right - left >= 59 for left, right in pairwise(places))


def test_one_moment_does_not_fill_the_picture():
    root = ET.fromstring(plots.rates(Timeline(1, [Moment(0.0, 60.0, 1.0, 1.0)]), None))
    (bar,) = [each for each in root.iter(f"{SVG}path") if each.find(f"{SVG}title") is not None]
    width = float(re.findall(r"h([\d.]+)", bar.get("d", ""))[0])
    assert width < plots.WIDTH / 4


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_half_of_an_answer_is_counted(most):
    drawn = plots.histogram([Bin(0, 1, most), Bin(1, 2, 1)], "score", "answers", form=".2f")
    counts = [each for each in texts(drawn) if re.fullmatch(r"[\d.]+", each or "") and len(each) < 4]
    assert counts == [str(each) for each in range(most + 1)]


def test_the_cursor_stands_at_the_threshold():
    (cursor,) = [
        each
        for each in ET.fromstring(DRAWN["thresholds"]()).iter(f"{SVG}line")
        if each.get("class") == "cursor"
    ]
    assert float(cursor.get("x1", "")) == float(cursor.get("x2", "")) == 0.7 * plots.WIDTH
