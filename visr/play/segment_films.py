"""Films of recorded steps: a copy of the environment that draws itself repeats them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from visr import envs
from visr.agents.base import BehaviourModel
from visr.config import RunConfig
from visr.envs import modules
from visr.envs.gym import spread_seeds
from visr.errors import UserError, reason_of
from visr.inference import recording
from visr.play import policy
from visr.play.rendering import Picture

_NUM_EPISODES, _EPISODE_STEPS = 64, 150
"""Short episodes: an episode is repeated from its start up to the segment that is drawn."""
_TOLERANCE = 1e-4


class SegmentFilms:
    """A recording whose episodes begin with known seeds, and pictures of its segments.

    Raises a UserError where the environment cannot draw itself.
    """

    def __init__(self, agent: BehaviourModel, config: RunConfig, seed: int = 0) -> None:
        self._agent, self._config, self._codec = agent, config, envs.space_codec(config)
        self._seeds = spread_seeds(seed, _NUM_EPISODES)
        spec = modules.load(config.env)
        self._copy: gymnasium.Env = self._call(
            gymnasium.make, spec, disable_env_checker=True, render_mode="rgb_array"
        )
        self._call(self._copy.reset, seed=seed)
        self._draw()
        num_steps = _NUM_EPISODES * _EPISODE_STEPS
        recorded = recording.record(agent, config, num_steps, seed, num_episodes=_NUM_EPISODES)
        self.recorded = recorded.in_order()

    def film(self, start: int, num_steps: int) -> Sequence[Picture]:
        """Pictures of the state before each step and of the last one, [num_steps + 1].

        Raises a UserError where the same seed and actions lead to other observations.
        """
        recorded, pictures = self.recorded, []
        episode, stop = recorded.episode[start], start + num_steps
        first = int(np.searchsorted(recorded.episode, episode))
        seen, _ = self._call(self._copy.reset, seed=self._seeds[episode])
        for step in range(first, stop):
            if step >= start:
                pictures.append(self._draw())
            action = self._codec.actions[recorded.action[step]]
            seen, *_ = self._call(self._copy.step, action)
        state = policy.observations(self._agent, self._codec, seen)[0][0].numpy()
        if not np.allclose(state, recorded.reached[stop - 1], atol=_TOLERANCE):
            raise UserError(f"{self._config.env} does not repeat an episode from its seed.")
        return [*pictures, self._draw()]

    def _draw(self) -> Picture:
        drawn = np.asarray(self._call(self._copy.render))
        if drawn.ndim != 3 or drawn.shape[2] != 3:
            raise UserError(f"{self._config.env} draws no picture [height, width, 3].")
        return drawn.astype(np.uint8)

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the environment's code; what it raises becomes one sentence."""
        try:
            return function(*args, **kwargs)
        except (Exception, SystemExit) as error:
            reason = reason_of(error)
            raise UserError(f"{self._config.env} cannot draw itself ({reason}).") from error
