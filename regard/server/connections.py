"""Connections to the server: how long a request's head may take, and how many one address may hold open.

uvicorn closes a connection that is idle after an answer. One that has sent half of a head, or nothing, it keeps for
ever, and some thousand of those shut the server for everybody.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from functools import partial
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.server.api.requests import network_of
from regard.server.settings import ServerSettings

__all__ = ["Connection", "Doors", "limited"]


class Doors:
    """What all connections of a server share: the limits, and how many each address holds.

    ``proxies``, as uvicorn takes them (addresses and networks with commas between, or ``*``), may hold any number: all
    clients have their address.
    """

    def __init__(self, settings: ServerSettings, proxies: str | None = None) -> None:
        self.seconds, self.most = settings.head_seconds, settings.connections
        self.held: Counter[str] = Counter()
        given = [each.strip() for each in (proxies or "").split(",")]
        self._any = "*" in given
        self._proxies = [network for each in given if (network := _network(each)) is not None]

    def unlimited(self, host: str) -> bool:
        """Whether an address is that of a proxy."""
        return self._any or any(_plain(host) in network for network in self._proxies if _network(host))

    def left(self, who: str) -> None:
        self.held[who] -= 1
        if not self.held[who]:
            del self.held[who]


def _plain(host: str) -> IPv4Address | IPv6Address:
    """The address itself: a socket of both kinds writes one of IPv4 as IPv6."""
    address = ip_address(host)
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _network(given: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(given, strict=False)
    except ValueError:
        return None


class Connection(H11Protocol):
    """One of them."""

    def __init__(self, *, doors: Doors, **given: Any) -> None:
        super().__init__(**given)
        self._doors = doors
        self._late: asyncio.TimerHandle | None = None
        self._who: str | None = None  # counted under this name

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        if not self._doors.unlimited(host):
            self._who = network_of(host)
            self._doors.held[self._who] += 1
            if self._doors.held[self._who] > self._doors.most:
                self._refuse(HTTPStatus.TOO_MANY_REQUESTS, "Too many connections from one address.")
                return
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        if self._who is not None:
            self._doors.left(self._who)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect()

    def _expect(self) -> None:
        """The clock runs while no whole head of a request is here, and the bytes of a part of one do not stop it."""
        waiting = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
        if waiting and self._late is None:
            self._late = self.loop.call_later(self._doors.seconds, self._too_late)
        elif not waiting and self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "The head of the request did not arrive in time.")

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        body = json.dumps({"error": message}).encode()
        headers = [
            (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"), (b"retry-after", b"1"),
        ]  # fmt: skip
        head = h11.Response(status_code=status, headers=headers, reason=status.phrase.encode())
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def limited(settings: ServerSettings, proxies: str | None = None) -> Any:
    """For ``uvicorn.Config(http=…)``."""
    return partial(Connection, doors=Doors(settings, proxies))
