"""Who may ask the reader for something: pages of its own alone, whatever other pages are open in the browser.

A page of another origin may send requests here, through a form, a link or a name that it lets point to this
machine. It must read nothing, and change nothing.
"""

from __future__ import annotations

import secrets

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

TOKEN_HEADER = "X-Groundrows-Token"

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# The service's search suggestions are shown as they came: alone in a frame, without scripts or requests.
SUGGESTIONS_POLICY = (
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Checks every request to a server on a port of the loopback interface.

    Attributes:
        token: What a request must bring that changes something; pages of this server hold it.
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self._hosts: frozenset[str] = frozenset()

    def serve(self, port: int) -> None:
        """Take requests to this port; before, every one is refused."""
        self._hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))

    def complaint(self, request: web.Request) -> str | None:
        """Why a request is refused, or None."""
        headers = request.headers
        # A name of somebody else's that points here is another origin to the browser.
        if headers.getall("Host", []) not in [[host] for host in self._hosts]:
            return "The request names another host."
        if any(
            each not in {f"http://{host}" for host in self._hosts} for each in headers.getall("Origin", [])
        ):
            return "The request comes from a page of another origin."
        if headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") and not _is_visit(request):
            return "The request comes from a page of another origin."
        if request.method in ("GET", "HEAD"):
            return None
        if not secrets.compare_digest(
            headers.get(TOKEN_HEADER, "").encode("utf-8", "replace"), self.token.encode()
        ):
            return "The page is of an earlier start of this reader: load it again."
        return None

    def middleware(self) -> Middleware:
        """The checks, and the headers that tell a browser to keep to them."""

        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            complaint = self.complaint(request)
            if complaint is None:
                response = await handler(request)
            else:
                response = web.Response(status=403, text=complaint)
            for name, value in {"Content-Security-Policy": PAGE_POLICY, **_HEADERS}.items():
                response.headers.setdefault(name, value)
            return response

        return guarded


def _is_visit(request: web.Request) -> bool:
    """Whether a person follows a link to here in a window of its own, which the linking page can't read."""
    headers = request.headers
    return (
        request.method == "GET"
        and headers.get("Sec-Fetch-Mode") == "navigate"
        and headers.get("Sec-Fetch-Dest") == "document"
    )
