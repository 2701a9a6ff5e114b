"""Stream an agent's play over a websocket: commands come in, frames go out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import time
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from starlette.websockets import WebSocket, WebSocketDisconnect

from visr.api import Run
from visr.errors import UserError
from visr.explorer import messages, pictures
from visr.explorer.auth import PROTOCOL
from visr.explorer.messages import RequestFields
from visr.explorer.state import ExplorerState
from visr.play.session import Session

MAX_SPEED = 240.0
"""Most steps per second."""
_MAX_NUMBERS = 64
"""Largest observation that is shown as numbers."""
_MAX_COMMANDS = 50
_MAX_UNSEEN = 8
"""Frames sent but not confirmed; beyond this the session pauses, so that a slow page shows recent frames."""


class LiveSession:
    """One client's environment and actor; used by one thread at a time."""

    def __init__(self, run: Run) -> None:
        self.speed, self.is_playing, self.num_unseen = 15.0, False, 0
        self._w = run.skill(0).w
        self._open(run, 0, run.config.agent.epsilon, run.config.agent.gpi)

    def _open(self, run: Run, seed: int, epsilon: float, gpi: bool | None) -> None:
        self.run, self._screen = run, pictures.screen_of(run.config)
        self._session = Session(run.visr, run.config, epsilon=epsilon, gpi=gpi, screen=self._screen)
        self._session.actor.pursue(self._w)
        self.begin(seed)

    def begin(self, seed: int) -> None:
        """Start an episode."""
        self._seed, self._task_reward, self._own_score = seed, 0.0, 0.0
        self._session.begin(seed)
        self._phi = self._session.features()

    def step(self, newest: Run) -> None:
        """One step; after the last step of an episode, start the next one with the newest weights."""
        if not self._session.is_over:
            self._session.step()
            self._phi = self._session.features()
            self._task_reward = float(self._phi @ self._w)
            self._own_score += self._task_reward
        elif newest is self.run:
            self.begin(self._seed + 1)
        else:
            self.close()
            actor = self._session.actor
            self._open(newest, self._seed + 1, actor.epsilon, actor.gpi)

    def execute(self, command: RequestFields, newest: Run) -> bool:
        """Execute a command; returns whether to send a frame."""
        what, actor = command.text("do", 20), self._session.actor
        if what == "seen":
            self.num_unseen = max(self.num_unseen - 1, 0)
        elif what in ("play", "pause"):
            self.is_playing = what == "play"
        elif what == "speed":
            self.speed = command.number("value", 0.5, MAX_SPEED)
        elif what == "epsilon":
            actor.epsilon = command.number("value", 0, 1)
        elif what == "gpi":
            actor.gpi = command.flag("value")
        elif what == "restart":
            self.begin(command.integer("seed", 0, 2**31 - 1))
        elif what == "task":
            self._w = self.run.skill(command.numbers("w", len(self._w))).w
            actor.pursue(self._w)
            self._own_score = 0.0
        elif what == "step":
            self.step(newest)
        else:
            raise UserError(f"There is no command {what!r}.")
        return what in ("restart", "step")

    def frame(self) -> bytes:
        """The current frame: the length of the JSON (4 bytes), the JSON, and a PNG or nothing."""
        session = self._session
        self.num_unseen += 1
        head: dict[str, Any] = {
            "step": session.num_steps,
            "seed": self._seed,
            "score": session.score,
            "reward": session.reward,
            "own_reward": self._task_reward,
            "own_score": self._own_score,
            "phi": [float(f"{x:.6g}") for x in self._phi.tolist()],
            "q": None if session.values is None else session.values.tolist(),
            "action": session.action,
            "is_over": session.is_over,
            "is_playing": self.is_playing,
            "scale": self._screen.scale if self._screen else (1, 1),
            "observation": _numbers(session.observation[0], self.run),
        }
        picture = session.picture if session.picture is not None else _image(session.observation[0])
        content = b"" if picture is None else pictures.png(picture)
        text = messages.encoded(head)
        return struct.pack("<I", len(text)) + text + content

    def close(self) -> None:
        """Close the environment."""
        self._session.close()


def _numbers(observation: NDArray, run: Run) -> list[float] | None:
    space = run.agent.spec.observation_space
    if isinstance(space, spaces.Discrete) or observation.size <= _MAX_NUMBERS:
        return np.ravel(observation).astype(float).tolist()
    return None


def _image(observation: NDArray) -> NDArray[np.uint8] | None:
    """An observed image as a picture, for environments that cannot render: [C, H, W] -> [H, W, 3]"""
    if observation.ndim != 3 or observation.dtype != np.uint8:
        return None
    planes = observation[:3] if len(observation) == 3 else np.repeat(observation[-1:], 3, axis=0)
    bright = planes.astype(np.float64) * (255 / max(int(planes.max()), 1))
    return bright.astype(np.uint8).transpose(1, 2, 0)


async def serve(websocket: WebSocket, explored: ExplorerState) -> None:
    """Serve one client until it disconnects."""
    await websocket.accept(subprotocol=PROTOCOL)
    try:
        with explored.session_slot():
            session = await asyncio.to_thread(LiveSession, explored.run)
            try:
                await _play(websocket, explored, session)
            finally:
                session.close()
    except WebSocketDisconnect:
        return
    except Exception as error:  # a user's environment may raise anything
        sentence, code = str(error), 1013
        if not isinstance(error, UserError):
            reason = " ".join(sentence.split()) or type(error).__name__
            sentence, code = f"The environment failed: {reason}", 1011
        with contextlib.suppress(Exception):  # the client may be gone
            await websocket.send_text(json.dumps({"error": sentence}))
            await websocket.close(code)


async def _play(websocket: WebSocket, explored: ExplorerState, session: LiveSession) -> None:
    """Execute commands as they come; while playing, step at the session's speed."""
    received: asyncio.Queue[str | bytes | None] = asyncio.Queue(_MAX_COMMANDS)
    reader = asyncio.create_task(_read(websocket, received))
    due = time.monotonic()
    try:
        await _send_frame(websocket, session)
        while True:
            is_running = session.is_playing and session.num_unseen < _MAX_UNSEEN
            seconds = max(due - time.monotonic(), 0) if is_running and received.empty() else None
            try:
                message = await asyncio.wait_for(received.get(), seconds)
            except TimeoutError:
                due = max(due + 1 / session.speed, time.monotonic())
                await asyncio.to_thread(session.step, explored.run)
                await _send_frame(websocket, session)
                continue
            if message is None:
                return
            try:
                command = RequestFields.parse(message)
                if await asyncio.to_thread(session.execute, command, explored.run):
                    await _send_frame(websocket, session)
            except UserError as error:
                await websocket.send_text(json.dumps({"error": str(error)}))
            due = max(due, time.monotonic())
    finally:
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader


async def _send_frame(websocket: WebSocket, session: LiveSession) -> None:
    await websocket.send_bytes(await asyncio.to_thread(session.frame))


async def _read(websocket: WebSocket, received: asyncio.Queue[str | bytes | None]) -> None:
    """Queue the client's messages, and None when it disconnects."""
    while (message := await websocket.receive())["type"] != "websocket.disconnect":
        await received.put(message.get("text") or message.get("bytes") or b"")
    await received.put(None)
