"""The law of pages: every task of the task table, served and driven in a real browser.

The input and the answer are visible without a click, an example runs by one click, and the keyboard alone gets an
answer. The page has no JSON and no perplexity of anything but tokens. It fits a phone, and a saved page shows the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from regard.commands.server_plan import ServerPlan
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.inspection.page import offline
from regard.server.batching.metrics import ServerMetrics
from regard.testing import TaskCase

from ..server.conftest import serving
from ..svg_faults import svg_faults
from .test_page import _complaint, browser, click, on, playwright, pytestmark  # noqa: F401 - the browser, a fixture; and marks

RING = json.dumps({"edges": [[0, 1], [1, 2], [2, 0]], "features": [[-1.5], [1.5], [-0.5]]})
TABLE = "date,load,heat\n" + "".join(f"2020-01-01 {hour:02d}:00:00,{hour % 4},{3 - hour % 4}\n" for hour in range(12))
INPUTS = {  # an input of each task, and the part of it that the page shows as it is
    "nodes": ("n1", "n1"),
    "links": ("n0\tn1", "n0 – n1"),
    "graphs": (RING, "a graph of 3 nodes and 3 edges"),
    "tagging": ("the dog sees a cat", "dog"),
    "next-item": ("i1 i2 i3", "i1 i2 i3"),
    "classification": ("fine a film", "fine a film"),
    "translation": ("a b c", "a"),
    "language-model": ("the", "the"),
    "masked": ("the ___ sat", "sat"),
    "forecasting": (json.dumps({"table": TABLE}), "load"),
    "recognition": (find_task("recognition").sample_lines[0], "channel 1"),
}
LONG = {  # 100 words with a line break, where the tiny model reads as many
    "tagging": " ".join(["the dog"] * 50),
    "classification": "fine film\n" + " ".join(["fine film"] * 49),
    "masked": "the\n___ sat",
}
UNKNOWN = {  # an input with a part that the model does not know; a graph has none
    "nodes": "✗", "links": "n0 ✗", "tagging": "the ✗ sees", "next-item": "i1 ✗", "classification": "fine ✗",
    "translation": "a ✗ b", "language-model": "the ✗", "masked": "the ___ ✗",
}  # fmt: skip
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 30_000  # milliseconds


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve a run of six updates of every task; the cases remove their folders at the end."""
    cases = {name: TaskCase(find_task(name), name) for name in TASKS}
    runs: list[tuple[str, Path]] = [(name, case.undisturbed[0].path) for name, case in cases.items()]
    plan = ServerPlan([f"{name}={path}" for name, path in runs], "127.0.0.1", 0)
    with serving(plan.models(ServerMetrics()).all, seconds=60, requests_per_minute=10_000) as (port, _):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:  # noqa: F811
    """A function that opens pages; a page error or a message of the console fails the test."""
    complaints: list[str] = []
    contexts: list[Any] = []

    def open(address: str, width: int = 1200, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, bypass_csp=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if _complaint(message) else None)
        page.goto(address)
        return page

    yield open
    for context in contexts:
        context.close()
    assert complaints == []


def _ready(page: Any, task: str) -> None:
    playwright.expect(on(page, "model")).to_have_value(task, timeout=PATIENCE)
    playwright.expect(on(page, "about-model")).to_be_visible(timeout=PATIENCE)


def _write(page: Any, text: str) -> None:
    """Replace the input. Names are chips, which have to be removed first."""
    if on(page, "clear-names").count():
        on(page, "clear-names").click()
    on(page, "text").fill(text)


def _answer(page: Any, task: str) -> Any:
    return on(page, "translation-output" if task == "translation" else "section-answer")


