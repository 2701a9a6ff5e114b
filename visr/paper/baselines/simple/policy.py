"""PPO of Stable-Baselines3 in Gymnasium vector environments that can reset some of their environments."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor
from torch.optim import Adam

from visr.config import RunConfig
from visr.paper.baselines.sb3 import policy_network
from visr.paper.baselines.simple import SimpleConfig
from visr.training.learner import within


class StableVecEnv(VecEnv):
    """A Gymnasium vector environment for Stable-Baselines3, which resets in the step that ends an episode.

    It must accept the option `reset_mask` of `reset`.
    """

    def __init__(self, env: VectorEnv) -> None:
        self._env = env
        self._actions: NDArray = np.zeros(0)
        self.reward_sum = 0.0
        """Of all steps so far."""
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> NDArray:
        """Start new episodes with the seed that `seed` has set."""
        observation, _ = self._env.reset(seed=self._seeds[0])
        self._reset_seeds()
        return observation

    def step_async(self, actions: NDArray) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray, NDArray, NDArray, list[dict[str, Any]]]:
        """One step; an episode that ended is replaced, and its last observation is in the info."""
        observation, reward, terminated, truncated, _ = self._env.step(self._actions)
        self.reward_sum += float(reward.sum())
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.any():
            for index in np.flatnonzero(done):
                infos[index]["terminal_observation"] = observation[index].copy()
                infos[index]["TimeLimit.truncated"] = bool(
                    truncated[index] and not terminated[index]
                )
            observation, _ = self._env.reset(options={"reset_mask": done})
        return observation, reward, done, infos

    def close(self) -> None:
        self._env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the vector environment, once for each environment."""
        return [getattr(self._env, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not supported: the environments share their attributes."""
        raise NotImplementedError(attr_name)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Not supported: the environments have no methods of their own."""
        raise NotImplementedError(method_name)

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper], indices: Any = None
    ) -> list[bool]:
        """No environment has a wrapper of its own."""
        return [False] * self.num_envs


class PolicyLearner:
    """PPO whose state is its weights and Adam's; every rollout is determined by the seed it is given."""

    def __init__(self, env: VectorEnv, config: RunConfig, simple: SimpleConfig) -> None:
        self._env = StableVecEnv(env)
        self._steps = simple.rollout_length * env.num_envs
        seed = config.training.seed
        with seeded(seed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it does not recognise the observations as images
            self.ppo = PPO(
                env=self._env,
                **policy_network(env.single_observation_space),
                gamma=config.agent.gamma,
                seed=seed,
                device="cpu",
                learning_rate=simple.policy_learning_rate,
                n_steps=simple.rollout_length,
                batch_size=min(simple.batch_size, self._steps),
                n_epochs=simple.num_epochs,
                clip_range=0.1,
                ent_coef=0.01,
                vf_coef=0.5,
                max_grad_norm=0.5,
                gae_lambda=0.95,
            )
        self.ppo.set_logger(Logger(None, []))
        self.num_steps = 0
        """Simulated steps so far."""
        self.num_updates = 0

    def learn(self, seed: int, is_first: bool) -> dict[str, float]:
        """One rollout of all environments, which start anew if it is the first, and PPO's updates on it."""
        self._env.reward_sum = 0.0
        with seeded(seed):
            if is_first:
                self._env.seed(seed)
            self.ppo.learn(self._steps, log_interval=None, reset_num_timesteps=is_first)  # pyright: ignore
        self.num_steps += self._steps
        size = self.ppo.batch_size
        self.num_updates += self.ppo.n_epochs * ((self._steps + size - 1) // size)
        logged = self.ppo.logger.name_to_value
        return {
            "simulated_reward": self._env.reward_sum / self._steps,
            "value_loss": float(logged["train/value_loss"]),
            "entropy": -float(logged["train/entropy_loss"]),
        }

    @torch.inference_mode()
    def act(self, observation: NDArray, rng: torch.Generator) -> int:
        """An action drawn from the policy, for one observation."""
        seen = torch.as_tensor(observation[None])
        logits: Tensor = self.ppo.policy.get_distribution(seen).distribution.logits  # pyright: ignore
        return int(torch.multinomial(logits.softmax(dim=-1), 1, generator=rng))

    def state(self) -> dict[str, Tensor]:
        """Weights and Adam's state."""
        # Some weights share memory, which the file format does not permit.
        tensors = {f"network.{k}": v.clone() for k, v in self.ppo.policy.state_dict().items()}
        kept = self._adam.state_dict()["state"].items()
        return tensors | {f"adam.{k}.{name}": x for k, of in kept for name, x in of.items()}

    def load_state(self, tensors: dict[str, Tensor], num_steps: int, num_updates: int) -> None:
        self.ppo.policy.load_state_dict(within(tensors, "network."))
        saved: dict[int, dict[str, Tensor]] = {}
        for key, tensor in within(tensors, "adam.").items():
            number, name = key.split(".")
            saved.setdefault(int(number), {})[name] = tensor
        self._adam.load_state_dict({**self._adam.state_dict(), "state": saved})
        self.num_steps, self.num_updates = num_steps, num_updates

    @property
    def _adam(self) -> Adam:
        optimiser = self.ppo.policy.optimizer
        assert isinstance(optimiser, Adam)
        return optimiser


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators, which Stable-Baselines3 draws from, and restore them afterwards."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)
