"""State of the clients of a server: counts, glossaries, translated files; shared by all of its processes.

A server of several processes keeps it in the supervising process; the others access it over a socket that only
processes of the same server can use.
"""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.managers import BaseManager
from pathlib import Path
from threading import Thread
from typing import Any

from regard.server.api.file_translation import TranslatedFiles
from regard.server.client_counts import ClientCounts, Counts, StoredCounts
from regard.server.glossaries import GlossaryStore
from regard.server.settings import ServerSettings


@dataclass(frozen=True)
class ClientState:
    """Counts, glossaries and files of a server's clients."""

    counts: Counts
    glossaries: GlossaryStore
    files: TranslatedFiles

    @classmethod
    def create(
        cls, settings: ServerSettings, *, glossaries: Path | None = None, storage: str | None = None
    ) -> ClientState:
        """Create a state.

        Args:
            settings: the limits.
            glossaries: the folder of glossaries; None keeps them in memory.
            storage: the URI of the counts; None keeps them in memory.
        """
        return cls(
            StoredCounts(storage) if storage not in (None, "memory://") else ClientCounts(),
            GlossaryStore(glossaries, limit=settings.glossaries, max_entries=settings.entries),
            TranslatedFiles(),
        )


class _Manager(BaseManager):
    """Connection to the state in another process."""


for _name in ("counts", "glossaries", "files"):
    _Manager.register(_name)


class SharedClientState:
    """State that is accessed by other processes, which must be child processes to have its key."""

    def __init__(self, state: ClientState, address: str | None = None) -> None:
        """Host a state at the path of a socket, by default in a new folder."""

        class Host(BaseManager):
            """State in this process."""

        for name in ("counts", "glossaries", "files"):
            Host.register(name, callable=lambda name=name: getattr(state, name))
        server: Any = Host(address=address).get_server()
        self.address = server.address
        Thread(target=server.serve_forever, name="client state", daemon=True).start()

    @staticmethod
    def connect(address: Any) -> ClientState:
        """Return the state in another process."""
        manager: Any = _Manager(address=address)
        manager.connect()
        return ClientState(manager.counts(), manager.glossaries(), manager.files())
