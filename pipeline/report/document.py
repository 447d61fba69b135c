"""The page: what was found out, laid into the template, with its style and its script inside."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from groundrows.pipeline.pages.templates import asset, environment

ROOM = "groundrows.pipeline.report"


def page(context: Mapping[str, Any]) -> str:
    """Render the page; the context holds what `page.html` names."""
    script = f"{asset('claims.js')}\n{asset('script.js', ROOM)}"
    style = f"{asset('base.css')}\n{asset('style.css', ROOM)}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing may be fetched, and no script may run but this one. Frames hold what is given with the page.
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        environment(ROOM)
        .get_template("page.html")
        .render(**context, policy=policy, style=Markup(style), script=Markup(script))
    )
