"""Take the pictures of the page again, in Chromium: one of each task, and the parts of a translation.

Run these commands:

    REGARD_DATA=FOLDER .venv/bin/python docs/pictures/train.py runs/pictures
    regard study pronoun --seed 4 --out runs/studies-4
    regard serve runs/pictures/* pronoun=runs/studies-4/pronoun/run speech=runs/multi30k-spoken \\
        streaming=runs/multi30k-streaming --port 5055
    .venv/bin/python docs/pictures/make.py http://127.0.0.1:5055 runs/pictures-files/inputs

The models of speech and streams are those of the recipes ``multi30k-spoken`` and ``multi30k-streaming``. Pictures of
models that are not served are left as they are. ``taken.json`` notes the sources of the page that each picture shows.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from playwright.sync_api import expect, sync_playwright
from record import record

FOLDER = Path(__file__).parent
LADDER = "A man in a blue shirt is standing on a ladder cleaning a window."
ANIMAL = "the animal did not cross the street because it was too tired"
MAIL = "The budget meeting moves from Monday to Thursday at 10 . Please send your figures before Wednesday ."
TASKS = {  # an input for the model of each task; none is of the training data
    "sentiment": "a gorgeous , witty , seductive movie",
    "pairs": "A man is singing\tNobody is singing",
    "dna": "CAGCTGACCTGAAGTCCTTCAGGTAAGTCTTGAACCGTACCATGGCATTTGACCGATAAC",
    "tags": "The old man the boats .",
    "graphs": '{"edges": [[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 2], [4, 5], [5, 6], [6, 4], [6, 7]], "nodes": 8}',
    "nodes": "140",
    "links": "1187 1188",
    "items": "i3 i24 i5",
    "gaps": "the king is ___ and the queen is here",
    "characters": "ROMEO:\nO gentle",
    "summaries": MAIL,
    "chorales": "C3 G3 E4 C5\nD3 ___ F4 B4\nE3 ___ G4 C5\nF3 ___ A4 C5\nG3 D4 G4 B4\nC3 C4 E4 C5",
}


FILES = {"sounds": "sounds.wav", "images": "images.png", "speech": "speech.wav", "forecasts": "forecasts.csv"}


class Camera:
    """A browser that takes pictures of the page of a server."""

    def __init__(self, browser: Any, url: str) -> None:
        self.browser, self.url = browser, url

    def take(
        self, name: str, model: str, show: Callable[[Any], None], *, width: int = 1100, height: int = 760,
        dark: bool = False,
    ) -> None:  # fmt: skip
        """Take one picture, after ``show`` has prepared the page of a model."""
        scheme = "dark" if dark else "light"
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        page = context.new_page()
        page.goto(f"{self.url}/#model={model}")
        expect(page.get_by_test_id("model")).to_have_value(model, timeout=60_000)
        expect(page.get_by_test_id("about-model")).to_be_visible(timeout=60_000)
        show(page)
        page.mouse.move(0, 0)
        page.wait_for_timeout(700)
        page.screenshot(path=FOLDER / f"{name}.png")
        record(name)
        context.close()


def main(url: str, inputs: str) -> None:
    with urlopen(f"{url}/v1/models") as answer:
        served = {model["name"] for model in json.load(answer)["data"]}
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        camera = Camera(browser, url)
        for model, text in TASKS.items():
            if model in served:
                camera.take(f"task-{model}", model, answer_of(text), height=900)
        for model, file in FILES.items():
            if model in served:
                camera.take(f"task-{model}", model, answer_of_file(Path(inputs) / file), height=900)
        if "translation" in served:
            for name, size in (
                ("page", {}),
                ("page-dark", {"dark": True}),
                ("page-narrow", {"width": 360, "height": 740}),
            ):
                camera.take(name, "translation", ladder, **size)
            camera.take("cell", "translation", cell, height=900)
            camera.take("compare", "translation", compare, height=700)
            camera.take("beam", "translation", beam, height=620)
        if "streaming" in served:
            camera.take("stream", "streaming", stream, height=700)
        if "pronoun" in served:
            camera.take("pronoun", "pronoun", pronoun)
        browser.close()


def answer_of(text: str) -> Callable[[Any], None]:
    """Return a function that writes an input, waits for the influences, and shows the answer."""

    def show(page: Any) -> None:
        if page.get_by_test_id("clear-names").count():
            page.get_by_test_id("clear-names").click()
        for number, part in enumerate(text.split("\t")):
            page.get_by_test_id(f"text-{number}" if number else "text").fill(part)
        page.keyboard.press("Enter")
        page.wait_for_timeout(1500)  # the answer for the example is gone
        # A baseline alone has an output without influences.
        expect(page.locator("[data-testid=influence-of], [data-testid=output]").first).to_be_visible(timeout=120_000)
        shown = "answer" if page.locator("#answer-heading").count() else "translation"
        heading = page.locator(f"#{shown}-heading, #{shown}").first
        heading.evaluate("element => { element.scrollIntoView(); window.scrollBy(0, -60); }")

    return show


def answer_of_file(file: Path) -> Callable[[Any], None]:
    """Return a function that gives the page a file, waits for the answer, and shows it."""

    def show(page: Any) -> None:
        page.locator("input[type=file]").first.set_input_files(file)
        if page.get_by_test_id("numbers-0").count() == 0:
            page.keyboard.press("Enter")
        expect(page.get_by_test_id("numbers-0")).to_be_visible(timeout=120_000)
        page.wait_for_timeout(1500)

    return show


def stream(page: Any) -> None:
    translate(page, LADDER)
    page.get_by_test_id("stream-source").fill("")
    page.get_by_test_id("stream-source").press_sequentially("A man in a blue shirt is standing on a ladder ", delay=60)
    expect(page.get_by_test_id("delays")).to_be_visible(timeout=60_000)
    page.get_by_test_id("stream-source").evaluate("element => { element.scrollIntoView(); window.scrollBy(0, -120); }")


def ladder(page: Any) -> None:
    translate(page, LADDER)
    page.get_by_test_id("aligned-query-7").click()


def cell(page: Any) -> None:
    translate(page, LADDER)
    page.locator("[data-testid^='head-decoder'][data-testid$='-0']").first.evaluate("element => element.click()")
    heat_map = page.get_by_test_id("heatmap").first
    heat_map.focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_test_id("energy")).to_be_visible()
    show_section(page, "cell")


def pronoun(page: Any) -> None:
    translate(page, ANIMAL)
    click(page, "tab-encoder-self-attention")
    click(page, "head-encoder.1.self-2")
    page.get_by_test_id("aligned-query-8").click()
    show_section(page, "aligned")


def compare(page: Any) -> None:
    translate(page, "two dogs are playing in the snow .")
    checkpoints = page.get_by_test_id("compare-checkpoint")
    expect(checkpoints).to_be_visible(timeout=60_000)
    checkpoints.select_option(index=checkpoints.locator("option").count() - 1)
    click(page, "compare-load")
    expect(page.get_by_test_id("difference")).to_be_visible(timeout=60_000)
    show_section(page, "compare")


def beam(page: Any) -> None:
    translate(page, LADDER)
    show_section(page, "beam")


def translate(page: Any, text: str) -> None:
    page.get_by_test_id("text").fill(text)
    page.get_by_test_id("text").press("Enter")
    expect(page.get_by_test_id("beam-tree")).to_be_visible(timeout=60_000)


def click(page: Any, name: str) -> None:
    page.get_by_test_id(name).first.evaluate("element => element.click()")


def show_section(page: Any, name: str) -> None:
    page.locator(f"#{name}-heading").evaluate("element => { element.scrollIntoView(); window.scrollBy(0, -60); }")


if __name__ == "__main__":
    main(*sys.argv[1:])
