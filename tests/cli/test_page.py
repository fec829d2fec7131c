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
def url(tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two models of the same weights; the second names its languages, and was trained on shorter sentences."""
    two = Path(shutil.copytree(tiny_run.path, tmp_path_factory.mktemp("page") / "two"))
    config = (two / "config.toml").read_text(encoding="utf-8")
    assert config.count("[data]\n") == config.count("max_length = 256\n") == 1
    named = config.replace("[data]\n", '[data]\nsource_language = "en"\ntarget_language = "de"\n')
    named = named.replace("max_length = 256\n", "max_length = 100\n")
    (two / "config.toml").write_text(named, encoding="utf-8")
    limits = ("--timeout", "60", "--req-limit", "1000")  # all tests are one client
    with serving(f"one={tiny_run.path}", f"two={two}", "--threads", "1", *limits) as (url, _):
        yield url


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    """Open, with ``c a b`` translated; a console error fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if _complaint(message) else None)
    page.goto(f"{url}/?text=c+a+b")
    playwright.expect(on(page, "output")).to_contain_text("C A B", timeout=60_000)
    playwright.expect(on(page, "beam-tree")).to_be_visible(timeout=60_000)  # the second, slower answer is here
    yield page
    context.close()
    assert errors == []


def _complaint(message: Any) -> bool:
    """Return whether a console message is an error; the page shows rejected requests itself."""
    refused = ("400 (Bad Request)", "429 (Too Many Requests)")
    return message.type == "error" and not any(each in message.text for each in refused)


def on(page: Any, name: str) -> Any:
    return page.get_by_test_id(name)


def click(page: Any, name: str) -> None:
    on(page, name).first.evaluate("element => element.click()")  # the header may lie over it


def test_translate_by_keyboard(page: Any) -> None:
    on(page, "text").fill("d e")
    on(page, "text").press("Enter")
    playwright.expect(on(page, "output")).to_contain_text("D E")
    assert "d%20e" in page.url or "d+e" in page.url  # a link to it


def test_the_page_works_below_a_path(browser: Any, tiny_run: TinyRun) -> None:
    context, errors = browser.new_context(), list[str]()
    page = context.new_page()
    page.on("console", lambda message: errors.append(message.text) if _complaint(message) else None)
    with serving(str(tiny_run.path), "--threads", "1", "--root-path", "/models") as (url, _):
        page.goto(f"{url}/models?text=c+a+b")
        playwright.expect(on(page, "output")).to_contain_text("C A B", timeout=60_000)
        playwright.expect(on(page, "snippet-curl")).to_contain_text(f"{url}/models/v1/translate")
        assert page.url.startswith(f"{url}/models/?") or page.url.startswith(f"{url}/models/#")
    context.close()
    assert errors == []


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


def test_attention_has_a_name_and_a_warning_and_every_section_has_help(page: Any) -> None:
    playwright.expect(on(page, "attention-name")).to_contain_text("decoder.0.source")
    playwright.expect(on(page, "section-aligned")).to_contain_text("where the model read from, not why")
    click(page, "head-decoder.0.source-1")
    playwright.expect(on(page, "heatmap-name")).to_contain_text("head 1")
    panels = page.locator("main > section[id]:not(#translation)")
    assert panels.count() == panels.locator("details.help").count() >= 10
    first = on(page, "help-aligned")
    playwright.expect(first.locator("p").first).to_be_hidden()
    first.locator("summary").press("Enter")
    playwright.expect(first).to_contain_text("Limits.")
    playwright.expect(first.locator("p").first).to_be_visible()


def test_a_cell_shows_its_computation(page: Any) -> None:
    heat_map = on(page, "heatmap").first
    heat_map.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    playwright.expect(on(page, "energy")).to_be_visible(timeout=60_000)
    shown = on(page, "cell-weight").inner_text()
    assert "≠" not in shown and "differs" not in shown, shown
    playwright.expect(on(page, "softmax")).to_be_visible()


def test_force_a_token_and_stop_forcing(page: Any) -> None:
    click(page, "step-0")
    second = on(page, "candidate-0-1")
    piece = second.inner_text().split()[0]
    second.evaluate("element => element.click()")
    playwright.expect(on(page, "release")).to_be_visible(timeout=60_000)
    playwright.expect(on(page, "output")).to_contain_text(piece)
    click(page, "release")
    playwright.expect(on(page, "output")).to_contain_text("C A B", timeout=60_000)


