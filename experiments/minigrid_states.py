"""MiniGrid tasks with numbered states: one layout, the agent starts at random where the task puts it.

MiniGrid's own observation is the 7 x 7 cells before the agent, which is no state: two places can look alike.
A state here is the agent's cell and direction, what it carries, and every cell of the grid. MiniGrid's own
`step` fills a table of all reachable states once.

visr pretrain experiments/minigrid_states.py:DoorKey --preset replay-large-grid
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from minigrid.core.grid import Grid
from minigrid.core.world_object import Key
from minigrid.minigrid_env import MiniGridEnv

LAYOUT = 0
"""The seed of the layout, which is the same in all episodes."""


class Table(NamedTuple):
    """All reachable states and what every action does."""

    states: list[tuple]
    after: np.ndarray
    """[S, A] int64, the state that an action reaches."""
    reward: np.ndarray
    """[S, A], 1 where the task is solved."""
    ends: np.ndarray
    """[S, A], whether the episode ends."""
    starts: np.ndarray
    """States in which an episode may begin."""


@functools.cache
def table(id: str) -> Table:
    """Try every action in every state that can be reached."""
    env = _made(id)
    begun = _state(env)
    states, number, rows = [begun], {begun: 0}, []
    solved: set[int] = set()
    for state in states:  # which grows
        row = []
        for action in range(env.action_space.n):  # pyright: ignore
            _restore(env, state)
            _, reward, terminated, _, _ = env.step(action)
            reached = _state(env)
            if reached not in number:
                number[reached] = len(states)
                states.append(reached)
            if terminated:
                solved.add(number[reached])
            row.append((number[reached], float(reward) > 0, terminated))
        rows.append(row)
    after, reward, ends = np.array(rows).transpose(2, 0, 1)
    starts = [k for k, s in enumerate(states) if s[2:] == begun[2:] and k not in solved]
    return Table(states, after, reward.astype(np.float64), ends.astype(bool), np.array(starts))


class NumberedStates(gymnasium.Env):
    """Steps by the table; the reward is MiniGrid's, 1 - 0.9 steps / limit."""

    id: str
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode, self.table = render_mode, table(self.id)
        self._drawn = _made(self.id, render_mode)
        self._limit = self._drawn.max_steps
        self.observation_space = spaces.Discrete(len(self.table.states))
        self.action_space = spaces.Discrete(self.table.after.shape[1])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Begin at random."""
        super().reset(seed=seed)
        self._now, self._age = int(self.np_random.choice(self.table.starts)), 0
        return self._now, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Look the action up."""
        before, self._age = self._now, self._age + 1
        self._now = int(self.table.after[before, action])
        reward = self.table.reward[before, action] * (1 - 0.9 * self._age / self._limit)
        ends = bool(self.table.ends[before, action])
        return self._now, float(reward), ends, self._age >= self._limit and not ends, {}

    def render(self) -> Any:
        """MiniGrid's own picture."""
        _restore(self._drawn, self.table.states[self._now])
        return self._drawn.render()


class FourRooms(NumberedStates):
    """Four rooms of 8 x 8 cells."""

    id = "MiniGrid-FourRooms-v0"


class DoorKey(NumberedStates):
    """A locked door, and the key to it."""

    id = "MiniGrid-DoorKey-5x5-v0"


def _made(id: str, render_mode: str | None = None) -> MiniGridEnv:
    env: Any = gymnasium.make(id, render_mode=render_mode).unwrapped
    env.gen_obs = lambda: None  # the view of 7 x 7 cells takes most of the time of a step
    env.reset(seed=LAYOUT)
    return env


def _state(env: MiniGridEnv) -> tuple:
    place = tuple(int(number) for number in env.agent_pos)
    carried = env.carrying.color if env.carrying else None
    return place, int(env.agent_dir), carried, env.grid.encode().tobytes()


def _restore(env: MiniGridEnv, state: tuple) -> None:
    place, direction, carried, cells = state
    shape = (env.width, env.height, 3)
    env.grid, _ = Grid.decode(np.frombuffer(cells, dtype=np.uint8).reshape(shape))
    env.agent_pos, env.agent_dir, env.step_count = place, direction, 0
    env.carrying = Key(carried) if carried else None
