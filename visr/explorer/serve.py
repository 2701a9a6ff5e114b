"""Run the explorer as a server on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import re
import resource
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import uvicorn
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from visr.api import Run
from visr.errors import UserError
from visr.explorer import app, painting
from visr.explorer.messages import MAX_BYTES
from visr.explorer.state import ExplorerState

TOKEN_VARIABLE = "VISR_EXPLORER_TOKEN"
"""A fixed token lets pages survive a restart; not an option, because other users can read command lines."""
PORT = 8017
_TRIES = 20


class Server:
    """A bound socket, a token, and the application."""

    def __init__(
        self,
        run: str | Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        device: str = "auto",
        env: str | None = None,
    ) -> None:
        self.token = _token()
        self.explored = ExplorerState(run, device, env)
        warm_up(self.explored.run)
        self._socket = listen(host, port)
        self.host, self.port = host, self._socket.getsockname()[1]
        guarded = app.build(self.explored, token=self.token, host=host, stop=self.stop)
        config = uvicorn.Config(
            guarded,
            log_level="critical",
            access_log=False,
            http=http_protocol(guarded.has_token),
            ws=WebSocketProtocol,
            ws_max_size=MAX_BYTES,
            ws_max_queue=16,
            backlog=_AT_ONCE,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        self._uvicorn = uvicorn.Server(config)

    @property
    def url(self) -> str:
        """The address to open; for a wildcard host, the loopback address."""
        name = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        name = f"[{name}]" if ":" in name else name
        return f"http://{name}:{self.port}/?token={self.token}"

    @property
    def warning(self) -> str:
        """What to know about an address that other machines reach; nothing for a loopback address."""
        if ipaddress.ip_address(self._socket.getsockname()[0]).is_loopback:
            return ""
        return (
            f"--host {self.host} admits other machines, and there is no TLS: who reads the traffic gets the "
            "token, and anybody with the token can compute here and write tasks into the run. It is safer to "
            f"leave --host out and, on your own machine, open a tunnel: `ssh -L {self.port}:127.0.0.1:"
            f"{self.port} {socket.gethostname()}`."
        )

    def run(self) -> None:
        """Serve until Ctrl-C or SIGTERM."""
        with contextlib.suppress(KeyboardInterrupt):
            self._uvicorn.run(sockets=[self._socket])

    def stop(self) -> None:
        """Ask `run` to return, from another thread."""
        self._uvicorn.should_exit = True


def warm_up(run: Run) -> None:
    """Infer and evaluate one reward, so that the first painted one is as fast as the others."""
    torch.set_num_threads(1)  # small networks are slower with several threads
    if not painting.is_paintable(run) or run.world is None or run.world.free.sum() < 2:
        return
    reward = np.zeros(run.world.num_states)
    reward[np.flatnonzero(run.world.free)[0]] = 1.0
    painting.evaluate(run, painting.infer(run, reward), gpi=True)


def _token() -> str:
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return secrets.token_urlsafe(24)
    if not re.fullmatch(r"[A-Za-z0-9_-]{20,200}", given):
        raise UserError(
            f"{TOKEN_VARIABLE} must be 20 to 200 letters, digits, dashes and underscores; "
            "leave it unset for a random one."
        )
    return given


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket; without a port, the default one or one of the next that are free."""
    wanted, reason = range(PORT, PORT + _TRIES) if port is None else (port,), ""
    for number in wanted:
        try:
            return _bound(host, number)
        except OSError as error:
            reason = error.strerror or str(error)
    raise UserError(f"Cannot listen on {host}, port {wanted[0]}: {reason}; choose another --port.")


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_AT_ONCE)
    except OSError:
        listening.close()
        raise
    return listening


# ---- connections: those without the token are bounded in number and time

PATIENCE = 10.0
"""Seconds in which a connection must send a request with the token."""
MOST_WAITING = 512
"""Connections that have not shown the token; the oldest is closed when there is one more."""
_AT_ONCE = 64
"""Connections accepted in one turn of the event loop: far fewer than may wait, so that no connection is
closed by a flood of others before its first request is read."""


def http_protocol(has_token: Callable[[Scope], bool]) -> type[H11Protocol]:
    """uvicorn's HTTP protocol, with PATIENCE and MOST_WAITING for connections without the token.

    So that nobody without the token can lock the owner out; connections with the token are not counted.
    """
    waiting: dict[H11Protocol, asyncio.TimerHandle] = {}  # in order of arrival
    most = min(MOST_WAITING, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)

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
            if len(waiting) > most:
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
