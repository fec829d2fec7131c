"""The page of a language model in a real browser, against a server in this process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.inspection.inspector import Inspector
from regard.runs.run_folder import RunFolder
from regard.server.batching.served import ServedModel

from ..server.conftest import serving
from ..server.predicting import Book, mean
from .test_inspect_tasks import book  # noqa: F401 - the run, a fixture
from .test_page import browser, click, on, playwright, pytestmark  # noqa: F401 - the browser, a fixture; and marks

TEXT = "the cat sat"


def served(path: Path) -> ServedModel:
    made = regard.load(path)
    found = Book(made.model, made.tokenizer, made.settings, context=made.context)
    inspector = Inspector(RunFolder.open(path), name="book", open=lambda which: found)
    return ServedModel(
        "book", task="language-model", serves={"generate"}, load_predictor=lambda: found, settings=found.settings,
        threads=1, inspector=inspector,
    )  # fmt: skip


@pytest.fixture(scope="module")
def address(book: Path) -> Iterator[str]:  # noqa: F811
    with serving([served(book), mean()[0]], seconds=60, length=100, requests_per_minute=10_000) as (port, _):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:  # noqa: F811
    """Open, with a text inspected; a console error fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if _complaint(message) else None)
    page.goto(f"{address}/#text=the+cat+sat")
    playwright.expect(on(page, "tokens")).to_contain_text(TEXT, timeout=15_000)
    yield page
    context.close()
    assert errors == []


def _complaint(message: Any) -> bool:
    """Return whether a console message is an error; the page shows rejected requests itself."""
    return message.type == "error" and "400 (Bad Request)" not in message.text


def test_the_text_is_shaded_and_a_token_lists_its_alternatives(page: Any) -> None:
    shades = (
        on(page, "tokens").locator("button").evaluate_all("all => all.map(e => getComputedStyle(e).backgroundColor)")
    )
    assert len(shades) == len(TEXT) + 1 and len(set(shades)) > 3
    click(page, "token-4")
    playwright.expect(on(page, "step")).to_contain_text("c, token 5")
    assert on(page, "alternatives").locator("li").count() == 10
    page.keyboard.press("Tab")
    click(page, "token-next")
    playwright.expect(on(page, "next-bars")).to_be_visible()
    assert "#text=the+cat+sat&model=book" in page.url  # a link to it


def test_a_head_is_chosen_and_a_cell_shows_its_weight(page: Any) -> None:
    playwright.expect(on(page, "heatmap-name")).to_have_text("decoder.1.self, mean of the heads")
    click(page, "head-decoder.0.self-1")
    playwright.expect(on(page, "heatmap-name")).to_have_text("decoder.0.self, head 1")
    playwright.expect(on(page, "section-heatmap")).to_contain_text("columns are keys (token attended to)")
    heat_map = on(page, "heatmap")
    heat_map.focus()
    playwright.expect(on(page, "heatmap-value")).to_have_text("<s> → <s>: 1.0000")
    page.keyboard.press("ArrowRight")
    playwright.expect(on(page, "heatmap-value")).to_have_text("<s> → t: hidden by the mask")
    box = page.locator("#heatmap .values").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + box["height"] - 3)
    playwright.expect(on(page, "heatmap-value")).to_contain_text(re.compile(r"t → <s>: [\d.e−]+$"))


def test_a_prompt_is_continued_and_inspected(page: Any) -> None:
    on(page, "set-length").fill("9")
    on(page, "set-greedy").check()
    click(page, "predict")
    playwright.expect(on(page, "output")).to_contain_text(TEXT, timeout=15_000)
    playwright.expect(on(page, "inspect-output")).to_be_visible(timeout=15_000)  # the text is whole
    whole = on(page, "output").inner_text()
    click(page, "inspect-output")
    playwright.expect(on(page, "text")).to_have_value(whole)
    playwright.expect(on(page, "tokens")).to_contain_text(whole.strip()[-3:], timeout=15_000)
    on(page, "set-length").fill("101")
    click(page, "predict")
    playwright.expect(on(page, "status-predict")).to_contain_text("101 tokens exceed the limit of 100", timeout=15_000)


def test_a_change_hides_the_result_and_an_error_is_shown(page: Any) -> None:
    on(page, "text").fill("the cat x")
    playwright.expect(on(page, "tokens")).to_have_count(0)
    playwright.expect(on(page, "waiting")).to_contain_text("has changed. Press Continue.")
    on(page, "text").press("Enter")
    playwright.expect(on(page, "status-translate")).to_contain_text("no piece for 'x'", timeout=15_000)


def test_a_custom_task_has_its_own_labels(page: Any) -> None:
    on(page, "model").select_option("mean")
    on(page, "text").fill("1 2 6")
    playwright.expect(on(page, "direction")).to_have_text("numbers")
    on(page, "text").press("Enter")
    playwright.expect(on(page, "heatmap-name")).to_contain_text("attention", timeout=15_000)
    playwright.expect(on(page, "section-heatmap")).to_contain_text("queries (mean), columns are keys (number)")


def test_the_exported_file_works_without_a_network(page: Any, browser: Any, tmp_path: Path) -> None:  # noqa: F811
    for name, end in (("export-html", "html"), ("export-json", "json"), ("export-heatmap-svg", "svg")):
        with page.expect_download() as waiting:
            click(page, name)
        waiting.value.save_as(tmp_path / f"page.{end}")
    assert json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))["text"] == TEXT
    assert (tmp_path / "page.svg").read_text(encoding="utf-8").startswith("<svg")
    context = browser.new_context(offline=True)
    offline = context.new_page()
    requests_and_errors: list[str] = []
    offline.on("request", lambda request: requests_and_errors.append(request.url))
    offline.on("console", lambda message: requests_and_errors.append(message.text) if message.type == "error" else None)
    offline.goto((tmp_path / "page.html").as_uri())
    click(offline, "token-1")
    playwright.expect(on(offline, "step")).to_contain_text("h, token 2")
    for name in ("text", "predict", "waiting"):
        playwright.expect(on(offline, name)).to_have_count(0)
    assert requests_and_errors == [(tmp_path / "page.html").as_uri()]
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_narrow_screen(browser: Any, address: str, scheme: str) -> None:  # noqa: F811
    context = browser.new_context(viewport={"width": 360, "height": 700}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{address}/#text=the+cat+sat")
    playwright.expect(on(page, "tokens")).to_contain_text(TEXT, timeout=15_000)
    click(page, "token-2")
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()
