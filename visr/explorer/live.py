"""An agent at play, streamed: orders come in, moments go out."""

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
from visr.explorer import pictures, responses
from visr.explorer.state import Explored
from visr.explorer.validation import Fields
from visr.play.session import Stage

FASTEST = 240.0
"""Steps a second that may be asked for."""
_MOST_NUMBERS = 64
"""Of an observation that is shown as numbers."""
_WAITING_ORDERS = 50
_MOST_UNSEEN = 8
"""Frames on their way: a slow page shall find the newest ones there, not those of a minute ago."""


class Show:
    """One client's own environment and actor; used by one thread at a time."""

    def __init__(self, run: Run) -> None:
        agent = run.config.agent
        self.run, self.speed, self.is_playing, self.num_unseen = run, 15.0, False, 0
        self._epsilon, self._gpi, self._seed = agent.epsilon, agent.gpi, 0
        self._w = run.skill(0).w
        self._open(run)

    def _open(self, run: Run) -> None:
        self.run, self._screen = run, pictures.screen_of(run.config)
        self._stage = Stage(
            run.visr, run.config, epsilon=self._epsilon, gpi=self._gpi, screen=self._screen
        )
        self._stage.actor.pursue(self._w)
        self.begin(self._seed)

    def begin(self, seed: int) -> None:
        """A new episode."""
        self._seed, self._paid, self._own_score = seed, 0.0, 0.0
        self._stage.begin(seed)
        self._phi = self._stage.features()

    def step(self, newest: Run) -> None:
        """One step; after an episode's end the next one begins, with newer weights if there are any."""
        if not self._stage.is_over:
            self._stage.step()
            self._phi = self._stage.features()
            self._paid = float(self._phi @ self._w)
            self._own_score += self._paid
        elif newest is self.run:
            self.begin(self._seed + 1)
        else:
            self.close()
            self._seed += 1
            self._open(newest)

    def obey(self, order: Fields) -> bool:
        """Do as told; whether the picture is worth sending again."""
        what = order.text("do", 20)
        if what in ("play", "pause"):
            self.is_playing = what == "play"
        elif what == "speed":
            self.speed = order.number("value", 0.5, FASTEST)
        elif what == "epsilon":
            self._epsilon = self._stage.actor.epsilon = order.number("value", 0, 1)
        elif what == "gpi":
            self._gpi = self._stage.actor.gpi = order.flag("value")
        elif what == "restart":
            self.begin(order.integer("seed", 0, 2**31 - 1))
        elif what == "task":
            self._w = self.run.skill(order.numbers("w", len(self._w))).w
            self._stage.actor.pursue(self._w)
            self._own_score = 0.0
        elif what != "step":
            raise UserError(f"There is no order {what!r}.")
        return what in ("restart", "step")

    def moment(self) -> bytes:
        """Where it stands now: a length, as many bytes of JSON, and a PNG (or nothing)."""
        stage = self._stage
        self.num_unseen += 1
        head: dict[str, Any] = {
            "step": stage.num_steps,
            "seed": self._seed,
            "score": stage.score,
            "reward": stage.reward,
            "own_reward": self._paid,
            "own_score": self._own_score,
            "phi": [float(f"{x:.6g}") for x in self._phi.tolist()],
            "q": None if stage.values is None else stage.values.tolist(),
            "action": stage.action,
            "is_over": stage.is_over,
            "is_playing": self.is_playing,
            "scale": self._screen.scale if self._screen else (1, 1),
            "observation": _numbers(stage.observation[0], self.run),
        }
        picture = stage.picture if stage.picture is not None else _image(stage.observation[0])
        content = b"" if picture is None else pictures.png(picture)
        text = responses.encoded(head)
        return struct.pack("<I", len(text)) + text + content

    def close(self) -> None:
        """Let go of the environment."""
        self._stage.close()


def _numbers(observation: NDArray, run: Run) -> list[float] | None:
    space = run.agent.spec.observation_space
    if isinstance(space, spaces.Discrete) or observation.size <= _MOST_NUMBERS:
        return np.ravel(observation).astype(float).tolist()
    return None


