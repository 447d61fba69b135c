"""Templates of pages, and the filters by which they say figures and moments."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import resources

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from groundrows.pipeline.pages.text import Segment, cut, safe_link, visible
from groundrows.pipeline.pages.views import AnswerView, ClaimView
from groundrows.schemas.durations import duration

ROOM = "groundrows.pipeline.pages"
DASH = "–"


def asset(name: str, room: str = ROOM) -> str:
    """The text of a file in a room's folder `page`: a style or a script."""
    return resources.files(room).joinpath("page", name).read_text(encoding="utf-8").strip()


def environment(room: str) -> Environment:
    """Templates of a room's folder `page`, which may use those that pages share.

    Whatever they are given is text: it is escaped, and control characters are shown as pictures.
    """
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(room, "page"), PackageLoader(ROOM, "page")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    templates.filters |= {
        "number": number,
        "counted": counted,
        "share": share,
        "score": score,
        "ms": milliseconds,
        "moment": moment,
        "iso": iso,
        "cut": cut,
        "safe_link": safe_link,
        "standing": standing,
        "kind": kind,
    }
    return templates


def kind(claim: ClaimView) -> str:
    """How a claim stands: supported, unsupported, or unneeded when it was found to need no support."""
    return "supported" if claim.supported else "unsupported" if claim.needs_support else "unneeded"


def standing(answer: AnswerView, segment: Segment) -> str:
    """How a piece of an answer stands: as the best supported of the claims there."""
    kinds = {kind(answer.claims[position]) for position in segment.spans}
    return next(each for each in ("supported", "unsupported", "unneeded") if each in kinds)


def number(value: float | None) -> str:
    """A whole number with its thousands apart."""
    return DASH if value is None else f"{value:,.0f}"


def counted(count: int, name: str) -> str:
    """So many of something: 1 question, 2 questions."""
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def share(value: float | None) -> str:
    """A share of 1 in percent: 100 % and 0 % only when it is all or nothing."""
    if value is None:
        return DASH
    percent = 100 * value
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.0f} %" if percent == round(percent) else f"{percent:.1f} %"


def score(value: float | None) -> str:
    """A score from 0 to 1."""
    return DASH if value is None else f"{value:.2f}"


def milliseconds(value: float | None) -> str:
    """A time span given in milliseconds, as people say it."""
    if value is None:
        return DASH
    return f"{value:,.0f} ms" if value < 10_000 else duration(value / 1_000)


def moment(value: datetime) -> str:
    """A moment in UTC, to the second."""
    return f"{value.astimezone(UTC):%-d %b %Y, %H:%M:%S} UTC"


def iso(value: datetime) -> str:
    """A moment as scripts read it."""
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
