"""Renders the report's page from its template, with the style and the script inside the page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from groundrows.pipeline.pages.templates import asset, environment

ROOM = "groundrows.pipeline.report"


def page(context: Mapping[str, Any]) -> str:
    """Render the page. `context` holds the values that `page.html` uses."""
    script = f"{asset('claims.js')}\n{asset('script.js', ROOM)}"
    style = f"{asset('base.css')}\n{asset('style.css', ROOM)}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # The page may not load anything, and only this script may run. The frames' content is part of the page.
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        environment(ROOM)
        .get_template("page.html")
        .render(**context, policy=policy, style=Markup(style), script=Markup(script))
    )
