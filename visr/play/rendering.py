"""Pictures of environments, one for every step, and MP4 files of them."""

from __future__ import annotations

import functools
import itertools
import shutil
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from visr import envs
from visr.config import ATARI, GRID, MINATAR, RunConfig
from visr.envs import modules
from visr.envs.atari import AtariGames
from visr.envs.grid.world import GridWorld
from visr.envs.gym import spread_seeds
from visr.errors import UserError, reason_of
from visr.storage.files import writing
from visr.storage.new_files import replacing

Picture = NDArray[np.uint8]
"""[H, W, 3]"""
_CELL = 32
_ENCODED = "video.mp4"
_CAPTION = 20
_FRAMES_PER_SECOND = {ATARI: 15, GRID: 8, MINATAR: 10}
"""An Atari step lasts four frames of sixty a second."""


class Screen(ABC):
    """Draws one environment."""

    scale: tuple[int, int] = (1, 1)
    """Height and width at which to draw each pixel."""

    @abstractmethod
    def reset(self, observation: NDArray, seed: int) -> Picture:
        """The first picture of an episode, [H, W, 3]."""

    @abstractmethod
    def step(self, observation: NDArray, action: NDArray) -> Picture:
        """The picture after an action."""

    def tint(self, observation: NDArray, reward: NDArray[np.floating] | None) -> Picture | None:
        """On the grid: colour the cells by a reward [S] from now on, and draw the observation again."""
        return None

    def close(self) -> None:  # noqa: B027
        """Close what draws."""


class ColourAtari(Screen):
    """A second copy of an Atari game that renders colours; equal seeds and actions give equal games."""

    scale = (2, 3)  # Atari's pixels are wide

    def __init__(self, config: RunConfig) -> None:
        self._copy = AtariGames(config.atari, config.env, 1, num_threads=1, screen=True)

    def reset(self, observation: NDArray, seed: int) -> Picture:
        return self._copy.reset(seed=seed)[0][0, -1]

    def step(self, observation: NDArray, action: NDArray) -> Picture:
        return self._copy.step(action)[0][0, -1]

    def close(self) -> None:
        self._copy.close()


class RenderedGym(Screen):
    """A second copy of a Gymnasium environment that renders itself."""

    def __init__(self, config: RunConfig) -> None:
        try:
            with warnings.catch_warnings(action="ignore"):  # the refusal below says it
                spec = modules.load(config.env)
                self._copy = gymnasium.make(spec, disable_env_checker=True, render_mode="rgb_array")
        except (Exception, SystemExit) as error:  # other people's code
            reason = reason_of(error)
            raise UserError(
                f"{config.env} cannot draw itself ({reason}): a film needs __init__(self, render_mode=None), "
                'metadata = {"render_modes": ["rgb_array"]} and a method render(); add them, or leave out '
                "--video."
            ) from error
        self._actions = envs.space_codec(config).actions

    def reset(self, observation: NDArray, seed: int) -> Picture:
        self._copy.reset(seed=spread_seeds(seed, 1)[0])
        return self._picture()

    def step(self, observation: NDArray, action: NDArray) -> Picture:
        self._copy.step(self._actions[action[0]])
        return self._picture()

    def _picture(self) -> Picture:
        picture: Any = self._copy.render()
        return np.asarray(picture, dtype=np.uint8)

    def close(self) -> None:
        self._copy.close()


class CellDrawing(Screen):
    """Cells of one colour each, drawn from the observation alone."""

    scale = (_CELL, _CELL)

    def __init__(self, colours: Callable[[NDArray], Picture]) -> None:
        self._colours = colours

    def reset(self, observation: NDArray, seed: int) -> Picture:
        return self._colours(observation[0])

    def step(self, observation: NDArray, action: NDArray) -> Picture:
        return self._colours(observation[0])


class GridDrawing(CellDrawing):
    """A grid world whose cells are coloured by a reward."""

    def __init__(self, world: GridWorld, reward: NDArray[np.floating] | None) -> None:
        super().__init__(functools.partial(_grid, world, _tinted(world, reward)))
        self._world = world

    def tint(self, observation: NDArray, reward: NDArray[np.floating] | None) -> Picture:
        self._colours = functools.partial(_grid, self._world, _tinted(self._world, reward))
        return self._colours(observation[0])


def screen(config: RunConfig, reward: NDArray[np.floating] | None = None) -> Screen:
    """The screen of an environment; on the grid, `reward` [S] tints the cells."""
    if config.is_atari:
        return ColourAtari(config)
    if config.env.startswith(MINATAR):
        return CellDrawing(_planes)
    if config.is_grid:
        return GridDrawing(GridWorld.from_config(config.grid), reward)
    return RenderedGym(config)


