"""Acting outside training: N environments, each with a task of its own."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from visr.agents.base import Agent


class EpsilonGreedyActor:
    """Epsilon-greedy in max_i psi(s, a, w_i) . w; an LSTM's memory is cleared where an episode starts."""

    def __init__(
        self,
        agent: Agent,
        num_envs: int,
        *,
        epsilon: float,
        gpi: bool | None = None,
        random: Generator | None = None,
    ) -> None:
        self.agent, self.num_envs, self.epsilon, self.gpi = agent, num_envs, epsilon, gpi
        self.device, self.task_size = agent.device, agent.task_size
        self._random = random or Generator().manual_seed(0)
        self._previous_action, self._memory = agent.psi.no_memory(num_envs)
        self.w = torch.zeros(num_envs, self.task_size)
        self.values = torch.zeros(num_envs, agent.spec.num_actions)
        """[N, actions]: Q(s, a, w) in the last step."""

    def memory(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The last actions [N] and the LSTM's memory [N, M], for `remember`."""
        return self._previous_action.cpu().numpy(), self._memory.cpu().numpy()

    def remember(self, previous_action: NDArray[np.int64], memory: NDArray[np.float32]) -> None:
        """Continue from an earlier `memory()`."""
        self._previous_action = torch.as_tensor(previous_action, device=self.device)
        self._memory = torch.as_tensor(memory, device=self.device)

    @torch.inference_mode()
    def pursue(self, w: Tensor | NDArray) -> None:
        """Set the tasks: [d] for all environments, or [N, d]."""
        tasks = torch.as_tensor(w, dtype=torch.float32)
        self.w = tasks.expand(self.num_envs, -1)
        self._readout = self.agent.readout(self.w.to(self.device), self.gpi)

    @torch.inference_mode()
    def act(self, observation: NDArray | Tensor, starts: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Actions [N] for observations [N, ...]; `starts` [N] marks those that begin an episode."""
        seen = torch.as_tensor(observation, device=self.device)
        began = torch.as_tensor(starts, device=self.device)
        previous = self._previous_action.masked_fill(began, -1)
        hidden, self._memory = self.agent.psi.step(seen, previous, self._memory)
        policies = self.w.unsqueeze(1)
        if self._readout.tasks is None:
            policies = self.agent.sample_policies(self.w, self._random, self.gpi)
        values = self.agent.action_values(hidden, policies.to(self.device), self._readout)
        self.values = values.cpu()
        action = epsilon_greedy(self.values, self.epsilon, self._random)
        self._previous_action = action.to(self.device)
        return action.numpy()

    def took(self, action: NDArray[np.int64]) -> None:
        """The actions [N] that were really taken, if others than `act` chose."""
        self._previous_action = torch.as_tensor(action, device=self.device)


def epsilon_greedy(values: Tensor, epsilon: float, generator: Generator | None = None) -> Tensor:
    """The action of the largest value, or with probability epsilon a uniformly random one.

    values [..., actions] -> [...] int64
    """
    greedy = values.argmax(dim=-1)
    shape, device, num_actions = greedy.shape, values.device, values.shape[-1]
    explore = torch.rand(shape, generator=generator, device=device) < epsilon
    random = torch.randint(num_actions, shape, generator=generator, device=device)
    return torch.where(explore, random, greedy)