def _labels(address: str, task: str, text: str) -> list[str]:
    """Return the labels that the model predicts, in the order of the document."""
    found = httpx.post(f"{address}/v1/inspect", json={"text": text, "model": task}, timeout=60).json()
    if "text" in found["facts"]:  # written by the model
        return [found["facts"]["text"] or "(no text)"]
    if "search" in found:
        return [each for each in [found["search"]["output"]] if each]
    predictions = [each for each in found["predictions"] if each["at"]["kind"] != "after"] or found["predictions"][-1:]
    return [each["label"] for each in predictions[: 1 if task == "nodes" else None]]


def test_every_task_has_an_input() -> None:
    assert INPUTS.keys() == TASKS.keys()


@pytest.mark.parametrize("task", TASKS)
def test_one_click_runs_an_example(task: str, opened: Any, address: str) -> None:
    page = opened(f"{address}/#model={task}")
    _ready(page, task)
    about = on(page, "about-model").inner_text()
    assert about.endswith(".") and not re.search(r"[`{]|\bread\b", about)
    example = httpx.get(f"{address}/v1/models/{task}", timeout=60).json()["examples"][0]
    on(page, "example-0").click()
    playwright.expect(_answer(page, task)).to_be_visible(timeout=PATIENCE)
    if task != "language-model":
        for label in _labels(address, task, example)[:3]:
            playwright.expect(_answer(page, task)).to_contain_text(label.strip() or "␣")


@pytest.mark.parametrize("task", TASKS)
def test_the_keyboard_alone_gets_an_answer(task: str, opened: Any, address: str, tmp_path: Path) -> None:
    text, visible = INPUTS[task]
    page = opened(f"{address}/#model={task}")
    _ready(page, task)
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.dataset.testid") != "text":
        page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
    page.keyboard.press("Enter")
    answer = _answer(page, task)
    playwright.expect(answer).to_be_visible(timeout=PATIENCE)
    if task != "translation":
        playwright.expect(answer).to_contain_text(visible)
    for label in [] if task == "language-model" else _labels(address, task, text):
        playwright.expect(answer).to_contain_text(label.strip() or "␣")
    written = page.locator("main").inner_text()
    assert "perplexity" in on(page, "section-answer").inner_text() if task == "language-model" else True
    assert task == "language-model" or "perplexity" not in written.split("Training")[0]
    answered = re.split("Enter (?:continues|predicts|translates)", written.split("\nTraining\n")[0])[1]
    assert not any(sign in answered for sign in ('{"', '":', "[["))
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200
    playwright.expect(on(page, "influence-of")).to_be_visible(timeout=PATIENCE)
    _saved_page_shows_the_same(page, opened, task, visible, tmp_path)


def _saved_page_shows_the_same(page: Any, opened: Any, task: str, visible: str, folder: Path) -> None:
    """The HTML file has the input, the answer and the influence, without a server."""
    with page.expect_download() as download:
        on(page, "export-html").click()
    path = folder / "page.html"
    download.value.save_as(path)
    saved = opened(path.as_uri())
    answer = _answer(saved, task)
    playwright.expect(answer).to_be_visible(timeout=PATIENCE)
    playwright.expect(saved.locator("main")).to_contain_text(visible)
    playwright.expect(on(saved, "influence-of")).to_have_text(on(page, "influence-of").inner_text())


