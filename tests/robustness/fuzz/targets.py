"""Five places where text from outside comes in; a UserError is an answer, all else is a fault."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from starlette.websockets import WebSocket

from tests.robustness.fuzz import noise
from visr import config as configuration
from visr.config import RunConfig
from visr.errors import UserError
from visr.explorer import live
from visr.explorer.state import ExplorerState
from visr.inference import expression
from visr.paper.reproduce import ledger
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir

MESSAGES = 50
"""Of the websocket in one session."""


class Target(NamedTuple):
    """A place where input comes in."""

    name: str
    share: float
    """Of all inputs."""
    make: Callable[[random.Random], Any]
    feed: Callable[[Any], int]
    """How many of them were refused with a sentence; any other exception is a fault."""
    at_once: int = 1
    """Inputs that one call of `make` makes."""


def all_targets(place: Path, run: Path) -> list[Target]:
    """Files are written into `place`; the explorer shows `run`."""
    live = Live(run)
    return [
        Target("expression", 0.4, _expression, _evaluate),
        Target("task.json", 0.2, _task, lambda text: _load_task(place, text)),
        Target("config.json", 0.2, _config, lambda text: _load_config(place, text)),
        Target("ledger.csv", 0.1, _ledger, lambda text: _load_ledger(place, text)),
        Target("websocket", 0.1, live.make, live.feed, MESSAGES),
    ]


# ----------------------------------------------------------------------------------- expressions

_ROW, _COL = np.divmod(np.arange(100), 10)
_NAMES = {"row": _ROW, "col": _COL, "height": np.array(10), "width": np.array(10)}


def _expression(random: random.Random) -> str:
    text = noise.expression(random, random.randrange(1, 6))
    return noise.characters(random, text) if random.randrange(3) == 0 else text


def _evaluate(text: str) -> int:
    try:
        values = expression.evaluate(text, _NAMES)
    except UserError as error:
        sentence = str(error)
    else:
        assert values.shape == (100,)
        assert np.isfinite(values).all()
        return 0
    assert "\n" not in sentence
    assert len(sentence) < 600
    return 1


# ----------------------------------------------------------------------------------------- files

TASK: dict[str, Any] = {
    "format": 1, "name": "goal", "env": "visr/Grid-v0", "w": [0.6, 0.8], "method": "by hand",
    "r_squared": 0.5, "condition_number": None, "standard_error": [0.1, None], "num_steps": 4,
    "num_rewarded": 1, "reward": [0.0, 1.0, 0.0, 0.0],
}  # fmt: skip
CONFIG: dict[str, Any] = {"format": 1, "config": configuration.to_dict(RunConfig())}
ROWS = [
    list(ledger.Row.__dataclass_fields__),
    *(
        [
            "visr/x/seed-0/train",
            "visr",
            "x",
            "0",
            "train",
            state,
            "100",
            "abc",
            "1",
            "2.5",
            "1.0",
            "2.0",
            "no",
        ]
        for state in ("pending", "running", "done", "failed")
    ),
]


def _task(random: random.Random) -> bytes:
    return noise.document(random, TASK)


def _load_task(place: Path, text: bytes) -> int:
    file = place / "task.json"
    file.write_bytes(text)
    try:
        task = Task.load(file)
    except UserError:
        return 1
    assert abs(np.linalg.norm(task.w) - 1) < 1e-6
    assert np.isfinite(task.r_squared)
    assert not np.isnan(task.standard_error).any()
    json.dumps(task.to_dict(), allow_nan=False)
    return 0


def _config(random: random.Random) -> bytes:
    return noise.document(random, CONFIG)


def _load_config(place: Path, text: bytes) -> int:
    (place / "config.json").write_bytes(text)
    try:
        config = RunDir(place).config()
    except UserError:
        return 1
    assert configuration.from_dict(json.loads(json.dumps(configuration.to_dict(config)))) == config
    return 0


def _ledger(random: random.Random) -> bytes:
    rows = noise.changed(random, ROWS) if random.randrange(4) else ROWS
    rows = rows if isinstance(rows, list) else [rows]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(row if isinstance(row, list) else [row] for row in rows)
    data = text.getvalue().encode(errors="surrogatepass")
    return noise.bitten(random, data) if random.randrange(2) else data


def _load_ledger(place: Path, text: bytes) -> int:
    file = place / "ledger.csv"
    file.write_bytes(text)
    try:
        rows = ledger.read(file)
    except UserError:
        return 1
    assert all(row.state in ("pending", "running", "done", "failed") for row in rows)
    return 0


# ------------------------------------------------------------------------------------- websocket

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
