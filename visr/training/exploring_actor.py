"""The replay learner's actor: given tasks, and random actions that are held for several steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from visr.agents.base import Agent
from visr.config.fields import REPLAY_LEARNERS, RunConfig
from visr.training.actor import Actor
from visr.types import Pursuit, Unroll

_EXPONENT, _LONGEST = 1.8, 40
"""Random actions are held for a number of steps that follows a Zipf distribution."""
_MEAN_HOLD = 2.5


class ExploringActor(Actor):
    """Greedy in psi(s, a, w) . w with an epsilon for each environment; random actions are held."""

    def __init__(self, config: RunConfig, env: VectorEnv, agent: Agent, seed: int) -> None:
        super().__init__(config, env, agent, seed)
        self._held = np.zeros(env.num_envs, dtype=np.int64)
        self._left = np.zeros(env.num_envs, dtype=np.int64)

    @torch.inference_mode()
    def next_unroll(self, pursuit: Pursuit | None) -> Unroll:
        """One unroll of every environment."""
        assert pursuit is not None
        w, epsilon = pursuit
        length, batch = self._config.training.unroll_length, self.env.num_envs
        unroll = self.empty_unroll(w)
        arrays: list[Any] = [field.numpy() for field in unroll]
        record: Any = Unroll(*arrays)
        policies, readout = w.unsqueeze(1), self.psi.fold(w.to(self._device))
        starts, held, steps = self._random_actions(length, batch, epsilon)
        is_greedy = bool((epsilon < 1).any())
        for t in range(length):
            record.observation[t], record.is_reset[t] = self._observation, self._ended
            begins = (self._left <= 0) & starts[t]
            self._held = np.where(begins, held[t], self._held)
            self._left = np.where(begins, steps[t], self._left)
            action = self._held
            if is_greedy:
                seen = unroll.observation[t].to(self._device)
                values = self.psi.gpi_values(self.psi.first_step(seen), policies, readout)
                action = np.where(self._left > 0, self._held, values.argmax(dim=-1).cpu().numpy())
            record.action[t] = action
            self._step(record, t)
            self._left = np.where(self._ended, 0, self._left - 1)
        record.observation[length] = self._observation
        return unroll

    def _random_actions(
        self, length: int, batch: int, epsilon: Tensor
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whether a random action may begin, which one, and for how many steps: [T, B] each."""
        rng = self._generator
        share = torch.where(epsilon >= 1, 1.0, epsilon / _MEAN_HOLD)
        starts = torch.rand(length, batch, generator=rng) < share
        held = torch.randint(self.psi.num_actions, (length, batch), generator=rng)
        draws = torch.rand(length, batch, generator=rng).clamp(min=1e-6)
        steps = (draws ** (-1 / (_EXPONENT - 1))).floor().clamp(1, _LONGEST).long()
        return starts.numpy(), held.numpy(), steps.numpy()

    def state(self) -> dict[str, Tensor]:
        """As of any actor, and the held actions where environments can be saved."""
        tensors = super().state()
        if self.can_checkpoint_envs:
            tensors |= {"held": torch.from_numpy(self._held), "left": torch.from_numpy(self._left)}
        return tensors

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        super().load_state(tensors, num_steps)
        if "held" in tensors:
            self._held, self._left = tensors["held"].numpy().copy(), tensors["left"].numpy().copy()

    def _reset(self, seed: int) -> None:
        super()._reset(seed)
        self._held = np.zeros(self.env.num_envs, dtype=np.int64)
        self._left = np.zeros(self.env.num_envs, dtype=np.int64)


def actor_class(config: RunConfig) -> type[Actor]:
    """The actor of this agent's training; the paper's agents choose their tasks themselves."""
    return ExploringActor if config.agent.algorithm in REPLAY_LEARNERS else Actor
