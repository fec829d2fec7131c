"""An exported folder is uploaded as one commit; refusals of the hub are errors of Regard."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from regard.errors import ConfigError, StorageError
from regard.share.hub_upload import require_repository, upload

huggingface_hub: Any = pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
TOKEN = "hf_" + "x" * 34


class Hub(BaseHTTPRequestHandler):
    """The part of the hub's interface that an upload of small files uses."""

    received: ClassVar[list[tuple[str, bytes]]] = []
    refuses = False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while (size := int(self.rfile.readline(), 16)) > 0:
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        self.received.append((self.path, body))
        if self.refuses or self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.reply({"error": "Forbidden"}, 403)
        if self.path.endswith("/preupload/main"):
            files = json.loads(body)["files"]
            modes = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in files]
            return self.reply({"files": modes})
        url = f"http://{self.headers['Host']}/me/model"
        return self.reply({"url": url, "commitUrl": f"{url}/commit/1", "commitOid": "1", "name": "me/model"})

    def do_GET(self) -> None:
        if self.refuses:
            return self.reply({"error": "Forbidden"}, 403)
        self.reply({"sha": "0" * 40, "id": "me/model", "siblings": [], "endpoints": []})

    def reply(self, value: Any, status: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *values: Any) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Hub.received, Hub.refuses = [], False
    endpoint, api = f"http://127.0.0.1:{server.server_port}", huggingface_hub.HfApi
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api(endpoint=endpoint, token=TOKEN))
    yield Hub
    server.shutdown()
    server.server_close()


def test_all_files_are_in_one_commit(hub: type[Hub], tmp_path: Path) -> None:
    (tmp_path / "tokenizers").mkdir()
    (tmp_path / "config.toml").write_text("a = 1\n")
    (tmp_path / "tokenizers" / "text.json").write_text("{}\n")
    assert upload(tmp_path, "me/model").endswith("/me/model/commit/1")
    commits = [body for path, body in hub.received if path.endswith("/commit/main")]
    assert len(commits) == 1
    lines = [json.loads(line) for line in commits[0].splitlines()]
    assert {line["value"]["path"] for line in lines[1:]} == {"config.toml", "tokenizers/text.json"}


def test_a_refusal_is_an_error_with_the_command(hub: type[Hub], tmp_path: Path) -> None:
    hub.refuses = True
    (tmp_path / "config.toml").write_text("a = 1\n")
    with pytest.raises(StorageError, match="me/model cannot be uploaded") as caught:
        upload(tmp_path, "me/model")
    assert "hf auth login" in str(caught.value) and "orbidden" in str(caught.value), str(caught.value)


@pytest.mark.parametrize("name", ["model", "me/a/b", "../x", "me/..", "", "me/mo del", "-/-"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        require_repository(name)
