"""Films: an agent at play, frame by frame."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from visr import envs
from visr.agents.pilot import Pilot
from visr.agents.values import Values
from visr.config import ATARI, GRID, MINATAR, RunConfig
from visr.envs.atari import AtariGames
from visr.envs.world import GridWorld
from visr.errors import UserError
from visr.run_dir import writing

FRAMES_PER_SECOND = {ATARI: 15, GRID: 8, MINATAR: 10}
"""An Atari step lasts four frames of sixty a second."""
_CAPTION = 20
_CELL = 32


@dataclass(frozen=True)
class Frame:
    """One moment of play."""

    picture: NDArray[np.uint8]
    """[H, W, 3]"""
    num_steps: int
    score: float
    is_last: bool
    """Whether the episode ended here."""


class Screen(Protocol):
    """What people see of one environment."""

    def reset(self, observation: NDArray, seed: int) -> NDArray[np.uint8]:
        """The first picture, [H, W, 3]."""
        ...

    def step(self, observation: NDArray, action: NDArray) -> NDArray[np.uint8]:
        """The picture after an action."""
        ...


class ColourTwin:
    """An Atari game's twin, which plays the same game in colour: equal seeds and actions, equal games."""

    def __init__(self, config: RunConfig) -> None:
        self._twin = AtariGames(config.atari, config.env, 1, num_threads=1, screen=True)

    def reset(self, observation: NDArray, seed: int) -> NDArray[np.uint8]:
        """The first picture."""
        return _wide(self._twin.reset(seed=seed)[0])

    def step(self, observation: NDArray, action: NDArray) -> NDArray[np.uint8]:
        """The picture after an action."""
        return _wide(self._twin.step(action)[0])


def _wide(screens: NDArray) -> NDArray[np.uint8]:
    """Atari's pixels are wide: [1, 1, 210, 160, 3] -> [420, 480, 3]"""
    return np.repeat(np.repeat(screens[0, -1], 2, axis=0), 3, axis=1)


class RenderedTwin:
    """The twin of a Gymnasium environment, which draws itself."""

    def __init__(self, config: RunConfig) -> None:
        try:
            self._twin = gymnasium.make(config.env, render_mode="rgb_array")
        except Exception as error:  # other people's code
            reason = " ".join(str(error).split()).rstrip(".")
            raise UserError(
                f"{config.env} cannot draw itself ({reason}); leave out --video."
            ) from error
        self._meanings = envs.dialect(config).actions

    def reset(self, observation: NDArray, seed: int) -> NDArray[np.uint8]:
        """The first picture."""
        self._twin.reset(seed=seed)
        return self._picture()

    def step(self, observation: NDArray, action: NDArray) -> NDArray[np.uint8]:
        """The picture after an action."""
        self._twin.step(self._meanings[action[0]])
        return self._picture()

    def _picture(self) -> NDArray[np.uint8]:
        picture: Any = self._twin.render()
        return np.asarray(picture, dtype=np.uint8)


class Drawing:
    """Cells of one colour each, drawn from the observation alone."""

    def __init__(self, colours: Callable[[NDArray], NDArray[np.uint8]]) -> None:
        self._colours = colours

    def reset(self, observation: NDArray, seed: int) -> NDArray[np.uint8]:
        """The first picture."""
        return self.step(observation, observation)

    def step(self, observation: NDArray, action: NDArray) -> NDArray[np.uint8]:
        """The picture after an action."""
        cells = self._colours(observation[0])
        return np.repeat(np.repeat(cells, _CELL, axis=0), _CELL, axis=1)


def screen(config: RunConfig) -> Screen:
    """Whatever shows this environment best."""
    if config.env.startswith(ATARI):
        return ColourTwin(config)
    if config.env.startswith(MINATAR):
        return Drawing(_planes)
    if config.env == GRID:
        return Drawing(functools.partial(_grid, GridWorld.from_config(config.grid)))
    return RenderedTwin(config)


def _grid(world: GridWorld, state: NDArray) -> NDArray[np.uint8]:
    cells = np.full((world.height, world.width, 3), 235, dtype=np.uint8)
    cells[~world.free.reshape(world.height, world.width)] = 60
    cells.reshape(-1, 3)[int(state)] = _PALETTE[1]
    return cells


