"""Public corpora: what arrives is the published text or nothing, whatever the network and the disk do."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from regard.commands import data as data_command
from regard.data.public import download as download_module
from regard.data.public.catalog import PublicCorpus, PublicFile, corpora, corpus_named
from regard.data.public.fetch import copy, fetch
from regard.errors import ConfigError, DataError, StorageError

TEXT = "".join(f"sentence {number} of many\n" for number in range(20_000)).encode()
SHORT = b"Ein Hund rennt.\n"
PAUSES = (0.0, 0.0)

Behavior = Callable[[BaseHTTPRequestHandler, bytes], None]


@dataclass
class Server:
    """A server on the loopback that serves ``files``; ``behaviors`` come first, one a request, then it is good."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    behaviors: list[Behavior] = field(default_factory=list)
    requests: list[tuple[str, str | None]] = field(default_factory=list)  # path and Range


def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    span = re.match(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    start = int(span[1]) if span else 0
    if start >= len(body) > 0 and span:
        handler.send_error(416)
        return
    handler.send_response(206 if span else 200)
    if span:
        handler.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
    handler.send_header("Content-Length", str(len(body) - start))
    handler.end_headers()
    handler.wfile.write(body[start:])


def breaks_after(count: int) -> Behavior:
    def behave(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:count])

    return behave


def says(status: int) -> Behavior:
    return lambda handler, body: handler.send_error(status)


