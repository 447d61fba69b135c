"""The reader's pages, served on the loopback interface."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.typedefs import Middleware
from jinja2 import Environment

from groundrows.pipeline.browse import cards
from groundrows.pipeline.browse.asked import ORDERS, asked
from groundrows.pipeline.browse.facets import counted
from groundrows.pipeline.browse.guard import SUGGESTIONS_POLICY, Guard
from groundrows.pipeline.browse.pairs import STANDINGS
from groundrows.pipeline.browse.search import PAGE, by_number, found, of_question
from groundrows.pipeline.browse.shelf import Shelf
from groundrows.pipeline.browse.verdicts import VERDICTS, ConflictError, Judged, Verdict
from groundrows.pipeline.pages.templates import asset, environment
from groundrows.schemas.errors import PortInUseError, UsageError

ROOM = "groundrows.pipeline.browse"
HOST = "127.0.0.1"
LARGEST_REQUEST = 256_000
# Of a question with more answers than these the others are listed without what is behind them.
MOST_CARDS = 60

T = TypeVar("T")


async def serve(shelf: Shelf, port: int, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP.

    Args:
        shelf: What is read.
        port: The port; 0 for a free one.
        ready: Called with the address once requests are taken.

    Raises:
        PortInUseError: The port can't be had.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signum, stopping.set)
    guard = Guard()
    runner = web.AppRunner(application(shelf, guard), access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        try:
            await site.start()
        except OSError:
            raise PortInUseError("port", port) from None
        at: int = runner.addresses[0][1]
        guard.serve(at)
        ready(f"http://{HOST}:{at}/")
        await stopping.wait()
    finally:
        await runner.cleanup()


def application(shelf: Shelf, guard: Guard) -> web.Application:
    """The pages as an application of aiohttp's."""
    reader = _Reader(shelf, guard.token)
    app = web.Application(middlewares=[guard.middleware(), _errors(reader)], client_max_size=LARGEST_REQUEST)
    app.add_routes(
        [
            web.get("/", reader.list),
            web.get("/facets", reader.facets),
            web.get("/question", reader.question),
            web.get(r"/card/{no:\d{1,10}}", reader.card),
            web.get(r"/{part:request|response}/{no:\d{1,10}}", reader.exchanged),
            web.get(r"/suggestions/{no:\d{1,10}}", reader.suggestions),
            web.post("/verdict", reader.judge),
            web.get("/style.css", _served("text/css", ("base.css", None), ("style.css", ROOM))),
            web.get("/script.js", _served("text/javascript", ("claims.js", None), ("script.js", ROOM))),
        ]
    )
    return app


def _served(kind: str, *names: tuple[str, str | None]) -> Callable[[web.Request], Any]:
    text = "\n".join(asset(name) if room is None else asset(name, room) for name, room in names)

    async def served(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type=kind, charset="utf-8")

    return served


