"""The page of every task in a real browser: the input and the answer are visible without a click, and by keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from regard.commands.server_plan import ServerPlan
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.server.batching.metrics import ServerMetrics
from regard.testing import TaskCase

from ..server.conftest import serving
from .test_page import _complaint, browser, on, playwright, pytestmark  # noqa: F401 - the browser, a fixture; and marks

RING = json.dumps({"edges": [[0, 1], [1, 2], [2, 0]], "features": [[-1.5], [1.5], [-0.5]]})
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
}
OTHERS = [name for name in TASKS if name != "translation"]  # its page has tests of its own


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve a run of six updates of every task; the cases remove their folders at the end."""
    cases = {name: TaskCase(find_task(name), name) for name in TASKS}
    runs: list[tuple[str, Path]] = [(name, case.undisturbed[0].path) for name, case in cases.items()]
    plan = ServerPlan([f"{name}={path}" for name, path in runs], "127.0.0.1", 0)
    with serving(plan.models(ServerMetrics()).all, seconds=60) as (port, _):
        yield f"http://127.0.0.1:{port}"


def test_every_task_has_an_input() -> None:
    assert INPUTS.keys() == TASKS.keys()


@pytest.mark.parametrize("task", OTHERS)
def test_the_answer_is_visible_without_a_click(task: str, browser: Any, address: str) -> None:  # noqa: F811
    text, visible = INPUTS[task]
    found = httpx.post(f"{address}/v1/inspect", json={"text": text, "model": task}, timeout=60).json()
    predictions = [each for each in found["predictions"] if each["at"]["kind"] != "after"] or found["predictions"][-1:]
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page, told = context.new_page(), list[str]()
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("console", lambda message: told.append(message.text) if _complaint(message) else None)
    page.goto(f"{address}/#model={task}")
    playwright.expect(on(page, "model")).to_have_value(task, timeout=60_000)
    assert "`" not in on(page, "direction").inner_text(), "developer's words"
    on(page, "text").fill(text)
    page.keyboard.press("Enter")
    answer = on(page, "section-text" if task == "language-model" else "section-answer")
    playwright.expect(answer).to_be_visible(timeout=60_000)
    playwright.expect(answer).to_contain_text(visible)
    if task != "language-model":  # the text itself is what it expects
        for prediction in predictions[: 1 if task == "nodes" else None]:
            label = answer.get_by_text(prediction["label"], exact=True).first
            playwright.expect(label).to_be_visible()
        written = answer.inner_text()
        assert not any(word in written for word in ("perplexity", "likeli", "{", "<s>"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200
    context.close()
    assert told == []


def test_tags_and_gaps_show_their_other_answers_by_keyboard(browser: Any, address: str) -> None:  # noqa: F811
    page = browser.new_page()
    for task, place in (("tagging", 1), ("masked", None)):
        page.goto("about:blank")
        page.goto(f"{address}/#model={task}")
        playwright.expect(on(page, "model")).to_have_value(task, timeout=60_000)
        on(page, "text").fill(INPUTS[task][0])
        page.keyboard.press("Enter")
        pieces = on(page, "section-answer").locator("button[data-testid^=piece-]")
        playwright.expect(pieces.first).to_be_visible(timeout=60_000)
        piece = pieces.nth(place or 0)
        piece.focus()
        page.keyboard.press("Enter")
        playwright.expect(piece).to_have_attribute("aria-pressed", "true")
        assert on(page, "alternatives").locator("li").count() >= 2
        page.keyboard.press("Enter")
        playwright.expect(on(page, "alternatives")).to_have_count(0)
    page.close()


@pytest.mark.parametrize("task", OTHERS)
def test_what_counts_for_the_answer(task: str, browser: Any, address: str) -> None:  # noqa: F811
    """The page shows the numbers of ``regard inspect --influence``; a tag that is chosen has its own."""
    text = INPUTS[task][0]
    asked = {"text": text, "model": task, "include": ["influence"]}
    found = httpx.post(f"{address}/v1/inspect", json=asked, timeout=60).json()
    page = browser.new_page()
    page.goto(f"{address}/#model={task}")
    playwright.expect(on(page, "model")).to_have_value(task, timeout=60_000)
    on(page, "text").fill(text)
    page.keyboard.press("Enter")
    playwright.expect(on(page, "explain")).to_be_visible(timeout=60_000)
    on(page, "explain").click()
    playwright.expect(on(page, "influences")).to_be_visible(timeout=60_000)
    after = found["predictions"][0]["at"]["kind"] == "after"
    places = {"tagging": [0, 1]}.get(task, [-1 if after else 0])
    for place in places:
        if place > 0:
            on(page, f"piece-{place}").click()
        influence = found["influences"][place]
        label = found["predictions"][influence["prediction"]]["label"]
        playwright.expect(on(page, "influence-of")).to_have_text(label)
        pieces = found["surfaces"][influence["surface"]]["pieces"]
        largest = max(range(len(pieces)), key=lambda index: abs(influence["values"][index]))
        value = influence["values"][largest]
        if not value:
            continue
        shown = f"{pieces[largest].strip()} {value:+.2f} nats".replace("-", "−")
        playwright.expect(on(page, "strongest").locator("li").first).to_have_text(shown)
    page.close()
