"""Films: an agent at play, frame by frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from visr import envs
from visr.agents.pilot import Pilot
from visr.agents.visr import Visr
from visr.config import ATARI, GRID, RunConfig
from visr.envs.atari import AtariGames
from visr.envs.world import GridWorld
from visr.errors import UserError
from visr.run_dir import writing

FRAMES_PER_SECOND = {ATARI: 15, GRID: 8}
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


class Screen:
    """What people see of one environment: its twin, which plays the same game in colour, or a drawing."""

    def __init__(self, config: RunConfig) -> None:
        self._twin: VectorEnv | None = None
        self._world: GridWorld | None = None
        if config.env.startswith(ATARI):
            self._twin = AtariGames(config.atari, config.env, 1, num_threads=1, screen=True)
        elif config.env == GRID:
            self._world = GridWorld.from_config(config.grid)
        else:
            raise UserError(
                f"There is no picture of {config.env} yet; films show Atari games and {GRID}."
            )

    def reset(self, observation: NDArray, seed: int) -> NDArray[np.uint8]:
        """The first picture."""
        return self._show(observation, self._twin.reset(seed=seed)[0] if self._twin else None)

    def step(self, observation: NDArray, action: NDArray) -> NDArray[np.uint8]:
        """The picture after an action."""
        return self._show(observation, self._twin.step(action)[0] if self._twin else None)

    def _show(self, observation: NDArray, colours: NDArray | None) -> NDArray[np.uint8]:
        if colours is not None:
            return np.repeat(np.repeat(colours[0, -1], 2, axis=0), 3, axis=1)  # pixels are wide
        world = self._world
        assert world is not None
        cells = np.full((world.height, world.width, 3), 235, dtype=np.uint8)
        cells[~world.free.reshape(world.height, world.width)] = 60
        cells.reshape(-1, 3)[int(observation[0])] = (0, 114, 178)
        return np.repeat(np.repeat(cells, _CELL, axis=0), _CELL, axis=1)


@torch.inference_mode()
def frames(
    agent: Visr,
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
    env, screen = envs.make_vec(config, 1), Screen(config) if show else None
    pilot = Pilot(agent, 1, epsilon=epsilon, gpi=gpi, random=torch.Generator().manual_seed(seed))
    pilot.pursue(w)
    observation, _ = env.reset(seed=seed)
    picture = screen.reset(observation, seed) if screen else _NOTHING
    starts, score, num_steps, done = np.array([True]), 0.0, 0, 0
    while True:
        yield Frame(picture, num_steps, score, is_last=False)
        action = pilot.act(observation, starts)
        observation, reward, terminated, truncated, _ = env.step(action)
        picture = screen.step(observation, action) if screen else _NOTHING
        score, num_steps, starts = score + float(reward[0]), num_steps + 1, np.array([False])
        if terminated[0] or truncated[0] or num_steps >= max_steps:
            done += 1
            yield Frame(picture, num_steps, score, is_last=True)
            if done == num_episodes:
                return
            observation, _ = env.reset(seed=seed + done)
            picture = screen.reset(observation, seed + done) if screen else _NOTHING
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
