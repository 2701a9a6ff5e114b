"""The explorer as a browser meets it: strokes answered on the grid, frames streamed of a game."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from visr import api
from visr import config as configuration
from visr.agents.visr import Visr
from visr.config import RunConfig, presets
from visr.envs import make_vec
from visr.play.session import Stage
from visr.storage.run_dir import RunDir
from visr.training import checkpoint
from visr.training.actor_pool import spec_of

_TURNS = 3
_FEWEST = 20
_AS_FAST_AS_IT_CAN = 240.0


class Launch(NamedTuple):
    """A server in a process of its own."""

    port: int
    token: str


def measure(preset: str, env: str, seconds: float) -> dict[str, Any]:
    """Latency of strokes over HTTP, and frames per second over a websocket, with untrained networks.

    The limit is the same agent playing the same game in this process: no picture, no phi, no wire. The two
    take turns, so that noise slows them alike.
    """
    torch.set_num_threads(1)  # as the server does: networks this small lose by more
    with tempfile.TemporaryDirectory() as directory:
        grid = untrained(Path(directory) / "grid", presets.get("grid"))
        game = untrained(
            Path(directory) / "game", configuration.replace(presets.get(preset), env=env)
        )
        with _serving(grid) as launch:
            strokes = _strokes(launch, seconds / 3)
        with _serving(game) as launch:
            frames, limit = _take_turns(launch, game, seconds * 2 / 3)
    return {
        "steps_per_second": frames,
        "limit_steps_per_second": limit,
        "ratio": frames / limit,
        "env": env,
        "stroke_p50_ms": float(np.quantile(strokes, 0.5)),
        "stroke_p95_ms": float(np.quantile(strokes, 0.95)),
        "stroke_max_ms": float(np.max(strokes)),
        "num_strokes": len(strokes),
    }


def untrained(path: Path, config: RunConfig) -> Path:
    """A run with fresh networks: how quick an answer is does not depend on how good it is."""
    env = make_vec(config, 1)
    agent = Visr(config.agent, spec_of(env))
    env.close()
    run = RunDir.create(path, config)
    weights = {f"learner.agent.{name}": tensor for name, tensor in agent.state_dict().items()}
    checkpoint.save(run, weights, {}, num_steps=0)
    return path


@contextlib.contextmanager
def _serving(run: Path) -> Iterator[Launch]:
    command = [
        sys.executable,
        "-m",
        "visr",
        "explore",
        str(run),
        "--json",
        "--no-open",
        "--port",
        "0",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        said = json.loads(server.stdout.readline())
        yield Launch(said["port"], said["token"])
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _strokes(launch: Launch, seconds: float) -> list[float]:
    """Milliseconds from each stroke to its whole answer: cells of the paper's grid, painted one by one."""
    rng = np.random.default_rng(0)
    world = presets.get("grid").grid
    reward = np.zeros(world.height * world.width)
    connection = http.client.HTTPConnection("127.0.0.1", launch.port)
    headers = {"x-visr-token": launch.token, "content-type": "application/json"}
    taken: list[float] = []
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or len(taken) < _FEWEST:
        reward[rng.integers(len(reward))] = rng.choice([-1.0, 1.0])
        body = json.dumps({"reward": reward.tolist(), "gpi": True})
        sent = time.perf_counter()
        connection.request("POST", "/api/paint", body, headers)
        answer = json.loads(connection.getresponse().read())
        taken.append(1000 * (time.perf_counter() - sent))
        assert len(answer["policy"]) == len(reward)
    connection.close()
    return taken


def _take_turns(launch: Launch, game: Path, seconds: float) -> tuple[float, float]:
    from websockets.sync.client import connect

    run = api.load(game)
    stage = Stage(run.visr, run.config, epsilon=run.config.agent.epsilon)
    stage.actor.pursue(run.skill(0).w)
    stage.begin(0)
    address = f"ws://127.0.0.1:{launch.port}/api/live"
    protocols: Any = ["visr", launch.token]
    with contextlib.closing(stage), connect(address, subprotocols=protocols) as socket:
        socket.recv()
        socket.send(json.dumps({"do": "speed", "value": _AS_FAST_AS_IT_CAN}))

        def streamed() -> int:
            socket.recv()
            socket.send(json.dumps({"do": "seen"}))
            return 1

        def played() -> int:
            stage.step() if not stage.is_over else stage.begin(0)
            return 1

        counts, spent = [0, 0], [0.0, 0.0]
        for _ in range(_TURNS):
            socket.send(json.dumps({"do": "play"}))
            _count(streamed, seconds / _TURNS / 2, counts, spent, 0)
            socket.send(json.dumps({"do": "pause"}))
            with contextlib.suppress(TimeoutError):  # what was already on its way
                while socket.recv(timeout=0.5):
                    socket.send(json.dumps({"do": "seen"}))
            _count(played, seconds / _TURNS / 2, counts, spent, 1)
    return counts[0] / spent[0], counts[1] / spent[1]


def _count(
    job: Callable[[], int], seconds: float, counts: list[int], spent: list[float], index: int
) -> None:
    job()  # the first one may still warm up
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or not counts[index]:
        counts[index] += job()
    spent[index] += time.perf_counter() - start