def options(page: Any, name: str) -> list[str]:
    return on(page, name).locator("option").evaluate_all("all => all.map(each => each.value)")


def test_compare_two_different_checkpoints_and_replay_the_training(page: Any) -> None:
    playwright.expect(on(page, "compare-checkpoint")).to_have_value("300")
    assert options(page, "compare-checkpoint") == ["300", "200", "100"]  # neither best nor 400, which is the best
    on(page, "compare-model").select_option("two")  # the same weights under another name
    playwright.expect(on(page, "compare-checkpoint")).to_have_value("300")
    assert options(page, "compare-checkpoint") == ["300", "200", "100"]
    on(page, "compare-checkpoint").select_option("100")
    click(page, "compare-load")
    playwright.expect(on(page, "compare-right")).to_contain_text("two, 100", timeout=60_000)
    click(page, "replay-load")
    playwright.expect(on(page, "replay-slider")).to_have_attribute("max", "3", timeout=60_000)  # four steps, once each


def test_the_first_visit_shows_an_example_and_a_change_hides_the_result(page: Any, url: str, tiny_run: TinyRun) -> None:
    page.goto("about:blank")
    page.goto(url)
    playwright.expect(on(page, "example")).to_contain_text("An example from the validation data of one")
    text = on(page, "text").input_value()
    assert text in tiny_run.source.read_text(encoding="utf-8").splitlines()
    playwright.expect(on(page, "output")).to_have_text(text.upper(), timeout=60_000)
    playwright.expect(on(page, "beam-tree")).to_be_visible(timeout=60_000)
    assert "#" not in page.url
    on(page, "text").press_sequentially(" a")
    playwright.expect(on(page, "output")).to_have_count(0)
    playwright.expect(on(page, "section-aligned")).to_have_count(0)
    playwright.expect(on(page, "waiting")).to_contain_text("has changed. Press Translate.")
    on(page, "model").select_option("two")
    playwright.expect(on(page, "direction")).to_have_text("English → German")
    playwright.expect(on(page, "text-limits")).to_contain_text("a sentence of at most 100 pieces")
    playwright.expect(on(page, "output")).to_have_count(0)  # what is written is not the example: it waits
    on(page, "text").fill("d e")
    on(page, "translate").click()
    playwright.expect(on(page, "output")).to_have_text("D E", timeout=60_000)
    assert on(page, "output").get_attribute("lang") == "de"


