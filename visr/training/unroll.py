"""An actor: a group of environments, its random numbers, and 40 steps at a time."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from visr.agents.visr import draw_policies
from visr.config import RunConfig
from visr.networks.successor import SuccessorFeatures
from visr.ops import sphere
from visr.types import Unroll


class Actor:
    """Acts in its own environments with its own copy of psi, so that learning can go on meanwhile."""

    def __init__(
        self, config: RunConfig, env: VectorEnv, psi: SuccessorFeatures, seed: int
    ) -> None:
        self._config, self.env, self._seed = config, env, seed
        self.psi = copy.deepcopy(psi).requires_grad_(False)
        self._generator = torch.Generator().manual_seed(seed)
        self._observation: np.ndarray = env.reset(seed=seed)[0]
        self._ended = np.zeros(env.num_envs, dtype=np.bool_)

    @torch.inference_mode()
    def refresh(self, psi: SuccessorFeatures) -> None:
        """Take over the learner's weights."""
        for mine, theirs in zip(self.psi.parameters(), psi.parameters(), strict=True):
            mine.copy_(theirs)

    @torch.inference_mode()
    def collect(self) -> Unroll:
        """Draw a task for every environment and pursue it for one unroll."""
        agent, length = self._config.agent, self._config.training.unroll_length
        batch, random = self.env.num_envs, self._generator
        w = sphere.uniform(batch, d=agent.num_features, generator=random)
        policies = draw_policies(agent, w.expand(length, *w.shape), random)
        exploits = (torch.rand(length, batch, generator=random) >= agent.epsilon).numpy()
        action = torch.randint(self.psi.num_actions, (length, batch), generator=random)
        unroll, readout = self._empty_unroll(length, w, action), self.psi.fold(w)
        # The environments speak numpy, and small writes are quicker there: same memory, other words.
        arrays: list[Any] = [field.numpy() for field in unroll]
        record: Any = Unroll(*arrays)
        for t in range(length):
            record.observation[t], record.is_reset[t] = self._observation, self._ended
            greedy = self.psi.gpi_values(unroll.observation[t], policies[t], readout).argmax(dim=-1)
            np.copyto(record.action[t], greedy.numpy(), where=exploits[t])
            self._observation, record.reward[t], record.terminated[t], record.truncated[t], _ = (
                self.env.step(record.action[t])
            )
            self._ended = record.terminated[t] | record.truncated[t]
        record.observation[length] = self._observation
        return unroll

    def _empty_unroll(self, length: int, w: Tensor, action: Tensor) -> Unroll:
        seen = torch.as_tensor(self._observation)
        flag = torch.empty(action.shape, dtype=torch.bool)
        return Unroll(
            observation=torch.empty(length + 1, *seen.shape, dtype=seen.dtype),
            action=action,
            reward=torch.empty(action.shape),
            terminated=flag,
            truncated=flag.clone(),
            is_reset=flag.clone(),
            w=w,
        )

    @property
    def remembers(self) -> bool:
        """Whether the environments can say where they are, and be put back there."""
        return hasattr(self.env.unwrapped, "load_state")

    def restart(self, num_steps: int) -> None:
        """Begin new episodes, in a way that only the run's seed and its age decide."""
        seed = int(np.random.SeedSequence([self._seed, num_steps]).generate_state(1)[0])
        self._observation = self.env.reset(seed=seed)[0]
        self._ended = np.zeros_like(self._ended)

    def state(self) -> dict[str, Tensor]:
        """All that determines what comes next, given the learner's weights."""
        tensors = {"generator": self._generator.get_state()}
        if self.remembers:
            arrays = {"observation": self._observation, "ended": self._ended}
            env_state: dict[str, np.ndarray] = self.env.unwrapped.state()  # pyright: ignore
            arrays |= {f"env.{k}": v for k, v in env_state.items()}
            tensors |= {k: torch.from_numpy(v.copy()) for k, v in arrays.items()}
        return tensors

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """Go on from `state()`; environments that cannot be put back begin anew, as they did then."""
        self._generator.set_state(tensors["generator"])
        if self.remembers:
            self._observation, self._ended = (
                tensors["observation"].numpy(),
                tensors["ended"].numpy(),
            )
            env_state = {k[4:]: v.numpy() for k, v in tensors.items() if k.startswith("env.")}
            self.env.unwrapped.load_state(env_state)  # pyright: ignore
        else:
            self.restart(num_steps)
