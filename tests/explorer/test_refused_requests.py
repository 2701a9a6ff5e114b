"""Requests without the token, from other sites or malformed are refused with one sentence."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import string
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.explorer.launching import Launched
from visr.explorer import auth

PATHS = [
    *(("GET", f"/api/{name}") for name in ("run", "progress", "curves", "atlas", "atlas.html")),
    *(("POST", f"/api/{name}") for name in ("paint", "preset", "task", "save", "reload", "atlas")),
]


def raw(launched: Launched, request: bytes, wait: float = 10) -> bytes:
    """What comes back for these very bytes."""
    with socket.create_connection(("127.0.0.1", launched.server.port), wait) as connection:
        connection.sendall(request)
        answer = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            while part := connection.recv(65536):
                answer += part
        return answer


def handshake(launched: Launched, protocols: list[Any], **headers: str) -> Any:
    return connect(
        f"ws://127.0.0.1:{launched.server.port}/api/live",
        subprotocols=protocols,
        additional_headers=headers,
        max_size=None,
    )


@pytest.mark.parametrize(
    ("name", "bound", "known"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("localhost", "127.0.0.1", True),
        ("::1", "127.0.0.1", True),
        ("evil.example", "127.0.0.1", False),
        ("127.0.0.1.evil.example", "127.0.0.1", False),
        ("192.168.0.5", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        ("192.168.0.5", "0.0.0.0", True),
        ("evil.example", "0.0.0.0", False),
        ("evil.example", "::", False),
        ("my.host", "my.host", True),
    ],
)
def test_only_names_of_this_machine_are_accepted(name: str, bound: str, known: bool):
    assert auth.is_own_name(name, bound) is known


HOSTS = ["evil.example", "evil.example:80", "localhost.evil.example", "[", "a@localhost.x"]
ORIGINS = ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost"]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/run"])
def test_a_foreign_host_is_refused_everywhere(launched: Launched, host: str, path: str):
    status, answer, _ = launched.ask("GET", path, headers={"Host": host})
    assert status == 403
    assert answer["error"].endswith(".")


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_foreign_origin_is_refused(launched: Launched, origin: str):
    for method, path in PATHS:
        assert launched.ask(method, path, {}, {"Origin": origin})[0] == 403
    with pytest.raises(InvalidStatus) as refused:
        handshake(launched, ["visr", launched.server.token], Origin=origin)
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize("token", ["", "wrong", "x" * 10_000, "é"])
def test_nothing_is_computed_or_changed_without_the_token(launched: Launched, token: str):
    for method, path in PATHS:
        status, answer, _ = launched.ask(method, path, {}, {"x-visr-token": token})
        assert (status, list(answer)) == (401, ["error"])
    for protocols in (["visr"], ["visr", "wrong"], ["visr", "a", launched.server.token]):
        with pytest.raises(InvalidStatus) as refused:
            handshake(launched, protocols)
        assert refused.value.response.status_code == 401


def test_the_page_itself_holds_no_token(launched: Launched):
    status, answer, headers = launched.ask("GET", "/", headers={"x-visr-token": ""})
    assert status == 200
    assert launched.server.token not in answer["text"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static//etc/passwd",
        "/etc/passwd", "/static/%00", "/static/", "/api/nothing", "/api/", "/static/style.css/..",
        "/../../etc/passwd",
    ],
)  # fmt: skip
def test_no_path_leads_to_the_file_system(launched: Launched, path: str):
    status, answer, _ = launched.ask("GET", path)
    assert status == 404
    assert answer == {"error": "There is nothing at this address."}


def test_other_http_methods_are_refused(launched: Launched):
    for method in ("PUT", "DELETE", "POST", "OPTIONS", "TRACE"):
        status, answer, _ = launched.ask(method, "/api/run")
        assert status == 405
        assert answer["error"].endswith(".")


def test_huge_bodies_are_refused_before_they_are_read(launched: Launched):
    status, answer, _ = launched.ask("POST", "/api/paint", b"x" * 600_000)
    assert status == 413
    assert "larger than" in answer["error"]
    head = (
        f"POST /api/paint HTTP/1.1\r\nHost: localhost\r\nx-visr-token: {launched.server.token}\r\n"
    )
    lied = raw(launched, f"{head}Content-Length: 99999999999\r\n\r\n".encode(), wait=2)
    assert b" 413 " in lied.splitlines()[0]
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    endless = raw(
        launched, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 20, wait=2
    )
    assert endless == b"" or b" 413 " in endless.splitlines()[0]
    assert launched.is_serving()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"A" * 100_000,
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)  # fmt: skip
def test_a_connection_that_is_not_http_is_closed(launched: Launched, request_bytes: bytes):
    answer = raw(launched, request_bytes, wait=0.7)
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"403", b"404", b"413", b"431")
    assert b"Traceback" not in answer


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{", b'{"reward": "x"}', b'{"reward": [1]}', b'{"reward": [' + b"1," * 99 + b'"a"]}',
        b'{"kind": "nothing"}', b'{"kind": ["random"]}', b'{"kind": "random", "seed": -1}',
        b'{"kind": "saved", "name": "../config"}', b'{"kind": "mix", "parts": [{"id": "x", "weight": 1}]}',
        b'{"id": "x", "name": "y"}', b'{"text": "().__class__"}', b'{"text": "9**9**9**9"}',
        b'{"text": "' + b"(" * 200 + b'"}', b'{"text": "secret.npy"}', b'{"skills": 1000000}',
        b'{"kind": "expression", "text": "' + b"-" * 400 + b'row"}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["paint", "preset", "task", "save"])
def test_odd_requests_are_answered_with_a_sentence(launched: Launched, path: str, body: bytes):
    status, answer, _ = launched.ask("POST", f"/api/{path}", body)
    assert status == 400
    assert list(answer) == ["error"]
    assert answer["error"].endswith((".", "?"))
    assert "Traceback" not in answer["error"]


def noise(rng: random.Random) -> str | bytes:
    """A message that a broken or malicious page might send."""
    commands = [
        "play",
        "pause",
        "step",
        "speed",
        "epsilon",
        "gpi",
        "restart",
        "task",
        "",
        "é",
        "x" * 50,
    ]
    values: list[Any] = [
        None,
        True,
        -1,
        0,
        0.5,
        1e300,
        "x",
        [],
        {},
        [0] * 5,
        [1, 2],
        {"do": "play"},
    ]
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return "".join(rng.choices(string.printable, k=rng.randrange(100)))
    content = {"do": rng.choice(commands), rng.choice(["value", "seed", "w"]): rng.choice(values)}
    return json.dumps(content if kind == 2 else [content])


def test_ten_thousand_random_messages_leave_it_serving(launched: Launched):
    rng = random.Random(7)
    with handshake(launched, ["visr", launched.server.token]) as live:
        for count in range(10_000):
            live.send(noise(rng))
            if count % 50 == 0:
                with contextlib.suppress(TimeoutError):
                    while live.recv(timeout=0):
                        pass
        live.send(json.dumps({"do": "pause"}))
        live.send(json.dumps({"do": "restart", "seed": 123456}))
        while True:  # what it still had to say to the noise comes first
            said = live.recv(timeout=120)
            if isinstance(said, bytes) and b'"seed":123456' in said:
                break
    assert launched.is_serving()


def test_a_message_that_is_too_large_ends_only_its_own_connection(launched: Launched):
    with (
        handshake(launched, ["visr", launched.server.token]) as live,
        contextlib.suppress(Exception),
    ):
        live.send("x" * 2_000_000)
        while True:
            live.recv(timeout=10)
    assert launched.is_serving()


def test_the_number_of_live_sessions_is_limited(launched: Launched):
    with contextlib.ExitStack() as stack:
        offered = ["visr", launched.server.token]
        sessions = [stack.enter_context(handshake(launched, offered)) for _ in range(8)]
        for session in sessions:
            assert isinstance(session.recv(timeout=120), bytes)
        late = stack.enter_context(handshake(launched, offered))
        assert "close one of them" in json.loads(late.recv(timeout=120))["error"]
    assert launched.is_serving()
