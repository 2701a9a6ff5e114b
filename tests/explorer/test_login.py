"""The token in the address is exchanged for a cookie, and leaves the address."""

from __future__ import annotations

from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.explorer.launching import Launched

NO_TOKEN: dict[str, Any] = {"x-visr-token": None}


def cookie_of(launched: Launched) -> str:
    """The cookie that a browser sends after it has opened the printed address."""
    _, _, headers = launched.ask("GET", f"/?token={launched.server.token}", headers=NO_TOKEN)
    return headers["set-cookie"].partition(";")[0]


def test_the_printed_address_sets_a_cookie_that_scripts_and_other_sites_cannot_use(
    launched: Launched,
):
    status, _, headers = launched.ask("GET", f"/?token={launched.server.token}", headers=NO_TOKEN)
    assert (status, headers["location"]) == (303, "/")
    attributes = {part.strip().lower() for part in headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    assert launched.server.token not in headers["set-cookie"]
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "query", ["token=", "token=wrong", "token=%00", "token=a&token={}", "token=é"]
)
def test_a_wrong_token_sets_no_cookie_and_leaves_the_address_too(launched: Launched, query: str):
    path = "/?" + query.format(launched.server.token).replace("é", "%C3%A9")
    status, _, headers = launched.ask("GET", path, headers=NO_TOKEN)
    assert (status, headers["location"]) == (303, "/")
    assert "set-cookie" not in headers


def test_the_cookie_is_enough_for_requests_and_sessions(launched: Launched):
    cookie = cookie_of(launched)
    assert launched.ask("GET", "/api/run", headers={**NO_TOKEN, "Cookie": cookie})[0] == 200
    address = f"ws://127.0.0.1:{launched.server.port}/api/live"
    protocols: Any = ["visr"]
    with connect(address, subprotocols=protocols, additional_headers={"Cookie": cookie}) as live:
        assert live.recv(timeout=60)


@pytest.mark.parametrize(
    "cookie",
    ["", "visr-{port}=", "visr-{port}=wrong", "visr-{port}={token}", "visr-1={value}", "=;;;", "a b",
     "visr-{port}=é"],
)  # fmt: skip
def test_any_other_cookie_is_refused(launched: Launched, cookie: str):
    server, value = launched.server, cookie_of(launched).partition("=")[2]
    sent = cookie.format(port=server.port, token=server.token, value=value)
    assert launched.ask("GET", "/api/run", headers={**NO_TOKEN, "Cookie": sent})[0] == 401
    with pytest.raises(InvalidStatus):
        connect(
            f"ws://127.0.0.1:{server.port}/api/live",
            additional_headers={"Cookie": sent.replace("é", "e")},
        )


def test_the_cookie_does_not_help_another_site_or_another_port(launched: Launched):
    cookie = cookie_of(launched)
    for site in ("cross-site", "same-site"):  # the browser's own word for who asks
        headers = {**NO_TOKEN, "Cookie": cookie, "Sec-Fetch-Site": site}
        assert launched.ask("GET", "/api/atlas.html", headers=headers)[0] == 403
        assert launched.ask("GET", "/", headers=headers)[0] == 200
    headers = {**NO_TOKEN, "Cookie": cookie, "Origin": "http://127.0.0.1:1"}
    assert launched.ask("POST", "/api/stop", {}, headers)[0] == 403
    assert launched.is_serving()
