"""Stream an agent's play over a websocket: commands come in, frames go out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import struct
import time
from collections.abc import Callable
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
from visr.explorer.watched_episode import Watched
from visr.play.session import Session
from visr.storage.records.task import Task

MAX_SPEED = 240.0
"""Most steps per second."""
_MAX_NUMBERS = 64
"""Largest observation that is shown as numbers."""
_MAX_COMMANDS = 50
_MAX_UNSEEN = 8
"""Frames sent but not confirmed; beyond this the session pauses, so that a slow page shows recent frames."""


class LiveSession:
    """One client's environment and actor; used by one thread at a time."""

    def __init__(self, run: Run, find: Callable[[str], Task] | None = None) -> None:
        self.id = secrets.token_hex(8)
        self.speed, self.is_playing, self.num_unseen = 15.0, False, 0
        self._task, self._find = run.skill(0), find
        self.watched = Watched()
        self._open(run, 0, run.config.agent.epsilon, run.config.agent.gpi)

    def _open(self, run: Run, seed: int, epsilon: float, gpi: bool | None) -> None:
        self.run, self._screen = run, pictures.screen_of(run.config)
        self._session = Session(run.visr, run.config, epsilon=epsilon, gpi=gpi, screen=self._screen)
        self.begin(seed)
        self._pursue(self._task)

    def _pursue(self, task: Task) -> None:
        self._task, self._task_reward, self._own_score = task, 0.0, 0.0
        self._session.actor.agent = self.run.agent_of(task)
        self._session.pursue(task, self.run.asked_reward(task))

    def begin(self, seed: int) -> None:
        """Start an episode."""
        self._seed, self._task_reward, self._own_score = seed, 0.0, 0.0
        self._session.begin(seed)
        self._phi = self._session.features()
        self.watched.begin(self._session.observation[0])

    def step(self, newest: Run, action: int | None = None) -> None:
        """One step; after the last step of an episode, start the next one with the newest weights."""
        if not self._session.is_over:
            self._session.step(action)
            self._phi = self._session.features()
            self._task_reward = float(self._phi @ self._task.w)
            self._own_score += self._task_reward
            assert self._session.action is not None
            self.watched.add(self._session.action, self._session.observation[0])
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
            self._pursue(self._asked_for(command))
        elif what == "step":
            self.step(newest)
        elif what == "act":
            num_actions = self.run.agent.spec.num_actions
            self.step(newest, command.integer("action", 0, num_actions - 1))
        else:
            raise UserError(f"There is no command {what!r}.")
        return what in ("restart", "step", "act", "task")

    def _asked_for(self, command: RequestFields) -> Task:
        """The task of an id; its direction if a server that was restarted has forgotten the id."""
        direction = self.run.skill(command.numbers("w", len(self._task.w)), name="direction")
        if not (id := command.text("id", 40, "")) or self._find is None:
            return direction
        with contextlib.suppress(UserError):
            return self._find(id)
        return direction

    def frame(self) -> bytes:
        """The current frame: the length of the JSON (4 bytes), the JSON, and a PNG or nothing."""
        session = self._session
        self.num_unseen += 1
        head: dict[str, Any] = {
            "step": session.num_steps,
            "seed": self._seed,
            "score": session.score,
            "reward": session.reward,
            "session": self.id,
            "asked": session.asked.words if session.asked else "",
            "asked_reward": session.asked_reward,
            "asked_return": session.asked_return,
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
        picture = session.picture
        if picture is None and _is_image(session.observation[0]):
            picture = pictures.of_observation(session.observation[0], self.run)
        content = b"" if picture is None else pictures.png(picture)
        text = messages.encoded(head)
        return struct.pack("<I", len(text)) + text + content

    def close(self) -> None:
        self._session.close()


def _numbers(observation: NDArray, run: Run) -> list[float] | None:
    space = run.agent.spec.observation_space
    if isinstance(space, spaces.Discrete) or observation.size <= _MAX_NUMBERS:
        return np.ravel(observation).astype(float).tolist()
    return None


def _is_image(observation: NDArray) -> bool:
    return observation.ndim == 3 and observation.dtype == np.uint8


async def serve(websocket: WebSocket, explored: ExplorerState) -> None:
    """Serve one client until it disconnects."""
    await websocket.accept(subprotocol=PROTOCOL)
    try:
        with explored.session_slot():
            session = await asyncio.to_thread(
                LiveSession, explored.run, lambda id: explored.requests.get(id).task
            )
            explored.watched[session.id] = session.watched
            try:
                await _play(websocket, explored, session)
            finally:
                del explored.watched[session.id]
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