@pytest.mark.parametrize("task", TASKS)
def test_a_phone_in_the_dark(task: str, opened: Any, address: str) -> None:
    text = LONG.get(task, INPUTS[task][0])
    page = opened(f"{address}/#model={task}", 360, color_scheme="dark", reduced_motion="reduce")
    _ready(page, task)
    _write(page, text)
    page.keyboard.press("Enter")
    answer = _answer(page, task)
    playwright.expect(answer).to_be_visible(timeout=PATIENCE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    if task in LONG:  # a line break and 100 words keep their order
        drawn = answer.locator("[data-testid=pieces], [data-testid=given-0]").first.inner_text().split()
        words = [word for word in text.split() if word != "___"]
        place = 0
        for word in words:
            place = drawn.index(word, place) + 1
    playwright.expect(on(page, "influence-of")).to_be_visible(timeout=PATIENCE)
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: scripts/page installs it")
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa']})")
    serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == []


@pytest.mark.parametrize("task", TASKS)
def test_an_earlier_checkpoint_side_by_side(task: str, opened: Any, address: str) -> None:
    page = opened(f"{address}/#model={task}")
    _ready(page, task)
    playwright.expect(on(page, "influence-of")).to_be_visible(timeout=PATIENCE)  # of the first example
    on(page, "compare-load").click()
    playwright.expect(on(page, "difference")).to_have_text(
        re.compile(r"^(Both outputs are the same\.|The outputs differ first at .+\.)$"), timeout=PATIENCE
    )
    assert on(page, "compare-left").locator("h3").inner_text() != on(page, "compare-right").locator("h3").inner_text()


@pytest.mark.parametrize("task", UNKNOWN)
def test_an_unknown_part_of_the_input_is_named(task: str, opened: Any, address: str) -> None:
    page = opened(f"{address}/#model={task}")
    _ready(page, task)
    _write(page, UNKNOWN[task])
    page.keyboard.press("Enter")
    notice = page.locator("[data-testid=unknown], .problem").filter(has_text=re.compile("✗|2717")).first
    playwright.expect(notice).to_be_visible(timeout=PATIENCE)


def test_tags_and_gaps_show_their_alternatives_by_keyboard(opened: Any, address: str) -> None:
    for task, place in (("tagging", 1), ("masked", 0)):
        page = opened(f"{address}/#model={task}")
        _ready(page, task)
        on(page, "text").fill(INPUTS[task][0])
        page.keyboard.press("Enter")
        pieces = on(page, "section-answer").locator("button[data-testid^=piece-]")
        playwright.expect(pieces.first).to_be_visible(timeout=PATIENCE)
        piece = pieces.nth(place)
        piece.focus()
        page.keyboard.press("Enter")
        playwright.expect(piece).to_have_attribute("aria-pressed", "true")
        assert on(page, "alternatives").locator("li").count() >= 2
        page.keyboard.press("Enter")
        playwright.expect(on(page, "alternatives")).to_have_count(0)


@pytest.mark.parametrize("task", [name for name in TASKS if name != "translation"])
def test_the_influence_is_that_of_the_document(task: str, opened: Any, address: str) -> None:
    """The page shows the numbers of ``regard inspect --influence``; a chosen tag has its own."""
    text = INPUTS[task][0]
    asked = {"text": text.replace("\t", " "), "model": task, "include": ["influence"]}
    found = httpx.post(f"{address}/v1/inspect", json=asked, timeout=60).json()
    page = opened(f"{address}/#model={task}")
    _ready(page, task)
    _write(page, text.replace("\t", " "))
    page.keyboard.press("Enter")
    playwright.expect(on(page, "influence-of")).to_be_visible(timeout=PATIENCE)
    after = found["predictions"][0]["at"]["kind"] == "after"
    for place in {"tagging": [0, 1]}.get(task, [-1 if after else 0]):
        if place > 0:
            on(page, f"piece-{place}").click()
        influence = found["influences"][place]
        label = found["predictions"][influence["prediction"]]["label"]
        playwright.expect(on(page, "influence-of")).to_have_text(label.strip() or "␣")
        pieces = found["surfaces"][influence["surface"]]["pieces"]
        largest = max(range(len(pieces)), key=lambda index: abs(influence["values"][index]))
        if abs(value := influence["values"][largest]) >= 0.005:
            unit = "" if found["predictions"][place]["kind"] == "series" else " nats"
            seconds = " s" if found["surfaces"][influence["surface"]]["kind"] == "frames" else ""
            shown = f"{pieces[largest].strip() or '␣'}{seconds} " + f"{value:+.2f}{unit}".replace("-", "−")
            playwright.expect(on(page, "strongest").locator("li").first).to_have_text(shown)


def test_sampling_moves_the_bars_of_the_next_token(opened: Any, address: str) -> None:
    page = opened(f"{address}/#model=language-model")
    _ready(page, "language-model")
    on(page, "text").fill("the")
    page.keyboard.press("Enter")
    bars = on(page, "next-bars").locator("li")
    playwright.expect(bars.first).to_be_visible(timeout=PATIENCE)
    assert bars.count() > 3
    on(page, "slider-top_k").evaluate("slider => { slider.value = 2; slider.dispatchEvent(new Event('input')); }")
    playwright.expect(bars).to_have_count(2, timeout=PATIENCE)
    asked = {"text": "the", "model": "language-model", "settings": {"top_k": 2}}
    expected = httpx.post(f"{address}/v1/inspect", json=asked, timeout=60).json()["next"]
    first = on(page, "next-0").inner_text()
    assert first == (expected[0]["label"].strip() or "␣")
    on(page, "next-0").click()
    playwright.expect(on(page, "text")).to_have_value("the" + expected[0]["label"])


def test_a_link_carries_the_view(opened: Any, address: str) -> None:
    page = opened(f"{address}/#model=tagging")
    _ready(page, "tagging")
    on(page, "text").fill(INPUTS["tagging"][0])
    page.keyboard.press("Enter")
    on(page, "piece-2").click(timeout=PATIENCE)
    on(page, "head-encoder.0.self-1").click()
    on(page, "strip-attention").click()
    on(page, "aligned-key-1").focus()
    page.keyboard.press("Enter")
    playwright.expect(on(page, "aligned-key-1")).to_have_attribute("aria-pressed", "true")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    click(page, "export-link")
    playwright.expect(page.get_by_text("Link copied.")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.evaluate("location.href") and "lock=key" in link
    other = opened(link)
    playwright.expect(on(other, "piece-2")).to_have_attribute("aria-pressed", "true", timeout=PATIENCE)
    playwright.expect(on(other, "heatmap-name")).to_have_text("encoder.0.self, head 1")
    playwright.expect(on(other, "strip-attention")).to_be_checked()
    playwright.expect(on(other, "aligned-key-1")).to_have_attribute("aria-pressed", "true")


def test_settings_of_an_inspected_translation_are_refused(address: str) -> None:
    asked = {"text": "a", "model": "translation", "settings": {}}
    answer = httpx.post(f"{address}/v1/inspect", json=asked, timeout=60)
    assert answer.status_code == 400 and "settings" in answer.json()["error"]


@pytest.mark.parametrize("task", ["classification", "language-model", "tagging", "translation"])
def test_the_drawings_of_the_page_have_no_fault(
    task: str,
    opened: Any,
    browser: Any,  # noqa: F811
    address: str,
    tmp_path: Path,
) -> None:
    page = opened(f"{address}/#model={task}")
    _ready(page, task)
    playwright.expect(on(page, "influence-of")).to_be_visible(timeout=PATIENCE)  # of the first example
    for name in ("strip", "aligned", "heatmap"):
        with page.expect_download() as download:
            on(page, f"export-{name}-svg").click()
        download.value.save_as(tmp_path / f"{name}.svg")
        assert svg_faults(browser, (tmp_path / f"{name}.svg").read_text(encoding="utf-8")) == [], name


def test_a_file_of_python_has_the_input(opened: Any, address: str, tmp_path: Path) -> None:
    """The page of ``regard inspect --html``, which carries the document only."""
    for task in ("classification", "graphs", "links"):
        text, visible = INPUTS[task]
        document = httpx.post(
            f"{address}/v1/inspect", json={"text": text.replace("\t", " "), "model": task}, timeout=60
        ).json()
        path = tmp_path / f"{task}.html"
        path.write_text(offline({"main": document}), encoding="utf-8")
        page = opened(path.as_uri())
        playwright.expect(on(page, "section-answer")).to_contain_text(visible, timeout=PATIENCE)
        playwright.expect(on(page, "section-answer")).to_contain_text(document["predictions"][0]["label"])
