"""Take the pictures of the page again, in Chromium.

Run these commands:

    regard study pronoun --seed 4 --out runs/studies-4
    regard serve m30k=runs/multi30k gru=runs/multi30k-gru pronoun=runs/studies-4/pronoun/run --port 5055
    .venv/bin/python docs/pictures/make.py http://127.0.0.1:5055
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import expect, sync_playwright

FOLDER = Path(__file__).parent
LADDER = "A man in a blue shirt is standing on a ladder cleaning a window."
ANIMAL = "the animal did not cross the street because it was too tired"


def main(url: str) -> None:
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def take(
            name: str, show: Callable[[Any], None], *, width: int = 1100, height: int = 760, dark: bool = False
        ) -> None:
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
            )
            page = context.new_page()
            page.goto(url)
            show(page)
            page.mouse.move(0, 0)
            page.wait_for_timeout(500)
            page.screenshot(path=FOLDER / f"{name}.png")
            context.close()

        take("page", ladder)
        take("page-dark", ladder, dark=True)
        take("page-narrow", ladder, width=360, height=740)
        take("cell", cell, height=900)
        take("pronoun", pronoun)
        take("compare", compare, height=700)
        take("beam", beam, height=620)
        browser.close()


def ladder(page: Any) -> None:
    translate(page, LADDER)
    page.get_by_test_id("aligned-query-7").click()


def cell(page: Any) -> None:
    translate(page, LADDER)
    heat_map = page.get_by_test_id("heatmap").first
    heat_map.focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_test_id("energy")).to_be_visible()
    show_section(page, "cell")


def pronoun(page: Any) -> None:
    page.get_by_test_id("model").select_option("pronoun")
    translate(page, ANIMAL)
    click(page, "tab-encoder")
    click(page, "head-encoder.1.self-2")
    page.get_by_test_id("aligned-query-8").click()
    show_section(page, "aligned")


def compare(page: Any) -> None:
    translate(page, "two dogs are playing in the snow .")
    page.get_by_test_id("compare-model").select_option("gru")
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
