"""The page: what was found out, laid into the template, with its style and its script inside."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from groundrows.pipeline.report.text import Segment, cut, safe_link, visible
from groundrows.pipeline.report.views import AnswerView, ClaimView
from groundrows.schemas.durations import duration

DASH = "–"


def page(context: Mapping[str, Any]) -> str:
    """Render the page; the context holds what `page.html` names."""
    script = _asset("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing may be fetched, and no script may run but this one. Frames hold what is given with the page.
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        _environment()
        .get_template("page.html")
        .render(**context, policy=policy, style=Markup(_asset("style.css")), script=Markup(script))
    )


def _asset(name: str) -> str:
    return (
        resources.files("groundrows.pipeline.report")
        .joinpath("page", name)
        .read_text(encoding="utf-8")
        .strip()
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("groundrows.pipeline.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {
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
    return environment


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
