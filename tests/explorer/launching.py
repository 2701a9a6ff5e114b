"""A real server over a run, from a thread of this process."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from visr import envs
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.explorer.serve import Server
from visr.storage.run_dir import RunDir
from visr.training import checkpoint


class Launched(NamedTuple):
    """A server that is serving."""

    server: Server

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Status, JSON and headers of the answer to a well-behaved client, unless headers say otherwise."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        sent = {"x-visr-token": self.server.token, **(headers or {})}
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        try:
            connection.request(method, path, data, {k: v for k, v in sent.items() if v is not None})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        kind = answer.getheader("content-type") or ""
        parsed = json.loads(content) if "json" in kind else {"text": content.decode()}
        return answer.status, parsed, {k.lower(): v for k, v in answer.getheaders()}

    def is_serving(self) -> bool:
        """Whether a stroke is still answered in full."""
        reward = [0.0] * 99 + [1.0]
        status, answer, _ = self.ask("POST", "/api/paint", {"reward": reward, "gpi": False})
        return status == 200 and len(answer["policy"]) == 100


@contextlib.contextmanager
def serving(run: Path, port: int = 0) -> Iterator[Launched]:
    """Serve a run from a thread of this process."""
    server = Server(run, port=port)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 1):
            break
    try:
        yield Launched(server)
    finally:
        server.stop()
        thread.join(timeout=30)
        assert not thread.is_alive()


def untrained(path: Path, config: RunConfig) -> Path:
    """A run whose only checkpoint holds freshly initialised networks, the same each time."""
    torch.manual_seed(0)
    agent = Visr(config.agent, envs.spec(config))
    run = RunDir.create(path, config)
    weights = {f"learner.agent.{name}": tensor for name, tensor in agent.state_dict().items()}
    checkpoint.save(run, weights, {}, num_steps=0)
    return path
