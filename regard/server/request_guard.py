"""Rejection of suspicious requests: ambiguous bodies, and requests that a page of another site makes a browser send.

A server on a loopback address needs no key, and browsers on the same machine can reach it. A malicious page can let its
own name resolve to that address (the header Host then has that name). It can also send forms without permission.
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
    """Check that a request is trustworthy.

    Raises:
        ApiError: 400 for a body with two lengths, 421 for a host name that the server does not accept, 403 for a form
            of another site.
    """
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if b"transfer-encoding" in headers and b"content-length" in headers:
        raise ApiError(400, "Invalid request: Transfer-Encoding and Content-Length cannot be combined")
    host = headers.get(b"host", b"").decode("latin-1")
    if host and not _is_served(host, scope, settings):
        raise ApiError(421, "This server does not accept the host name of the request: see --allow-host.")
    is_json = headers.get(b"content-type", b"").lower().startswith(b"application/json")
    if scope["method"] not in READING and not is_json:
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            raise ApiError(403, "Forms of other sites are not accepted.")


def require_own_page(scope: Scope, settings: ServerSettings) -> None:
    """Check that no page of another site opens a WebSocket. Browsers allow them to, and send the page as Origin.

    Raises:
        ApiError: 421 for a host name that the server does not accept, 403 for another origin.
    """
    headers: dict[bytes, bytes] = dict(scope["headers"])
    host, origin = (headers.get(name, b"").decode("latin-1") for name in (b"host", b"origin"))
    if host and not _is_served(host, scope, settings):
        raise ApiError(421, "This server does not accept the host name of the request: see --allow-host.")
    own = {host.lower(), urlsplit(settings.public_url or "").netloc.lower()} - {""}
    if origin and _place(origin) not in own:
        raise ApiError(403, "Pages of other sites cannot open a connection.")


def _place(origin: str) -> str:
    """Return host and port of an origin."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_served(host: str, scope: Scope, settings: ServerSettings) -> bool:
    """Return whether the server accepts a header Host."""
    name = _host_name(host)
    if settings.hosts is None:
        address = (scope.get("server") or ("",))[0]
        if not is_loopback(address):
            return True
    elif "*" in settings.hosts or name in settings.hosts:
        return True
    public = urlsplit(settings.public_url or "").hostname
    return name == public or name in LOCAL_NAMES or name.endswith(".localhost") or is_loopback(name)


def _host_name(host: str) -> str:
    """Return the name or address in a header Host, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(address: str) -> bool:
    """Return whether a text is a loopback address."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