def hangs_up(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def sends(other: bytes) -> Behavior:
    return lambda handler, body: answer(handler, other)


def ignores_range(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    del handler.headers["Range"]
    answer(handler, body)


def endless(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """No length told, and it goes on until the other side hangs up."""
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65_536)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("http://corpus.invalid")  # as a proxy is asked
            state.requests.append((path, self.headers.get("Range")))
            behave = state.behaviors.pop(0) if state.behaviors else answer
            body = state.files.get(path)
            if body is None:
                self.send_error(404)
            else:
                with suppress(OSError):  # the other side may hang up
                    behave(self, body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state = Server(f"http://127.0.0.1:{http.server_port}")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()


def public(name: str, text: bytes, path: str = "") -> PublicFile:
    return PublicFile(name, len(text), hashlib.sha256(text).hexdigest(), path)


@pytest.fixture
def corpus(server: Server) -> PublicCorpus:
    server.files = {"/raw/a.en.gz": gzip.compress(TEXT), "/raw/a.de": SHORT}
    files = (public("a.en", TEXT, "a.en.gz"), public("a.de", SHORT))
    return PublicCorpus("toy", "A toy", "free", "https://example.org/toy", files, f"{server.address}/raw")


@pytest.fixture
def plain(server: Server) -> PublicCorpus:
    """One long file that is served as it is, so that offsets are those of the text."""
    server.files = {"/a.en": TEXT}
    return PublicCorpus("toy", "A toy", "free", "https://example.org/toy", (public("a.en", TEXT),), server.address)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_fetched_is_the_published_text_unpacked(corpus, tmp_path):
    reports = []
    fetched = fetch(corpus, tmp_path / "new" / "toy", progress=lambda *report: reports.append(report))
    assert [entry.state for entry in fetched] == ["downloaded", "downloaded"]
    assert (tmp_path / "new" / "toy" / "a.en").read_bytes() == TEXT
    assert (tmp_path / "new" / "toy" / "a.de").read_bytes() == SHORT
    assert names(tmp_path / "new" / "toy") == ["a.de", "a.en"]
    assert reports[-1] == (corpus.files[1], len(SHORT), len(SHORT))


def test_a_file_may_have_a_folder_of_its_own(server, tmp_path):
    server.files = {"/data/rooms/a.csv": SHORT}
    files = (public("rooms/a.csv", SHORT, "data/rooms/a.csv"),)
    corpus = PublicCorpus("toy", "A toy", "free", "https://example.org/toy", files, server.address)
    fetch(corpus, tmp_path / "one")
    assert (tmp_path / "one" / "rooms" / "a.csv").read_bytes() == SHORT
    copy(corpus, tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "two" / "rooms" / "a.csv").read_bytes() == SHORT


def test_what_is_there_is_not_downloaded_again(corpus, server, tmp_path):
    (tmp_path / "a.en").write_bytes(TEXT)
    assert [entry.state for entry in fetch(corpus, tmp_path)] == ["present", "downloaded"]
    assert [path for path, _ in server.requests] == ["/raw/a.de"]


def test_another_file_of_that_name_is_left_alone(corpus, server, tmp_path):
    (tmp_path / "a.en").write_bytes(b"my own work\n")
    with pytest.raises(DataError, match="not the published file") as caught:
        fetch(corpus, tmp_path)
    assert caught.value.where == str(tmp_path / "a.en")
    assert (tmp_path / "a.en").read_bytes() == b"my own work\n"
    assert server.requests == []


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (TEXT[:-1] + b"?", "sha256"),
        (TEXT[:-1], f"{len(TEXT) - 1:,} bytes instead of {len(TEXT):,}"),
        (TEXT + b"more", "longer"),
    ],
)
def test_another_text_never_gets_the_name(plain, server, tmp_path, other, reason):
    server.files["/a.en"] = other
    with pytest.raises(DataError, match="not the published file") as caught:
        fetch(plain, tmp_path)
    assert caught.value.where == f"{server.address}/a.en"
    assert reason in caught.value.why
    assert "--from DIR" in caught.value.help
    assert names(tmp_path) == []
    assert len(server.requests) == 1  # a wrong file is no hiccup: it is not asked for again


@pytest.mark.parametrize(
    "packed", [b"<html>please log in</html>", gzip.compress(TEXT)[:-100], gzip.compress(bytes(10_000_000))]
)
def test_what_is_not_the_gzip_of_the_text_never_gets_the_name(corpus, server, tmp_path, packed):
    server.files["/raw/a.en.gz"] = packed
    with pytest.raises(DataError, match="not the published file"):
        fetch(corpus, tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("behave", [endless, sends(TEXT + b"x" * 100_000)])
def test_a_server_cannot_fill_the_disk(plain, server, tmp_path, behave):
    server.behaviors = [behave]
    with pytest.raises(DataError, match="something other than the file") as caught:
        fetch(plain, tmp_path)
    assert f"{len(TEXT) + 65_536:,} bytes" in caught.value.why
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= len(TEXT) + 65_536


@pytest.mark.parametrize("status", [404, 403, 410])
def test_a_missing_file_is_told_at_once(plain, server, tmp_path, status):
    server.behaviors = [says(status)]
    with pytest.raises(DataError, match="cannot be downloaded") as caught:
        fetch(plain, tmp_path, pauses=PAUSES)
    assert str(status) in caught.value.why
    assert caught.value.where == f"{server.address}/a.en"
    assert len(server.requests) == 1


def test_a_broken_connection_is_continued_by_range(plain, server, tmp_path):
    server.behaviors = [breaks_after(100_000)]
    fetch(plain, tmp_path, pauses=PAUSES)
    assert (tmp_path / "a.en").read_bytes() == TEXT
    assert server.requests == [("/a.en", None), ("/a.en", "bytes=100000-")]


def test_a_download_that_was_killed_is_continued_by_the_next_call(plain, server, tmp_path):
    server.behaviors = [breaks_after(100_000), hangs_up, hangs_up]
    with pytest.raises(DataError, match="download failed"):
        fetch(plain, tmp_path, pauses=PAUSES)
    assert names(tmp_path) == [".a.en.part"]
    server.requests.clear()
    fetch(plain, tmp_path, pauses=PAUSES)
    assert server.requests == [("/a.en", "bytes=100000-")]
    assert (tmp_path / "a.en").read_bytes() == TEXT
    assert names(tmp_path) == ["a.en"]


def test_a_server_without_ranges_starts_over(plain, server, tmp_path):
    server.behaviors = [breaks_after(100_000), ignores_range]
    fetch(plain, tmp_path, pauses=PAUSES)
    assert (tmp_path / "a.en").read_bytes() == TEXT


@pytest.mark.parametrize("part", [b"of another file", TEXT, TEXT + b"too long"])
def test_a_part_that_does_not_fit_is_thrown_away(plain, server, tmp_path, part):
    (tmp_path / ".a.en.part").write_bytes(part)
    fetch(plain, tmp_path, pauses=PAUSES)
    assert (tmp_path / "a.en").read_bytes() == TEXT
    assert names(tmp_path) == ["a.en"]


@pytest.mark.parametrize("behave", [says(503), says(429), hangs_up])
def test_a_hiccup_is_tried_again(plain, server, tmp_path, behave):
    server.behaviors = [behave, behave]
    fetch(plain, tmp_path, pauses=PAUSES)
    assert (tmp_path / "a.en").read_bytes() == TEXT
    assert len(server.requests) == 3


def test_each_further_try_waits_longer_and_the_last_one_tells(plain, server, tmp_path, monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr(download_module.time, "sleep", waited.append)
    server.behaviors = [says(503)] * 10
    with pytest.raises(DataError, match="download failed") as caught:
        fetch(plain, tmp_path)
    assert waited == sorted(waited) == list(download_module.PAUSES)
    assert "503" in caught.value.why


def test_a_silent_server_is_given_up(plain, server, tmp_path, monkeypatch):
    release = threading.Event()
    server.behaviors = [lambda handler, body: release.wait(30) and None] * 3
    monkeypatch.setattr(download_module, "TIMEOUT", 0.05)
    with pytest.raises(DataError, match="download failed") as caught:
        fetch(plain, tmp_path, pauses=PAUSES)
    release.set()
    assert "timed out" in caught.value.why


def test_a_name_that_cannot_be_looked_up_is_told_at_once(plain, tmp_path, monkeypatch):
    def unknown(*arguments: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(download_module.time, "sleep", lambda pause: pytest.fail("nobody should wait"))
    with pytest.raises(DataError, match="download failed") as caught:
        fetch(replace(plain, address="http://corpus.invalid"), tmp_path)
    assert caught.value.where == "http://corpus.invalid/a.en"
    assert "not known" in caught.value.why
    assert names(tmp_path) == []


def test_without_a_server_the_message_names_the_address_and_the_way_out(corpus, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    corpus = replace(corpus, address=f"http://127.0.0.1:{port}/raw")
    with pytest.raises(DataError, match="download failed") as caught:
        fetch(corpus, tmp_path, pauses=PAUSES)
    assert caught.value.exit_code == 3
    assert caught.value.where == f"http://127.0.0.1:{port}/raw/a.en.gz"
    assert "refused" in caught.value.why
    assert "https://example.org/toy" in caught.value.help
    assert "regard data fetch toy --from DIR" in caught.value.help


def test_the_proxy_of_the_environment_is_asked(corpus, server, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", server.address)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    fetch(replace(corpus, address="http://corpus.invalid/raw"), tmp_path)
    assert (tmp_path / "a.en").read_bytes() == TEXT
    assert [path for path, _ in server.requests] == ["/raw/a.en.gz", "/raw/a.de"]


def test_files_that_are_complete_stay_when_a_later_one_fails(corpus, server, tmp_path):
    del server.files["/raw/a.de"]
    with pytest.raises(DataError):
        fetch(corpus, tmp_path, pauses=PAUSES)
    assert names(tmp_path) == ["a.en"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(corpus, tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(StorageError):
        fetch(corpus, tmp_path)
    tmp_path.chmod(0o755)


def test_a_file_in_the_place_of_the_folder(corpus, tmp_path):
    (tmp_path / "toy").write_text("in the way")
    with pytest.raises(StorageError):
        fetch(corpus, tmp_path / "toy")


@pytest.mark.parametrize(
    "layout",
    [
        {"a.en": TEXT, "a.de": SHORT},
        {"a.en.gz": gzip.compress(TEXT), "a.de.gz": gzip.compress(SHORT)},
        {"raw/original.en.gz": gzip.compress(TEXT), "a.de": SHORT},
        {"original.en.gz": gzip.compress(TEXT), "a.de": SHORT},
        {"original.en": TEXT, "a.de": SHORT},
    ],
)
def test_a_copy_at_hand_may_be_packed_or_not(corpus, server, tmp_path, layout):
    first = replace(corpus.files[0], path="raw/original.en.gz")
    corpus = replace(corpus, files=(first, corpus.files[1]), address=None)
    for name, content in layout.items():
        (tmp_path / "from" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "from" / name).write_bytes(content)
    fetched = copy(corpus, tmp_path / "from", tmp_path / "to")
    assert [entry.state for entry in fetched] == ["copied", "copied"]
    assert (tmp_path / "to" / "a.en").read_bytes() == TEXT
    assert (tmp_path / "to" / "a.de").read_bytes() == SHORT
    assert [entry.state for entry in copy(corpus, tmp_path / "from", tmp_path / "to")] == ["present", "present"]
    assert server.requests == []


def test_a_copy_that_is_not_the_published_text_is_refused(corpus, tmp_path):
    origin = tmp_path / "from"
    origin.mkdir()
    (origin / "a.en").write_bytes(TEXT.replace(b"\n", b"\r\n"))
    (origin / "a.de").write_bytes(SHORT)
    with pytest.raises(DataError, match="not the published file") as caught:
        copy(corpus, origin, tmp_path / "to")
    assert caught.value.where == str(origin / "a.en")
    assert names(tmp_path / "to") == []


def test_a_copy_that_lacks_files_names_them_and_copies_nothing(corpus, tmp_path):
    origin = tmp_path / "from"
    origin.mkdir()
    (origin / "a.en").write_bytes(TEXT)
    with pytest.raises(DataError, match="1 of the 2 files") as caught:
        copy(corpus, origin, tmp_path / "to")
    assert "a.de" in caught.value.why
    assert names(tmp_path / "to") == []


def test_a_corpus_without_an_address_says_so(corpus, tmp_path):
    with pytest.raises(DataError, match="only be copied") as caught:
        fetch(replace(corpus, address=None), tmp_path)
    assert "--from DIR" in caught.value.help


def test_an_unknown_name_is_met_by_the_nearest():
    with pytest.raises(ConfigError) as caught:
        corpus_named("multi3k")
    assert caught.value.help == "did you mean multi30k?"


@pytest.mark.parametrize("corpus", corpora().values(), ids=lambda corpus: corpus.name)
def test_the_table_is_pinned(corpus):
    assert corpus.license
    if corpus.original is not None:
        assert re.fullmatch(
            r"https://(raw\.githubusercontent|codeload\.github)\.com/\S+[0-9a-f]{40}\S*", corpus.original.address
        )
    if corpus.address is not None:  # what one commit holds cannot change
        assert re.match(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}(/|$)", corpus.address)
    assert len({file.name for file in corpus.files}) == len(corpus.files)
    for file in corpus.files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        parts = file.name.split("/")  # plain names, at most in one subfolder: they cannot leave the folder
        assert len(parts) <= 2 and all(re.fullmatch(r"\w[\w.-]*", part) for part in parts)


AT_HAND = {
    "multi30k": "multi30k",
    "multi30k-bpe10k": "multi30k/bpe10k-en-de",
    "cmudict-g2p": "g2p-cmudict",
    "scan": "scan",
    "newstest-en-de": "wmt-newstest",
    "tiny-shakespeare": "lm-tinyshakespeare",
    "aeslc": "aeslc",
    "splice": "splice",
    "planetoid": "planetoid",
    "ett": "ett",
    "nab": "nab",
}


@pytest.mark.parametrize("name", corpora())
def test_the_checksums_are_those_of_the_real_files(name, tmp_path):
    folder = Path(os.environ.get("REGARD_DATA", "")) / AT_HAND[name]
    if "REGARD_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("REGARD_DATA names no folder with this corpus")
    assert len(copy(corpora()[name], folder, tmp_path)) == len(corpora()[name].files)


@pytest.fixture
def run(corpus, monkeypatch, tmp_path):
    """``regard data …`` with the toy corpus in the table, run in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "regard.data.public.catalog.corpora", lambda: {"toy": replace(corpus, hint="use {folder}/a.en")}
    )
    app = typer.Typer()
    data_command.register(app)
    app.command("other")(lambda: None)
    return lambda *arguments: CliRunner().invoke(app, ["data", *arguments], catch_exceptions=False)


def test_the_command_shows_the_licence_first_and_fetches_into_data(run, tmp_path):
    result = run("fetch", "toy")
    assert result.exit_code == 0
    assert result.stdout.index("license: free") < result.stdout.index("downloaded")
    assert "use data/toy/a.en" in result.stdout
    assert (tmp_path / "data" / "toy" / "a.en").read_bytes() == TEXT


def test_the_command_copies_and_speaks_json(run, server, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.en").write_bytes(TEXT)
    (tmp_path / "mine" / "a.de").write_bytes(SHORT)
    result = run("fetch", "toy", "--from", "mine", "--to", "here", "--json")
    value = json.loads(result.stdout)
    assert value["license"] == "free"
    assert [(file["path"], file["state"]) for file in value["files"]] == [
        ("here/a.en", "copied"),
        ("here/a.de", "copied"),
    ]
    assert "license: free" in result.stderr
    assert server.requests == []


def test_the_list_has_every_name_and_licence(run):
    assert "license: free" in run("list").stdout
    assert [entry["name"] for entry in json.loads(run("list", "--json").stdout)] == ["toy"]


def test_the_command_imports_no_torch():
    code = "import sys, regard.commands.data; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
