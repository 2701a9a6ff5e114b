"""The grid world of the paper's appendix as an exact MDP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from visr.config import GridConfig
from visr.errors import UserError

NUM_ACTIONS = 4
_MOVES = ((-1, 0), (0, -1), (1, 0), (0, 1))  # up, left, down, right: the authors' notebook's order
_MAX_CELLS = 1_000_000
_SHORTEST_FOUR_ROOMS = 5

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class GridWorld:
    """A grid and its exact MDP: state row * width + col; 0 up, 1 left, 2 down, 3 right.

    Walls are states too, which no action reaches, so that maps keep their shape.
    """

    height: int
    width: int
    walls: BoolArray | None = None
    """[height, width], True for a wall; None: no walls."""
    start_weights: FloatArray | None = None
    """[S], relative probability of each start state; None: uniform over free cells."""

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1:
            raise UserError(
                f"A grid of {self.height} x {self.width} cells is too small: "
                "height and width must be at least 1."
            )
        if self.height * self.width > _MAX_CELLS:
            raise UserError(
                f"A grid of {self.height} x {self.width} cells is too large: "
                f"height times width can be at most {_MAX_CELLS:,}."
            )
        if self.walls is not None and self.walls.shape != (self.height, self.width):
            raise UserError(
                f"The walls have shape {self.walls.shape}, but the grid has "
                f"({self.height}, {self.width})."
            )
        if not self.free.any():
            raise UserError(
                f"The walls fill all {self.height} x {self.width} cells: leave at least one free."
            )
        self._check_start_weights()

    def _check_start_weights(self) -> None:
        weights = self.start_weights
        if weights is None:
            return
        if weights.shape != (self.num_states,):
            raise UserError(
                f"The start weights have shape {weights.shape}, but the grid has "
                f"({self.num_states},) states."
            )
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
            raise UserError("The start weights must be finite, not negative, and not all zero.")
        if weights[~self.free].any():
            state = int(np.flatnonzero(weights * ~self.free)[0])
            raise UserError(
                f"The start weights allow row {state // self.width}, column {state % self.width}, "
                "which is a wall."
            )

    @classmethod
    def from_config(cls, config: GridConfig) -> GridWorld:
        """The world of a configuration."""
        if config.layout == "open":
            return cls(config.height, config.width)
        if config.layout == "four-rooms":
            return cls.four_rooms(config.height, config.width)
        raise UserError(f"Unknown layout {config.layout!r}: choose 'open' or 'four-rooms'.")

    @classmethod
    def four_rooms(cls, height: int, width: int) -> GridWorld:
        """Four rooms: a wall across the middle each way, a door in the middle of each half wall."""
        if height < _SHORTEST_FOUR_ROOMS or width < _SHORTEST_FOUR_ROOMS:
            raise UserError(
                f"Four rooms do not fit into {height} x {width} cells: "
                f"height and width must be at least {_SHORTEST_FOUR_ROOMS}."
            )
        if height * width > _MAX_CELLS:
            return cls(height, width)  # raises there, before memory is allocated
        row, col = height // 2, width // 2
        walls = np.zeros((height, width), dtype=np.bool_)
        walls[row, :] = walls[:, col] = True
        walls[[(row - 1) // 2, (row + height) // 2], col] = False
        walls[row, [(col - 1) // 2, (col + width) // 2]] = False
        return cls(height, width, walls)

    @property
    def num_states(self) -> int:
        """S = height * width."""
        return self.height * self.width

    @cached_property
    def free(self) -> BoolArray:
        """[S], True where an agent can stand."""
        if self.walls is None:
            return np.ones(self.num_states, dtype=np.bool_)
        return ~np.asarray(self.walls, dtype=np.bool_).ravel()

    @cached_property
    def start(self) -> FloatArray:
        """[S], the probability that an episode begins in each state."""
        weights = self.free if self.start_weights is None else self.start_weights
        return np.asarray(weights, dtype=np.float64) / weights.sum()

    @cached_property
    def transitions(self) -> IntArray:
        """[S, 4], the next state of each state and action; walls and edges block moves."""
        state = np.arange(self.num_states)
        row, col = np.divmod(state, self.width)
        table = np.empty((self.num_states, NUM_ACTIONS), dtype=np.int64)
        for action, (down, right) in enumerate(_MOVES):
            to_row = np.clip(row + down, 0, self.height - 1)
            to_col = np.clip(col + right, 0, self.width - 1)
            target = to_row * self.width + to_col
            table[:, action] = np.where(self.free[target] & self.free, target, state)
        return table

    @cached_property
    def _start_table(self) -> tuple[IntArray, FloatArray]:
        states = np.flatnonzero(self.start > 0)
        cumulative = np.cumsum(self.start[states])
        return states, cumulative / cumulative[-1]  # ends in exactly 1.0, above every draw

    def draw_starts(self, count: int, rng: np.random.Generator) -> IntArray:
        """[count] states drawn from `start`."""
        states, cumulative = self._start_table
        return states[np.searchsorted(cumulative, rng.random(count), side="right")]