def enlarged(picture: Picture, scale: tuple[int, int]) -> Picture:
    """Every pixel as a block of that height and width."""
    return np.repeat(np.repeat(picture, scale[0], axis=0), scale[1], axis=1)


def _grid(world: GridWorld, cells: Picture, state: NDArray) -> Picture:
    """The cells with the agent in one of them."""
    drawn = cells.copy()
    drawn[divmod(int(state), world.width)] = _PALETTE[1]
    return drawn


def _tinted(world: GridWorld, reward: NDArray[np.floating] | None) -> Picture:
    """Grey cells and dark walls; green and orange for positive and negative rewards."""
    cells = np.full((world.num_states, 3), 235.0)
    if reward is not None and len(reward) == world.num_states and reward.any():
        share = np.abs(reward / np.abs(reward).max())[:, None] * 0.8
        colour = np.where(reward[:, None] > 0, _PALETTE[3], _PALETTE[5])
        cells = cells * (1 - share) + colour * share
    cells[~world.free] = 60
    return cells.astype(np.uint8).reshape(world.height, world.width, 3)


def _planes(planes: NDArray) -> Picture:
    """A colour for every plane of objects; later planes cover earlier ones."""
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
"""The colour-blind safe colours of Okabe and Ito, and three more."""


class VideoWriter(ABC):
    """Writes pictures to a file, which appears under its name only when it is complete."""

    def __init__(self, path: Path, frames_per_second: int) -> None:
        self._path, self._rate = path, frames_per_second

    @abstractmethod
    def add(self, picture: Picture) -> None:
        """Append a frame; all have the size of the first."""

    @abstractmethod
    def close(self, keep: bool) -> None:
        """Write the file, if there are frames and it is to be kept."""


class Mp4Writer(VideoWriter):
    """An MP4 file, encoded while episodes are played, in a directory that only this user can write to."""

    _writer: Any = None
    _place: tempfile.TemporaryDirectory[str]

    def add(self, picture: Picture) -> None:
        """Append a frame."""
        with writing(self._path):
            self._writer = self._writer or self._open(picture)
            self._writer.send(np.ascontiguousarray(picture))

    def _open(self, picture: Picture) -> Any:
        try:
            import imageio_ffmpeg
        except ImportError as error:
            raise UserError(
                'MP4 videos need imageio-ffmpeg: pip install "visr[video]", or name a .gif file.'
            ) from error
        height, width, _ = picture.shape
        self._place = tempfile.TemporaryDirectory(prefix="visr-")
        writer = imageio_ffmpeg.write_frames(
            f"{self._place.name}/{_ENCODED}",
            (width, height),
            fps=self._rate,
            quality=7,
            macro_block_size=2,
            ffmpeg_log_level="error",
        )
        writer.send(None)
        return writer

    def close(self, keep: bool) -> None:
        """Finish the file, and move it to its place."""
        if self._writer is None:
            return
        with self._place as place, writing(self._path):
            self._writer.close()
            if keep:
                with Path(place, _ENCODED).open("rb") as done, replacing(self._path) as file:
                    shutil.copyfileobj(done, file)


class GifWriter(VideoWriter):
    """An animated GIF, which browsers show without a player; written at the end."""

    def __init__(self, path: Path, frames_per_second: int) -> None:
        super().__init__(path, frames_per_second)
        self._frames: list[Image.Image] = []

    def add(self, picture: Picture) -> None:
        """Keep a frame with at most 256 colours."""
        self._frames.append(Image.fromarray(picture).quantize(256))

    def close(self, keep: bool) -> None:
        """Write all frames."""
        if not self._frames or not keep:
            return
        first, *others = self._frames
        duration = 1000 // self._rate
        with writing(self._path), replacing(self._path) as file:
            first.save(file, "GIF", save_all=True, append_images=others, duration=duration, loop=0)


def video_writer(path: Path, env: str) -> VideoWriter:
    """The writer of an .mp4 or .gif file, at the speed that suits the environment."""
    writers = {".mp4": Mp4Writer, ".gif": GifWriter}
    if (suffix := path.suffix.lower()) not in writers:
        raise UserError(
            f"{str(path)!r} is not the name of an MP4 or GIF file; give one such as video.mp4."
        )
    rates = _FRAMES_PER_SECOND.items()
    rate = next((rate for prefix, rate in rates if env.startswith(prefix)), 15)
    return writers[suffix](path, rate)


def captioned(picture: Picture, words: str) -> Picture:
    """The picture with a line of text below it; its sides are even, as the codec requires."""
    height, width, _ = picture.shape
    canvas = Image.new("RGB", (width + width % 2, height + height % 2 + _CAPTION), (20, 20, 20))
    canvas.paste(Image.fromarray(picture), (0, 0))
    ImageDraw.Draw(canvas).text((6, height + 4), words, fill=(230, 230, 230))
    return np.asarray(canvas)
