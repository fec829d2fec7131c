"""Limits of connections: the time for the head of a request, and the number of open connections per address.

uvicorn closes a connection that is idle after a response. But it never closes a connection that has sent nothing or an
incomplete head. A few thousand of those would block the server for all clients.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from regard.server.api.requests import client_network
from regard.server.api_error import ErrorReason
from regard.server.request_record import HEADER, new_id
from regard.server.settings import ServerSettings

CONNECTIONS = 1024  # maximum number of open connections of all clients; larger with a longer queue
MESSAGE_BYTES = 1 << 20  # maximum of one message of a WebSocket


REASON: ErrorReason = "too many connections"
OnRefused = Callable[[ErrorReason], None]


def _nothing(reason: ErrorReason) -> None:
    """Do nothing."""


class ConnectionLimits:
    """Limits and counts that all connections of a server share.

    Args:
        settings: the limits.
        proxies: addresses and networks separated by commas, or ``*``, as in uvicorn. They may have any number of
            connections, because all clients behind them share their address.
        on_refused: called with the reason of each refused connection.
    """

    def __init__(self, settings: ServerSettings, proxies: str | None = None, on_refused: OnRefused = _nothing) -> None:
        self.on_refused = on_refused
        self.seconds, self.max_connections = settings.head_seconds, settings.connections
        self.all_connections = max(CONNECTIONS, 4 * settings.waiting)
        self.open_connections: Counter[str] = Counter()
        names = [name.strip() for name in (proxies or "").split(",")]
        self._any_proxy = "*" in names
        self._proxies = [network for name in names if (network := _parse_network(name)) is not None]

    def is_proxy(self, host: str) -> bool:
        """Return whether an address is that of a trusted proxy, which may have any number of connections."""
        return self._any_proxy or any(
            _parse_address(host) in network for network in self._proxies if _parse_network(host)
        )

    def release(self, network: str) -> None:
        """Count a closed connection of a client network."""
        self.open_connections[network] -= 1
        if not self.open_connections[network]:
            del self.open_connections[network]


def _parse_address(host: str) -> IPv4Address | IPv6Address:
    """Return an address; an IPv4 address in IPv6 notation, as from a dual-stack socket, becomes IPv4."""
    address = ip_address(host)
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _parse_network(text: str) -> IPv4Network | IPv6Network | None:
    """Return the network of an address or a network in CIDR notation; None if ``text`` is neither."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


class Listening(WebSocketsSansIOProtocol):
    """WebSocket that calls ``on_lost`` when it is closed."""

    on_lost: Callable[[], None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Call ``on_lost``."""
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()


class Connection(H11Protocol):
    """HTTP connection with ConnectionLimits."""

    def __init__(self, *, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._counted: str | None = None  # client network under which the connection is counted

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, reject it beyond the limit, and start the timer."""
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        if not self._limits.is_proxy(host):
            self._counted = client_network(host)
            self._limits.open_connections[self._counted] += 1
            if self._limits.open_connections[self._counted] > self._limits.max_connections:
                self._refuse(HTTPStatus.TOO_MANY_REQUESTS, REASON, "Too many connections from one address.")
                return
        if len(self.connections) > self._limits.all_connections:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, REASON, "Too many connections.")
            return
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer and release the connection."""
        if self._timer is not None:
            self._timer.cancel()
        if self._counted is not None:
            self._limits.release(self._counted)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over to a WebSocket, which stays counted until it is closed."""
        super().handle_websocket_upgrade(event)
        listening = self.transport.get_protocol()
        if self._counted is not None and isinstance(listening, Listening):
            listening.on_lost = partial(self._limits.release, self._counted)

    def data_received(self, data: bytes) -> None:
        """Read data; start or stop the timer."""
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        """Start the timer for the next request."""
        super().on_response_complete()
        self._watch_head()

    def _watch_head(self) -> None:
        """Run the timer until a complete head of a request has arrived; parts of a head do not stop it."""
        waiting = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
        if waiting and self._timer is None:
            self._timer = self.loop.call_later(self._limits.seconds, self._head_timed_out)
        elif not waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_timed_out(self) -> None:
        """Reject a request whose head did not arrive in time."""
        self._timer = None
        if not self.transport.is_closing():
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "slow client", "The head of the request did not arrive in time.")

    def send_400_response(self, msg: str) -> None:
        """Reject data that is not HTTP."""
        self._refuse(HTTPStatus.BAD_REQUEST, "invalid", "Invalid HTTP request received.")

    def _refuse(self, status: HTTPStatus, reason: ErrorReason, message: str) -> None:
        """Send an error and close the connection."""
        self._limits.on_refused(reason)
        body = json.dumps({"error": message}).encode()
        headers = [
            (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"), (b"retry-after", b"1"), (HEADER, new_id().encode()),
        ]  # fmt: skip
        head = h11.Response(status_code=status, headers=headers, reason=status.phrase.encode())
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def limited_protocols(
    settings: ServerSettings, proxies: str | None = None, on_refused: OnRefused = _nothing
) -> dict[str, Any]:
    """Return the protocols for ``uvicorn.Config``, with limits for all of its connections."""
    http = partial(Connection, limits=ConnectionLimits(settings, proxies, on_refused))
    return {"http": http, "ws": Listening, "ws_max_size": MESSAGE_BYTES}
