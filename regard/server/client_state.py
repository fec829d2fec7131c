"""State that clients have left on a server: counts, glossaries, translated files; shared by all of its processes.

A server of several processes keeps it in the one that supervises the others, which ask for it over a socket that only
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
        """Create a state; ``glossaries``: a folder, None: memory; ``storage``: a store of counts, None: memory."""
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
    """State that other processes use; its own process has started them, so that they have its key."""

    def __init__(self, state: ClientState, address: str | None = None) -> None:
        """Host a state at the path of a socket, by default one in a folder of its own."""

        class Host(BaseManager):
            """State in this process."""

        for name in ("counts", "glossaries", "files"):
            Host.register(name, callable=lambda name=name: getattr(state, name))
        server: Any = Host(address=address).get_server()
        self.address = server.address
        Thread(target=server.serve_forever, name="client state", daemon=True).start()

    @staticmethod
    def connect(address: Any) -> ClientState:
        """Return the state that another process holds."""
        manager: Any = _Manager(address=address)
        manager.connect()
        return ClientState(manager.counts(), manager.glossaries(), manager.files())
