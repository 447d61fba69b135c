"""The reader in a real browser: found by search, judged, safe from other pages, and usable by everybody."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from groundrows.pipeline.browse.verdicts import given
from tests.benchmarks.browse_runs import make_run
from tests.support.report_runs import write_showcase
from tests.support.runs import ROOT
from tests.support.services import need

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update"]
COMMAND = "import sys; from groundrows.pipeline.cli import main; sys.exit(main(['browse', *sys.argv[1:]]))"
ANSWERS = 2_000


@contextmanager
def serving(run: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The reader of a run: its address and its process."""
    command = [sys.executable, "-c", COMMAND, str(run), "--no_open"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said.startswith("ready on http://127.0.0.1:")
            yield said.split()[-1], process
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = need("chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def showcase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(write_showcase(tmp_path_factory.mktemp("showcase") / "run")) as (address, _):
        yield address


def opened(browser: Browser, address: str, **settings: Any) -> tuple[Page, list[str]]:
    page, heard = browser.new_context(**settings).new_page(), []
    page.on("request", lambda request: heard.append(f"request {request.url}"))
    page.on("console", lambda message: heard.append(f"console {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error {error}"))
    page.on("dialog", lambda dialog: (heard.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.goto(address)
    page.wait_for_load_state("networkidle")
    return page, heard


def test_search_verdicts_two_windows_and_a_kill(tmp_path, browser):
    run = make_run(tmp_path / "run", ANSWERS)
    with serving(run) as (address, process):
        page, _ = opened(browser, address)
        # Two steps to a given question: search, and open.
        page.keyboard.press("/")
        page.keyboard.type("000000001234")
        page.keyboard.press("Enter")
        expect(page.locator("#count b")).to_have_text("1")
        page.keyboard.press("j")
        page.keyboard.press("o")
        card = page.locator(".entry")
        expect(card.locator(".text").first).to_be_visible()
        other, _ = opened(browser, page.url)
        page.keyboard.press("1")
        expect(card.locator(".outcome")).to_have_text("Saved: right.")
        # The other window has not seen it.
        other.keyboard.press("j")
        other.keyboard.press("2")
        outcome = other.locator(".outcome")
        expect(outcome).to_contain_text("another window said right")
        assert [verdict.verdict for _, verdict in given(str(run))] == ["right"]
        outcome.get_by_role("button", name="Save mine: wrong").click()
        expect(outcome).to_have_text("Saved: wrong.")
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert [verdict.verdict for _, verdict in given(str(run))] == ["wrong"]
    with serving(run) as (address, _):
        page, _ = opened(browser, f"{address}?f.verdict=wrong")
        expect(page.locator(".badge.judged")).to_have_text("wrong")
        assert page.locator(".entry h3").inner_text().endswith("number 000000001234?")


@pytest.mark.parametrize(
    "settings",
    [
        {"viewport": {"width": 1240, "height": 900}, "color_scheme": "light"},
        {"viewport": {"width": 1240, "height": 900}, "color_scheme": "dark"},
        {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "color_scheme": "light"},
    ],
    ids=["light", "dark", "phone"],
)
def test_everybody_can_read_it(showcase, browser, settings):
    page, _ = opened(browser, showcase, **settings)
    page.locator(".entry details").first.evaluate("each => each.open = true")
    page.locator(".narrow").evaluate("each => each.open = true")
    page.wait_for_load_state("networkidle")
    expect(page.locator(".judge").first).to_be_visible()
    found = Axe().run(page, options={"resultTypes": ["violations"], "iframes": False}).response["violations"]
    assert [(each["id"], each["nodes"][0]["target"]) for each in found] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    page.context.close()


def test_text_of_others_does_nothing(showcase, browser):
    page, heard = opened(browser, f"{showcase}?q=pwned")
    for details in page.locator(".entry > details").all():
        details.evaluate("each => each.open = true")
    page.locator(".entry .text").first.wait_for(state="attached")
    # The service's own suggestions come last, in a frame of theirs.
    for _ in range(200):
        if any("Blocked script execution" in each for each in heard):
            break
        page.wait_for_timeout(50)
    assert any("Blocked script execution" in each for each in heard)
    assert page.evaluate("window.pwned") is None
    assert not [each for each in heard if each.startswith(("dialog", "error"))]
    assert [each for each in heard if each.startswith("request") and showcase not in each] == []
    assert page.locator("script").count() == 1
    page.context.close()


def test_a_page_of_another_origin_neither_reads_nor_writes(showcase, browser):
    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>Another</title>")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        page, _ = opened(browser, f"http://127.0.0.1:{server.server_port}/")
        ask = """async ([at, settings]) => {
            try { const answer = await fetch(at, settings); return [answer.type, answer.status, await answer.text()]; }
            catch { return "refused"; }
        }"""
        said = {"method": "POST", "body": '{"no": 0, "verdict": "right", "note": "", "version": 0}'}
        assert page.evaluate(ask, [showcase, {}]) == "refused"
        assert page.evaluate(ask, [f"{showcase}verdict", said]) == "refused"
        for settings in ({"mode": "no-cors"}, {"mode": "no-cors", **said}):
            told = page.evaluate(ask, [f"{showcase}verdict", settings])
            assert told == "refused" or told == ["opaque", 0, ""]
    finally:
        server.shutdown()
        server.server_close()
    page, _ = opened(browser, f"{showcase}?f.verdict=right")
    assert page.locator("#count b").inner_text() == "0"
    page.context.close()
