"""What clients leave on a server, counted once for all of its processes, or for several servers in a store."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import limits
import pytest

from regard.errors import ConfigError
from regard.server.api_error import ApiError
from regard.server.client_counts import ClientCounts, Counts, StoredCounts
from regard.server.client_state import ClientState, SharedClientState
from regard.server.settings import ServerSettings


def shared() -> ClientState:
    """A state behind its socket; each call is another process's connection, in effect."""
    return SharedClientState.connect(SharedClientState(ClientState.create(ServerSettings())).address)


MAKERS: dict[str, Callable[[], Counts]] = {
    "memory": ClientCounts,
    "store": lambda: StoredCounts("memory://"),
    "another process": lambda: shared().counts,
}


@pytest.mark.parametrize("name", MAKERS)
def test_requests_and_characters_are_counted_and_quotas_hold(name: str) -> None:
    counts = MAKERS[name]()
    assert [counts.hit("a", 2) for _ in range(2)] == [None, None]
    wait = counts.hit("a", 2)
    assert wait is not None and 0 <= wait <= 60 and counts.hit("b", 2) is None
    assert counts.charge("a", 6, 10) and not counts.charge("a", 5, 10) and counts.charge("a", 4, 10)
    assert (counts.characters("a"), counts.characters("b")) == (10, 0)
    counts.refund("a", 3)
    assert counts.charge("a", 3, 10) and not counts.charge("a", 1, 10) and counts.charge("a", 1, None)


@pytest.mark.parametrize("name", MAKERS)
def test_no_quota_is_exceeded_by_requests_at_once(name: str) -> None:
    counts = MAKERS[name]()
    with ThreadPoolExecutor(8) as pool:
        charged = list(pool.map(lambda _: counts.charge("a", 7, 100), range(40)))
    assert 7 * sum(charged) == counts.characters("a") <= 100
    assert sum(charged) == 14 or name == "store"  # a store may refuse one that would fit while another is refused


def test_while_a_store_does_not_answer_limits_stay_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    counts = StoredCounts("memory://", clock=lambda: now[0])
    assert counts.charge("a", 5, 10)
    asked = []

    def fail(*arguments: Any, **options: Any) -> None:
        asked.append(arguments)
        raise limits.errors.StorageError(ConnectionError("refused"))

    with monkeypatch.context() as patch:
        for name in ("incr", "get", "acquire_sliding_window_entry"):
            patch.setattr(counts._storage, name, fail)
        assert [counts.hit("a", 1) is None for _ in range(2)] == [True, False]
        assert [counts.charge("a", 8, 10) for _ in range(2)] == [True, False] and counts.characters("a") == 8
        counts.refund("a", 8)
        assert len(asked) == 1, "each request waited for the store"
        now[0] = 11.0
        assert counts.charge("a", 8, 10) and len(asked) == 2
    now[0] = 22.0
    assert counts.characters("a") == 5


@pytest.mark.parametrize("uri", ["nothing://here", "redis", "", "async+memory://"])
def test_a_store_that_is_none_is_told(uri: str) -> None:
    with pytest.raises(ConfigError, match="cannot store the counts"):
        StoredCounts(uri)


def test_a_store_whose_library_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigError) as caught:
        StoredCounts("redis://localhost:1")
    assert "pip install redis" in str(caught.value.help)


def test_glossaries_and_files_of_one_process_are_found_by_another(tmp_path: Path) -> None:
    host = SharedClientState(ClientState.create(ServerSettings(glossaries=1), glossaries=tmp_path))
    one, other = (SharedClientState.connect(host.address) for _ in range(2))
    made = one.glossaries.add("alice", "animals", "EN", "DE", {"dog": "Rüde"})
    assert other.glossaries.find("alice", str(made.id)) == made == other.glossaries.owned_by("alice")[0]
    with pytest.raises(ApiError) as caught:
        other.glossaries.add("alice", "more", "EN", "DE", {"cat": "Katze"})
    assert (caught.value.status, caught.value.message) == (400, "Too many glossaries: the limit is 1.")
    other.glossaries.remove("alice", str(made.id))
    with pytest.raises(ApiError) as caught:
        one.glossaries.find("alice", str(made.id))
    assert caught.value.status == 404
    assert other.files.find(one.files.add(".txt", "Ein Hund.")) == b"Ein Hund."


def test_a_stranger_is_not_let_in() -> None:
    host = SharedClientState(ClientState.create(ServerSettings()))
    own = multiprocessing.current_process().authkey
    try:
        multiprocessing.current_process().authkey = b"another"
        with pytest.raises(multiprocessing.AuthenticationError):
            SharedClientState.connect(host.address)
    finally:
        multiprocessing.current_process().authkey = own
