"""Exact scores on the grid world: fractions of optimal, and the arrays behind the paper's figures."""

from __future__ import annotations

import contextlib

import numpy as np
import torch
from numpy.typing import NDArray

from visr import envs
from visr.agents.base import Agent, BehaviourModel
from visr.agents.diayn import Diayn
from visr.config import RunConfig
from visr.envs.grid import dynamic_programming
from visr.envs.grid.world import GridWorld
from visr.errors import UserError
from visr.inference import grid_rewards
from visr.ops import sphere
from visr.storage.records.grid import NUM_POLICIES, NUM_TASKS, Evaluation, GridSnapshot
from visr.storage.records.task import Task
from visr.types import Transitions

_SEED = 20200426
_SNAPSHOT_SEED = 49

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class GridBenchmark:
    """Fraction of optimal, (V - V_random) / (V_optimal - V_random), in three families of 50 tasks each.

    `span`: rewards phi . w for uniform w; `boxes`: two 4x4 boxes; `goals`: one cell.
    """

    def __init__(
        self, config: RunConfig, world: GridWorld, gamma: float = dynamic_programming.GAMMA
    ) -> None:
        self.config, self.world, self.gamma = config, world, gamma
        random = torch.Generator().manual_seed(_SEED)
        self.span = sphere.uniform(
            grid_rewards.FAMILY_SIZE, d=config.agent.num_features, generator=random
        )
        self._known_bounds: dict[str, tuple[Floats, Floats]] = {}
        self.families: dict[str, Floats] = {}
        for name in ("boxes", "goals"):
            with contextlib.suppress(UserError):  # boxes do not fit into a small grid
                self.families[name] = grid_rewards.family(name, self.world, seed=_SEED)

    @classmethod
    def for_environment(cls, config: RunConfig) -> GridBenchmark | None:
        """The benchmark of a run's environment; None without an exact model."""
        world = envs.exact_model(config)
        return None if world is None else cls(config, world)

    def scores(self, agent: Agent | None) -> dict[str, float]:
        """Mean fraction of optimal per family; empty for agents that cannot be given a task."""
        if isinstance(agent, BehaviourModel):
            return self._inferred_scores(agent)
        return self._best_skill_scores(agent) if isinstance(agent, Diayn) else {}

    def _inferred_scores(self, agent: BehaviourModel) -> dict[str, float]:
        """Per family: w's own policy, GPI over w and sampled neighbours, exact planning on phi . w."""
        phi = features(agent, self.world)
        w = self.span.numpy().astype(np.float64)
        scores = self._family("span", agent, phi, w, w @ phi.T)
        for name, reward in self.families.items():
            w = np.stack([self._infer(agent, phi, r) for r in reward])
            scores |= self._family(name, agent, phi, w, reward)
        return scores

    def _best_skill_scores(self, agent: Diayn) -> dict[str, float]:
        """DIAYN tries all skills and keeps the best one for each task."""
        policies = actions(agent, self.world, np.eye(agent.config.num_skills), gpi=False)
        scores = {}
        for name, reward in self.families.items():
            tiled = [np.tile(policy, (len(reward), 1)) for policy in policies]
            best = np.max([self._fractions(name, policy, reward) for policy in tiled], axis=0)
            scores[name] = float(best.mean())
        return scores

    def _family(
        self, name: str, agent: BehaviourModel, phi: Floats, w: Floats, reward: Floats
    ) -> dict[str, float]:
        policies = {
            name: actions(agent, self.world, w, gpi=False),
            f"{name}_gpi": actions(agent, self.world, w, gpi=True),
        }
        if name != "span":
            policies[f"{name}_planned"] = self._plan(w @ phi.T)
        return {
            key: float(self._fractions(name, policy, reward).mean())
            for key, policy in policies.items()
        }

    def _fractions(self, name: str, policy: Ints, reward: Floats) -> Floats:
        """[K], of policies [K, S] for rewards [K, S]."""
        world = self.world
        random, optimal = self._bounds(name, reward)
        values = dynamic_programming.policy_values(world.transitions, policy, reward, self.gamma)
        return (values @ world.start - random) / (optimal - random)

    def _bounds(self, name: str, reward: Floats) -> tuple[Floats, Floats]:
        """Values of random and of optimal policies; computed once for families that do not change."""
        if name not in self._known_bounds:
            world = self.world
            bounds = dynamic_programming.bounds(world.transitions, reward, world.start, self.gamma)
            if name == "span":  # its rewards change with phi
                return bounds
            self._known_bounds[name] = bounds
        return self._known_bounds[name]

    def _plan(self, reward: Floats) -> Ints:
        values = dynamic_programming.optimal_values(self.world.transitions, reward, self.gamma)
        return dynamic_programming.greedy(self.world.transitions, reward, values, self.gamma)

    def _infer(self, agent: BehaviourModel, phi: Floats, reward: Floats) -> Floats:
        free = self.world.free
        c, weight = torch.from_numpy(phi[free]), torch.from_numpy(reward[free])
        try:
            return agent.task_from(c, weight, self.config.inference).numpy()
        except UserError:  # phi says nothing about this reward
            return np.zeros(phi.shape[1])


