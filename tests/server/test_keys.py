"""Keys: kept as digests, asked for in three dialects, counted one by one, refused as soon as they are removed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError

import deepl
import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from regard import cli
from regard.errors import ConfigError
from regard.server.keys import KeyFile, KeyStore, add_key, remove_key

from .conftest import serving
from .copying import capitals


class Guarded(NamedTuple):
    url: str
    file: Path
    key: str


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    file = tmp_path / "keys.json"
    key = add_key(file, "alice", requests_per_minute=None, characters=20)
    with serving([capitals()[0]], keys=KeyStore(file)) as (port, _):
        yield Guarded(f"http://127.0.0.1:{port}", file, key)


def ask(server: Guarded, key: str | None, text: str = "a") -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.post(f"{server.url}/v1/translate", json={"text": text}, headers=headers)


def test_the_file_keeps_no_key_and_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    keys = [add_key(file, name, requests_per_minute=None, characters=None) for name in ("a", "b")]
    text = file.read_text()
    assert keys[0] != keys[1] and not any(key in text for key in keys)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = KeyStore(file)
    assert [getattr(found.find(key), "name", None) for key in [*keys, "", "x", keys[0][:-1]]] == ["a", "b", *[None] * 3]
    with pytest.raises(ConfigError, match="has a key for a"):
        add_key(file, "a", requests_per_minute=None, characters=None)
    with pytest.raises(ConfigError, match="no key for c"):
        remove_key(file, "c")


@pytest.mark.parametrize(
    "text", ["", "{", '{"keys": [{"name": "a", "sha256": "0"}]}', '{"version": 2, "keys": []}', "[]"]
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(ConfigError, match="not a file of API keys"):
        KeyFile.read(tmp_path / "keys.json")


def test_our_own_interface(guarded: Guarded) -> None:
    assert [ask(guarded, key).status_code for key in (None, "wrong", guarded.key)] == [401, 403, 200]
    assert ask(guarded, guarded.key, "x" * 20).status_code == 429, "its quota was 20, and one is spent"
    assert ask(guarded, guarded.key, "x" * 19).status_code == 200
    assert httpx.get(f"{guarded.url}/healthz").status_code == 200
    for key, status in ((None, 401), ("wrong", 403), (guarded.key, 200)):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        found = httpx.get(f"{guarded.url}/metrics", headers=headers)
        assert found.status_code == status and ("regard_requests_total" in found.text) == (status == 200)


def test_a_key_that_is_removed_is_refused_at_once_and_one_that_is_added_known(guarded: Guarded) -> None:
    added = add_key(guarded.file, "bob", requests_per_minute=1, characters=None)
    os.utime(guarded.file, ns=(1, 1))
    assert [ask(guarded, added).status_code for _ in range(2)] == [200, 429]
    assert ask(guarded, guarded.key).status_code == 200, "each has a rate of its own"
    remove_key(guarded.file, "alice")
    os.utime(guarded.file, ns=(2, 2))
    assert ask(guarded, guarded.key).status_code == 403
    guarded.file.write_text("{")
    os.utime(guarded.file, ns=(3, 3))
    assert ask(guarded, guarded.key).status_code == 403, "while it is being written, the last one holds"


def test_libretranslates_client(guarded: Guarded) -> None:
    def translated(key: str | None) -> Any:
        return LibreTranslateAPI(f"{guarded.url}/", api_key=key).translate("a dog", "en", "de")

    assert translated(guarded.key) == "A DOG"
    for key, code in (("wrong", 403), (None, 400)):
        with pytest.raises(HTTPError) as caught:
            translated(key)
        caught.value.close()
        assert caught.value.code == code
    settings = httpx.get(f"{guarded.url}/frontend/settings").json()
    assert settings["keyRequired"] and settings["apiKeys"]


@pytest.mark.parametrize("suffix", ["", ":fx"])
def test_deepls_client(guarded: Guarded, suffix: str) -> None:
    client = deepl.DeepLClient(guarded.key + suffix, server_url=guarded.url)
    assert client.translate_text("a dog", target_lang="DE").text == "A DOG"
    usage = client.get_usage().character
    assert (usage.count, usage.limit) == (5, 20)
    with pytest.raises(deepl.QuotaExceededException):
        client.translate_text("x" * 16, target_lang="DE")
    with pytest.raises(deepl.AuthorizationException):
        deepl.DeepLClient("wrong", server_url=guarded.url).translate_text("a", target_lang="DE")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> tuple[int, str]:
        code = cli.run(["keys", *arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    file = str(tmp_path / "keys.json")
    code, key = said("add", file, "alice", "--req-limit", "600")
    found = KeyStore(tmp_path / "keys.json").find(key.strip())
    assert code == 0 and found is not None and found.name == "alice"
    assert said("list", file) == (0, "alice\t600 requests per minute\n")
    assert (
        said("list", file, "--json")[1]
        == '[{"name": "alice", "requests_per_minute": 600, "characters": null, "admin": false}]\n'
    )
    assert said("add", file, "root", "--admin")[0] == 0 and said("list", file)[1].endswith("root\tadministrator\n")
    said("remove", file, "root")
    assert said("remove", file, "alice") == (0, "") and said("list", file) == (0, "")
    code, told = said("remove", file, "alice")
    assert code == 2 and "no key for alice" in told
