"""The explorer's websocket as a place where input comes in."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from starlette.websockets import WebSocket

from tests.robustness.fuzz import noise
from visr.explorer import live
from visr.explorer.state import ExplorerState

MESSAGES = 50
"""Of one session."""

ORDERS: list[dict[str, Any]] = [
    {"do": "play"}, {"do": "pause"}, {"do": "step"}, {"do": "seen"}, {"do": "speed", "value": 60},
    {"do": "epsilon", "value": 0.5}, {"do": "gpi", "value": False}, {"do": "restart", "seed": 7},
    {"do": "task", "w": [1, 2, 3, -4, 5]},
]  # fmt: skip


class Live:
    """The explorer's real handler, with a client in the same process that sends and listens."""

    def __init__(self, run: Path) -> None:
        self._explored = ExplorerState(run)

    def make(self, random: random.Random) -> list[str | bytes]:
        return [self._message(random) for _ in range(MESSAGES)]

    @staticmethod
    def _message(random: random.Random) -> str | bytes:
        order = random.choice(ORDERS)
        kind = random.randrange(8)
        if kind == 0:
            return json.dumps(order)
        if kind == 1:
            return random.randbytes(random.randrange(300))
        if kind == 2:
            return noise.characters(random, json.dumps(order))
        data = noise.document(random, order)
        return data if random.randrange(2) else data.decode(errors="replace")

    def feed(self, messages: list[str | bytes]) -> int:
        return asyncio.run(asyncio.wait_for(self._session(messages), timeout=120))

    async def _session(self, messages: list[str | bytes]) -> int:
        waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        said: list[str] = []
        shown = 0
        await waiting.put({"type": "websocket.connect"})
        for message in messages:
            kind = "text" if isinstance(message, str) else "bytes"
            await waiting.put({"type": "websocket.receive", kind: message})
        await waiting.put({"type": "websocket.disconnect", "code": 1000})

        async def send(message: Any) -> None:
            nonlocal shown
            if message["type"] == "websocket.send" and message.get("text") is not None:
                said.append(json.loads(message["text"])["error"])
            elif message["type"] == "websocket.send":
                shown += 1

        scope = {"type": "websocket", "path": "/api/live", "headers": [], "subprotocols": ["visr"]}
        await live.serve(WebSocket(scope, waiting.get, send), self._explored)
        assert shown >= 1
        assert waiting.empty()
        assert not [sentence for sentence in said if "The environment failed" in sentence], said
        assert all(sentence.endswith((".", "?")) for sentence in said), said
        return len(said)
