"""Connections: those without the token are bounded in number and time; malformed frames end their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

PATIENCE = 10.0
"""Seconds in which a connection must send a request with the token."""
MOST_WAITING = 64
"""Connections that have not shown the token; the oldest is closed when there is one more."""


def http_protocol(has_token: Callable[[Scope], bool]) -> type[H11Protocol]:
    """uvicorn's HTTP protocol, with PATIENCE and MOST_WAITING for connections without the token.

    So that nobody without the token can lock the owner out; connections with the token are not counted.
    """
    waiting: dict[H11Protocol, asyncio.TimerHandle] = {}  # in order of arrival

    def admit(connection: H11Protocol) -> None:
        if timer := waiting.pop(connection, None):
            timer.cancel()

    def close(connection: H11Protocol) -> None:
        admit(connection)
        connection.transport.abort()

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            waiting[self] = self.loop.call_later(PATIENCE, close, self)
            if len(waiting) > MOST_WAITING:
                close(next(iter(waiting)))

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self in waiting and self.scope is not None and has_token(self.scope):  # pyright: ignore
                admit(self)

        def connection_lost(self, exc: Exception | None) -> None:
            admit(self)
            super().connection_lost(exc)

    return Connection


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's websocket protocol; a text that is not UTF-8 closes the connection with code 1007."""

    def send_receive_event_to_app(self) -> None:
        """Pass a whole message on, unless it is malformed."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            data: Any = b"".join(self.frames)
            try:
                data.decode()
            except UnicodeDecodeError:
                self.conn.send_close(1007)
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()
