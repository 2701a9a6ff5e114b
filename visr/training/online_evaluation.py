"""The paper's online evaluation: a few environments with rewards, beside those that pre-train."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from visr import envs
from visr.agents.base import Agent, BehaviourModel
from visr.config.fields import RunConfig
from visr.envs.episodes import EpisodeReturns
from visr.errors import UserError
from visr.ops import derived_seed
from visr.ops.regression import RewardSums, fit_task
from visr.training.actor import Actor
from visr.training.learner import within
from visr.types import Transitions


class OnlineEvaluation:
    """Acts with the w of a regression on its own latest rewarded steps; no learner uses these steps.

    Each step keeps the phi it had when it was played, although phi changes. Other agents act as in
    training, and only their returns are recorded.
    """

    def __init__(self, config: RunConfig, agent: Agent) -> None:
        training = config.training
        self._config, size = config, training.num_rewarded_envs
        seed = derived_seed(training.seed, 2)
        self.actor = Actor(config, envs.make_vec(config, size), agent, seed)
        self._phi = torch.zeros(training.rewarded_window, config.agent.num_features)
        self._reward = torch.zeros(training.rewarded_window)
        self._num_steps = 0
        self._returns = EpisodeReturns(size)
        self._finished: list[float] = []
        self._fit = {"r_squared": 0.0, "num_rewarded": 0.0}

    def play(self, agent: Agent) -> None:
        """Play one unroll with the current w, and store its phi and rewards."""
        self.actor.refresh(agent.psi)
        unroll = self.actor.collect(self.task())
        if isinstance(agent, BehaviourModel):
            with torch.inference_mode():
                reached = unroll.observation[1:].to(agent.device)
                phi = agent.cumulant(Transitions(reached)).cpu()
            self._store(phi[~unroll.is_reset], unroll.reward[~unroll.is_reset])
        self._finished += self._returns.add(unroll.reward, unroll.is_reset)

    def task(self) -> Tensor | None:
        """The unit w that fits the stored rewards; None if all are 0 or phi cannot explain them."""
        size = min(self._num_steps, len(self._reward))
        reward = self._reward[:size].numpy().astype(np.float64)
        if not reward.any():
            return None
        sums = RewardSums(self._phi.shape[1])
        sums.add(self._phi[:size].numpy(), reward)
        try:
            fit = fit_task(sums, self._config.inference)
        except UserError:
            return None
        self._fit = {"r_squared": fit.r_squared, "num_rewarded": float(fit.num_rewarded)}
        return torch.as_tensor(fit.w, dtype=torch.float32)

    def _store(self, phi: Tensor, reward: Tensor) -> None:
        if self._config.inference.clip_rewards:
            reward = reward.clamp(-1, 1)
        slots = (self._num_steps + torch.arange(len(reward))) % len(self._reward)
        self._phi[slots], self._reward[slots] = phi, reward
        self._num_steps += len(reward)

    def row(self) -> dict[str, float]:
        """Episodes since the last call; empty if none has ended."""
        if not self._finished:
            return {}
        finished, self._finished = np.asarray(self._finished), []
        return {
            "num_episodes": float(len(finished)),
            "mean_return": float(finished.mean()),
            **self._fit,
        }

    def reset_unsaveable_envs(self, num_steps: int) -> None:
        """Reset environments whose state cannot be saved, and the returns of their episodes."""
        if self.actor.reset_unsaveable_envs(num_steps):
            self._returns.clear()

    def state(self) -> dict[str, Tensor]:
        """Every tensor that decides the next unrolls and rows, except the weights."""
        return {
            "phi": self._phi,
            "reward": self._reward,
            "num_steps": torch.tensor(self._num_steps),
            "returns": self._returns.running,
            "finished": torch.tensor(self._finished, dtype=torch.float64),
            "fit": torch.tensor(list(self._fit.values()), dtype=torch.float64),
            **{f"actor.{k}": v for k, v in self.actor.state().items()},
        }

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        self._phi, self._reward = tensors["phi"], tensors["reward"]
        self._num_steps, self._returns.running = int(tensors["num_steps"]), tensors["returns"]
        self._finished = tensors["finished"].tolist()
        self._fit = dict(zip(self._fit, tensors["fit"].tolist(), strict=True))
        self.actor.load_state(within(tensors, "actor."), num_steps)
