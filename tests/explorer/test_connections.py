"""Clients that stall or send malformed frames harm nobody else."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.explorer.launching import Launched, serving
from visr.explorer import serve
from visr.explorer.serve import Server

HALF = b"POST /api/paint HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"


@contextlib.contextmanager
def stalled(launched: Launched, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """So many connections that send these bytes and nothing more."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            address = ("127.0.0.1", launched.server.port)
            opened.append(stack.enter_context(socket.create_connection(address, 30)))
            opened[-1].sendall(sent)
        yield opened


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(5)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.parametrize(
    "sent",
    [b"", HALF, HALF + b"x-visr-token: wrong\r\n\r\n{", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET"],
    ids=["silent", "half a head", "half a body", "half a second request"],
)  # fmt: skip
def test_stalled_connections_without_the_token_do_not_lock_the_owner_out(
    launched: Launched, sent: bytes
):
    with stalled(launched, 300, sent):
        for _ in range(5):
            start = time.monotonic()
            assert launched.is_serving()
            assert time.monotonic() - start < 5


def test_connections_that_arrive_together_do_not_close_one_with_the_token(trained: Path):
    """All wait in the kernel before the server accepts the first, as in a flood."""
    server = Server(trained, port=0)
    token = f"x-visr-token: {server.token}\r\n".encode()
    request = b"GET /api/run HTTP/1.1\r\nHost: localhost\r\n" + token + b"\r\n"
    with contextlib.ExitStack() as stack:
        (owner,) = stack.enter_context(stalled(Launched(server), 1, request))
        for _ in range(200):
            stranger = stack.enter_context(socket.socket())
            stranger.setblocking(False)
            stranger.connect_ex(("127.0.0.1", server.port))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        assert b" 200 " in owner.recv(65536)
    server.stop()
    thread.join(timeout=30)


def test_a_flood_of_connections_does_not_lock_the_owner_out(launched: Launched):
    is_over = threading.Event()

    def flood() -> None:
        opened: list[socket.socket] = []
        while not is_over.is_set():
            with contextlib.suppress(OSError):
                opened.append(socket.create_connection(("127.0.0.1", launched.server.port), 1))
            while len(opened) == 400 or (opened and is_over.is_set()):
                opened.pop(0).close()

    attacker = threading.Thread(target=flood, daemon=True)
    attacker.start()
    try:
        for _ in range(10):
            assert launched.is_serving()
    finally:
        is_over.set()
        attacker.join(timeout=30)


def test_a_connection_that_never_shows_the_token_is_closed(
    launched: Launched, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(serve, "PATIENCE", 0.3)
    token = f"x-visr-token: {launched.server.token}\r\n".encode()
    request = b"GET /api/run HTTP/1.1\r\nHost: localhost\r\n" + token + b"\r\n"
    with stalled(launched, 10, HALF) as strangers, stalled(launched, 1, request) as (owner,):
        assert all(map(is_closed, strangers))
        assert b" 200 " in owner.recv(65536)
        owner.sendall(request)  # beyond the patience, on the same connection
        assert owner.recv(65536)


def frame(opcode: int, payload: bytes, first: int = 0x80, mask: bool = True) -> bytes:
    """One websocket frame of a client; `first` holds the final and the reserved bits."""
    key = bytes(4)  # a mask of zeros leaves the payload as it is
    return bytes([first | opcode, (0x80 if mask else 0) | len(payload)]) + key * mask + payload


MALFORMED = {
    "text that is not UTF-8": frame(1, b"\xff\xfe"),
    "a cut character": frame(1, '{"do":"é'.encode()[:-1]),
    "a surrogate": frame(1, b"\xed\xa0\x80"),
    "not UTF-8 in two fragments": frame(1, b"\xff", 0) + frame(0, b"\xfe"),
    "a continuation of nothing": frame(0, b"x"),
    "a text within a text": frame(1, b"a", 0) + frame(1, b"b"),
    "an unknown opcode": frame(3, b"x"),
    "reserved bits": frame(1, b"x", 0xF0),
    "no mask": frame(1, b"x", mask=False),
    "a fragmented ping": frame(9, b"x", 0),
    "a long ping": bytes([0x89, 0xFE, 0xFF, 0xFF]) + bytes(4) + b"x" * 65535,
    "a close without a reason": frame(8, b"\x03"),
    "a close with a bad code": frame(8, b"\x00\x01"),
    "a close that is not UTF-8": frame(8, b"\x03\xe8\xff"),
    "a length of 2^63": bytes([0x81, 0xFF]) + b"\xff" * 8,
}


def upgraded(launched: Launched) -> socket.socket:
    head = (
        f"GET /api/live HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {'A' * 22}==\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Protocol: visr, {launched.server.token}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", launched.server.port), 30)
    connection.sendall(head.encode())
    assert b" 101 " in connection.recv(200)
    return connection


def test_malformed_frames_close_their_own_connection_without_a_traceback(
    trained: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    rng = random.Random(3)
    noise = {f"noise {n}": rng.randbytes(rng.randrange(1, 120)) for n in range(60)}
    logging.getLogger("uvicorn.error").addHandler(caplog.handler)
    with serving(trained) as launched:
        for name, sent in (MALFORMED | noise).items():
            with upgraded(launched) as connection:
                with contextlib.suppress(OSError):
                    connection.sendall(sent)
                if name in MALFORMED and name != "a long ping":
                    assert is_closed(connection), name
        assert launched.is_serving()
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err + caplog.text
    assert out + err == ""


@pytest.mark.parametrize(
    "host",
    ["[::1].evil.example", "[::1]evil", "localhost:80.evil.example", "localhost:", "x@localhost",
     "localhost/evil", "localhost#evil", "localhost?evil", "localhost.", "[127.0.0.1]evil", "[::1",
     "127.0.0.1:123456", "localhost:٣", "localhost evil", "localhost\\evil", "%6cocalhost"],
)  # fmt: skip
def test_a_host_that_only_begins_like_this_machine_is_refused(launched: Launched, host: str):
    raw = f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", launched.server.port), 30) as connection:
        connection.sendall(raw)
        assert connection.recv(65536).split(b" ")[1] in (b"400", b"403")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:8017", "[::1]"])
def test_the_names_of_this_machine_are_accepted_with_and_without_a_port(
    launched: Launched, host: str
):
    assert launched.ask("GET", "/", headers={"Host": host})[0] == 200
