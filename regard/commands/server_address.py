"""Addresses of a server: ports, Unix sockets and certificates."""

from __future__ import annotations

import logging
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.core.wording import describe_error
from regard.errors import ConfigError

log = logging.getLogger("regard.server")


@contextmanager
def listening_socket(host: str, port: int, path: Path | None) -> Iterator[socket.socket]:
    """Return a listening socket while the block runs: at a path, or at an address if it is None.

    Raises:
        ConfigError: if the address is in use.
    """
    if path is None:
        with bound_socket(host, port) as listener:
            yield listener
        return
    with _bound_unix_socket(path) as listener:
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise ConfigError if the port is in use, which uvicorn would report too late."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}", where="--host, --port", why=error.strerror or str(error),
            help="use another --port; 0 chooses a free one",
        ) from error  # fmt: skip


def _bound_unix_socket(path: Path) -> socket.socket:
    """Return a socket that listens on a path; a socket without a server is replaced, another file is not."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode) and not _is_served(path):
            path.unlink()
        listener.bind(str(path))
        path.chmod(0o660)  # clients need the permission to write
        listener.listen(2048)
    except OSError as error:
        listener.close()
        why, help = describe_error(error), "use another path, or stop the server that uses it"
        raise ConfigError(f"cannot listen on the socket {path}", where="--socket", why=why, help=help) from error
    return listener


def _is_served(path: Path) -> bool:
    """Return whether a process accepts connections on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return False
        return True


def free_port(host: str, port: int) -> int:
    """Return the port, or a free one for 0; raise ConfigError if it is in use."""
    with bound_socket(host, port) as listener:
        return int(listener.getsockname()[1])


def log_address(listener: socket.socket, *, encrypted: bool, workers: int = 1) -> None:
    """Log the address of a server in the form that uvicorn uses."""
    if listener.family == socket.AF_UNIX:
        address = f"the socket {listener.getsockname()}"
    else:
        host, number = listener.getsockname()[:2]
        scheme = "https" if encrypted else "http"
        address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{number}"
    count = "1 process" if workers == 1 else f"{workers} workers"
    log.info("%s running on %s (Press CTRL+C to quit)", count, address)


def check_certificate(certificate: Path | None, key: Path | None) -> None:
    """Raise ConfigError for a certificate that cannot be used, or a key without a certificate."""
    if certificate is None:
        if key is not None:
            raise ConfigError("--tls-key requires --tls-certificate", where="--tls-key")
        return

    def refuse() -> str:
        raise ValueError("the key is encrypted; store it without a passphrase, readable by the server only")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, refuse)
    except (OSError, ValueError) as error:
        where = "--tls-certificate, --tls-key" if key else "--tls-certificate"
        why = getattr(error, "reason", None) or describe_error(error)
        raise ConfigError("cannot read the certificate of the server", where=where, why=str(why)) from error
