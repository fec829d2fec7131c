"""Which of several models answers, by the languages asked for: in each dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import deepl
import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from regard.server.api_error import ApiError
from regard.server.batching.models import ModelRegistry
from regard.server.text.languages import match_language

from .conftest import serving
from .copying import capitals


def post(url: str, **options: Any) -> httpx.Response:
    return httpx.post(url, timeout=60, **options)


def says(mark: str) -> Any:
    """A model whose outputs tell that it was asked."""
    return lambda line: f"{mark}: {line}"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The model without languages comes first: it was asked for all that the others are for."""
    models = [
        capitals("words", None, None, says("words")), capitals("en-de", "en", "de", says("de")),
        capitals("de-en", "de", "en", says("en")), capitals("en-pt", "en", "pt-BR", says("pt-BR")),
        capitals("en-pt2", "en", "pt-PT", says("pt-PT")),
    ]  # fmt: skip
    with serving([model for model, _ in models]) as (port, _):
        yield f"http://127.0.0.1:{port}"


GERMAN, ENGLISH = "Der Hund läuft über die grüne Wiese.", "The dog runs across the green meadow."


@pytest.mark.parametrize(
    ("text", "source", "target", "mark"),
    [
        (ENGLISH, "en", "de", "de"),
        (GERMAN, "de", "en", "en"),
        (ENGLISH, "en-GB", "de-AT", "de"),
        (ENGLISH, "en", "pt-PT", "pt-PT"),
        (ENGLISH, "en", "pt-BR", "pt-BR"),
        (ENGLISH, "auto", "de", "de"),
        (GERMAN, "auto", "en", "en"),
        (ENGLISH, "auto", "pt-PT", "pt-PT"),
    ],
)
def test_each_dialect_asks_the_model_of_these_languages(
    url: str, text: str, source: str, target: str, mark: str
) -> None:
    wanted = f"{mark}: {text}"
    assert LibreTranslateAPI(f"{url}/").translate(text, source, target) == wanted
    found = post(f"{url}/v1/translate", json={"text": text, "source": source, "target": target}).json()
    assert found["translations"][0]["text"] == wanted
    client = deepl.DeepLClient("a key", server_url=url)
    regional = {"en": "en-GB", "pt": "pt-BR"}.get(target, target).upper()
    known = None if source == "auto" else source.partition("-")[0].upper()
    assert client.translate_text(text, source_lang=known, target_lang=regional).text == wanted


@pytest.mark.parametrize(("source", "target"), [("de", "pt-PT"), ("en", "fr"), ("fr", "de"), ("auto", "fr")])
def test_a_pair_that_no_model_does_is_an_error_in_each_dialects_shape(url: str, source: str, target: str) -> None:
    body = {"source": source, "target": target}
    answers = [
        (post(f"{url}/v1/translate", json={"text": ENGLISH} | body), "error"),
        (post(f"{url}/translate", data={"q": ENGLISH} | body), "error"),
        (
            post(
                f"{url}/v2/translate",
                json={"text": [ENGLISH], "target_lang": target} | ({"source_lang": source} if source != "auto" else {}),
            ),
            "message",
        ),
    ]
    for answer, key in answers:
        assert answer.status_code == 400 and answer.json().keys() == {key}
        told = answer.json()[key]
        assert f"to {target} is not supported" in told and "en to de" in told and "set model to: words" in told


def test_a_model_without_languages_is_asked_by_name_or_as_und(url: str) -> None:
    found = post(f"{url}/v1/translate", json={"text": "a", "model": "words"}).json()
    assert found["translations"][0]["text"] == "words: a"
    assert LibreTranslateAPI(f"{url}/").translate("a", "und", "und") == "words: a"
    assert {each["code"] for each in httpx.get(f"{url}/languages").json()} == {"de", "en", "und"}
    open_request = post(f"{url}/v1/translate", json={"text": GERMAN}).json()["translations"][0]
    assert open_request["model"] == "de-en"


def test_of_several_without_languages_none_is_asked_unnamed() -> None:
    models = [capitals(name, None, None)[0] for name in ("a", "b")]
    with serving(models) as (port, _):
        url = f"http://127.0.0.1:{port}"
        answer = post(f"{url}/v1/translate", json={"text": "x"})
        assert answer.status_code == 400 and "set model to: a, b" in answer.json()["error"]
        assert post(f"{url}/v1/translate", json={"text": "x", "model": "b"}).status_code == 200


@pytest.mark.parametrize(
    ("language", "wanted", "well"),
    [
        ("en", "en", 3), ("en", "EN", 3), ("en_gb", "en-GB", 3), ("en", "en-GB", 2), ("en-US", "en-GB", 1),
        ("en-US", "en", 1), ("en", None, 0), (None, "en", 0), (None, "und", 3), ("en", "und", None),
        ("en", "de", None), ("zh-Hans", "zh", 1), ("zh", "zh-Hans", 2),
    ],
)  # fmt: skip
def test_how_well_a_language_fits(language: str | None, wanted: str | None, well: int | None) -> None:
    assert match_language(language, wanted) == well


def test_the_nearest_region_answers_and_a_model_of_one_side_comes_last() -> None:
    pairs = [("any-de", None, "de"), ("us", "en-US", "de"), ("plain", "en", "de"), ("gb", "en-GB", "de")]
    models = ModelRegistry([capitals(*each)[0] for each in pairs])
    asked = {"en-GB": "gb", "en-US": "us", "en": "plain", "en-AU": "plain", "fr": "any-de"}
    try:
        assert {source: models.for_languages(source, "de").name for source in asked} == asked
        with pytest.raises(ApiError):
            models.for_languages("en", "fr")
    finally:
        models.stop()


def test_of_several_models_without_languages_none_is_guessed() -> None:
    models = [capitals(name, None, None)[0] for name in ("first", "second")]
    with serving(models) as (port, _):
        answer = httpx.post(f"http://127.0.0.1:{port}/translate", json={"q": "a", "source": "und", "target": "und"})
        assert answer.status_code == 400 and "first, second" in answer.json()["error"]
        found = httpx.post(f"http://127.0.0.1:{port}/v1/translate", json={"text": "a", "model": "second"})
        assert found.status_code == 200
