"""The microphone of the page against a server: words as they are spoken, and errors in words."""

from __future__ import annotations

import io
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..speech import RATE, trained
from ..speech_streams import sound
from .test_page import CHROMIUM, _complaint, on, playwright, pytestmark  # noqa: F401 - the marks
from .test_serve import serving

SPOKEN: list[str | float] = [0.3, "ab b a", 1.0, "c ab", 1.0]


def wav_file(path: Path) -> Path:
    """Write a sound that Chromium plays in a loop as its microphone."""
    contents = io.BytesIO()
    with wave.open(contents, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((sound(SPOKEN) * 32767).astype("<i2").tobytes())
    path.write_bytes(contents.getvalue())
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    file = wav_file(tmp_path_factory.mktemp("microphone") / "sound.wav")
    options = ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    options += [f"--use-file-for-fake-audio-capture={file}", "--autoplay-policy=no-user-gesture-required"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    run = trained(tmp_path_factory.mktemp("speech"), steps=200, decoder="none")
    with serving(f"speech={run.path}", "--threads", "1", "--timeout", "60") as (url, _):
        yield url


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    """Open; an error of the console fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page, errors = context.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if _complaint(message) else None)
    page.goto(url)
    playwright.expect(on(page, "listen")).to_be_visible(timeout=60_000)
    yield page
    context.close()
    assert errors == []


def test_words_appear_while_one_speaks(page: Any) -> None:
    expect = playwright.expect
    on(page, "listen").click()
    expect(on(page, "listen")).to_have_text("Stop", timeout=30_000)
    expect(on(page, "heard-seconds")).to_be_visible(timeout=60_000)
    expect(on(page, "committed")).to_contain_text("ab", timeout=60_000)
    expect(on(page, "listen-lag")).to_be_disabled()
    on(page, "listen").click()
    expect(on(page, "listen")).to_have_text("Listen to the microphone")
    expect(on(page, "unstable")).to_have_text("", timeout=30_000)
    expect(on(page, "delays").locator("tr").first).to_be_visible()
    assert on(page, "listen-problem").count() == 0


def test_a_refused_stream_is_explained_and_another_one_works(page: Any) -> None:
    expect = playwright.expect
    page.evaluate("sessionStorage.setItem('regard-key', 'x'.repeat(5000))")
    on(page, "listen").click()
    expect(on(page, "listen-problem")).to_contain_text("text message of more than", timeout=30_000)
    expect(on(page, "listen")).to_have_text("Listen to the microphone")
    page.evaluate("sessionStorage.removeItem('regard-key')")
    on(page, "listen-lag").fill("2")
    on(page, "listen-step").fill("0.3")
    on(page, "listen").click()
    expect(on(page, "heard-seconds")).to_be_visible(timeout=60_000)
    assert on(page, "listen-problem").count() == 0
    on(page, "listen").click()
