"""Pictures of environments: one for every step."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from visr import envs
from visr.config import MINATAR, RunConfig
from visr.envs.atari import AtariGames
from visr.envs.grid.world import GridWorld
from visr.envs.gym import spread_seeds
from visr.errors import UserError

Picture = NDArray[np.uint8]
"""[H, W, 3]"""
_CELL = 32


class Screen(Protocol):
    """Draws one environment."""

    scale: tuple[int, int]
    """Height and width at which to draw each pixel."""

    def reset(self, observation: NDArray, seed: int) -> Picture:
        """The first picture, [H, W, 3]."""
        ...

    def step(self, observation: NDArray, action: NDArray) -> Picture:
        """The picture after an action."""
        ...

    def close(self) -> None:
        """Close what draws."""
        ...


class ColourAtari:
    """A second copy of an Atari game that renders colours; equal seeds and actions give equal games."""

    scale: tuple[int, int] = (2, 3)
    """Atari's pixels are wide."""

    def __init__(self, config: RunConfig) -> None:
        self._copy = AtariGames(config.atari, config.env, 1, num_threads=1, screen=True)

    def reset(self, observation: NDArray, seed: int) -> Picture:
        """The first picture."""
        return self._copy.reset(seed=seed)[0][0, -1]

    def step(self, observation: NDArray, action: NDArray) -> Picture:
        """The picture after an action."""
        return self._copy.step(action)[0][0, -1]

    def close(self) -> None:
        """Close the copy."""
        self._copy.close()


class RenderedGym:
    """A second copy of a Gymnasium environment that renders itself."""

    scale: tuple[int, int] = (1, 1)

    def __init__(self, config: RunConfig) -> None:
        try:
            self._copy = gymnasium.make(config.env, render_mode="rgb_array")
        except Exception as error:  # other people's code
            reason = " ".join(str(error).split()).rstrip(".")
            raise UserError(
                f"{config.env} cannot draw itself ({reason}); leave out --video."
            ) from error
        self._actions = envs.space_codec(config).actions

    def reset(self, observation: NDArray, seed: int) -> Picture:
        """The first picture."""
        self._copy.reset(seed=spread_seeds(seed, 1)[0])
        return self._picture()

    def step(self, observation: NDArray, action: NDArray) -> Picture:
        """The picture after an action."""
        self._copy.step(self._actions[action[0]])
        return self._picture()

    def _picture(self) -> Picture:
        picture: Any = self._copy.render()
        return np.asarray(picture, dtype=np.uint8)

    def close(self) -> None:
        """Close the copy."""
        self._copy.close()


class CellDrawing:
    """Cells of one colour each, drawn from the observation alone."""

    scale: tuple[int, int] = (_CELL, _CELL)

    def __init__(self, colours: Callable[[NDArray], Picture]) -> None:
        self._colours = colours

    def reset(self, observation: NDArray, seed: int) -> Picture:
        """The first picture."""
        return self._colours(observation[0])

    def step(self, observation: NDArray, action: NDArray) -> Picture:
        """The picture after an action."""
        return self._colours(observation[0])

    def close(self) -> None:
        """Nothing to close."""


def screen(config: RunConfig) -> Screen:
    """The screen of an environment."""
    if config.is_atari:
        return ColourAtari(config)
    if config.env.startswith(MINATAR):
        return CellDrawing(_planes)
    if config.is_grid:
        return CellDrawing(functools.partial(_grid, GridWorld.from_config(config.grid)))
    return RenderedGym(config)


def enlarged(picture: Picture, scale: tuple[int, int]) -> Picture:
    """Every pixel as a block of that height and width."""
    return np.repeat(np.repeat(picture, scale[0], axis=0), scale[1], axis=1)


def _grid(world: GridWorld, state: NDArray) -> Picture:
    cells = np.full((world.height, world.width, 3), 235, dtype=np.uint8)
    cells[~world.free.reshape(world.height, world.width)] = 60
    cells.reshape(-1, 3)[int(state)] = _PALETTE[1]
    return cells


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
