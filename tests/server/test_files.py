"""Files as LibreTranslate's clients send and fetch them."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.server.api.file_translation import TranslatedFiles
from regard.server.api_error import ApiError

from .conftest import Running

Serve = Callable[..., Running]


def send(server: Running, name: str, content: bytes, **fields: str) -> httpx.Response:
    data = {"source": "en", "target": "de"} | fields
    return httpx.post(f"{server.url}/translate_file", files={"file": (name, content)}, data=data, timeout=30)


def test_a_file_is_sent_and_its_translation_fetched(serve: Serve) -> None:
    server = serve()
    cases = [
        ("a.txt", b"A dog.\n\nA cat.\n", "A DOG.\n\nA CAT.\n"),
        ("../x/READ.ME.MD", "# Ünder\r\n- one\r\n".encode("utf-8-sig"), "# ÜNDER\r\n- ONE\r\n"),
        (
            "a.md",
            b"---\ntitle: x\n---\n\n# A `b` *c*\n\n```\ncode\n```\n",
            "---\ntitle: x\n---\n\n# A `b` *C*\n\n```\ncode\n```\n",
        ),
        ("page.html", b"<p>A <b>dog</b> &amp; co.</p>\n", "<p>A <b>DOG</b> &amp; CO.</p>\n"),
        ("empty.txt", b"", ""),
    ]
    for name, content, wanted in cases:
        answer = send(server, name, content)
        assert answer.status_code == 200, answer.text
        url = answer.json()["translatedFileUrl"]
        assert re.fullmatch(rf"{re.escape(server.url)}/download_file/[\w-]{{32}}\.(txt|md|html)", url)
        fetched = httpx.get(url)
        assert fetched.content.decode() == wanted
        assert fetched.headers["content-type"] == "application/octet-stream"
        assert fetched.headers["content-disposition"].startswith("attachment;")
    settings = httpx.get(f"{server.url}/frontend/settings").json()
    assert settings["filesTranslation"] and ".html" in settings["supportedFilesFormat"]


def test_a_file_is_for_the_model_that_is_named(serve: Serve) -> None:
    server = serve()
    named = {"source": "auto", "target": "und", "model": server.model.name}
    assert send(server, "a.txt", b"A dog.", **named).status_code == 200
    answer = send(server, "a.txt", b"A dog.", **named | {"model": "nobody"})
    assert answer.status_code == 404 and "nobody" in answer.json()["error"]


def test_what_is_no_such_file_is_refused(serve: Serve) -> None:
    server = serve(characters=50, body_bytes=2000)
    cases = [
        (send(server, "a.pdf", b"x"), 400, "only files of"),
        (send(server, "a.txt", b"\xff"), 400, "UTF-8"),
        (send(server, "a.txt", b"x", target="xx"), 400, "not supported"),
        (send(server, "a.txt", b"x", target=""), 400, "target"),
        (send(server, "a.txt", b"x" * 51), 400, "exceeds"),
        (send(server, "a.txt", b"x" * 3000), 413, ""),
        (httpx.post(f"{server.url}/translate_file", data={"source": "en"}), 400, "form"),
        (httpx.post(f"{server.url}/translate_file", files={"other": ("a.txt", b"x")}), 400, "missing file"),
        (httpx.get(f"{server.url}/download_file/no.txt"), 404, "does not exist"),
        (httpx.get(f"{server.url}/download_file/..%2F..%2Fetc%2Fpasswd"), 404, ""),
    ]
    for answer, status, told in cases:
        assert answer.status_code == status and told in answer.json()["error"], answer.text


BODIES = [
    "--b",
    "--b--",
    "\r\n",
    'content-disposition: form-data; name="file"; filename="a.txt"',
    "x",
    "\r\n\r\n",
    "--",
]


# A file whose part has no end is left for the collector by the library that reads forms.
@pytest.mark.filterwarnings("ignore:Exception ignored in.*SpooledTemporaryFile:pytest.PytestUnraisableExceptionWarning")
def test_forms_that_are_none_are_told_apart_from_defects(serve: Serve) -> None:
    url = f"{serve().url}/translate_file"

    @settings(deadline=None)  # of a busy machine
    @given(parts=st.lists(st.sampled_from(BODIES), max_size=12))
    def check(parts: list[str]) -> None:
        headers = {"content-type": "multipart/form-data; boundary=b"}
        answer = httpx.post(url, content="".join(parts).encode(), headers=headers)
        assert answer.status_code == 400 and answer.json().keys() == {"error"}

    check()
    gc.collect()
    for kind in (
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary="',
        "text/plain",
    ):
        assert httpx.post(url, content=b"--b--", headers={"content-type": kind}).status_code == 400


def test_files_are_few_and_not_for_ever() -> None:
    now = [0.0]
    files = TranslatedFiles(limit=3, seconds=10.0, clock=lambda: now[0])
    names = [files.add(".txt", str(number)) for number in range(4)]
    assert len(set(names)) == 4 and files.find(names[-1]) == b"3"
    for name in (names[0], "x", ""):
        with pytest.raises(ApiError):
            files.find(name)
    now[0] = 10.0
    with pytest.raises(ApiError):
        files.find(names[-1])
