"""The page in a real browser, Chromium of the system, which pip cannot bring, against a server in its own process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.inspection.page import FOLDER

from .conftest import TinyRun
from .test_serve import serving

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt install chromium"),
    pytest.mark.skipif(not (FOLDER / "app.js").is_file(), reason="the page was not built: scripts/page"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url(tiny_run: TinyRun) -> Iterator[str]:
    with serving(f"one={tiny_run.path}", f"two={tiny_run.path}", "--threads", "1", "--timeout", "60") as (url, _):
        yield url


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    """Open, with ``c a b`` translated; whatever the page complains of fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    page = context.new_page()
    told: list[str] = []
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("console", lambda message: told.append(message.text) if _complaint(message) else None)
    page.goto(f"{url}/?text=c+a+b")
    playwright.expect(on(page, "output")).to_contain_text("C A B", timeout=60_000)
    playwright.expect(on(page, "beam-tree")).to_be_visible(timeout=60_000)  # the second, slower answer is here
    yield page
    context.close()
    assert told == []


def _complaint(message: Any) -> bool:
    """A refusal by the server is none: the page shows it."""
    return message.type == "error" and "400 (Bad Request)" not in message.text


def on(page: Any, name: str) -> Any:
    return page.get_by_test_id(name)


def click(page: Any, name: str) -> None:
    on(page, name).first.evaluate("element => element.click()")  # the header may lie over it


def test_translate_by_keyboard(page: Any) -> None:
    on(page, "text").fill("d e")
    on(page, "text").press("Enter")
    playwright.expect(on(page, "output")).to_contain_text("D E")
    assert "d%20e" in page.url or "d+e" in page.url  # a link to it


def test_hover_lock_and_unlock(page: Any) -> None:
    piece = on(page, "aligned-query-0")
    piece.hover()
    playwright.expect(on(page, "weights")).to_contain_text("c")
    piece.focus()
    page.keyboard.press("Enter")
    playwright.expect(on(page, "locked")).to_contain_text("C")
    assert piece.get_attribute("aria-pressed") == "true"
    page.keyboard.press("Escape")
    playwright.expect(on(page, "locked")).to_have_count(0)


def test_attention_is_named_and_is_not_called_an_explanation(page: Any) -> None:
    playwright.expect(on(page, "attention-name")).to_contain_text("decoder.0.source")
    playwright.expect(on(page, "section-aligned")).to_contain_text("where the model looked, not why")
    click(page, "head-decoder.0.source-1")
    playwright.expect(on(page, "heatmap-name")).to_contain_text("head 1")


def test_a_cell_is_worked_out(page: Any) -> None:
    heat_map = on(page, "heatmap").first
    heat_map.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    playwright.expect(on(page, "energy")).to_be_visible(timeout=60_000)
    shown = on(page, "cell-weight").inner_text()
    assert "≠" not in shown and "differs" not in shown, shown
    playwright.expect(on(page, "softmax")).to_be_visible()


def test_force_a_token_and_let_go(page: Any) -> None:
    click(page, "step-0")
    second = on(page, "candidate-0-1")
    piece = second.inner_text().split()[0]
    second.evaluate("element => element.click()")
    playwright.expect(on(page, "release")).to_be_visible(timeout=60_000)
    playwright.expect(on(page, "output")).to_contain_text(piece)
    click(page, "release")
    playwright.expect(on(page, "output")).to_contain_text("C A B", timeout=60_000)


def test_compare_two_checkpoints_and_replay_the_training(page: Any) -> None:
    on(page, "compare-model").select_option("two")
    click(page, "compare-load")
    playwright.expect(on(page, "difference")).to_contain_text("same", ignore_case=True, timeout=60_000)
    click(page, "replay-load")
    playwright.expect(on(page, "replay-slider")).to_be_visible(timeout=120_000)
    playwright.expect(on(page, "replay-slider")).to_have_attribute("max", "4", timeout=60_000)  # four steps, the best


def test_the_exported_file_works_without_a_network(page: Any, browser: Any, tmp_path: Path) -> None:
    with page.expect_download() as waiting:
        click(page, "export-html")
    path = tmp_path / "page.html"
    waiting.value.save_as(path)
    with page.expect_download() as waiting:
        click(page, "export-json")
    waiting.value.save_as(tmp_path / "page.json")
    assert json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))["target"]["text"] == "C A B"
    context = browser.new_context(offline=True)
    offline = context.new_page()
    asked: list[str] = []
    told: list[str] = []
    offline.on("request", lambda request: asked.append(request.url))
    offline.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    offline.goto(path.as_uri())
    playwright.expect(on(offline, "output")).to_contain_text("C A B")
    on(offline, "aligned-query-1").hover()
    playwright.expect(on(offline, "weights")).to_contain_text("a")
    playwright.expect(on(offline, "translate")).to_have_count(0)
    assert asked == [path.as_uri()] and told == []
    context.close()


@pytest.mark.parametrize(
    "name", ["export-aligned-svg", "export-heatmap-svg", "export-aligned-png", "export-heatmap-png"]
)
def test_pictures(page: Any, name: str, tmp_path: Path) -> None:
    with page.expect_download() as waiting:
        click(page, name)
    waiting.value.save_as(tmp_path / "picture")
    begin = (tmp_path / "picture").read_bytes()[:8]
    assert begin.startswith(b"<svg") if name.endswith("svg") else begin == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_narrow_screen(browser: Any, url: str, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 700}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{url}/?text=c+a+b")
    playwright.expect(on(page, "output")).to_contain_text("C A B", timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()


def test_what_the_server_refuses_is_shown(page: Any) -> None:
    on(page, "text").fill("a " * 300)
    on(page, "text").press("Enter")
    playwright.expect(on(page, "status-translate")).to_contain_text("too long", timeout=60_000)
