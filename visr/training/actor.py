"""Actors: step a group of environments with their own copy of psi and return unrolls."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from visr.agents.base import Agent
from visr.config.fields import RunConfig
from visr.networks.successor import SuccessorFeatures
from visr.ops import derived_seed
from visr.types import Pursuit, Unroll


class Actor:
    """Acts epsilon-greedily; its copy of psi lets the learner change the original meanwhile."""

    def __init__(self, config: RunConfig, env: VectorEnv, agent: Agent, seed: int) -> None:
        self._config, self.env, self._seed = config, env, seed
        self._agent = copy.deepcopy(agent).requires_grad_(False)
        self.psi = self._agent.psi
        self._device = agent.device
        self._generator = torch.Generator().manual_seed(seed)
        self._reset(seed)

    def _reset(self, seed: int) -> None:
        """Start new episodes in all environments and clear the recurrent memory."""
        self._observation: np.ndarray = self.env.reset(seed=seed)[0]
        self._ended = np.zeros(self.env.num_envs, dtype=np.bool_)
        previous_action, self._memory = self.psi.no_memory(self.env.num_envs)
        self._previous_action = previous_action.cpu()

    def refresh(self, psi: SuccessorFeatures) -> None:
        """Copy the learner's weights."""
        self.psi.load_state_dict(psi.state_dict())

    @torch.inference_mode()
    def collect(
        self,
        task: Tensor | None = None,
        *,
        policies: Tensor | None = None,
        epsilon: float | None = None,
    ) -> Unroll:
        """One unroll of every environment, for a new random task each or for the task given.

        GPI maximises over sampled neighbours of w, or over the policies [P, d] given.
        """
        config, rng = self._config.agent, self._generator
        length, batch = self._config.training.unroll_length, self.env.num_envs
        w = self._agent.sample_tasks(batch, rng)
        w = w if task is None else task.expand(batch, -1).contiguous()
        if policies is None:
            policies = self._agent.sample_policies(w.expand(length, *w.shape), rng, config.gpi)
        else:
            policies = policies.expand(length, batch, *policies.shape)
        epsilon = config.exploration if epsilon is None else epsilon
        exploits = (torch.rand(length, batch, generator=rng) >= epsilon).numpy()
        action = torch.randint(self.psi.num_actions, (length, batch), generator=rng)
        unroll = self.empty_unroll(w)._replace(action=action)
        policies, readout = policies.to(self._device), self.psi.fold(w.to(self._device))
        # Environments return numpy, and small writes are faster there: the arrays share the memory.
        arrays: list[Any] = [field.numpy() for field in unroll]
        record: Any = Unroll(*arrays)
        for t in range(length):
            record.observation[t], record.is_reset[t] = self._observation, self._ended
            hidden, self._memory = self.psi.step(
                unroll.observation[t].to(self._device),
                self._previous_action.to(self._device),
                self._memory,
            )
            greedy = self._agent.action_values(hidden, policies[t], readout).argmax(dim=-1)
            np.copyto(record.action[t], greedy.cpu().numpy(), where=exploits[t])
            self._step(record, t)
            if self.psi.memory_size:
                self._previous_action = unroll.action[t].masked_fill(unroll.is_reset[t], -1)
        record.observation[length] = self._observation
        return unroll

    def _step(self, record: Any, t: int) -> None:
        """Take the actions of step t, and record what follows."""
        self._observation, record.reward[t], terminated, record.truncated[t], info = self.env.step(
            record.action[t]
        )
        self._ended = terminated | record.truncated[t]
        if self._config.life_loss_terminates:
            terminated = terminated | info["life_lost"]
        record.terminated[t] = terminated

    def next_unroll(self, pursuit: Pursuit | None) -> Unroll:
        """One unroll of every environment, as training wants it; this actor chooses its tasks itself."""
        assert pursuit is None
        return self.collect()

    def empty_unroll(self, w: Tensor) -> Unroll:
        """An unfilled unroll with the shapes and dtypes that `collect` returns for tasks [d] or [B, d]."""
        length, batch = self._config.training.unroll_length, self.env.num_envs
        observation = torch.as_tensor(self._observation)
        return Unroll(
            observation=torch.empty(length + 1, *observation.shape, dtype=observation.dtype),
            action=torch.empty(length, batch, dtype=torch.int64),
            reward=torch.empty(length, batch),
            terminated=torch.empty(length, batch, dtype=torch.bool),
            truncated=torch.empty(length, batch, dtype=torch.bool),
            is_reset=torch.empty(length, batch, dtype=torch.bool),
            w=w.expand(batch, -1),
            previous_action=self._previous_action,
            memory=self._memory.cpu(),
        )

    @property
    def can_checkpoint_envs(self) -> bool:
        """Whether the environments' state can be saved and restored."""
        return hasattr(self.env.unwrapped, "load_state")

    def reset_unsaveable_envs(self, num_steps: int) -> bool:
        """Start new episodes if the environments' state cannot be saved; returns whether it did."""
        if not self.can_checkpoint_envs:
            self._reset(derived_seed(self._seed, num_steps))
        return not self.can_checkpoint_envs

    def state(self) -> dict[str, Tensor]:
        """Every tensor that decides the next unrolls, except the learner's weights."""
        tensors = {"generator": self._generator.get_state()}
        if self.can_checkpoint_envs:
            arrays = {"observation": self._observation, "ended": self._ended}
            env_state: dict[str, np.ndarray] = self.env.unwrapped.state()  # pyright: ignore
            arrays |= {f"env.{k}": v for k, v in env_state.items()}
            tensors |= {k: torch.from_numpy(v.copy()) for k, v in arrays.items()}
            tensors |= {"memory": self._memory, "previous_action": self._previous_action}
        return tensors

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """Restore `state()`; environments that cannot be restored are reset, as when they were saved."""
        self._generator.set_state(tensors["generator"])
        has_env_state = tensors.keys() != {"generator"}  # older versions could not save every game
        if not (self.can_checkpoint_envs and has_env_state):
            self._reset(derived_seed(self._seed, num_steps))
            return
        self._refuse_mismatch(tensors)
        self._observation, self._ended = tensors["observation"].numpy(), tensors["ended"].numpy()
        self._memory = tensors["memory"].to(self._device)
        self._previous_action = tensors["previous_action"]
        env_state = {k[4:]: v.numpy() for k, v in tensors.items() if k.startswith("env.")}
        self.env.unwrapped.load_state(env_state)  # pyright: ignore

    def _refuse_mismatch(self, tensors: dict[str, Tensor]) -> None:
        """Reject saved state whose shapes or dtypes do not match this actor."""
        for name, mine in self.state().items():
            given = tensors[name]
            if name.startswith("env."):  # the environments check their own
                continue
            if given.shape != mine.shape or given.dtype != mine.dtype:
                raise ValueError(f"its {name} has another shape or type")
        previous = tensors["previous_action"]
        if bool(((previous < -1) | (previous >= self.psi.num_actions)).any()):
            raise ValueError("its previous_action is not an action")
