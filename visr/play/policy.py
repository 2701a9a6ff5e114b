"""Policies that take the environment's own observations and return its own actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from visr import arguments
from visr.agents.base import Agent
from visr.agents.epsilon_greedy_actor import EpsilonGreedyActor
from visr.config.fields import TrainingConfig
from visr.envs.observations import encoded
from visr.envs.spaces import SpaceCodec
from visr.errors import UserError, short_repr
from visr.storage.records.task import Task
from visr.storage.summaries import Summary
from visr.training import devices

State = tuple[NDArray[np.int64], NDArray[np.float32]]
"""The last actions and the LSTM's memory, carried from call to call."""


class Policy(Summary):
    """Acts for one task: greedily by GPI over w and fresh neighbours, or by w alone.

    A policy with an LSTM remembers from call to call; `starts` or `reset()` tell it that episodes begin.
    """

    def __init__(
        self,
        agent: Agent,
        task: Task,
        codec: SpaceCodec,
        gpi: bool,
        epsilon: float,
        training: TrainingConfig,
        seed: int = 0,
    ) -> None:
        self.task, self._codec, self._training = task, codec, training
        self._agent, self._gpi, self._epsilon = agent, gpi, epsilon
        self._random = torch.Generator().manual_seed(seed)
        self.reset()

    def summary(self) -> dict[str, str]:
        """Its task and how it acts."""
        how = "GPI" if self._gpi else "w alone"
        return {"task": self.task.name, "greedy in": how, "epsilon": f"{self._epsilon:g}"}

    def reset(self) -> None:
        """Clear the memory: the next observations begin episodes."""
        self._actor: EpsilonGreedyActor | None = None

    def __call__(self, observation: Any, starts: ArrayLike | None = None) -> Any:
        """An action for one observation, or actions for a batch (an array)."""
        batch, is_single = observations(self._agent, self._codec, observation)
        is_new = self._actor is None or self._actor.num_envs != len(batch)
        if self._actor is None or is_new:
            self._actor = self._new_actor(len(batch), self._epsilon)
        begins = arguments.flags(is_new if starts is None else starts, "starts", len(batch))
        with devices.threads(self._training):
            chosen = self._actor.act(batch, begins)
        return self._decoded(chosen, is_single)

    @arguments.checked
    def predict(
        self,
        observation: Any,
        state: State | None = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = True,
    ) -> tuple[Any, State | None]:
        """Stable-Baselines3's convention: actions and the state to hand in next time.

        Deterministic is greedy; else actions are random as often as they were in training.
        """
        batch, is_single = observations(self._agent, self._codec, observation)
        epsilon = 0.0 if deterministic else self._agent.config.epsilon
        actor = self._new_actor(len(batch), epsilon)
        starts = np.full(len(batch), state is None)
        if state is not None:
            actor.remember(*self._checked_state(state, len(batch)))
        if episode_start is not None:
            starts = starts | arguments.flags(episode_start, "episode_start", len(batch))
        with devices.threads(self._training):
            chosen = actor.act(batch, starts)
        remembered = actor.memory() if self._agent.psi.memory_size else None
        return self._decoded(chosen, is_single), remembered

    def _checked_state(self, state: Any, num_envs: int) -> State:
        """The previous actions [N] and the memory [N, M] of as many environments."""
        parts = state if isinstance(state, list | tuple) and len(state) == 2 else (None, None)
        action, memory = (arguments.array(part, "state") for part in parts)
        shape, actions = (num_envs, self._agent.psi.memory_size), self._agent.spec.num_actions
        fits = action.dtype.kind in "iu" and action.shape == (num_envs,)
        fits = fits and bool(((action >= -1) & (action < actions)).all())
        fits = fits and memory.dtype.kind == "f" and memory.shape == shape
        if not fits or not np.isfinite(memory).all():
            raise UserError(
                f"state = {short_repr(state)} is not what predict returned for {num_envs} observations."
            )
        return action.astype(np.int64), memory.astype(np.float32)

    def _new_actor(self, num_envs: int, epsilon: float) -> EpsilonGreedyActor:
        actor = EpsilonGreedyActor(
            self._agent, num_envs, epsilon=epsilon, gpi=self._gpi, random=self._random
        )
        actor.pursue(self.task.w)
        return actor

    def _decoded(self, actions: NDArray[np.int64], is_single: bool) -> Any:
        """Actions as the environment takes them."""
        decoded = self._codec.actions[actions]
        if not is_single:
            return decoded
        return decoded[0].item() if decoded.ndim == 1 else decoded[0]


def observations(agent: Agent, codec: SpaceCodec, given: Any) -> tuple[torch.Tensor, bool]:
    """Observations as the networks take them, [N, ...], and whether it was a single one.

    Raises a UserError for anything that is not an observation of this environment.
    """
    array, is_single = encoded(codec, given)
    return torch.as_tensor(array.astype(agent.spec.observation_space.dtype)), is_single


def states(agent: Agent, codec: SpaceCodec, given: ArrayLike) -> torch.Tensor:
    """Observations on the agent's device, batched or not; discrete ones may have any shape."""
    if isinstance(agent.spec.observation_space, spaces.Discrete):
        array = arguments.array(given, "observations")
        batch, _ = observations(agent, codec, array.reshape(-1))
        return batch.reshape(array.shape).to(agent.device)
    batch, is_single = observations(agent, codec, given)
    return (batch[0] if is_single else batch).to(agent.device)


@torch.inference_mode()
def successor_features(
    agent: Agent, codec: SpaceCodec, given: ArrayLike, w: ArrayLike
) -> NDArray[np.float32]:
    """psi of each observation under the policy that pursues w [d] or [N, d]: [N, actions, d]."""
    observed, task, d = states(agent, codec, given), arguments.array(w, "w"), agent.task_size
    batch = observed.shape[: observed.ndim - len(agent.spec.observation_space.shape or ())]
    if task.dtype.kind not in "iuf" or task.shape not in ((d,), (*batch, d)):
        raise UserError(
            f"w has shape {task.shape} and this run has {d} features; give {d} numbers, "
            "or as many for each observation."
        )
    if not np.isfinite(task).all():
        raise UserError(f"w = {short_repr(task.tolist())} must be finite numbers.")
    tasks = torch.as_tensor(task, dtype=torch.float32, device=agent.device)
    return agent.psi(observed, tasks).cpu().numpy()
