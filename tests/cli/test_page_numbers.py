"""The page with sounds, series and images, in a real browser in front of a stub of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.inspection.document import Inspection
from regard.inspection.page import FOLDER

from ..inspection.number_observations import OBSERVATIONS
from .test_page import CHROMIUM, on, playwright, pytestmark  # noqa: F401 - the marks
from .test_page_answers import AXE, PATIENCE

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
FORMS = {"sound": "audio", "speech": "audio", "series": "table", "image": "image"}
MICROPHONE = [
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
]
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000 3a7e9b55 0000000a49444154789c6360000000020001"
    "48afa471 0000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *MICROPHONE])
        yield browser
        browser.close()


def document(name: str) -> dict[str, Any]:
    """Return the inspection document of an observation."""
    return Inspection.of(
        OBSERVATIONS[name](), {"name": "one", "task": "some", "checkpoint": "best"}, "an input"
    ).document


class Stub:
    """A page of a model with one kind of input, and the requests that it sent."""

    def __init__(self, context: Any, name: str, *, inspects: bool = True) -> None:
        self.name, self.inspects, self.sent = name, inspects, list[dict[str, Any]]()
        self.complaints: list[str] = []
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console", lambda message: self.complaints.append(message.text) if message.type == "error" else None
        )
        self.page.route("http://localhost:9/**", self._answer)
        self.page.goto("http://localhost:9/")

    def _answer(self, route: Any) -> None:
        path = route.request.url.removeprefix("http://localhost:9/").partition("#")[0]
        if path == "v1/models":
            models = [{"name": "one", "task": "some", "source": None, "target": None, "ready": True}]
            return route.fulfill(json={"data": models})
        if path == "v1/models/one":
            form = {"kind": FORMS[self.name], "boxes": [], "choices": []}
            limits = {"characters": 100, "file_bytes": 256 * 1024}
            details = {
                "name": "one",
                "checkpoints": ["best"],
                "checkpoint": "best",
                "task": "some",
                "takes": "a file",
                "gives": "a label",
            }
            return route.fulfill(
                json=details
                | {
                    "input": form,
                    "limits": limits,
                    "parts": [],
                    "curves": [],
                    "inspects": self.inspects,
                    "examples": [],
                }
            )
        if path == "v1/predict":
            words = document(self.name)["facts"]["words"]
            return route.fulfill(json={"outputs": [{"text": "seven point one", "words": words}], "model": "one"})
        if path == "v1/inspect":
            self.sent.append(json.loads(route.request.post_data))
            return route.fulfill(json=document(self.name))
        file = FOLDER / (path or "index.html")
        if not file.is_file():
            return route.fulfill(status=204)
        return route.fulfill(body=file.read_bytes(), content_type=TYPES[file.suffix])

    def line(self) -> Any:
        """Return the contents of the first request."""
        return json.loads(self.sent[0]["text"])


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """A function that opens the page of a model; an error of the page fails the test."""
    stubs: list[Stub] = []
    contexts: list[Any] = []

    def open(name: str, width: int = 1200, *, inspects: bool = True) -> Stub:
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, bypass_csp=True))
        stubs.append(Stub(contexts[-1], name, inspects=inspects))
        playwright.expect(on(stubs[-1].page, f"drop-{FORMS[name]}")).to_be_visible(timeout=PATIENCE)
        return stubs[-1]

    yield open
    for context in contexts:
        context.close()
    assert [complaint for stub in stubs for complaint in stub.complaints] == []


def wav(seconds: float = 1.2) -> bytes:
    """Return a sound of silence as WAV."""
    samples = np.zeros(int(8000 * seconds), "<i2").tobytes()
    sizes = [(36 + len(samples)).to_bytes(4, "little"), len(samples).to_bytes(4, "little")]
    form = np.array([1, 0x10001, 8000, 16000, 0x100002], "<u4").tobytes()
    return b"RIFF" + sizes[0] + b"WAVEfmt \x10\0\0\0" + form[4:] + b"data" + sizes[1] + samples


def choose(stub: Stub) -> None:
    """Give the page an input of its kind."""
    if FORMS[stub.name] == "table":
        on(stub.page, "text").fill("date,load\n2018-01-01,2\n2018-01-02,3\n")
        on(stub.page, "text").press("Enter")
    else:
        kind, contents = {"audio": ("a.wav", wav()), "image": ("a.png", PIXEL)}[FORMS[stub.name]]
        on(stub.page, "text").set_input_files(
            {"name": kind, "mimeType": "application/octet-stream", "buffer": contents}
        )
    playwright.expect(on(stub.page, "numbers-0")).to_be_visible(timeout=PATIENCE)


@pytest.mark.parametrize("name", OBSERVATIONS)
@pytest.mark.parametrize(("width", "theme"), [(360, "dark"), (1200, "light")])
def test_an_input_is_drawn_and_accessible(name: str, width: int, theme: str, opened: Any) -> None:
    stub = opened(name, width)
    choose(stub)
    page = stub.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert on(page, "section-links").count() == on(page, "section-aligned").count() == 0  # hundreds of pieces as text
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: scripts/page installs it")
    page.add_script_tag(path=str(AXE))
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    faults = page.evaluate("axe.run().then(({violations}) => violations.map(v => `${v.id}: ${v.nodes[0].html}`))")
    assert faults == []


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_the_keyboard_chooses_a_position(name: str, opened: Any) -> None:
    stub = opened(name)
    choose(stub)
    page, slider = stub.page, on(stub.page, "why-numbers-0")
    playwright.expect(slider).to_be_visible(timeout=PATIENCE)
    slider.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuenow") == "2"
    assert slider.get_attribute("aria-valuetext") == on(page, "why-numbers-0-value").inner_text()
    assert "position=1" in page.url
    playwright.expect(on(page, "why-numbers-0-value")).to_contain_text("influence")
    page.keyboard.press("Escape")
    assert "position=" not in page.url


def test_attention_of_ranges_of_frames_is_over_their_frames(opened: Any) -> None:
    stub = opened("sound")
    choose(stub)
    on(stub.page, "strip-attention").check()
    bars = stub.page.locator("#why svg rect.for")
    assert bars.count() == 30  # one for each range of four frames


def test_a_click_chooses_a_patch(opened: Any) -> None:
    stub = opened("image")
    choose(stub)
    drawing = on(stub.page, "numbers-0")
    box = drawing.bounding_box()
    drawing.click(position={"x": 0.9 * 320, "y": 0.9 * 320})
    assert box is not None
    playwright.expect(on(stub.page, "numbers-0-value")).to_contain_text("row 4, column 4")


def test_words_are_below_the_sound_and_play_it(opened: Any) -> None:
    stub = opened("speech")
    choose(stub)
    playwright.expect(on(stub.page, "written")).to_have_text("seven point one")
    word = on(stub.page, "word-1").first
    assert word.get_attribute("aria-label") == "point, 0.62 to 0.70 seconds; play from here"
    word.click()
    playwright.expect(on(stub.page, "stop-sound").first).to_be_visible()
    playwright.expect(on(stub.page, "stop-sound")).to_have_count(0, timeout=5_000)  # it ends with the sound
    on(stub.page, "output-piece-2").click()
    playwright.expect(on(stub.page, "influence-of")).to_have_text("one")


def test_words_of_a_model_without_inspection_play_the_sound(opened: Any) -> None:
    stub = opened("speech", inspects=False)
    on(stub.page, "text").set_input_files({"name": "a.wav", "mimeType": "audio/wav", "buffer": wav()})
    on(stub.page, "predict").click()
    playwright.expect(on(stub.page, "output")).to_have_text("seven point one", timeout=PATIENCE)
    on(stub.page, "heard-words").locator("button").nth(1).click()
    playwright.expect(on(stub.page, "stop-words")).to_be_visible()
    playwright.expect(on(stub.page, "stop-words")).to_have_count(0, timeout=5_000)


def test_the_forecast_is_a_picture_and_numbers(opened: Any) -> None:
    stub = opened("series")
    choose(stub)
    page = stub.page
    assert stub.line() == {"table": "date,load\n2018-01-01,2\n2018-01-02,3\n"}
    playwright.expect(on(page, "table-size")).to_have_text("2 rows, 2 columns.")
    assert page.locator("#answer svg path.band").count() == page.locator("#answer svg path.forecast").count() == 2
    assert "NaN" not in page.locator("#answer svg").inner_html()
    on(page, "channel").first.select_option("load 2")
    assert page.locator("#answer svg path.band").count() == 1 and "series=load" in page.url
    on(page, "forecast-table").locator("summary").click()
    assert on(page, "forecast-table").locator("tbody tr").count() == 24


def test_the_microphone_is_recorded_as_wav(opened: Any) -> None:
    stub = opened("sound")
    page = stub.page
    on(page, "record").click()
    playwright.expect(on(page, "level")).to_be_visible(timeout=PATIENCE)
    page.wait_for_timeout(400)
    on(page, "record").click()
    playwright.expect(on(page, "numbers-0")).to_be_visible(timeout=PATIENCE)
    sound = stub.line()["audio"]
    assert sound.startswith("UklGR")  # RIFF
    playwright.expect(on(page, "file-name")).to_contain_text("The recording")


def test_a_drawing_is_sent_as_png(opened: Any) -> None:
    stub = opened("image")
    page = stub.page
    on(page, "sketch").locator("summary").click()
    canvas = on(page, "sketch-canvas")
    canvas.scroll_into_view_if_needed()
    playwright.expect(on(page, "sketch-use")).to_be_disabled()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 150)
    page.mouse.up()
    on(page, "sketch-use").click()
    playwright.expect(on(page, "numbers-0")).to_be_visible(timeout=PATIENCE)
    assert stub.line()["image"].startswith("iVBORw0KGgo")
    playwright.expect(on(page, "image-preview")).to_be_visible()


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(opened: Any) -> None:
    stub = opened("sound")
    on(stub.page, "text").set_input_files({"name": "long.wav", "mimeType": "audio/wav", "buffer": bytes(300_000)})
    playwright.expect(on(stub.page, "input-problem")).to_contain_text("long.wav is too large: it has 293 KiB")
    assert stub.sent == []


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_a_saved_page_shows_the_same_drawing(name: str, browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    model = {"name": "one", "task": "some", "checkpoint": "best"}
    Inspection.of(OBSERVATIONS[name](), model, "an input").save(file)
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(file.as_uri())
    playwright.expect(on(page, "numbers-0")).to_be_visible(timeout=PATIENCE)
    assert page.locator("#answer svg").bounding_box()["height"] > 60
    if name == "speech":
        assert "play" not in on(page, "word-0").first.get_attribute("aria-label")  # without the sound
    page.close()
    assert complaints == []
