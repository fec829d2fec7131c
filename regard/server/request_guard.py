"""Requests that no client of ours sends: ambiguous bodies, and those that a page of another site makes a browser send.

A server on a loopback address needs no key, and a browser of the same machine reaches it. A page of a stranger can let
its own name resolve to that address (the header Host then has that name), and it can send forms without asking.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import Scope

from regard.server.api_error import ApiError
from regard.server.settings import ServerSettings

LOCAL_NAMES = ("localhost", "ip6-localhost")
READING = ("GET", "HEAD", "OPTIONS")


def require_trustworthy(scope: Scope, settings: ServerSettings) -> None:
    """Raise ApiError for a request that must not be answered.

    Raises:
        ApiError: 400 for a body with two lengths, 421 for a host that this server does not serve, 403 for a form of
            another site.
    """
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if b"transfer-encoding" in headers and b"content-length" in headers:
        raise ApiError(400, "Invalid request: both Transfer-Encoding and Content-Length give the end of the body")
    host = headers.get(b"host", b"").decode("latin-1")
    if host and not _is_served(host, scope, settings):
        raise ApiError(421, "This server does not serve the host that the request names: see --allow-host.")
    is_json = headers.get(b"content-type", b"").lower().startswith(b"application/json")
    if scope["method"] not in READING and not is_json:
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            raise ApiError(403, "A page of another site sent this form.")


def _is_served(host: str, scope: Scope, settings: ServerSettings) -> bool:
    """Return whether a header Host names this server."""
    name = _host_name(host)
    if settings.hosts is None:
        address = (scope.get("server") or ("",))[0]
        if not _is_loopback(address):
            return True
    elif "*" in settings.hosts or name in settings.hosts:
        return True
    public = urlsplit(settings.public_url or "").hostname
    return name == public or name in LOCAL_NAMES or name.endswith(".localhost") or _is_loopback(name)


def _host_name(host: str) -> str:
    """Return the name or address of a header Host, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_loopback(address: str) -> bool:
    """Return whether a text is an address of this machine alone."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
