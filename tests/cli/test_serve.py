"""``regard serve``: the command around the server, in a process of its own."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import regard
from regard.core.installation import extra_command

from .conftest import TinyRun


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Its address, once the first model is loaded."""
    command = [sys.executable, "-c", "from regard.cli import main; main()", "serve", "--port", "0", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"running on (http://[\d.:]+)", line):
                break
        else:
            raise AssertionError(said)
        until = time.monotonic() + 30
        while httpx.get(f"{found[1]}/readyz").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
        yield found[1], process
    finally:
        process.kill()
        process.communicate()


def ask(url: str, line: str) -> httpx.Response:
    return httpx.post(f"{url}/v1/translate", json={"text": line}, timeout=60)


def test_many_clients_get_what_the_model_says_and_sigterm_loses_none(tiny_run: TinyRun) -> None:
    lines = tiny_run.source.read_text(encoding="utf-8").splitlines()
    wanted = [each.text for each in regard.load(tiny_run.path).translate(lines)]
    with serving(str(tiny_run.path), "--threads", "1") as (url, process), ThreadPoolExecutor(20) as pool:
        assert [ask(url, lines[0]).json()["translations"][0]["text"]] == wanted[:1]
        answers = [pool.submit(ask, url, line) for line in lines]
        while sum(answer.done() for answer in answers) < 5:
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        found, refused = {}, 0
        for number, answer in enumerate(answers):
            try:
                response = answer.result(timeout=60)
            except httpx.ConnectError:  # it came too late to be accepted
                refused += 1
                continue
            assert response.status_code == 200, response.text
            found[number] = response.json()["translations"][0]["text"]
        assert process.wait(timeout=30) == -signal.SIGTERM
    assert len(found) + refused == len(lines) and len(found) >= 5
    assert all(text == wanted[number] for number, text in found.items())


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["no/such/run"], 4, "no/such/run"),
        (["{run}", "{run}"], 2, "two runs are named"),
        (["{run}", "--port", "99999"], 2, "--port"),
        (["{run}", "--checkpoint", "77"], 4, "77"),
    ],
)
def test_what_cannot_be_served_is_told_at_once(
    tiny_run: TinyRun, run_cli: Callable[..., tuple[int, str]], arguments: list[str], code: int, told: str
) -> None:
    found, said = run_cli("serve", *(each.format(run=tiny_run.path) for each in arguments))
    assert (found, told in said) == (code, True), said


def test_a_port_that_is_taken_is_told(tiny_run: TinyRun, run_cli: Callable[..., tuple[int, str]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = run_cli("serve", str(tiny_run.path), "--port", str(port))
    assert code == 2 and f"port {port}" in said and "in use" in said


def test_without_its_libraries_it_says_what_to_install(
    tiny_run: TinyRun, run_cli: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, said = run_cli("serve", str(tiny_run.path))
    assert code == 2 and extra_command("serve") in said


@pytest.fixture
def run_cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Exit code and all that was said."""

    def run(*arguments: str) -> tuple[int, str]:
        from regard import cli

        code = cli.run(arguments)
        captured = capfd.readouterr()
        return code, captured.out + captured.err

    return run


def test_the_server_is_not_loaded_for_other_commands() -> None:
    code = "import sys, regard.cli; print([n for n in ('fastapi', 'uvicorn', 'regard.server') if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    assert found.stdout.strip() == "[]"
    assert (Path(regard.__file__).parent / "server").is_dir()