def _planes(planes: NDArray) -> NDArray[np.uint8]:
    """A colour for every plane of objects; later planes lie above earlier ones."""
    cells = np.full((*planes.shape[1:], 3), 20, dtype=np.uint8)
    for plane, colour in zip(planes, itertools.cycle(_PALETTE), strict=False):
        cells[plane > 0] = colour
    return cells


_PALETTE = np.array(
    [
        *[(230, 159, 0), (0, 114, 178), (86, 180, 233), (0, 158, 115), (240, 228, 66)],
        *[(213, 94, 0), (204, 121, 167), (220, 220, 220), (150, 150, 150), (120, 94, 240)],
    ],
    dtype=np.uint8,
)
"""Okabe and Ito's colours, told apart by everybody, and three more."""


@torch.inference_mode()
def frames(
    agent: Values,
    config: RunConfig,
    w: NDArray[np.floating],
    *,
    num_episodes: int,
    max_steps: int,
    epsilon: float,
    gpi: bool | None = None,
    seed: int = 0,
    show: bool = True,
) -> Iterator[Frame]:
    """Play whole episodes with one task; a picture for every step if anybody looks."""
    env, shown = envs.make_vec(config, 1), screen(config) if show else None
    pilot = Pilot(agent, 1, epsilon=epsilon, gpi=gpi, random=torch.Generator().manual_seed(seed))
    pilot.pursue(w)
    observation, _ = env.reset(seed=seed)
    picture = shown.reset(observation, seed) if shown else _NOTHING
    starts, score, num_steps, done = np.array([True]), 0.0, 0, 0
    while True:
        yield Frame(picture, num_steps, score, is_last=False)
        action = pilot.act(observation, starts)
        observation, reward, terminated, truncated, _ = env.step(action)
        picture = shown.step(observation, action) if shown else _NOTHING
        score, num_steps, starts = score + float(reward[0]), num_steps + 1, np.array([False])
        if terminated[0] or truncated[0] or num_steps >= max_steps:
            done += 1
            yield Frame(picture, num_steps, score, is_last=True)
            if done == num_episodes:
                return
            observation, _ = env.reset(seed=seed + done)
            picture = shown.reset(observation, seed + done) if shown else _NOTHING
            starts, score, num_steps = np.array([True]), 0.0, 0


_NOTHING = np.zeros((0, 0, 3), dtype=np.uint8)


class Film:
    """An MP4 file that is there only when it is whole."""

    def __init__(self, path: Path, frames_per_second: int, title: str) -> None:
        self._path, self._title, self._rate = path, title, frames_per_second
        self._partial = path.with_name(f"{path.stem}.partial{path.suffix}")
        self._writer: Any = None

    def add(self, frame: Frame) -> None:
        """Append a frame with its caption."""
        picture = captioned(frame, self._title)
        writer = self._writer or self._open(picture)
        with writing(self._path):
            writer.send(np.ascontiguousarray(picture))

    def _open(self, picture: NDArray[np.uint8]) -> Any:
        try:
            import imageio_ffmpeg
        except ImportError as error:
            raise UserError(
                'Films need imageio-ffmpeg: pip install "visr[video]", or leave out --video.'
            ) from error
        height, width, _ = picture.shape
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._partial.touch()
            self._writer = imageio_ffmpeg.write_frames(
                str(self._partial),
                (width, height),
                fps=self._rate,
                quality=7,
                macro_block_size=2,
                ffmpeg_log_level="error",
            )
            self._writer.send(None)
        return self._writer

    def close(self, keep: bool) -> None:
        """Finish the file under its own name, or leave nothing."""
        if self._writer is None:
            return
        self._writer.close()
        if keep:
            with writing(self._path):
                self._partial.replace(self._path)
        else:
            self._partial.unlink(missing_ok=True)


def captioned(frame: Frame, title: str) -> NDArray[np.uint8]:
    """The picture with a line of words below it; sides are even, as the codec wants."""
    height, width, _ = frame.picture.shape
    canvas = Image.new("RGB", (width + width % 2, height + height % 2 + _CAPTION), (20, 20, 20))
    canvas.paste(Image.fromarray(frame.picture), (0, 0))
    words = f"{title}   step {frame.num_steps}   score {frame.score:g}"
    ImageDraw.Draw(canvas).text((6, height + 4), words, fill=(230, 230, 230))
    return np.asarray(canvas)
