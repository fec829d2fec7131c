"""``regard serve``: the command around the server, in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
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
    process, reading = subprocess.Popen(command, stderr=subprocess.PIPE, text=True), None
    assert process.stderr is not None
    try:
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"running on (http://[\d.:]+)", line):
                break
        else:
            raise AssertionError(said)
        reading = threading.Thread(target=lambda log: log.read(), args=(process.stderr,))  # lest it stand still
        reading.start()
        until = time.monotonic() + 60
        while ready(found[1]) != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
        yield found[1], process
    finally:
        process.kill()
        process.wait()
        if reading is not None:
            reading.join()
        process.stderr.close()


def ready(url: str) -> int:
    try:
        return httpx.get(f"{url}/readyz", timeout=30).status_code
    except httpx.TransportError:  # of several workers, none serves yet, or the one that took this was killed
        return 0


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


def test_two_workers_share_counts_and_glossaries_and_lose_no_request_when_one_is_killed_and_all_are_stopped(
    tiny_run: TinyRun,
) -> None:
    options = ["--workers", "2", "--req-limit", "1000000", "--drain", "10"]
    with serving(str(tiny_run.path), *options) as (url, process), ThreadPoolExecutor(8) as pool:
        first, second = workers(process)
        answers = list(pool.map(lambda _: ask(url, "a b c"), range(40)))
        assert {(each.status_code, each.json()["translations"][0]["text"]) for each in answers} == {(200, "A B C")}
        glossary = {"name": "n", "source_lang": "en", "target_lang": "de", "entries": "a\tb", "entries_format": "tsv"}
        assert httpx.post(f"{url}/v2/glossaries", json=glossary).status_code == 201
        os.kill(first, signal.SIGKILL)
        assert len(httpx.get(f"{url}/v2/glossaries").json()["glossaries"]) == 1, "it was the dead worker's alone"
        until = time.monotonic() + 60
        while (there := workers(process)) in ([second], [first, second]):
            assert time.monotonic() < until
            time.sleep(0.05)
        assert len(there) == 2 and second in there
        assert httpx.get(f"{url}/v2/usage").json()["character_count"] == 40 * len("a b c"), "each has counts of its own"
        assert 'route="/v1/translate",status="200"} 40.0' in httpx.get(f"{url}/metrics").text
        replaced = threading.Event()
        asking = [pool.submit(ask_until_set, url, replaced) for _ in range(4)]
        try:
            assert httpx.post(f"{url}/v1/models/reload").status_code == 202
            while set(now := workers(process)) & set(there) or len(now) != 2:
                assert time.monotonic() < until + 120
                time.sleep(0.05)
        finally:
            replaced.set()
        assert set().union(*(each.result(timeout=60) for each in asking)) == {"A B"}, "none was lost"
        assert len(httpx.get(f"{url}/v2/glossaries").json()["glossaries"]) == 1
        asking = [pool.submit(ask_until_it_stops, url) for _ in range(8)]
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert set().union(*(each.result(timeout=60) for each in asking)) == {"A B"}
        assert process.wait(timeout=30) == -signal.SIGTERM


def ask_until_it_stops(url: str) -> set[str]:
    """The answers of a server until one says that it leaves; whatever else happens to a request is an error."""
    found = set()
    while True:
        answer = ask(url, "a b")
        found.add(answer.json()["translations"][0]["text"])
        if answer.headers.get("connection") == "close":
            return found


def ask_until_set(url: str, ended: threading.Event) -> set[str]:
    """The answers on one connection, or several if the server closes it."""
    found = set()
    with httpx.Client(timeout=60) as client:
        while not ended.is_set():
            found.add(client.post(f"{url}/v1/translate", json={"text": "a b"}).json()["translations"][0]["text"])
    return found


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The workers of a server."""
    found = []
    for children in Path(f"/proc/{process.pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            with suppress(OSError):  # it has just ended
                if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                    found.append(child)
    return sorted(found)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["no/such/run"], 4, "no/such/run"),
        (["{run}", "{run}"], 2, "two runs have the name"),
        (["{run}", "--port", "99999"], 2, "--port"),
        (["{run}", "--workers", "0"], 2, "--workers"),
        (["{run}", "--workers", "2", "--checkpoint", "77"], 4, "77"),
        (["{run}", "--limits-storage", "nothing://"], 2, "--limits-storage"),
        (["{run}", "--checkpoint", "77"], 4, "77"),
    ],
)
def test_what_cannot_be_served_is_told_at_once(
    tiny_run: TinyRun, run_cli: Callable[..., tuple[int, str]], arguments: list[str], code: int, told: str
) -> None:
    found, said = run_cli("serve", *(each.format(run=tiny_run.path) for each in arguments))
    assert (found, told in said) == (code, True), said


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_that_is_taken_is_told(tiny_run: TinyRun, run_cli: Callable[..., tuple[int, str]], workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = run_cli("serve", str(tiny_run.path), "--port", str(port), "--workers", workers)
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
