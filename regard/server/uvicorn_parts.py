"""Parts of uvicorn without documentation that the server uses, in one place: another version may lack some of them.

``regard.server.draining_server`` uses those of ``Server`` and ``Config``, ``regard.server.connections`` the others.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from regard.core.installation import package_command
from regard.errors import ConfigError

TESTED = "0.54.0"  # the version of constraints.txt
PARTS = {
    "Server": ("startup", "main_loop", "shutdown", "handle_exit", "should_exit", "servers", "server_state"),
    "ServerState": ("connections",),
    "Lifespan": ("state",),
    "Config": ("http_protocol_class", "lifespan_class", "ssl", "backlog", "timeout_keep_alive"),
    "H11Protocol": (
        "connection_made", "connection_lost", "data_received", "on_response_complete", "send_400_response",
        "handle_websocket_upgrade", "conn", "transport", "loop", "client", "connections", "cycle",
    ),
    "WebSocketsSansIOProtocol": ("connection_lost",),
}  # fmt: skip


def missing_parts() -> list[str]:
    """Return the parts that the installed version lacks, such as ``Server.main_loop``."""
    return [f"{name}.{part}" for name, owner in _owners().items() for part in PARTS[name] if not hasattr(owner, part)]


def require_parts() -> None:
    """Raise ConfigError if the installed version lacks a part, without which requests would be lost."""
    try:
        missing = missing_parts()
    except (AttributeError, ImportError, TypeError) as error:
        missing = [str(error)]
    if missing:
        what = f"uvicorn {importlib.metadata.version('uvicorn')} is not supported"
        raise ConfigError(
            what, why=f"parts that the server uses have changed: {', '.join(missing)}",
            help=package_command(f"uvicorn=={TESTED}"),
        )  # fmt: skip


def _owners() -> dict[str, Any]:
    """Return an instance of each class, by name."""
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    config = uvicorn.Config(_no_app, log_config=None)
    config.load()
    server, state, loop = uvicorn.Server(config), ServerState(), asyncio.new_event_loop()
    if "servers" in uvicorn.Server.startup.__code__.co_names:  # assigned there
        server.servers = []
    try:
        http = H11Protocol(config, state, {}, _loop=loop)
    finally:
        loop.close()
    return {
        "Server": server, "ServerState": state, "Config": config, "Lifespan": config.lifespan_class(config),
        "H11Protocol": http, "WebSocketsSansIOProtocol": WebSocketsSansIOProtocol,
    }  # fmt: skip


async def _no_app(scope: Any, receive: Any, send: Any) -> None:
    """Serve nothing."""
