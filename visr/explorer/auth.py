"""Authentication: only this server's own pages may send requests, and /api only with the token."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from visr.explorer.messages import MAX_BYTES, TOO_LARGE

PROTOCOL = "visr"
"""The websocket's subprotocol; the token is a second one, because browsers cannot send headers there."""
_LOCAL = ("127.0.0.1", "localhost", "::1")
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class AuthMiddleware:
    """ASGI middleware that checks host, origin, token and size, and sets security headers."""

    def __init__(self, app: ASGIApp, *, token: str, host: str) -> None:
        self._app, self._token, self._host = app, token, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with one sentence."""
        if refusal := self._refusal(scope, Headers(scope=scope)):
            status, sentence = refusal
            await JSONResponse({"error": sentence}, status, _HEADERS)(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._app(scope, _bounded(receive), _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        hosts, open_address = headers.getlist("host"), "open the address that it printed."
        if len(hosts) != 1 or not is_own_name(_name(hosts[0]), self._host):
            return 403, f"This explorer is not known by that name; {open_address}"
        if any(origin != f"http://{hosts[0]}" for origin in headers.getlist("origin")):
            return 403, f"Requests from other sites are refused; {open_address}"
        offered = headers.getlist("x-visr-token")
        if scope["type"] == "websocket":
            offered = [name for name in scope.get("subprotocols", ()) if name != PROTOCOL]
        tokens, own = [token.encode() for token in offered], self._token.encode()
        has_token = len(tokens) == 1 and hmac.compare_digest(tokens[0], own)
        if scope["path"].startswith("/api/") and not has_token:
            return 401, f"The token is missing or another launch's; {open_address}"
        lengths = headers.getlist("content-length")
        if any(not n.isdecimal() or len(n) > 12 or int(n) > MAX_BYTES for n in lengths):
            return 413, TOO_LARGE
        return None


def is_own_name(name: str, bound_to: str) -> bool:
    """Whether a Host header's name is this server's.

    On a loopback address only local names are. Another site can point its own *name* here (DNS rebinding),
    but not an address: on all interfaces, addresses and the machine's own name are accepted.
    """
    if name in _LOCAL or name == bound_to.lower():
        return True
    if not _is_address(bound_to) or not ipaddress.ip_address(bound_to).is_unspecified:
        return False
    return _is_address(name) or name == socket.gethostname().lower()


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _bounded(receive: Receive) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MAX_BYTES:
            raise HTTPException(413, TOO_LARGE)
        return message

    return counted


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return sent