def test_each_of_the_best_outputs_can_be_inspected_and_copied(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    second = on(page, "nbest-1").inner_text()
    assert second != "C A B"
    click(page, "nbest-1")
    playwright.expect(on(page, "output")).to_have_text(second, timeout=60_000)
    playwright.expect(on(page, "nbest-1")).to_have_attribute("aria-pressed", "true")
    click(page, "copy")
    playwright.expect(on(page, "copy-status")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == second


def test_several_heads_can_be_overlaid(page: Any) -> None:
    click(page, "head-decoder.0.source-0")
    colors = "all => new Set(all.map(each => each.getAttribute('stroke'))).size"
    arcs = on(page, "aligned").locator("path")
    assert arcs.evaluate_all(colors) == 1
    click(page, "overlay-decoder.0.source-1")
    playwright.expect(on(page, "attention-name")).to_contain_text("and 1 more")
    playwright.expect(on(page, "overlay-decoder.0.source-1")).to_have_attribute("aria-pressed", "true")
    assert arcs.evaluate_all(colors) == 2
    on(page, "aligned-query-0").focus()
    playwright.expect(on(page, "weights")).to_contain_text("head 1:")
    click(page, "overlay-none")
    assert arcs.evaluate_all(colors) == 1


def test_a_file_is_translated_and_an_unsupported_type_is_rejected(page: Any, tmp_path: Path) -> None:
    on(page, "file-field").locator("summary").click()
    on(page, "file").set_input_files({"name": "a.pdf", "mimeType": "text/plain", "buffer": b"x"})
    playwright.expect(on(page, "status-file")).to_contain_text(".txt, .md, .html, .htm")
    on(page, "file").set_input_files({"name": "notes.txt", "mimeType": "text/plain", "buffer": b"c a b\n\nd e\n"})
    playwright.expect(on(page, "file-save")).to_be_visible(timeout=60_000)
    with page.expect_download() as waiting:
        click(page, "file-save")
    assert waiting.value.suggested_filename == "notes.translated.txt"
    waiting.value.save_as(tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "C A B\n\nD E\n"


def test_unknown_characters_and_a_choice_of_sentences(page: Any) -> None:
    def respond(route: Any) -> None:
        asked = json.loads(route.request.post_data)
        sentence = asked.pop("sentence", 0)
        answer = route.fetch(post_data=json.dumps(asked))
        more = {"facts": {"unknown": ["猫"]}, "sentences": ["d e.", "f."], "sentence": sentence}
        route.fulfill(response=answer, json=answer.json() | more)

    page.route("**/v1/inspect", respond)
    on(page, "text").fill("d e")
    on(page, "text").press("Enter")
    playwright.expect(on(page, "unknown")).to_contain_text("1 character is unknown to this model: 猫 (U+732B)")
    playwright.expect(on(page, "whole")).to_have_text("D E", timeout=60_000)
    with page.expect_request("**/v1/inspect") as asked:
        on(page, "sentence").select_option("1")
    assert json.loads(asked.value.post_data)["sentence"] == 1
    playwright.expect(on(page, "sentence")).to_have_value("1")
    page.unroute_all(behavior="wait")


def test_the_exported_file_works_without_a_network(page: Any, browser: Any, tmp_path: Path) -> None:
    with page.expect_download() as waiting:
        click(page, "export-html")
    path = tmp_path / "page.html"
    waiting.value.save_as(path)
    with page.expect_download() as waiting:
        click(page, "export-json")
    waiting.value.save_as(tmp_path / "page.json")
    assert json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))["search"]["output"] == "C A B"
    context = browser.new_context(offline=True)
    offline = context.new_page()
    asked: list[str] = []
    errors: list[str] = []
    offline.on("request", lambda request: asked.append(request.url))
    offline.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    offline.goto(path.as_uri())
    playwright.expect(on(offline, "output")).to_contain_text("C A B")
    on(offline, "aligned-query-1").hover()
    playwright.expect(on(offline, "weights")).to_contain_text("a")
    for name in ("translate", "file", "nbest-0", "example", "waiting"):
        playwright.expect(on(offline, name)).to_have_count(0)
    playwright.expect(on(offline, "nbest")).to_contain_text("C A B")
    assert asked == [path.as_uri()] and errors == []
    context.close()


def test_pictures(page: Any, tmp_path: Path) -> None:
    for name in ("export-aligned-svg", "export-heatmap-svg", "export-aligned-png", "export-heatmap-png"):
        with page.expect_download() as waiting:
            click(page, name)
        waiting.value.save_as(tmp_path / "picture")
        begin = (tmp_path / "picture").read_bytes()[:8]
        assert begin.startswith(b"<svg") if name.endswith("svg") else begin == b"\x89PNG\r\n\x1a\n", name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_narrow_screen(browser: Any, url: str, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 700}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{url}/?text=c+a+b")
    playwright.expect(on(page, "output")).to_contain_text("C A B", timeout=60_000)
    click(page, "overlay-all")
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()


def test_errors_of_the_server_are_shown(page: Any) -> None:
    on(page, "text").fill("a " * 300)
    on(page, "text").press("Enter")
    playwright.expect(on(page, "status-translate")).to_contain_text("too long", timeout=60_000)
    playwright.expect(on(page, "output")).to_have_count(0)
    on(page, "text").fill("a " * 3000)
    playwright.expect(on(page, "text-limits")).to_contain_text("5,999 of 5,000 characters")
    headers = {"Retry-After": "7"}
    refused = {"status": 429, "headers": headers, "json": {"error": "Too many requests are waiting."}}
    page.route("**/v1/inspect", lambda route: route.fulfill(**refused))
    on(page, "text").fill("d e")
    on(page, "text").press("Enter")
    playwright.expect(on(page, "status-translate")).to_contain_text("Try again in 7 seconds.")
