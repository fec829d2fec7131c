"""Server that drains: once told to stop it says that it is not ready, then closes its port, then answers what it has.

uvicorn closes its port at once, drops connections that nobody has accepted yet, and closes those whose first request
is still on its way. Behind a load balancer, which goes on sending for a while, all of them are lost requests.
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

ARRIVING = 2.0  # seconds to wait at most for the first requests of connections that were just accepted


class DrainingServer(uvicorn.Server):
    """Server of a service. SIGTERM: it stays open for ``grace`` seconds. Ctrl-C: it closes at once.

    Either way, accepted requests are answered; a second signal ends the process at once.
    """

    def __init__(self, config: uvicorn.Config, service: Service, *, grace: float = 0.0) -> None:
        super().__init__(config)
        self.grace, self._service = grace, service
        self.on_serving: Callable[[], None] = lambda: None  # called once the port is open

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; at the second signal, end at once, as if the signal had never been handled."""
        if self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            os.kill(os.getpid(), sig)
        if sig == signal.SIGINT:
            self.grace = 0.0
        self._service.draining = True
        super().handle_exit(sig, frame)

    async def main_loop(self) -> None:
        """Serve until told to stop, and then for the time of grace."""
        self.on_serving()
        await super().main_loop()
        self._service.draining = True
        began = time.monotonic()
        while time.monotonic() < began + self.grace:
            await asyncio.sleep(min(0.1, self.grace))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the port, take in the connections that wait there, answer all requests, and stop."""
        queues = [listener.dup() for server in self.servers for listener in server.sockets]
        for server in self.servers:
            server.close()
        for queue in queues:
            await self._take_in(queue)
        until = time.monotonic() + ARRIVING
        await asyncio.sleep(0.05)
        connections: Any = self.server_state.connections
        while time.monotonic() < until and any(each.cycle is None for each in connections):  # none has begun
            await asyncio.sleep(0.05)
        await super().shutdown(sockets)

    async def _take_in(self, queue: socket.socket) -> None:
        """Accept the connections that wait in the queue of a port, and close the port."""
        accepted = []
        with queue:
            queue.setblocking(False)
            try:
                while True:
                    accepted.append(queue.accept()[0])
            except OSError:  # nothing waits
                pass
        kind: Any = self.config.http_protocol_class
        protocol = partial(kind, config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        for connection in accepted:
            await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
