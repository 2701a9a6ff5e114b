"""Environments over a grid world: a vector environment and a single one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from visr.config import GridConfig
from visr.envs.grid.world import NUM_ACTIONS, BoolArray, FloatArray, GridWorld, IntArray
from visr.envs.spaces import identity_codec
from visr.errors import UserError

Observation = Literal["discrete", "one-hot"]


def _per_state(values: ArrayLike | None, world: GridWorld, name: str, dtype: type) -> Any:
    """`values` as an array [S] of its own, or None."""
    if values is None:
        return None
    array = np.array(values, dtype=dtype)
    if array.shape != (world.num_states,):
        raise UserError(
            f"{name} has shape {array.shape}, but the grid has ({world.num_states},) states."
        )
    return array


class GridVectorEnv(gymnasium.vector.VectorEnv[Any, Any, np.ndarray]):
    """Many agents in one grid world, moved by one look-up in its transition table.

    Next-step auto-reset: the last observation of an episode is an ordinary one; the step after it
    ignores the action and returns the first observation of the next episode with reward 0.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        world: GridWorld,
        num_envs: int = 1,
        *,
        observation: Observation = "discrete",
        max_episode_steps: int | None = None,
        reward: ArrayLike | None = None,
        terminal: ArrayLike | None = None,
        same_starts: bool = False,
    ) -> None:
        """reward [S] is collected on arrival (default: always 0); terminal [S] ends on arrival.

        With `same_starts` an environment begins each episode where it began the first.
        """
        if num_envs < 1:
            raise UserError(f"num_envs is {num_envs}, but there must be at least 1 environment.")
        if max_episode_steps is not None and max_episode_steps < 0:
            raise UserError(
                f"max_episode_steps is {max_episode_steps}: use 0 for episodes without a time limit."
            )
        if observation not in ("discrete", "one-hot"):
            raise UserError(f"Unknown observation {observation!r}: use 'discrete' or 'one-hot'.")
        self.world = world
        self.num_envs = num_envs
        self.max_episode_steps = max_episode_steps or 0
        self.single_action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        self.single_observation_space = (
            gymnasium.spaces.Discrete(world.num_states)
            if observation == "discrete"
            else gymnasium.spaces.Box(0.0, 1.0, (world.num_states,), np.float32)
        )
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.codec = identity_codec(self, ["up", "left", "down", "right"])
        self._one_hot = observation == "one-hot"
        self._reward: FloatArray | None = _per_state(reward, world, "The reward", np.float64)
        self._terminal: BoolArray | None = _per_state(
            terminal, world, "The array of terminal states", np.bool_
        )
        self._table = world.transitions.ravel()
        self._rows = np.arange(num_envs)
        self._positions: IntArray | None = None
        self._first: IntArray | None = None
        self._same_starts = same_starts
        self._elapsed = np.zeros(num_envs, dtype=np.int64)
        self._needs_reset = np.zeros(num_envs, dtype=np.bool_)
        self._any_needs_reset = False
        self._endless = not self.max_episode_steps and self._terminal is None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._positions = self.world.draw_starts(self.num_envs, self.np_random)
        self._first = self._positions.copy() if self._same_starts else None
        self._elapsed[:] = 0
        self._needs_reset[:] = False
        self._any_needs_reset = False
        return self._observe(self._positions), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Move every agent; those whose episode ended at the last step reset instead."""
        actions = np.asarray(actions).astype(np.int64, casting="same_kind", copy=False)
        # the OR of numbers from 0 to 3 has no bit above the two lowest
        if actions.shape != self._rows.shape or np.bitwise_or.reduce(actions) >> 2:
            raise ValueError(
                f"actions must be {self.num_envs} integers from 0 to {NUM_ACTIONS - 1}: {actions}"
            )
        index = self._current() * NUM_ACTIONS
        index += actions
        positions = self._positions = self._table.take(index)
        reward = np.zeros(self.num_envs) if self._reward is None else self._reward.take(positions)
        terminated = np.zeros(self.num_envs, dtype=np.bool_)
        truncated = np.zeros(self.num_envs, dtype=np.bool_)
        if not self._endless:
            self._mark_ends(terminated, truncated)
            if self._any_needs_reset:
                self._reset_ended(reward, terminated, truncated)
            np.logical_or(terminated, truncated, out=self._needs_reset)
            self._any_needs_reset = bool(self._needs_reset.any())
        return self._observe(positions), reward, terminated, truncated, {}

    def _mark_ends(self, terminated: BoolArray, truncated: BoolArray) -> None:
        if self._terminal is not None:
            self._terminal.take(self._current(), out=terminated)
        if self.max_episode_steps:
            self._elapsed += 1
            np.greater_equal(self._elapsed, self.max_episode_steps, out=truncated)

    def _reset_ended(self, reward: FloatArray, terminated: BoolArray, truncated: BoolArray) -> None:
        fresh = self._needs_reset
        if self._first is None:
            self._current()[fresh] = self.world.draw_starts(int(fresh.sum()), self.np_random)
        else:
            self._current()[fresh] = self._first[fresh]
        self._elapsed[fresh] = 0
        reward[fresh] = 0.0
        terminated[fresh] = truncated[fresh] = False

    def _current(self) -> IntArray:
        if self._positions is None:
            raise gymnasium.error.ResetNeeded("call reset() before anything else")
        return self._positions

    def _observe(self, positions: IntArray) -> np.ndarray:
        if not self._one_hot:
            return positions.copy()  # the caller may write into it
        observation = np.zeros((self.num_envs, self.world.num_states), dtype=np.float32)
        observation[self._rows, positions] = 1.0
        return observation

    def state(self) -> dict[str, np.ndarray]:
        """The complete state as arrays; `elapsed` matters only with a time limit."""
        first = {} if self._first is None else {"first": self._first.copy()}
        return first | {
            "positions": self._current().copy(),
            "elapsed": self._elapsed.copy(),
            "needs_reset": self._needs_reset.copy(),
            "rng": _encode_rng(self.np_random),
        }

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue exactly from `state()`."""
        positions = np.array(state["positions"], dtype=np.int64)
        first = np.array(state.get("first", positions), dtype=np.int64)
        elapsed = np.array(state["elapsed"], dtype=np.int64)
        needs_reset = np.array(state["needs_reset"], dtype=np.bool_)
        for array in (positions, first, elapsed, needs_reset):
            if array.shape != (self.num_envs,):
                raise UserError(
                    f"The saved state has shape {array.shape}, but there are {self.num_envs} "
                    "environments: resume with the num_envs it was saved with."
                )
        cells = np.concatenate([positions, first])
        if cells.min() < 0 or cells.max() >= self.world.num_states:
            raise UserError(
                f"The saved state lies outside the grid of {self.world.height} x "
                f"{self.world.width} cells: resume with the grid it was saved with."
            )
        self.np_random = _decode_rng(state["rng"])
        self._positions, self._elapsed, self._needs_reset = positions, elapsed, needs_reset
        self._first = first if self._same_starts else None
        self._any_needs_reset = bool(needs_reset.any())