@torch.inference_mode()
def features(agent: BehaviourModel, world: GridWorld) -> Floats:
    """phi of every state, [S, d]."""
    states = torch.arange(world.num_states, device=agent.device)
    return agent.cumulant(Transitions(states)).cpu().numpy().astype(np.float64)


@torch.inference_mode()
def actions(agent: Agent, world: GridWorld, w: Floats, gpi: bool, seed: int = 0) -> Ints:
    """The greedy policy for every task: w [K, d] -> [K, S].

    With GPI each state consults w and one fresh draw of neighbours, as one step of acting would.
    """
    random = torch.Generator().manual_seed(seed)
    hidden = agent.psi.first_step(torch.arange(world.num_states, device=agent.device))
    tasks = torch.as_tensor(w, dtype=torch.float32)
    return agent.values_of_tasks(hidden, tasks, random, gpi).argmax(dim=-1).cpu().numpy()


def evaluate(
    agent: BehaviourModel, world: GridWorld, task: Task, gamma: float, gpi: bool
) -> Evaluation:
    """The exact value of the task's greedy policy, for its true reward; without one, for phi . w."""
    represented = features(agent, world) @ task.w
    reward = represented if task.reward is None else task.reward
    policy = actions(agent, world, task.w[None], gpi)[0]
    values = dynamic_programming.policy_values(world.transitions, policy, reward, gamma)
    fraction = dynamic_programming.fraction_of_optimal(
        world.transitions, policy, reward, world.start, gamma
    )
    random, optimal = dynamic_programming.bounds(world.transitions, reward, world.start, gamma)
    return Evaluation(
        task=task.name,
        fraction_of_optimal=float(fraction),
        value=float(values @ world.start),
        value_random=float(random),
        value_optimal=float(optimal),
        gamma=gamma,
        gpi=gpi,
        policy=policy,
        values=values,
        represented_reward=represented,
        value_constant=dynamic_programming.best_constant(
            world.transitions, reward, world.start, gamma
        ),
    )


def snapshot(agent: BehaviourModel, world: GridWorld) -> GridSnapshot:
    """phi [S, d]; for 49 random w the rewards phi . w and the GPI values over 10 uniform policies [49, S]."""
    phi = features(agent, world)
    random = torch.Generator().manual_seed(_SNAPSHOT_SEED)
    w = sphere.uniform(NUM_TASKS, d=phi.shape[1], generator=random)
    policies = sphere.uniform(NUM_POLICIES, d=phi.shape[1], generator=random)
    return GridSnapshot(
        phi=phi,
        free=world.free.reshape(world.height, world.width),
        rewards=w.numpy().astype(np.float64) @ phi.T,
        values=_gpi_values(agent, w, policies, world.num_states),
    )


@torch.inference_mode()
def _gpi_values(
    agent: BehaviourModel, w: torch.Tensor, policies: torch.Tensor, num_states: int
) -> Floats:
    """V(s) = max_a max_i psi(s, a, w_i) . w for every w [K, d] -> [K, S]."""
    tasks = w.to(agent.device).repeat_interleave(num_states, dim=0)
    states = torch.arange(num_states, device=agent.device).repeat(len(w))
    consulted = policies.to(agent.device).expand(len(tasks), *policies.shape)
    values = agent.action_values(agent.psi.first_step(states), consulted, agent.psi.fold(tasks))
    return values.amax(dim=-1).view(len(w), num_states).cpu().numpy().astype(np.float64)
