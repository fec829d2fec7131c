"""A server never opens a path that a request names: the law over the predictor of every task, and a wrong one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from regard.core.predictor_interface import ReadsFiles, read_input
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.errors import RegardError
from regard.testing import TaskCase
from tests.laws import frames_task, images_task, sounds_task

OWN = {"frames": frames_task.TASK, "sounds": sounds_task.TASK, "images": images_task.TASK}
EVENTS = ("open", "os.listdir", "os.scandir", "glob.glob", "socket.connect", "urllib.Request")
_watched: list[tuple[str, list[str]]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    for name, seen in _watched if event in EVENTS else ():
        if any(name in str(argument) for argument in arguments):
            seen.append(f"{event} {arguments[0]}")


sys.addaudithook(_hook)  # a hook cannot be removed: it does nothing outside of ``opened``


@contextmanager
def opened(name: str) -> Iterator[list[str]]:
    """Yield the operations on paths and addresses that contain ``name``, as they happen in the block."""
    seen: list[str] = []
    _watched.append((name, seen))
    try:
        yield seen
    finally:
        _watched.remove((name, seen))


def hostile_lines(path: Path) -> list[str]:
    """Lines of requests that name a file of the server."""
    spelled = [str(path), f"file://{path}", f"http://localhost:1/{path.name}", f"../../..{path}", path.name]
    keys = ("audio", "image", "table", "path", "file", "audio_filepath", "url")
    objects = [{key: name} for key in keys for name in spelled]
    nested = [{"audio": {"path": str(path)}}, {"image": [str(path)]}, [{"audio": str(path)}], [[str(path)]]]
    return [*spelled, *(json.dumps(value) for value in (*objects, *nested, *([name] for name in spelled)))]


def read_all(predictor: Any, path: Path) -> None:
    """Pass every hostile line to a predictor; it may refuse them."""
    for line in hostile_lines(path):
        try:
            read_input(predictor, line)
        except RegardError:
            continue
    for contents in (b"", str(path).encode(), b"RIFF"):
        try:
            if isinstance(predictor, ReadsFiles) and predictor.suffixes:
                predictor.read_file(contents, str(path))
        except RegardError:
            continue


@pytest.mark.parametrize("kind", [*TASKS, *OWN])
def test_no_predictor_opens_a_path_that_a_request_names(kind: str, tmp_path: Path) -> None:
    case = TaskCase(OWN[kind], "classification") if kind in OWN else TaskCase(find_task(kind), kind)
    predictor, secret = case.predictor, tmp_path / "secret-7b1e.wav"
    secret.write_bytes(b"RIFF")
    with opened(secret.name) as seen:
        read_all(predictor, secret)
    assert seen == []


class OpensPaths:
    """A predictor that opens the path in a line, or that of an uploaded file."""

    suffixes = (".wav",)

    def __init__(self, place: str) -> None:
        self.place = place

    def read(self, line: str) -> bytes:
        path = Path(line.removeprefix('{"audio": "').removesuffix('"}'))
        try:
            return path.read_bytes() if self.place == "read" else b""
        except OSError as error:
            raise ValueError("no file") from error

    def read_file(self, contents: bytes, name: str) -> bytes:
        return Path(name).read_bytes() if self.place == "read_file" else b""


@pytest.mark.parametrize(("place", "caught"), [("read", True), ("read_file", True), ("nowhere", False)])
def test_a_predictor_that_opens_paths_is_caught(place: str, caught: bool, tmp_path: Path) -> None:
    secret = tmp_path / "secret-7b1e.wav"
    secret.write_bytes(b"RIFF")
    with opened(secret.name) as seen:
        read_all(OpensPaths(place), secret)
    assert bool(seen) == caught