def _image(observation: NDArray) -> NDArray[np.uint8] | None:
    """An image that was observed, where nothing else shows the environment: [C, H, W] -> [H, W, 3]"""
    if observation.ndim != 3 or observation.dtype != np.uint8:
        return None
    planes = observation[:3] if len(observation) == 3 else np.repeat(observation[-1:], 3, axis=0)
    bright = planes.astype(np.float64) * (255 / max(int(planes.max()), 1))
    return bright.astype(np.uint8).transpose(1, 2, 0)


async def serve(websocket: WebSocket, explored: Explored) -> None:
    """Play for one client until it leaves."""
    await websocket.accept(subprotocol="visr")
    try:
        with explored.seat():
            show = await asyncio.to_thread(Show, explored.run)
            try:
                await _play(websocket, explored, show)
            finally:
                show.close()
    except WebSocketDisconnect:
        return
    except UserError as error:
        await _leave(websocket, str(error), 1013)
    except Exception as error:  # other people's environments fail in ways of their own
        reason = " ".join(str(error).split()) or type(error).__name__
        await _leave(websocket, f"The environment failed: {reason}", 1011)


async def _leave(websocket: WebSocket, sentence: str, code: int) -> None:
    """Say why, and close; whoever has gone already need not hear it."""
    with contextlib.suppress(Exception):
        await websocket.send_text(json.dumps({"error": sentence}))
        await websocket.close(code)


async def _play(websocket: WebSocket, explored: Explored, show: Show) -> None:
    orders: asyncio.Queue[Fields | None] = asyncio.Queue(_WAITING_ORDERS)
    reader = asyncio.create_task(_read(websocket, orders))
    due = time.monotonic()
    try:
        await websocket.send_bytes(await asyncio.to_thread(show.moment))
        while True:
            goes_on = show.is_playing and show.num_unseen < _MOST_UNSEEN
            order = await _next(orders, due - time.monotonic() if goes_on else None)
            if order is _TIME_IS_UP:
                due = max(due + 1 / show.speed, time.monotonic())
                await asyncio.to_thread(show.step, explored.run)
                await websocket.send_bytes(await asyncio.to_thread(show.moment))
                continue
            if order is None:
                return
            await _obey(websocket, explored, show, order)
            due = max(due, time.monotonic())
    except WebSocketDisconnect:
        return
    finally:
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader


async def _obey(websocket: WebSocket, explored: Explored, show: Show, order: Fields) -> None:
    try:
        what = order.text("do", 20)
        if what == "seen":  # so frequent and so quick that a thread would be a detour
            show.num_unseen = max(show.num_unseen - 1, 0)
            return
        shows = await asyncio.to_thread(show.obey, order)
        if what == "step":
            await asyncio.to_thread(show.step, explored.run)
    except UserError as error:
        await websocket.send_text(json.dumps({"error": str(error)}))
        return
    if shows:
        await websocket.send_bytes(await asyncio.to_thread(show.moment))


_TIME_IS_UP = Fields({})


async def _next(orders: asyncio.Queue[Fields | None], seconds: float | None) -> Fields | None:
    """The next order; while playing, only until the next step is due."""
    if seconds is None:
        return await orders.get()
    with contextlib.suppress(asyncio.QueueEmpty):
        return orders.get_nowait()
    if seconds <= 0:
        return _TIME_IS_UP
    try:
        return await asyncio.wait_for(orders.get(), seconds)
    except TimeoutError:
        return _TIME_IS_UP


async def _read(websocket: WebSocket, orders: asyncio.Queue[Fields | None]) -> None:
    """Messages to orders; what cannot be read is answered with a sentence."""
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            await orders.put(None)
            return
        try:
            body = message.get("text")
            await orders.put(
                Fields.parse(body if body is not None else message.get("bytes") or b"")
            )
        except UserError as error:
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await websocket.send_text(json.dumps({"error": str(error)}))
