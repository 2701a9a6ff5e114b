"""Rainbow at work: one environment, decision by decision."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import torch
from torch import Tensor

from visr import envs
from visr.config import RunConfig
from visr.ops.rng import derived
from visr.paper.baselines.rainbow import config as recipe
from visr.paper.baselines.rainbow.learner import Learner
from visr.paper.baselines.rainbow.memory import Memory
from visr.paper.baselines.rainbow.network import DuelingDistribution, Plan
from visr.training import devices
from visr.training.actor_pool import spec_of
from visr.training.learner import within
from visr.training.progress import Round
from visr.types import EnvSpec

_MEMORY_BYTES = 4 * 10**9
"""For observations: 140,000 steps of Atari, a million of MinAtar."""
_SMALLEST_MEMORY = 1_000
_TINY = 1e-6
"""A priority that keeps a step with no error drawable."""
_ROUND = 100
"""Steps of a round, at most."""


class Rainbow:
    """Acts, remembers and learns; rewards are clipped to [-1, 1], and raw returns kept in `returns`.

    A step that only resets is not counted. In Atari a lost life is an end to the learner; the game goes on.
    """

    def __init__(self, config: RunConfig, settings: recipe.Recipe | None = None) -> None:
        self.config, self._seed = config, config.training.seed
        self._recipe = settings or recipe.of(config)
        self._env = envs.make_vec(config, 1)
        self._life_loss_terminates = config.life_loss_terminates
        self.learner = Learner(new_network(config, spec_of(self._env)), self._recipe)
        self._network = self.learner.network
        self._random = torch.Generator().manual_seed(derived(self._seed, 2))
        self.num_steps = 0
        self.returns: list[float] = []
        """Of games that have ended, raw; whoever reads them may clear them."""
        self._begin()
        self.memory = self._new_memory(config.agent.gamma)

    def _new_memory(self, gamma: float) -> Memory:
        fits = _MEMORY_BYTES // self._observation.nbytes
        size = min(self._recipe.memory_size, self.total_steps, fits)
        return Memory(self._observation, max(size, _SMALLEST_MEMORY), self._recipe.n_step, gamma)

    def _begin(self) -> None:
        """A new game, in a way that only the run's seed and its age decide."""
        seed = derived(self._seed, 1, self.num_steps)
        self._observation: np.ndarray = self._env.reset(seed=seed)[0][0].copy()
        self._return = 0.0

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        return self.config.training.num_steps

    @property
    def is_done(self) -> bool:
        """Whether all steps have been made."""
        return self.num_steps >= self.total_steps

    @property
    def replay(self) -> Memory | None:
        """The replay memory, while there is anything left to learn from it."""
        return None if self.is_done else self.memory

    agent: None = None
    """It cannot be given a task."""
    can_save_now = False
    """The environment's state cannot be saved: only `reset_unsaveable_envs` makes `state` complete."""

    def rounds(self) -> Generator[Round]:
        """Act and learn until done; a round ends wherever a row or a checkpoint may be due."""
        training = self.config.training
        ends = (_ROUND, training.log_every, training.checkpoint_every, self.total_steps)
        with devices.threads(training):
            while not self.is_done:
                end = min(every * (self.num_steps // every + 1) for every in ends)
                reports = [self.step() for _ in range(end - self.num_steps)]
                yield Round(self.learner.num_updates, [r for r in reports if r is not None])

    def extra_rows(self) -> dict[str, dict[str, float]]:
        """Raw returns of the episodes that ended since the last call."""
        returns, self.returns = self.returns, []
        if not returns:
            return {}
        mean = sum(returns) / len(returns)
        return {"online": {"num_episodes": float(len(returns)), "mean_return": mean}}

    def step(self) -> dict[str, Tensor] | None:
        """One decision, and every so often an update: what it reports."""
        action = self._choose()
        observation, reward, terminated, truncated, told = self._env.step(np.array([action]))
        ended = bool(terminated[0] or truncated[0])
        died = bool(terminated[0] or (self._life_loss_terminates and told["life_lost"][0]))
        clipped = float(np.clip(reward[0], -1, 1))
        self.memory.add(self._observation, action, clipped, died)
        self._return += float(reward[0])
        self.num_steps += 1
        if ended:
            self.memory.close(observation[0])
            self.returns.append(self._return)
            self._return = 0.0
            observation = self._env.step(np.array([0]))[0]  # which only begins the next game
        self._observation = observation[0].copy()
        is_due = self.num_steps % self._recipe.update_every == 0
        return self._learn() if is_due and self.num_steps > self._recipe.warm_up else None

    @torch.inference_mode()
    def _choose(self) -> int:
        if self.num_steps < self._recipe.warm_up:
            return int(torch.randint(self._network.num_actions, (), generator=self._random))
        self._network.draw_noise(self._random)
        return int(greedy(self._network, self._observation[None])[0])

    def _learn(self) -> dict[str, Tensor]:
        share = self.num_steps / self.total_steps
        beta = self._recipe.priority_correction
        beta += (1 - beta) * min(share, 1.0)
        batch = self.memory.sample(self._recipe.batch_size, beta, self._random)
        error, report = self.learner.update(batch, self._random)
        priority = (error.clip(0) + _TINY) ** self._recipe.priority_exponent
        self.memory.prioritise(batch.slots, priority)
        return report

    def reset_unsaveable_envs(self) -> None:
        """Start a new episode, as a resumed run will; at the first and last step nothing has to change."""
        if 0 < self.num_steps < self.total_steps:
            self.memory.close(self._observation)
            self._begin()

    def close(self) -> None:
        """Let go of the game."""
        self._env.close()

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """All but the replay memory's rows, just after `reset_unsaveable_envs`."""
        tensors = {f"learner.{k}": v for k, v in self.learner.state().items()}
        tensors |= {f"memory.{k}": v for k, v in self.memory.state().items()}
        tensors["random"] = self._random.get_state()
        tensors["returns"] = torch.tensor(self.returns, dtype=torch.float64)
        return tensors, {"num_steps": self.num_steps, "num_updates": self.learner.num_updates}

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        """The inverse of `state`."""
        self.num_steps, self.learner.num_updates = counts["num_steps"], counts["num_updates"]
        self.learner.load_state(within(tensors, "learner."))
        self.memory.load_state(within(tensors, "memory."))
        self._random.set_state(tensors["random"])
        self.returns = tensors["returns"].tolist()
        self._begin()


def new_network(config: RunConfig, spec: EnvSpec) -> DuelingDistribution:
    """The network with fresh weights that only the seed decides."""
    agent, chosen = config.agent, recipe.of(config)
    plan = Plan(
        agent.torso,
        agent.hidden_sizes,
        chosen.hidden_size,
        chosen.sigma,
        chosen.num_atoms,
        chosen.largest_return,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(config.training.seed, 0))
        network = DuelingDistribution(spec, plan)
    return devices.prepared(network, config.training)


@torch.inference_mode()
def greedy(network: DuelingDistribution, observation: np.ndarray) -> np.ndarray:
    """The actions of the largest expected returns: [B, ...] -> [B]"""
    seen = torch.as_tensor(observation).to(network.atoms.device)
    return network.values(network(seen)).argmax(dim=-1).cpu().numpy()
