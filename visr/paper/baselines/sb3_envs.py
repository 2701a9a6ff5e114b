"""Our environments as Stable-Baselines3 wants them: an ended episode begins anew within the same step."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from visr import envs
from visr.config import RunConfig


class Games(VecEnv):
    """Rewards are clipped to [-1, 1]; raw returns of whole games are kept in `returns`.

    A step that only resets is not counted: steps are decisions, as everywhere here. In Atari a lost life
    is an end to the learner, and the game goes on.
    """

    def __init__(self, config: RunConfig, num_envs: int) -> None:
        # One vector each, as a vector of many could not begin one game anew without moving the others.
        self._games: list[VectorEnv] = [envs.make_vec(config, 1) for _ in range(num_envs)]
        first = self._games[0]
        self._life_loss_terminates = config.life_loss_terminates
        super().__init__(num_envs, first.single_observation_space, first.single_action_space)
        self._seed_of_all = config.training.seed
        self._running = np.zeros(num_envs)
        self.returns: list[float] = []
        """Of games that have ended, raw; whoever reads them may clear them."""
        self._chosen: NDArray[np.int64] = np.zeros(num_envs, dtype=np.int64)

    def reset(self) -> NDArray:
        """Begin everywhere, as the run's seed decides."""
        seeds = np.random.SeedSequence([self._seed_of_all, 1]).generate_state(self.num_envs)
        self._running[:] = 0
        begun = [game.reset(seed=int(s))[0] for game, s in zip(self._games, seeds, strict=True)]
        return np.concatenate(begun)

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Remember what to do."""
        self._chosen = actions

    def step_wait(self) -> Any:
        """Do it: observations, clipped rewards, ends, and what Stable-Baselines3 wants to know of ends."""
        steps = [self._step(index, action) for index, action in enumerate(self._chosen)]
        observation, reward, done, info = zip(*steps, strict=True)
        clipped = np.clip(np.array(reward, dtype=np.float32), -1, 1)
        return np.concatenate(observation), clipped, np.array(done), list(info)

    def _step(self, index: int, action: np.int64) -> tuple[NDArray, float, bool, dict[str, Any]]:
        game = self._games[index]
        observation, reward, terminated, truncated, told = game.step(np.array([action]))
        self._running[index] += reward[0]
        ended = bool(terminated[0] or truncated[0])
        died = ended or bool(self._life_loss_terminates and told["life_lost"][0])
        info: dict[str, Any] = {}
        if died:
            cut = bool(truncated[0] and not terminated[0])
            info = {"terminal_observation": observation[0], "TimeLimit.truncated": cut}
        if ended:
            self.returns.append(float(self._running[index]))
            self._running[index] = 0.0
            observation = game.step(np.array([0]))[0]  # which only begins the next game
        return observation, float(reward[0]), died, info

    def close(self) -> None:
        """Let go of the games."""
        for game in self._games:
            game.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Stable-Baselines3 asks for `render_mode`: there is none."""
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Nothing of a game can be set from outside."""
        raise AttributeError(attr_name)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Games have no methods for outsiders."""
        raise AttributeError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """None is."""
        return [False] * self.num_envs
