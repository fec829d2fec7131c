"""The event loop's thread does nothing that grows with a request: it serves all other clients."""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx
import pytest

import regard
from regard.commands.server_plan import ServerPlan
from regard.server.batching.models import ModelRegistry

from .conftest import create_server, running
from .copying import capitals
from .predicting import book, mean
from .worst_requests import WorstRequest, worst_requests

HOME = Path(regard.__file__).parent
# Code that the loop may run: it moves requests between connections, threads and queues.
ALLOWED = ("server/", "core/deadline.py", "core/wording.py")
# Of the server, code that reads or writes what clients send.
REFUSED = (
    "server/text/",
    "server/api/json_route.py:parse",
    "server/api/requests.py:fields",
    "server/batching/predictions.py",
    "server/batching/translating.py:search_settings",
    "server/json_pieces.py",
)
ORCHESTRATES = "server/text/enforce_terms.py:translate_with_terms"  # a coroutine, which waits for threads and searches
LIBRARIES = ("markdown_it", "multipart", "tokenizers", "sentencex", "py3langid", "torch", "html", "csv")
GROWTH = 150  # calls that a request of twice the size may take more, since it arrives in more pieces
OWN_CALLS = {"C:append", "C:len", "C:isinstance", "C:popleft", "events.py:__lt__"}  # of the turns of the loop


class Guard:
    """Calls on the event loop's thread, by file and name; ``offences``: those that do not belong there."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.offences: set[str] = set()
        self._names: dict[CodeType, tuple[str, bool]] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            self.calls[f"C:{argument.__name__}"] += 1
        elif event == "call":
            name, is_offence = self._names.get(frame.f_code) or self._name(frame.f_code)
            self.calls[name] += 1
            if is_offence:  # at every call, also of code that an earlier request ran
                self.offences.add(name)
            size = _size(frame)
            if size > 2_000:
                self.offences.add(f"{name} of {size}")

    def _name(self, code: CodeType) -> tuple[str, bool]:
        """Return the name of code, and whether it belongs into a thread."""
        path = Path(code.co_filename)
        own = path.is_relative_to(HOME)
        name = f"{path.relative_to(HOME).as_posix() if own else path.name}:{code.co_name}"
        library = next((part for part in path.parts if part in LIBRARIES), None) if not own else None
        refused = own and (not name.startswith(ALLOWED) or name.startswith(REFUSED)) and name != ORCHESTRATES
        self._names[code] = name, bool(library) or refused
        return self._names[code]


def _size(frame: FrameType) -> int:
    """Return the size of the JSON that a frame reads or writes."""
    if frame.f_code.co_name not in ("loads", "dumps") or "json" not in frame.f_code.co_filename:
        return 0
    value = frame.f_locals.get("s", frame.f_locals.get("obj"))
    return len(value) if isinstance(value, str | bytes) else len(json.dumps(value))


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[str, Guard]]:
    """A server of four models whose event loop is watched."""
    guard = Guard()
    server, _ = create_server(
        [capitals(waiting=5_000)[0], capitals("other", "fr", "de", waiting=5_000)[0], mean()[0], book()], waiting=5_000
    )

    server.on_serving = lambda: sys.setprofile(guard)
    with running(server) as port:
        url = f"http://127.0.0.1:{port}"
        for request in worst_requests(text=400, body=12_000):  # loads models, compiles patterns
            send(url, request)
        yield url, guard


def send(url: str, request: WorstRequest) -> httpx.Response:
    headers = {"content-type": request.media_type} if request.body else {}
    return httpx.request(request.method, url + request.path, content=request.body, headers=headers, timeout=60)


SMALL, LARGE = (
    {each.name: each for each in worst_requests(text=text, body=body)}
    for text, body in ((1_000, 30_000), (2_000, 60_000))
)


@pytest.mark.parametrize("name", SMALL)
def test_the_loops_thread_does_nothing_that_grows_with_a_request(guarded: tuple[str, Guard], name: str) -> None:
    url, guard = guarded
    guard.calls.clear()
    guard.offences.clear()
    first = send(url, SMALL[name])
    small = guard.calls.copy()
    guard.calls.clear()
    second = send(url, LARGE[name])
    assert first.status_code == second.status_code and first.status_code < 500, first.text[:300]
    assert not guard.offences
    grown = {name: count - small[name] for name, count in guard.calls.items() if count > small[name] + GROWTH}
    assert not grown.keys() - OWN_CALLS, grown


def test_collections_of_garbage_leave_out_what_a_model_was_loaded_with(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = capitals()
    monkeypatch.setattr(ServerPlan, "models", lambda plan, metrics: ModelRegistry([model]))
    ServerPlan([], "127.0.0.1", 0).create_server()
    assert model.on_loaded is gc.freeze
    calls: list[int] = []
    model.on_loaded = lambda: calls.append(1)
    model.start()
    model.start()
    model.stop()
    assert calls == [1]
