"""Server with draining: after a stop signal it reports not ready, then closes its port, then completes requests.

uvicorn closes its port at once, drops connections that have not been accepted yet, and closes those whose first request
has not arrived yet. Behind a load balancer, which continues to send for a while, all of these requests would be lost.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from regard.server.service import Service

ARRIVING = 2.0  # maximum time to wait for the first requests of connections that were just accepted, in seconds


class DrainingServer(uvicorn.Server):
    """Server of a service. After SIGTERM its port stays open for ``grace`` seconds; Ctrl-C closes it at once.

    In both cases accepted requests are completed. A second signal ends the process immediately.
    """

    def __init__(self, config: uvicorn.Config, service: Service, *, grace: float = 0.0) -> None:
        super().__init__(config)
        self.grace, self.service = grace, service
        self.retiring = False  # whether a successor already serves the port: keep connections until clients end them
        self.on_serving: Callable[[], None] = lambda: None  # called once the port is open

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; at the second signal, end the process by the default action of the signal."""
        if self.retiring:  # the first stop signal
            self.retiring = False
        elif self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            os.kill(os.getpid(), sig)
        if sig == signal.SIGINT:
            self.grace = 0.0
        self.service.draining = True
        super().handle_exit(sig, frame)

    def retire(self) -> None:
        """Begin to stop because a successor serves the port; no request of an open connection is lost."""
        self.grace, self.retiring, self.service.replaced = 0.0, True, True
        self.service.draining = self.should_exit = True

    async def main_loop(self) -> None:
        """Serve until a stop signal, and then for the grace time."""
        self.on_serving()
        await super().main_loop()
        self.service.draining = True
        began = time.monotonic()
        while time.monotonic() < began + self.grace:
            await asyncio.sleep(min(0.1, self.grace))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the port, accept its waiting connections, complete all requests, and stop."""
        queues = [listener.dup() for server in self.servers for listener in server.sockets]
        for server in self.servers:
            server.close()
        for queue in queues:
            await self._accept_waiting(queue)
        until = time.monotonic() + ARRIVING
        await asyncio.sleep(0.05)
        connections: Any = self.server_state.connections
        # ``cycle`` is None until the first request of a connection has arrived. WebSockets lack it: their streams
        # end when they notice that the server is stopping.
        while time.monotonic() < until and any(
            getattr(connection, "cycle", None) is None for connection in connections
        ):
            await asyncio.sleep(0.05)
        if self.retiring:  # uvicorn would close a connection on which the next request may be on its way
            until = time.monotonic() + self.config.timeout_keep_alive + 1
            while connections and time.monotonic() < until:
                await asyncio.sleep(0.05)
        await super().shutdown(sockets)

    async def _accept_waiting(self, queue: socket.socket) -> None:
        """Accept the connections in the queue of a port, and close the port."""
        accepted = []
        with queue:
            queue.setblocking(False)
            try:
                while True:
                    accepted.append(queue.accept()[0])
            except OSError:  # the queue is empty
                pass
        kind: Any = self.config.http_protocol_class
        protocol = partial(kind, config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        for connection in accepted:
            await asyncio.get_running_loop().connect_accepted_socket(protocol, connection, ssl=self.config.ssl)
