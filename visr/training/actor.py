"""An actor: a group of environments, its random numbers, and 40 steps at a time."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from visr.agents.registry import draw_tasks
from visr.agents.visr import draw_policies
from visr.config import ATARI, RunConfig
from visr.networks.successor import SuccessorFeatures
from visr.ops.rng import derived
from visr.types import Unroll


def _tensors(network: SuccessorFeatures) -> Iterator[Tensor]:
    return itertools.chain(network.parameters(), network.buffers())


class Actor:
    """Acts in its own environments with its own copy of psi, so that learning can go on meanwhile."""

    def __init__(
        self, config: RunConfig, env: VectorEnv, psi: SuccessorFeatures, seed: int
    ) -> None:
        self._config, self.env, self._seed = config, env, seed
        self.psi = copy.deepcopy(psi).requires_grad_(False)
        self._device = next(self.psi.parameters()).device
        self._generator = torch.Generator().manual_seed(seed)
        self._begin(seed)

    def _begin(self, seed: int) -> None:
        """New episodes everywhere, and nothing remembered."""
        self._observation: np.ndarray = self.env.reset(seed=seed)[0]
        self._ended = np.zeros(self.env.num_envs, dtype=np.bool_)
        previous_action, self._memory = self.psi.no_memory(self.env.num_envs)
        self._previous_action = previous_action.cpu()

    @torch.inference_mode()
    def refresh(self, psi: SuccessorFeatures) -> None:
        """Take over the learner's weights."""
        for mine, theirs in zip(_tensors(self.psi), _tensors(psi), strict=True):
            mine.copy_(theirs)

    @torch.inference_mode()
    def collect(
        self,
        task: Tensor | None = None,
        *,
        policies: Tensor | None = None,
        epsilon: float | None = None,
    ) -> Unroll:
        """Draw a task for every environment, or take the one given, and pursue it for one unroll.

        GPI consults sampled neighbours of w, or the policies [P, d] given.
        """
        agent, length = self._config.agent, self._config.training.unroll_length
        batch, random = self.env.num_envs, self._generator
        w = draw_tasks(agent, batch, random)
        w = w if task is None else task.expand(batch, -1).contiguous()
        if policies is None:
            policies = draw_policies(agent, w.expand(length, *w.shape), random)
        else:
            policies = policies.expand(length, batch, *policies.shape)
        epsilon = agent.exploration if epsilon is None else epsilon
        exploits = (torch.rand(length, batch, generator=random) >= epsilon).numpy()
        action = torch.randint(self.psi.num_actions, (length, batch), generator=random)
        unroll = self._empty_unroll(length, w, action)
        policies, readout = policies.to(self._device), self.psi.fold(w.to(self._device))
        # The environments speak numpy, and small writes are quicker there: same memory, other words.
        arrays: list[Any] = [field.numpy() for field in unroll]
        record: Any = Unroll(*arrays)
        for t in range(length):
            record.observation[t], record.is_reset[t] = self._observation, self._ended
            hidden, self._memory = self.psi.step(
                unroll.observation[t].to(self._device),
                self._previous_action.to(self._device),
                self._memory,
            )
            greedy = self.psi.gpi_values(hidden, policies[t], readout).argmax(dim=-1)
            np.copyto(record.action[t], greedy.cpu().numpy(), where=exploits[t])
            self._observation, record.reward[t], terminated, record.truncated[t], info = (
                self.env.step(record.action[t])
            )
            self._ended = terminated | record.truncated[t]
            record.terminated[t] = terminated | info["life_lost"] if self._mourns else terminated
            if self.psi.memory_size:
                self._previous_action = unroll.action[t].masked_fill(unroll.is_reset[t], -1)
        record.observation[length] = self._observation
        return unroll

    def blank(self, w: Tensor) -> Unroll:
        """An unroll of nothing yet, as large as any that `collect` gives for a task w [d]."""
        length, batch = self._config.training.unroll_length, self.env.num_envs
        action = torch.zeros(length, batch, dtype=torch.int64)
        return self._empty_unroll(length, w.expand(batch, -1), action)

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
            previous_action=self._previous_action,
            memory=self._memory.cpu(),
        )

    @property
    def _mourns(self) -> bool:
        """Whether a lost life ends what counts, though the game goes on."""
        atari = self._config.env.startswith(ATARI)
        return atari and self._config.atari.zero_discount_on_life_loss

    @property
    def remembers(self) -> bool:
        """Whether the environments can say where they are, and be put back there."""
        return hasattr(self.env.unwrapped, "load_state")

    def restart(self, num_steps: int) -> None:
        """Begin new episodes, in a way that only the run's seed and its age decide."""
        self._begin(derived(self._seed, num_steps))

    def state(self) -> dict[str, Tensor]:
        """All that determines what comes next, given the learner's weights."""
        tensors = {"generator": self._generator.get_state()}
        if self.remembers:
            arrays = {"observation": self._observation, "ended": self._ended}
            env_state: dict[str, np.ndarray] = self.env.unwrapped.state()  # pyright: ignore
            arrays |= {f"env.{k}": v for k, v in env_state.items()}
            tensors |= {k: torch.from_numpy(v.copy()) for k, v in arrays.items()}
            tensors |= {"memory": self._memory, "previous_action": self._previous_action}
        return tensors

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """Go on from `state()`; environments that cannot be put back begin anew, as they did then."""
        self._generator.set_state(tensors["generator"])
        was_forgetful = tensors.keys() == {"generator"}  # saved before these games could be
        if self.remembers and not was_forgetful:
            self._refuse_misfits(tensors)
            self._observation, self._ended = (
                tensors["observation"].numpy(),
                tensors["ended"].numpy(),
            )
            self._memory = tensors["memory"].to(self._device)
            self._previous_action = tensors["previous_action"]
            env_state = {k[4:]: v.numpy() for k, v in tensors.items() if k.startswith("env.")}
            self.env.unwrapped.load_state(env_state)  # pyright: ignore
        else:
            self.restart(num_steps)

    def _refuse_misfits(self, tensors: dict[str, Tensor]) -> None:
        """What these environments and this psi never said would fail at some later step, or not at all."""
        for name, mine in self.state().items():
            given = tensors[name]
            if name.startswith("env."):  # environments look at theirs themselves
                continue
            if given.shape != mine.shape or given.dtype != mine.dtype:
                raise ValueError(f"its {name} has another shape or type")
        previous = tensors["previous_action"]
        if bool(((previous < -1) | (previous >= self.psi.num_actions)).any()):
            raise ValueError("its previous_action is no action")
