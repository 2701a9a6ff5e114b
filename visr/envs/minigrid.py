"""MiniGrid tasks with numbered states: one layout, the agent starts at random where the task puts it.

MiniGrid's own observation is the 7 x 7 cells before the agent, which is no state: two places can look alike.
A state here is the agent's cell and direction, what it carries, and every cell of the grid. MiniGrid's own
`step` fills a table of all reachable states once. So states are goals that can be named by their number.
Actions that change no state, such as `done`, are left out: they let an agent stand still anywhere.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from visr.optional_packages import needing

LAYOUT = 0
"""The seed of the layout, which is the same in all episodes."""


class State(NamedTuple):
    """All that decides what an action does."""

    cell: tuple[int, int]
    """Column and row of the agent."""
    direction: int
    """0: right, 1: down, 2: left, 3: up."""
    carries: str | None
    """The colour of the key that the agent carries."""
    grid: bytes
    """MiniGrid's encoding of all cells."""


class TransitionTable(NamedTuple):
    """All reachable states and what every action does."""

    states: list[State]
    after: NDArray[np.int64]
    """[S, A], the state that an action reaches."""
    reward: NDArray[np.float64]
    """[S, A], 1 where the task is solved."""
    ends: NDArray[np.bool_]
    """[S, A], whether the episode ends."""
    starts: NDArray[np.int64]
    """States in which an episode may begin."""
    actions: NDArray[np.int64]
    """MiniGrid's number of each action; those that change no state are left out."""


@functools.cache
def table(task: str) -> TransitionTable:
    """Try every action of MiniGrid's environment `task` in every state that can be reached."""
    env = _made(task)
    now = begun = _state(env)
    states, number, rows = [begun], {begun: 0}, []
    solved: set[int] = set()
    """States that end the episode."""
    for place, state in enumerate(states):  # which grows
        row = []
        for action in range(env.action_space.n):
            if place in solved:  # no episode goes on from here
                row.append((place, False, True))
                continue
            _put(env, state, now)
            _, reward, terminated, _, _ = env.step(action)
            now = _state(env)
            if now not in number:
                number[now] = len(states)
                states.append(now)
            if terminated:
                solved.add(number[now])
            row.append((number[now], float(reward) > 0, terminated))
        rows.append(row)
    after, reward, ends = np.array(rows).transpose(2, 0, 1)
    acts = (after != np.arange(len(states))[:, None]).any(axis=0)
    after, reward, ends = after[:, acts], reward[:, acts], ends[:, acts]
    starts = [k for k, s in enumerate(states) if s[2:] == begun[2:] and k not in solved]
    return TransitionTable(
        states,
        after,
        reward.astype(np.float64),
        ends.astype(bool),
        np.array(starts),
        np.flatnonzero(acts),
    )


class NumberedStates(gymnasium.Env[np.int64, np.int64]):
    """Steps by the table; the reward is MiniGrid's, 1 - 0.9 steps / limit."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, task: str, render_mode: str | None = None) -> None:
        """`task` is the id of MiniGrid's own environment."""
        self.render_mode, self.table = render_mode, table(task)
        self._drawn = _made(task, render_mode)
        self._limit = self._drawn.max_steps
        self.observation_space = spaces.Discrete(len(self.table.states))
        self.action_space = spaces.Discrete(self.table.after.shape[1])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Begin at random."""
        super().reset(seed=seed)
        self._now, self._age = np.int64(self.np_random.choice(self.table.starts)), 0
        return self._now, {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Look the action up."""
        before, self._age = self._now, self._age + 1
        self._now = self.table.after[before, action]
        reward = self.table.reward[before, action] * (1 - 0.9 * self._age / self._limit)
        ends = bool(self.table.ends[before, action])
        return self._now, float(reward), ends, self._age >= self._limit and not ends, {}

    def render(self) -> Any:
        """MiniGrid's own picture."""
        _put(self._drawn, self.table.states[self._now])
        return self._drawn.render()


def _made(task: str, render_mode: str | None = None) -> Any:
    with needing("minigrid", "minigrid"):
        import minigrid  # noqa: F401  # registers its environments
    env: Any = gymnasium.make(task, render_mode=render_mode).unwrapped
    env.gen_obs = lambda: None  # the view of 7 x 7 cells takes most of the time of a step
    env.reset(seed=LAYOUT)
    return env


def _state(env: Any) -> State:
    column, row = (int(number) for number in env.agent_pos)
    carried = env.carrying.color if env.carrying else None
    return State((column, row), int(env.agent_dir), carried, env.grid.encode().tobytes())


def _put(env: Any, state: State, now: State | None = None) -> None:
    """Put MiniGrid's environment into a state; `now` is the one that it is in, if that is known."""
    from minigrid.core.grid import Grid
    from minigrid.core.world_object import Key

    if now is None or now.grid != state.grid:
        shape = (env.width, env.height, 3)
        env.grid, _ = Grid.decode(np.frombuffer(state.grid, dtype=np.uint8).reshape(shape))
    env.agent_pos, env.agent_dir, env.step_count = state.cell, state.direction, 0
    env.carrying = Key(state.carries) if state.carries else None
