"""Authentication: only this server's own pages may send requests, and /api only with the token.

Programs send the token itself. A browser opens /?token=... once: the answer sets a cookie that scripts cannot
read, and leads to the address without the token.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
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
        self._session = hmac.digest(token.encode(), b"cookie", "sha256").hex()
        """The cookie's value; the token cannot be computed from it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, refuse it with one sentence, or exchange the token for a cookie."""
        if refusal := self._refusal(scope, Headers(scope=scope)):
            status, sentence = refusal
            await JSONResponse({"error": sentence}, status, _HEADERS)(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        elif scope["path"] == "/" and (
            given := QueryParams(scope["query_string"]).getlist("token")
        ):
            await self._signed_in(scope, given)(scope, receive, _with_headers(send))
        else:
            await self._app(scope, _bounded(receive), _with_headers(send))

    def _signed_in(self, scope: Scope, given: list[str]) -> Response:
        """Lead to the page without the token in its address; set the cookie if the token is right."""
        answer = RedirectResponse("/", 303)
        if _is_one(given, self._token):
            answer.set_cookie(_cookie(scope), self._session, httponly=True, samesite="strict")
        return answer

    def has_token(self, scope: Scope) -> bool:
        """Whether a request carries the token or, if it names no token, the cookie."""
        headers = Headers(scope=scope)
        protocols = ",".join(headers.getlist("sec-websocket-protocol")).split(",")
        offered = [name.strip() for name in protocols if name.strip() not in ("", PROTOCOL)]
        offered += headers.getlist("x-visr-token")
        if offered:
            return _is_one(offered, self._token)
        try:
            cookies = [SimpleCookie(line) for line in headers.getlist("cookie")]
        except CookieError:
            return False
        name = _cookie(scope)
        return _is_one([jar[name].value for jar in cookies if name in jar], self._session)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        hosts, open_address = headers.getlist("host"), "open the address that it printed."
        if len(hosts) != 1 or not is_own_name(_name(hosts[0]), self._host):
            return 403, f"This explorer is not known by that name; {open_address}"
        is_api, sites = scope["path"].startswith("/api/"), headers.getlist("sec-fetch-site")
        is_foreign = any(origin != f"http://{hosts[0]}" for origin in headers.getlist("origin"))
        if is_foreign or (is_api and {"cross-site", "same-site"} & {*sites}):
            return 403, f"Requests from other sites are refused; {open_address}"
        if is_api and not self.has_token(scope):
            return 401, f"The token is missing or another launch's; {open_address}"
        lengths = headers.getlist("content-length")
        if any(not n.isdecimal() or len(n) > 12 or int(n) > MAX_BYTES for n in lengths):
            return 413, TOO_LARGE
        return None


def _is_one(given: list[str], own: str) -> bool:
    return len(given) == 1 and hmac.compare_digest(given[0].encode(), own.encode())


def _cookie(scope: Scope) -> str:
    """The cookie's name: browsers send the cookies of one port to all ports of a host."""
    return f"visr-{scope['server'][1]}"


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
    """The name in a Host header, without its port; nothing if the header has any other form."""
    form = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::\d{1,5})?", host, re.ASCII)
    return (form[1] or form[2]).lower() if form else ""


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
