"""Characters that a model never saw, and languages that it is not sure of: said in each dialect."""

from __future__ import annotations

from typing import Any

import deepl
import httpx
import pytest

from regard.server.batching.jobs import Limits
from regard.server.batching.served import ServedModel
from regard.server.text.languages import LanguageIdentifier

from ..inspection.models import translator
from .conftest import serving
from .copying import capitals


def post(url: str, **options: Any) -> httpx.Response:
    return httpx.post(url, timeout=60, **options)


def of_words() -> ServedModel:
    """It knows the words a to h."""
    model = translator()
    return ServedModel(
        "words",
        task="translation",
        serves={"translate"},
        load_predictor=lambda: model,
        settings=model.search,
        source="en",
        target="de",
        limits=Limits(),
        threads=1,
    )


def test_what_was_never_seen_is_counted_and_said() -> None:
    with serving([of_words()]) as (port, _):
        url = f"http://127.0.0.1:{port}"
        texts = ["a é b. é ♞ c", "a b"]
        found = post(f"{url}/v1/translate", json={"text": texts}).json()["translations"]
        assert [each["unknown"] for each in found] == [{"é": 1, "b.": 1} | {"é": 2, "♞": 1}, {}]
        answer = post(f"{url}/translate", json={"q": texts, "source": "en", "target": "de"})
        assert answer.headers["regard-unknown"] == "%C3%A9=2, b.=1, %E2%99%9E=1"
        answer = post(f"{url}/v2/translate", json={"text": texts, "target_lang": "DE", "source_lang": "EN"})
        assert answer.headers["regard-unknown"].startswith("%C3%A9=2")
        known = post(f"{url}/translate", json={"q": "a b", "source": "en", "target": "de"})
        assert not {"regard-unknown", "regard-uncertain"} & set(known.headers)


def test_a_language_that_is_not_sure_is_said_and_the_text_translated() -> None:
    with serving([capitals("one", "en", "fr")[0], capitals("two", "de", "fr")[0]]) as (port, _):
        url = f"http://127.0.0.1:{port}"
        for text, uncertain in (("ok", True), ("Der Hund läuft über die Wiese.", False)):
            (detected, *_) = post(f"{url}/detect", json={"q": text}).json()
            assert detected.get("uncertain", False) == uncertain and (detected["confidence"] < 75) == uncertain
            (own,) = post(f"{url}/v1/translate", json={"text": text, "target": "fr"}).json()["translations"]
            assert own["text"] == text.upper() and own["detected"]["uncertain"] == uncertain
            answer = post(f"{url}/translate", json={"q": text, "source": "auto", "target": "fr"})
            assert answer.json()["detectedLanguage"].get("uncertain", False) == uncertain
            assert ("regard-uncertain" in answer.headers) == uncertain
            body: dict[str, Any] = {"text": [text], "target_lang": "FR"}
            answer = post(f"{url}/v2/translate", json=body)
            assert ("regard-uncertain" in answer.headers) == uncertain
        given = post(f"{url}/v1/translate", json={"text": "ok", "source": "en", "target": "fr"}).json()
        assert given["translations"][0]["detected"] is None
        client = deepl.DeepLClient("a key", server_url=url)
        assert client.translate_text("ok", target_lang="FR").text == "OK"


@pytest.mark.parametrize(
    ("text", "uncertain"),
    [("Hi", True), ("12345", True), ("日本語", True), ("A dog runs.", False), ("Der Hund läuft.", False)],
)
def test_a_text_of_a_word_or_in_another_script_is_uncertain(text: str, uncertain: bool) -> None:
    assert LanguageIdentifier(["en", "de"])(text)[0].uncertain == uncertain
