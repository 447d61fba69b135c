"""Loads the pages' templates, with filters that write numbers and times for people."""

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
    """Read a file, such as a style or a script, from a package's folder `page`."""
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
    """Return `supported`, `unsupported`, or `unneeded` for a claim that needs no support."""
    return "supported" if claim.supported else "unsupported" if claim.needs_support else "unneeded"


def standing(answer: AnswerView, segment: Segment) -> str:
    """Return the best kind among the claims that cover a piece of an answer."""
    kinds = {kind(answer.claims[position]) for position in segment.spans}
    return next(each for each in ("supported", "unsupported", "unneeded") if each in kinds)


def number(value: float | None) -> str:
    """Write a whole number with separated thousands."""
    return DASH if value is None else f"{value:,.0f}"


def counted(count: int, name: str) -> str:
    """Write a count with its noun: 1 question, 2 questions."""
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def share(value: float | None) -> str:
    """Write a share, from 0 to 1, in percent. It says 100 % or 0 % only when the share is exactly that."""
    if value is None:
        return DASH
    percent = 100 * value
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.0f} %" if percent == round(percent) else f"{percent:.1f} %"


def score(value: float | None) -> str:
    """Write a score, from 0 to 1, with two decimals."""
    return DASH if value is None else f"{value:.2f}"


def milliseconds(value: float | None) -> str:
    """Write a time span in milliseconds for people."""
    if value is None:
        return DASH
    return f"{value:,.0f} ms" if value < 10_000 else duration(value / 1_000)


def moment(value: datetime) -> str:
    """Write a time in UTC, to the second."""
    return f"{value.astimezone(UTC):%-d %b %Y, %H:%M:%S} UTC"


def iso(value: datetime) -> str:
    """Write a time in ISO format, for scripts."""
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
