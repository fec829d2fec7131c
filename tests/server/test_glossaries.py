"""Glossaries as DeepL's published client makes, shows, uses and removes them, and where they are kept."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deepl
import httpx
import pytest

from regard.errors import ConfigError
from regard.server.api_error import ApiError
from regard.server.glossaries import GlossaryStore
from regard.server.keys import KeyStore, add_key

from .conftest import Running, serving
from .copying import capitals

Serve = Callable[..., Running]


def test_deepls_client_keeps_glossaries(serve: Serve) -> None:
    client = deepl.DeepLClient("a key", server_url=serve().url)
    assert [(each.source_lang, each.target_lang) for each in client.get_glossary_languages()] == [("en", "de")]
    made = client.create_glossary("animals", "EN", "DE", {"dog": "Hund", "red cat": "rote Katze"})
    assert (made.name, made.ready, made.source_lang, made.target_lang, made.entry_count) == (
        "animals",
        True,
        "EN",
        "DE",
        2,
    )
    other = client.create_glossary_from_csv("more", "EN", "DE", 'bird,Vogel\n"a, b",c\n')
    assert [each.glossary_id for each in client.list_glossaries()] == [made.glossary_id, other.glossary_id]
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert client.get_glossary_entries(other) == {"bird": "Vogel", "a, b": "c"}
    found = client.translate_text("A dog, a red cat.", source_lang="EN", target_lang="DE", glossary=made)
    assert "Hund" in found.text and "rote Katze" in found.text
    assert "Vogel" in client.translate_text_with_glossary("A bird.", other).text
    client.delete_glossary(made)
    for gone in (lambda: client.get_glossary(made.glossary_id), lambda: client.delete_glossary(made)):
        with pytest.raises(deepl.GlossaryNotFoundException):
            gone()


def test_what_is_wrong_with_a_glossary_is_told(serve: Serve) -> None:
    server = serve(glossaries=2, entries=3)
    url = f"{server.url}/v2"
    whole: dict[str, Any] = {"name": "a", "source_lang": "en", "target_lang": "de", "entries": "a\tb"}

    def post(**fields: Any) -> httpx.Response:
        return httpx.post(f"{url}/glossaries", json=whole | fields)

    refused: list[tuple[dict[str, Any], int]] = [
        ({"name": ""}, 400), ({"name": 5}, 400), ({"target_lang": "fr"}, 400), ({"entries": "a"}, 400),
        ({"entries_format": "pdf"}, 400), ({"entries": "a\tb\nc\td\ne\tf\ng\th"}, 413),
    ]  # fmt: skip
    for fields, status in refused:
        answer = post(**fields)
        assert answer.status_code == status and answer.json()["message"], answer.text
    made = post(entries_format="tsv")
    assert made.status_code == 201
    assert (post().status_code, post().status_code) == (201, 400), "two are kept at most"
    number = made.json()["glossary_id"]
    for id, source, status in (
        (number, "EN", 200), (number, None, 400), (number, "DE", 400), ("../../etc", "EN", 404), (5, "EN", 400),
    ):  # fmt: skip
        body = {"text": ["a"], "target_lang": "DE", "glossary_id": id, "source_lang": source}
        answer = httpx.post(f"{url}/translate", json={key: value for key, value in body.items() if value})
        assert answer.status_code == status, answer.text
    assert httpx.get(f"{url}/glossaries/nothing/entries").status_code == 404
    assert httpx.delete(f"{url}/glossaries/{number}").status_code == 204


def test_each_key_has_its_own(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    alice, bob = (add_key(file, name, requests_per_minute=None, characters=None) for name in ("alice", "bob"))
    with serving([capitals()[0]], keys=KeyStore(file)) as (port, _):
        clients = [deepl.DeepLClient(key, server_url=f"http://127.0.0.1:{port}") for key in (alice, f"{alice}:fx", bob)]
        made = clients[0].create_glossary("a", "EN", "DE", {"a": "b"})
        assert [len(client.list_glossaries()) for client in clients] == [1, 1, 0]
        with pytest.raises(deepl.GlossaryNotFoundException):
            clients[2].get_glossary(made.glossary_id)
        assert httpx.get(f"http://127.0.0.1:{port}/v2/glossaries").status_code == 403


def test_a_folder_keeps_them_and_nothing_else_is_read_or_written(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "glossaries"
    first = GlossaryStore(folder)
    kept = first.add("alice", "../../name", "EN", "DE", {"a": "b"})
    gone = first.add("alice", "b", "EN", "DE", {"a": "b"})
    first.remove("alice", str(gone.id))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == [f"{kept.id}.json"]
    assert json.loads((folder / f"{kept.id}.json").read_text())["entries"] == {"a": "b"}
    (folder / "other.json").write_text("{}")
    (folder / "copy.json").write_bytes((folder / f"{kept.id}.json").read_bytes())
    again = GlossaryStore(folder)
    assert again.owned_by("alice") == [kept] and again.owned_by("bob") == []
    for owner, id in (("bob", str(kept.id)), ("alice", "../other"), ("alice", "")):
        with pytest.raises(ApiError):
            again.find(owner, id)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot store glossaries"):
        GlossaryStore(tmp_path / "file")