def _errors(reader: _Reader) -> Middleware:
    @web.middleware
    async def said(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            response: web.StreamResponse = await handler(request)
            return response
        except UsageError as error:
            return reader.trouble(400, str(error))
        except web.HTTPNotFound:
            return reader.trouble(404, "There is no such page.")
        except web.HTTPException as error:
            return web.Response(status=error.status, text=error.reason)

    return said


class _Reader:
    """What is answered to each request. Everything that takes time is done in threads."""

    def __init__(self, shelf: Shelf, token: str) -> None:
        self._shelf = shelf
        self._token = token
        self._templates: Environment = environment(ROOM)
        self._templates.globals |= {
            "orders": ORDERS,
            "standings": STANDINGS,
            "verdicts": VERDICTS,
            "shelf": shelf,
            "token": token,
            "page_size": PAGE,
            "low": cards.LOW,
        }
        self._templates.filters["reasons"] = cards.reasons

    async def list(self, request: web.Request) -> web.Response:
        """A page of the list that the address asks for."""
        wanted = asked(request.query.items())
        page = await _apart(found, self._shelf, wanted)
        return self._page(
            "list.html", asked=wanted, page=page, current=await _apart(_is_current, self._shelf)
        )

    async def facets(self, request: web.Request) -> web.Response:
        """The facets of a list, as a part of its page."""
        wanted = asked(request.query.items())
        facets, ranges = await _apart(counted, self._shelf, wanted)
        return self._page("facets.html", asked=wanted, facets=facets, ranges=ranges)

    async def question(self, request: web.Request) -> web.Response:
        """All that there is of a question."""
        question_id = request.query.get("id", "")
        entries = await _apart(of_question, self._shelf, question_id, request.query.get("run"))
        if not entries:
            return self.trouble(404, "There is no question of this name in the run.")
        shown = [(entry, await _apart(cards.behind, self._shelf, entry)) for entry in entries[:MOST_CARDS]]
        return self._page("question.html", question_id=question_id, cards=shown, left=entries[MOST_CARDS:])

    async def card(self, request: web.Request) -> web.Response:
        """What is behind an entry of a list, as a part of a page."""
        entry = await _apart(by_number, self._shelf, _number(request))
        if entry is None:
            raise web.HTTPNotFound
        return self._page("card.html", entry=entry, card=await _apart(cards.behind, self._shelf, entry))

    async def exchanged(self, request: web.Request) -> web.Response:
        """An answer's request or response."""
        text = await _apart(cards.exchanged, self._shelf, _number(request), request.match_info["part"])
        if text is None:
            return web.Response(status=404, text="It was not kept: run with --keep_response to have it.")
        return web.Response(text=text)

    async def suggestions(self, request: web.Request) -> web.Response:
        """The search suggestions that came with an answer, for a frame."""
        html = await _apart(cards.suggestions, self._shelf, _number(request))
        if html is None:
            raise web.HTTPNotFound
        return web.Response(
            text=f'<!doctype html><base target="_blank">{html}',
            content_type="text/html",
            headers={"Content-Security-Policy": SUGGESTIONS_POLICY},
        )

    async def judge(self, request: web.Request) -> web.Response:
        """Write a verdict down."""
        number, verdict, note, seen = _judgement(await _json(request))
        entry = await _apart(by_number, self._shelf, number)
        if entry is None or entry.kind != "answer":
            raise web.HTTPNotFound
        answer = Judged(entry.run_id, entry.id, entry.moment)
        try:
            given = await _apart(self._shelf.verdicts.give, answer, verdict, note, seen)
        except ConflictError as conflict:
            return web.json_response(_said(conflict.current), status=409)
        except UsageError as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response(_said(given))

    def trouble(self, status: int, sentence: str) -> web.Response:
        """A page that says what is wrong."""
        response = self._page("trouble.html", sentence=sentence)
        response.set_status(status)
        return response

    def _page(self, template: str, **context: Any) -> web.Response:
        text = self._templates.get_template(template).render(made_at=datetime.now(UTC), **context)
        return web.Response(
            body=text.encode("utf-8", "backslashreplace"), content_type="text/html", charset="utf-8"
        )


def _is_current(shelf: Shelf) -> bool:
    return shelf.is_current


async def _apart(function: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.to_thread(function, *arguments)


def _number(request: web.Request) -> int:
    return int(request.match_info["no"])


async def _json(request: web.Request) -> Any:
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType
    try:
        return await request.json()
    except (ValueError, RecursionError):
        raise web.HTTPBadRequest from None


def _judgement(said: Any) -> tuple[int, str, str, int]:
    if isinstance(said, dict):
        number, verdict, note, seen = (said.get(name) for name in ("no", "verdict", "note", "version"))
        if (
            type(number) is int
            and type(seen) is int
            and isinstance(verdict, str)
            and isinstance(note, str)
            and note == note.encode("utf-8", "ignore").decode()
        ):
            return number, verdict, note, seen
    raise web.HTTPBadRequest


def _said(verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": verdict.verdict,
        "note": verdict.note,
        "version": verdict.version,
        "judged_at": verdict.judged_at.isoformat(timespec="seconds") if verdict.judged_at else None,
    }
