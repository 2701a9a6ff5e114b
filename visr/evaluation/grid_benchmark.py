"""Three fixed families of tasks on a grid world, judged exactly while training goes on."""

from __future__ import annotations

import contextlib

import numpy as np
import torch
from numpy.typing import NDArray

from visr.agents.base import Agent
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.envs.grid import dynamic_programming
from visr.envs.grid.world import GridWorld
from visr.errors import UserError
from visr.inference import rewards
from visr.ops import sphere
from visr.storage.records.evaluation import Evaluation
from visr.storage.records.task import Task
from visr.types import Transitions

_SEED = 20200426

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Evaluator:
    """Fraction of optimal, (V - V_random) / (V_optimal - V_random), in three families of 50 tasks each.

    `span`: rewards phi . w for w uniform, which phi can express; `boxes`: two 4x4 boxes; `goals`: one cell.
    """

    def __init__(self, config: RunConfig, gamma: float = dynamic_programming.GAMMA) -> None:
        self.config, self.gamma = config, gamma
        self.world = GridWorld.from_config(config.grid)
        random = torch.Generator().manual_seed(_SEED)
        self.span = sphere.uniform(
            rewards.FAMILY_SIZE, d=config.agent.num_features, generator=random
        )
        self._known_bounds: dict[str, tuple[Floats, Floats]] = {}
        self.families: dict[str, Floats] = {}
        for name in ("boxes", "goals"):
            with contextlib.suppress(UserError):  # a small grid has no room for boxes
                self.families[name] = rewards.family(name, self.world, seed=_SEED)

    @classmethod
    def for_environment(
        cls, config: RunConfig, gamma: float = dynamic_programming.GAMMA
    ) -> Evaluator | None:
        """An evaluator where the environment has an exact MDP, else None."""
        return cls(config, gamma) if config.is_grid else None

    def scores(self, agent: Visr) -> dict[str, float]:
        """Per family: w's own policy, GPI over w and sampled neighbours, exact planning on phi . w."""
        phi = features(agent, self.world)
        w = self.span.numpy().astype(np.float64)
        scores = self._family("span", agent, phi, w, w @ phi.T)
        for name, reward in self.families.items():
            w = np.stack([self._infer(agent, phi, r) for r in reward])
            scores |= self._family(name, agent, phi, w, reward)
        return scores

    def _family(
        self, name: str, agent: Visr, phi: Floats, w: Floats, reward: Floats
    ) -> dict[str, float]:
        policies = {
            name: actions(agent, self.world, w, gpi=False),
            f"{name}_gpi": actions(agent, self.world, w, gpi=True),
        }
        if name != "span":
            policies[f"{name}_planned"] = self._plan(w @ phi.T)
        random, optimal = self._bounds(name, reward)
        values = {key: self._values(policy, reward) for key, policy in policies.items()}
        return {k: float(((v - random) / (optimal - random)).mean()) for k, v in values.items()}

    def fractions(self, name: str, policy: Ints) -> Floats:
        """[tasks], of a policy [tasks, S] for each task of a fixed family."""
        reward = self.families[name]
        random, optimal = self._bounds(name, reward)
        return (self._values(policy, reward) - random) / (optimal - random)

    def _values(self, policy: Ints, reward: Floats) -> Floats:
        values = dynamic_programming.policy_values(
            self.world.transitions, policy, reward, self.gamma
        )
        return values @ self.world.start

    def _bounds(self, name: str, reward: Floats) -> tuple[Floats, Floats]:
        """What random and optimal policies are worth; fixed families are solved only once."""
        if name not in self._known_bounds:
            world = self.world
            bounds = dynamic_programming.bounds(world.transitions, reward, world.start, self.gamma)
            if name == "span":  # its rewards move with phi
                return bounds
            self._known_bounds[name] = bounds
        return self._known_bounds[name]

    def _plan(self, reward: Floats) -> Ints:
        values = dynamic_programming.optimal_values(self.world.transitions, reward, self.gamma)
        return dynamic_programming.greedy(self.world.transitions, reward, values, self.gamma)

    def _infer(self, agent: Visr, phi: Floats, reward: Floats) -> Floats:
        free = self.world.free
        c, weight = torch.from_numpy(phi[free]), torch.from_numpy(reward[free])
        try:
            return agent.task_from(c, weight, self.config.inference).numpy()
        except UserError:  # phi says nothing about this reward
            return np.zeros(phi.shape[1])


@torch.inference_mode()
def features(agent: Visr, world: GridWorld) -> Floats:
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
    policy = []
    for task in torch.as_tensor(w, dtype=torch.float32):
        tasks = task.expand(world.num_states, -1)
        policies = agent.sample_policies(tasks, random, gpi).to(agent.device)
        values = agent.action_values(hidden, policies, agent.psi.fold(tasks.to(agent.device)))
        policy.append(values.argmax(dim=-1).cpu())
    return torch.stack(policy).numpy()


def evaluate(agent: Visr, world: GridWorld, task: Task, gamma: float, gpi: bool) -> Evaluation:
    """Act greedily for the task in every state, and value that policy for the true reward."""
    reward = _true_reward(task, world)
    policy = actions(agent, world, task.w[None], gpi)[0]
    values = dynamic_programming.policy_values(world.transitions, policy, reward, gamma)
    fraction = dynamic_programming.fraction_of_optimal(
        world.transitions, policy, reward, world.start, gamma
    )
    return Evaluation(
        task=task.name,
        fraction_of_optimal=float(fraction),
        value=float(values @ world.start),
        value_random=float(
            dynamic_programming.random_values(world.transitions, reward, gamma) @ world.start
        ),
        value_optimal=float(
            dynamic_programming.optimal_values(world.transitions, reward, gamma) @ world.start
        ),
        gamma=gamma,
        gpi=gpi,
        policy=policy,
        values=values,
        represented_reward=features(agent, world) @ task.w,
    )


def _true_reward(task: Task, world: GridWorld) -> NDArray[np.float64]:
    if task.reward is None:
        raise UserError(f"The task `{task.name}` does not carry its true reward; infer it again.")
    if task.reward.shape != (world.num_states,):
        raise UserError(
            f"The task `{task.name}` has a reward over {len(task.reward)} states and this world has "
            f"{world.num_states}; infer it with this run."
        )
    return task.reward
