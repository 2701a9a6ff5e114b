"""Authentication: only this server's own pages may send requests, and /api only with the token."""

from __future__ import annotations

import hmac
import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from visr.explorer.validation import MAX_BYTES

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN_HEADER = "x-visr-token"
PROTOCOL = "visr"
"""The websocket's subprotocol; the token is a second one, because browsers cannot send headers there."""
_PROTECTED = "/api/"
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

    def __init__(self, app: App, *, token: str, host: str) -> None:
        self._app, self._token, self._host = app, token, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with one sentence."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(scope, send, *refusal)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._app(scope, _bounded(receive), _with_headers(send))

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        hosts, origins = _all(headers, b"host"), _all(headers, b"origin")
        if len(hosts) != 1 or not is_own_name(_name(hosts[0]), self._host):
            return 403, "This explorer is not known by that name; open the address that it printed."
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return 403, "Requests from other sites are refused; open the address that it printed."
        if scope["path"].startswith(_PROTECTED) and not self._has_token(scope, headers):
            return (
                401,
                "The token is missing or another launch's; open the address that it printed.",
            )
        lengths = _all(headers, b"content-length")
        if any(not n.isdecimal() or len(n) > 12 or int(n) > MAX_BYTES for n in lengths):
            return 413, f"The request is larger than {MAX_BYTES:,} bytes."
        return None

    def _has_token(self, scope: Scope, headers: Iterable[tuple[bytes, str]]) -> bool:
        offered = _all(headers, TOKEN_HEADER.encode())
        if scope["type"] == "websocket":
            offered = [name for name in scope.get("subprotocols", ()) if name != PROTOCOL]
        token = self._token.encode()
        return len(offered) == 1 and hmac.compare_digest(offered[0].encode(), token)


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


def _all(headers: Iterable[tuple[bytes, str]], wanted: bytes) -> list[str]:
    return [value for name, value in headers if name == wanted]


async def _refuse(scope: Scope, send: Send, status: int, sentence: str) -> None:
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    body = json.dumps({"error": sentence}).encode()
    headers = {**_HEADERS, "content-type": "application/json", "content-length": str(len(body))}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": f"{kind}.start", "status": status, "headers": encoded})
    await send({"type": f"{kind}.body", "body": body, "more_body": False})


class TooLarge(Exception):
    """A body exceeds its limit."""


def _bounded(receive: Receive) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MAX_BYTES:
            raise TooLarge
        return message

    return counted


def _with_headers(send: Send) -> Send:
    extra = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return sent
