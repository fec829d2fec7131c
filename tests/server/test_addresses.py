"""Addresses of a server: encrypted ports, Unix sockets, and paths below which a proxy serves it."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from regard.commands.server_address import check_certificate, listening_socket, log_address
from regard.commands.server_plan import ServerPlan
from regard.errors import ConfigError
from regard.server.batching.models import ModelRegistry

from .conftest import running
from .copying import capitals
from .test_app import until

BODY = {"text": "a dog."}


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> ServerPlan:
    """A server of one model that says what it reads in capitals."""
    monkeypatch.setattr(ServerPlan, "models", lambda plan, metrics: ModelRegistry([capitals()[0]]))
    return ServerPlan([], "127.0.0.1", 0, log_level="warning")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that signs itself, for localhost, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "certificate.pem", folder / "key.pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", str(paths[0]), "-keyout", str(paths[1])]
    subprocess.run([*words.split(), *names], check=True, capture_output=True)
    return paths


def test_connections_are_encrypted(plan: ServerPlan, certificate: tuple[Path, Path]) -> None:
    encrypted = replace(plan, certificate=certificate[0], certificate_key=certificate[1])
    trusted = ssl.create_default_context(cafile=str(certificate[0]))
    with running(encrypted.create_server()) as port:
        with httpx.Client(base_url=f"https://localhost:{port}", verify=trusted) as client:
            assert client.post("/v1/translate", json=BODY).json()["translations"][0]["text"] == "A DOG."
            events = client.post("/v1/translate", json=BODY | {"stream": True}).text
            assert events.count("data:") == 2
            sent = client.post(
                "/translate_file", files={"file": ("a.txt", b"a dog.")}, data={"source": "en", "target": "de"}
            )
            address = sent.json()["translatedFileUrl"]
            assert address.startswith(f"https://127.0.0.1:{port}/") and client.get(address).text == "A DOG."
        with connect(f"wss://localhost:{port}/v1/listen", ssl=trusted) as listening:
            assert listening.response is not None and "x-request-id" in listening.response.headers
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}/healthz")


def test_a_certificate_that_cannot_be_used_is_refused(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    both = tmp_path / "both"
    both.write_text("".join(path.read_text() for path in certificate))
    locked = tmp_path / "locked"
    words = ["openssl", "ec", "-in", str(certificate[1]), "-out", str(locked), "-aes256", "-passout", "pass:secret"]
    subprocess.run(words, check=True, capture_output=True)
    check_certificate(None, None)
    check_certificate(both, None)
    wrong = [(None, certificate[1]), (certificate[0], None), (tmp_path / "none", None), (tmp_path / "empty", None)]
    for first, second in [*wrong, (certificate[0], locked)]:
        with pytest.raises(ConfigError):
            check_certificate(first, second)


@contextmanager
def listening(plan: ServerPlan) -> Iterator[socket.socket]:
    """The socket of a server, while it runs in a thread."""
    server = plan.create_server()
    with listening_socket(plan.host, plan.port, plan.socket) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            until(lambda: server.started)
            yield listener
        finally:
            server.should_exit = True
            thread.join(20)


def test_a_unix_socket_serves_any_host_and_is_removed(
    plan: ServerPlan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "regard.socket"
    with socket.socket(socket.AF_UNIX) as stale:  # of a server that was killed
        stale.bind(str(path))
    with listening(replace(plan, socket=path)) as listener:
        assert path.stat().st_mode & 0o777 == 0o660
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://any.example") as client:
            assert client.post("/v1/translate", json=BODY).json()["translations"][0]["text"] == "A DOG."
            form = {"source": "en", "target": "de"}
            sent = client.post("/translate_file", files={"file": ("a.txt", b"a")}, data=form).json()
            assert sent["translatedFileUrl"].startswith("http://localhost/download_file/")
        with pytest.raises(ConfigError, match="cannot listen"), listening_socket("", 0, path):
            pass
        with caplog.at_level("INFO", "regard.server"):
            log_address(listener, encrypted=False, workers=2)
        assert caplog.messages[-1].startswith(f"2 workers running on the socket {path} ")
    assert not path.exists()


def test_another_file_is_not_replaced_by_a_socket(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ConfigError, match="cannot listen"), listening_socket("", 0, tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("prefix", ["/models", ""])  # a proxy may remove the path or not
def test_a_proxy_serves_it_below_a_path(plan: ServerPlan, prefix: str) -> None:
    with (
        running(replace(plan, settings={"root_path": "/models"}).create_server()) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}{prefix}") as client,
    ):
        assert client.post("/v1/translate", json=BODY).status_code == 200
        assert client.post("/v2/translate", json={}).json().keys() == {"message"}  # the format of its interface
        form = {"source": "en", "target": "de"}
        sent = client.post("/translate_file", files={"file": ("a.txt", b"a")}, data=form).json()
        assert sent["translatedFileUrl"].startswith(f"http://127.0.0.1:{port}/models/download_file/")
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/models"}]


def test_the_root_path_leads_to_the_page(plan: ServerPlan) -> None:
    with running(replace(plan, settings={"root_path": "/models"}).create_server()) as port:
        answer = httpx.get(f"http://127.0.0.1:{port}/models?text=a+b%26c")
    assert (answer.status_code, answer.headers["location"]) == (308, "/models/?text=a+b%26c")
