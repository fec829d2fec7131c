"""The clients that others have published, as they are, against this server."""

from __future__ import annotations

from collections.abc import Callable
from urllib.error import HTTPError

import deepl
import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from .conftest import Running

Serve = Callable[..., Running]


def test_libretranslates_client(serve: Serve) -> None:
    client = LibreTranslateAPI(f"{serve().url}/")
    assert client.translate("A dog runs. It barks.", "en", "de") == "A DOG RUNS. IT BARKS."
    assert client.translate("A dog runs.", "auto", "de") == "A DOG RUNS."
    assert client.detect("A dog runs.") == [{"confidence": 100, "language": "en"}]
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["de"]}]


def test_libretranslates_errors(serve: Serve) -> None:
    client = LibreTranslateAPI(f"{serve(characters=20).url}/")
    for arguments, code in ((("a", "en", "xx"), 400), (("a" * 21, "en", "de"), 400)):
        with pytest.raises(HTTPError) as caught:
            client.translate(*arguments)
        with caught.value as error:
            assert error.code == code and b'"error"' in error.read()


def test_libretranslates_forms(serve: Serve) -> None:
    """A list in JSON, one text in a form, fields in the query; alternatives and detection, each in its shape."""
    url = f"{serve().url}/translate"
    base = {"source": "auto", "target": "de"}
    found = httpx.post(url, json={"q": ["a dog", "a cat"], **base, "alternatives": 1}).json()
    assert found["translatedText"] == ["A DOG", "A CAT"]
    assert found["alternatives"] == [["a dog"], ["a cat"]]
    assert found["detectedLanguage"][0]["language"] == "en"
    single = httpx.post(url, data={"q": "a dog", **base, "alternatives": "1"}).json()
    assert (single["translatedText"], single["alternatives"]) == ("A DOG", ["a dog"])
    assert httpx.post(url, params={"q": "a dog", "source": "en", "target": "de"}).json() == {"translatedText": "A DOG"}
    settings = httpx.get(f"{url.removesuffix('/translate')}/frontend/settings").json()
    assert settings["charLimit"] == 5000 and settings["language"]["source"] == {"code": "en", "name": "English"}


def test_deepls_client(serve: Serve) -> None:
    client = deepl.DeepLClient("a key", server_url=serve().url)
    one = client.translate_text("A dog runs. It barks.", target_lang="DE", source_lang="EN")
    assert (one.text, one.detected_source_lang, one.billed_characters) == ("A DOG RUNS. IT BARKS.", "EN", 21)
    assert [each.text for each in client.translate_text(["a", "b\n"], target_lang="DE")] == ["A", "B\n"]
    assert [(each.code, each.name) for each in client.get_source_languages()] == [("EN", "English")]
    assert [each.code for each in client.get_target_languages()] == ["DE"]
    usage = client.get_usage()
    assert usage.character.count == 24 and not usage.any_limit_reached


def test_deepls_errors(serve: Serve) -> None:
    client = deepl.DeepLClient("a key", server_url=serve(texts=2, characters=50).url)
    for options, told in (
        ({"text": "a", "target_lang": "FR"}, "not supported"),
        ({"text": ["a"] * 3, "target_lang": "DE"}, "exceed the limit of 2"),
        ({"text": "a" * 51, "target_lang": "DE"}, "exceeds text limit"),
    ):
        with pytest.raises(deepl.DeepLException, match=told):
            client.translate_text(**options)


def test_deepls_client_is_told_to_slow_down(serve: Serve) -> None:
    deepl.http_client.max_network_retries, before = 0, deepl.http_client.max_network_retries
    try:
        client = deepl.DeepLClient("a key", server_url=serve(requests_per_minute=1).url)
        client.translate_text("a", target_lang="DE")
        with pytest.raises(deepl.TooManyRequestsException):
            client.translate_text("a", target_lang="DE")
    finally:
        deepl.http_client.max_network_retries = before