_LOW = (1 << 64) - 1


def _encode_rng(rng: np.random.Generator) -> NDArray[np.uint64]:
    """PCG64 as six words: two 128-bit numbers and a buffered 32-bit one."""
    saved: Any = rng.bit_generator.state
    numbers = (saved["state"]["state"], saved["state"]["inc"])
    words = [word for number in numbers for word in (number >> 64, number & _LOW)]
    return np.array([*words, saved["has_uint32"], saved["uinteger"]], dtype=np.uint64)


def _decode_rng(words: np.ndarray) -> np.random.Generator:
    state_high, state_low, inc_high, inc_low, has_uint32, uinteger = (int(word) for word in words)
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": state_high << 64 | state_low, "inc": inc_high << 64 | inc_low},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
    return np.random.Generator(bits)


class GridEnv(gymnasium.Env[Any, Any]):
    """One agent in a grid world: a `GridVectorEnv` of one, without its auto-reset."""

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self, world: GridWorld, *, render_mode: str | None = None, **settings: Any
    ) -> None:
        """`settings` are those of `GridVectorEnv`."""
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UserError(f"Unknown render_mode {render_mode!r}: use 'ansi' or 'rgb_array'.")
        self.world = world
        self.render_mode = render_mode
        self._grid = GridVectorEnv(world, 1, **settings)
        self.action_space = self._grid.single_action_space
        self.observation_space = self._grid.single_observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode."""
        super().reset(seed=seed)
        self._grid.np_random = self.np_random
        observation, info = self._grid.reset()
        return observation[0], info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move the agent."""
        if self._grid._any_needs_reset:
            raise gymnasium.error.ResetNeeded("the episode has ended: call reset()")
        observation, reward, terminated, truncated, info = self._grid.step([action])
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> Any:
        """The grid with its walls (# or grey) and the agent (A or blue)."""
        if self.render_mode is None:
            return None
        shape = (self.world.height, self.world.width)
        cells = np.where(self.world.free, 0, 1)
        cells[self._grid._current()[0]] = 2
        if self.render_mode == "ansi":
            return "\n".join("".join(row) for row in np.array(list(".#A"))[cells.reshape(shape)])
        colours = np.array([[255, 255, 255], [90, 90, 90], [31, 119, 180]], dtype=np.uint8)
        side = max(1, 320 // max(shape))
        return colours[cells.reshape(shape)].repeat(side, axis=0).repeat(side, axis=1)


def make(**settings: Any) -> GridEnv:
    """Entry point of `gymnasium.make("visr/Grid-v0", ...)`; see `world_from` for the settings."""
    world, rest = world_from(**settings)
    return GridEnv(world, **rest)


def make_vector(num_envs: int = 1, **settings: Any) -> GridVectorEnv:
    """Entry point of `gymnasium.make_vec("visr/Grid-v0", ...)`; see `world_from` for the settings."""
    world, rest = world_from(**settings)
    return GridVectorEnv(world, num_envs, **rest)


def world_from(
    height: int = 10,
    width: int = 10,
    layout: Literal["open", "four-rooms"] = "open",
    walls: ArrayLike | None = None,
    start_weights: ArrayLike | None = None,
    **rest: Any,
) -> tuple[GridWorld, dict[str, Any]]:
    """The world that these settings describe, and the remaining settings.

    walls [height, width]: True for a wall (instead of a layout); start_weights [S].
    """
    world = GridWorld.from_config(GridConfig(height, width, layout))
    own_walls = world.walls if walls is None else np.asarray(walls, dtype=np.bool_)
    weights = None if start_weights is None else np.asarray(start_weights, dtype=np.float64)
    return GridWorld(height, width, own_walls, weights), rest
