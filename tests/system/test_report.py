"""The report in a real browser: it opens by itself, shows text as text, and can be used by everybody."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, sync_playwright

from groundrows.pipeline.commands.report import report
from tests.benchmarks.report import make_run
from tests.support.made import NOON
from tests.support.report_runs import (
    HOSTILE,
    MANY_SCRIPTS,
    MARKED,
    marked_answer,
    showcase,
    write_run,
    write_showcase,
)
from tests.support.runs import ROOT, SAMPLES, run
from tests.support.services import need

PICTURES = ROOT / "out" / "report-screenshots"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update"]
PHONE = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}
INTERACTIVE = "a[href], button, input, summary, iframe, [tabindex='0']"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = need("chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context(viewport={"width": 1240, "height": 900})
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run that holds everything at once, hostile texts included."""
    folder = tmp_path_factory.mktemp("showcase")
    return report_on(write_showcase(folder / "run"), folder)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with few answers, each kind among them, where a browser goes through everything."""
    folder = tmp_path_factory.mktemp("few")
    return report_on(write_showcase(folder / "run"), folder, "--answers=8")


def report_on(directory: Path, folder: Path, *flags: str) -> Path:
    page = folder / "report.html"
    assert report([str(directory), *flags, "-o", str(page)]) == 0
    return page


def opened(context: BrowserContext, path: Path) -> tuple[Page, list[str]]:
    """The page, and everything that it asked for, said on the console or let go wrong."""
    page, heard = context.new_page(), []
    page.on("request", lambda request: heard.append(f"request {request.url}"))
    page.on("console", lambda message: heard.append(f"console {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error {error}"))
    page.on("dialog", lambda dialog: (heard.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.goto(path.as_uri())
    page.wait_for_load_state("networkidle")
    return page, heard


def article(page: Page, question: str) -> Locator:
    """The card of the answer to a question, opened."""
    card = page.locator("article.answer", has=page.get_by_role("heading", name=question)).first
    card.locator("details").first.evaluate("each => each.open = true")
    return card


def test_the_report_of_a_demo_opens_without_a_word_or_a_request(tmp_path, context):
    defaults = f"--request_defaults={SAMPLES / 'request_defaults.json'}"
    output = tmp_path / "run"
    run(
        "--service=emulator",
        f"--input={SAMPLES / 'questions.jsonl'}",
        defaults,
        f"--output={output}",
        "--quiet",
    )
    path = report_on(output, tmp_path)
    page, heard = opened(context, path)
    assert heard == [f"request {path.as_uri()}"]
    assert page.locator(".term.answered b").inner_text() == "17"
    assert page.get_by_text("The count law holds").is_visible()
    assert page.locator("#failures .code").all_inner_texts() == ["TWO_QUESTIONS"]


def test_the_report_of_many_answers_opens(tmp_path, context):
    """Made by a process of its own, as its memory is not given back."""
    path = tmp_path / "report.html"
    make_run(tmp_path / "run", 20_000)
    program = (
        "import sys; from groundrows.pipeline.commands.report import report; sys.exit(report(sys.argv[1:]))"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "run"), "-o", str(path)], cwd=ROOT, check=True
    )
    page, heard = opened(context, path)
    assert heard == [f"request {path.as_uri()}"]
    assert path.stat().st_size < 5_000_000
    assert page.locator("article.answer").count() == 50
    assert "20,000" in page.locator("#retrieval").inner_text()


def test_claims_are_marked_where_they_stand(shown, context):
    page, _ = opened(context, shown)
    card = article(page, "Who lives in the café?")
    assert card.locator(".text").evaluate("each => each.textContent") == MANY_SCRIPTS
    claims = card.locator(".text a.claim")
    assert tuple(claims.evaluate_all("all => all.map((each) => each.textContent)")) == MARKED
    kinds = claims.evaluate_all("all => all.map((each) => each.classList[1])")
    assert kinds == ["supported", "unsupported", "supported", "supported"]
    # Not by colour alone: another line, and a mark behind it.
    lines = claims.evaluate_all("all => all.map((each) => getComputedStyle(each).textDecorationStyle)")
    assert lines[1] == "wavy"
    assert "wavy" not in lines[:1] + lines[2:]
    assert claims.nth(1).get_attribute("data-number") == "2?"


def test_a_claim_shows_its_sources_to_pointer_and_keyboard(shown, context):
    page, _ = opened(context, shown)
    card, shows = article(page, "Who lives in the café?"), page.locator("#card")
    assert shows.is_hidden()
    card.locator("a.claim").nth(2).hover()
    assert "supported 0.70" in " ".join(shows.inner_text().split())
    assert f"A passage of its own about: {MARKED[2]}" in shows.inner_text()
    assert shows.get_by_role("link").get_attribute("href") == "https://site-2.example/scripts"
    page.keyboard.press("Escape")
    assert shows.is_hidden()
    card.locator("a.claim").nth(1).focus()
    assert shows.is_visible()
    assert "no support" in shows.inner_text()
    page.keyboard.press("Enter")  # goes on to the claim in the list
    assert page.evaluate("document.activeElement.id").endswith("claim-2")


def test_a_tap_shows_a_claims_sources(shown, browser):
    phone = browser.new_context(**PHONE)
    page, _ = opened(phone, shown)
    claim = article(page, "Who lives in the café?").locator("a.claim").first
    claim.scroll_into_view_if_needed()
    claim.tap()
    assert "A passage of its own" in page.locator("#card").inner_text()
    page.locator("h1").tap()
    assert page.locator("#card").is_hidden()
    phone.close()


def test_text_of_others_does_nothing(shown, context):
    page, heard = opened(context, shown)
    page.locator("#open-all").click()
    for frame in page.locator("iframe").all():
        frame.scroll_into_view_if_needed()
    page.locator("a.claim").first.hover()
    assert page.evaluate("window.pwned") is None
    assert not [each for each in heard if each.startswith(("dialog", "error"))]
    # What the page is made of, and nothing that came with a text.
    assert page.locator("script").count() == 2
    assert page.locator("img, object, embed, form, base, template").count() == 0
    assert page.locator("[onerror], [onclick], [onload]").count() == 0
    schemes = page.locator("a[href]").evaluate_all(
        "all => [...new Set(all.map((each) => each.protocol))].sort()"
    )
    assert schemes == ["file:", "https:"]
    card = article(page, "Is this text?")
    assert card.locator(".text").evaluate("each => each.textContent") == f"Before. {HOSTILE} After."
    assert card.locator("a.claim").evaluate("each => each.textContent") == HOSTILE
    assert card.locator(".warning bdi").evaluate("each => each.textContent") == HOSTILE
    assert all(
        "allow-scripts" not in (each.get_attribute("sandbox") or "allow-scripts")
        for each in page.locator("iframe").all()
    )


def test_suggestions_are_shown_but_ask_nothing_of_the_network(tmp_path, context):
    asked: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        at = f"http://127.0.0.1:{server.server_port}"
        html = (
            f"<style>@import '{at}/import'; p {{ background: url({at}/background) }}</style><p>What to search</p>"
            f"<img src='{at}/image'><link rel=stylesheet href='{at}/style'><iframe src='{at}/frame'></iframe>"
            f"<meta http-equiv=refresh content='0;url={at}/refresh'><video src='{at}/video' autoplay></video>"
            f"<script>fetch('{at}/script')</script><a href='{at}/followed'>a chip</a>"
        )
        rows = marked_answer(
            "chips", "It is so.", [("It is", True)], grounding_score=0.1, search_suggestions_html=html
        )
        page, _ = opened(context, report_on(write_run(tmp_path / "run", rows), tmp_path))
        page.locator("iframe").scroll_into_view_if_needed()
        frame = page.frame_locator("iframe")
        assert frame.locator("p").inner_text() == "What to search"
        page.wait_for_timeout(500)
        assert asked == []
        # A chip is a link like any other: it opens when a person follows it, without a way back to this page.
        with context.expect_page() as followed:
            frame.get_by_text("a chip").click()
        followed.value.wait_for_load_state()
        assert asked[0] == "/followed"
        assert followed.value.evaluate("window.opener") is None
    finally:
        server.shutdown()
        server.server_close()


def test_the_slider_counts_and_shows_the_prompts_around_it(shown, context):
    predictions = sorted(
        row.retrieval[0].prediction or 0
        for row in showcase()
        if row.TABLE == "answers" and row.retrieval  # type: ignore[union-attr]
    )
    page, _ = opened(context, shown)
    slider, count = page.get_by_role("slider", name="Threshold"), page.locator("#grounded")

    def expected(threshold: float) -> str:
        return str(sum(each >= threshold for each in predictions))

    assert slider.input_value() == "0.4"  # what was asked with
    assert count.inner_text() == expected(0.4)
    before = page.locator("#above").inner_text()
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert slider.input_value() == "0.45"
    assert count.inner_text() == expected(0.45) != expected(0.4)
    assert page.locator("#above").inner_text() != before
    above = [float(each) for each in page.locator("#above .score").all_inner_texts()]
    below = [float(each) for each in page.locator("#below .score").all_inner_texts()]
    assert above == sorted(above)
    assert below == sorted(below, reverse=True)
    assert below[0] < 0.45 <= above[0]
    page.keyboard.press("Home")
    assert count.inner_text() == str(len(predictions))
    page.keyboard.press("End")
    assert count.inner_text() == expected(1)


def test_the_keyboard_reaches_everything(shown, context):
    page, _ = opened(context, shown)
    page.evaluate(
        f"""() => [...document.querySelectorAll({json.dumps(INTERACTIVE)})]
            .filter((each) => each.checkVisibility()).forEach((each, number) => (each.dataset.stop = number))"""
    )
    wanted = page.locator("[data-stop]").count()
    assert wanted > 60
    reached: set[str] = set()
    for _ in range(wanted + 10):
        page.keyboard.press("Tab")
        stop = page.evaluate("document.activeElement.dataset.stop")
        if stop is not None:
            reached.add(stop)
            ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            frame = page.evaluate("document.activeElement.tagName === 'IFRAME'")
            assert frame or ring != "none", page.evaluate("document.activeElement.outerHTML")
    missed = [
        page.locator(f"[data-stop='{each}']").evaluate("each => each.outerHTML")
        for each in set(map(str, range(wanted))) - reached
    ]
    assert missed == []


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("light", {"viewport": {"width": 1240, "height": 900}, "color_scheme": "light"}),
        ("dark", {"viewport": {"width": 1240, "height": 900}, "color_scheme": "dark"}),
        ("phone", {**PHONE, "color_scheme": "light"}),
        ("phone-dark", {**PHONE, "color_scheme": "dark"}),
    ],
)
def test_everybody_can_read_it(name, settings, few, browser):
    looks = browser.new_context(**settings)
    page, _ = opened(looks, few)
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(PICTURES / f"{name}.png"), full_page=True)
    page.locator("#open-all").click()
    page.locator("details").evaluate_all("all => all.forEach((each) => (each.open = true))")
    assert page.locator("blockquote.long").evaluate("each => each.scrollHeight > each.clientHeight")
    page.locator("a.claim").first.focus()
    found = Axe().run(page, options={"resultTypes": ["violations"], "iframes": False}).response["violations"]
    said = [
        (each["id"], node["target"], node["failureSummary"]) for each in found for node in each["nodes"][:3]
    ]
    assert said == []
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]
    looks.close()


def test_it_follows_the_readers_scheme(shown, browser):
    def background(scheme: Any) -> str:
        looks = browser.new_context(color_scheme=scheme)
        page, _ = opened(looks, shown)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        looks.close()
        return str(colour)

    assert background("light") != background("dark")


def test_a_narrow_phone_needs_no_sideways_scrolling(shown, browser):
    narrow = browser.new_context(viewport={"width": 320, "height": 640}, is_mobile=True)
    page, _ = opened(narrow, shown)
    page.locator("details").evaluate_all("all => all.forEach((each) => (each.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    narrow.close()


def test_letters_stacked_high_stay_in_their_card(tmp_path, context):
    rows = marked_answer("q", "Z" + "\u0301" * 3_000, [("Z", True)], grounding_score=0.1)
    page, _ = opened(context, report_on(write_run(tmp_path / "run", rows), tmp_path))
    page.locator("article.answer").scroll_into_view_if_needed()
    card = page.locator("article.answer").bounding_box()
    assert card is not None
    above: Any = {"x": card["x"], "y": card["y"] - 150, "width": card["width"], "height": 140}
    stands = page.screenshot(clip=above)
    page.locator("article.answer .text").evaluate("each => (each.style.visibility = 'hidden')")
    assert page.screenshot(clip=above) == stands


def test_links_expire_when_their_time_has_come(tmp_path, context):
    rows = marked_answer(
        "links", "It is so.", [("It is", True)], grounding_score=0.1, uris_expire_at=NOON + timedelta(days=30)
    )
    path = report_on(write_run(tmp_path / "run", rows), tmp_path)
    for days, expired in ((29, False), (31, True)):
        page = context.new_page()
        page.clock.set_fixed_time(NOON + timedelta(days=days))
        page.goto(path.as_uri())
        link = page.locator(".sources a.out")
        assert ("expired" in (link.get_attribute("class") or "")) == expired
        assert page.locator(".sources .stale").is_visible() == expired
        assert page.locator(".sources .fresh").is_visible() != expired
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"


def test_paper_gets_every_answer(few, context):
    page, _ = opened(context, few)
    assert page.locator(".answer > details:not([open])").count() > 0
    assert page.pdf().startswith(b"%PDF")
    assert page.locator(".answer > details:not([open])").count() == 0


def test_it_can_be_read_without_its_script(shown, browser):
    still = browser.new_context(java_script_enabled=False)
    page = still.new_page()
    page.goto(shown.as_uri())
    assert page.locator("article.answer").first.locator("a.claim").count() > 0
    assert page.locator("#above li").count() > 0
    assert page.locator("#card").is_hidden()
    still.close()
