"""Rainbow (Hessel et al., 2018): acts in one environment, and learns a distributional n-step double Q."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visr import envs
from visr.config import RunConfig
from visr.errors import UserError
from visr.ops import derived_seed
from visr.ops.adam import Adam
from visr.paper.baselines.env import BaselineEnv
from visr.paper.baselines.rainbow import RainbowConfig, rainbow_config
from visr.paper.baselines.rainbow.network import DuelingDistribution, new_network
from visr.paper.baselines.rainbow.prioritised import PrioritisedBatch, PrioritisedReplay
from visr.storage.run_dir import RunDir
from visr.training import checkpoint, devices
from visr.training.learner import within
from visr.training.loop import Round

_MAX_REPLAY_BYTES = 4 * 10**9
"""For observations: 140,000 steps of Atari, a million of MinAtar."""
_MIN_REPLAY_STEPS = 1_000
_MIN_PRIORITY = 1e-6
"""So that steps without an error are drawn, too."""
_ROUND = 100
"""Steps of a round, at most."""


class Rainbow:
    """A `Trainer` that acts in a `BaselineEnv`."""

    agent: None = None
    """It cannot be given a task."""
    can_save_now = True

    def __init__(self, config: RunConfig, rainbow: RainbowConfig | None = None) -> None:
        self.config, self._seed = config, config.training.seed
        self._rainbow = rainbow or rainbow_config(config)
        self.returns: list[float] = []
        """Of episodes that ended since the last row."""
        self._env = BaselineEnv(config, self.returns)
        self.learner = RainbowLearner(new_network(config, envs.spec(config)), self._rainbow)
        self._network = self.learner.network
        self._rng = torch.Generator().manual_seed(derived_seed(self._seed, 2))
        self.num_steps = 0
        self._reset()
        fits = _MAX_REPLAY_BYTES // self._observation.nbytes
        size = max(min(self._rainbow.replay_steps, self.total_steps, fits), _MIN_REPLAY_STEPS)
        gamma = config.agent.gamma
        self.memory = PrioritisedReplay(self._observation, size, self._rainbow.n_step, gamma)

    def _reset(self) -> None:
        """Start an episode; its seed depends only on the run's seed and the number of steps."""
        self._observation, _ = self._env.reset(seed=derived_seed(self._seed, 1, self.num_steps))

    @property
    def total_steps(self) -> int:
        return self.config.training.num_steps

    @property
    def is_done(self) -> bool:
        """Whether all steps have been made."""
        return self.num_steps >= self.total_steps

    @property
    def replay(self) -> PrioritisedReplay | None:
        """The replay buffer, while there are updates left."""
        return None if self.is_done else self.memory

    def rounds(self) -> Generator[Round]:
        """Act and learn until done; a round ends wherever a row or a checkpoint may be due."""
        training = self.config.training
        ends = (_ROUND, training.log_every, training.checkpoint_every, self.total_steps)
        with devices.threads(training):
            while not self.is_done:
                end = min(every * (self.num_steps // every + 1) for every in ends)
                reports = [self.step() for _ in range(end - self.num_steps)]
                yield Round(self.learner.num_updates, [r for r in reports if r is not None])

    def step(self) -> dict[str, Tensor] | None:
        """One step, and the metrics of an update if one is due."""
        action = self._choose()
        observation, reward, terminated, _, _ = self._env.step(action)
        self.memory.add(self._observation, action, reward, terminated)
        self.num_steps += 1
        if self._env.has_ended:
            self.memory.end_episode(observation)
            observation, _ = self._env.reset()
        self._observation = observation
        is_due = self.num_steps % self._rainbow.update_every == 0
        return self._learn() if is_due and self.num_steps > self._rainbow.warm_up else None

    @torch.inference_mode()
    def _choose(self) -> int:
        if self.num_steps < self._rainbow.warm_up:
            return int(torch.randint(self._network.num_actions, (), generator=self._rng))
        self._network.draw_noise(self._rng)
        return int(greedy(self._network, self._observation[None])[0])

    def _learn(self) -> dict[str, Tensor]:
        beta = self._rainbow.priority_correction
        beta += (1 - beta) * min(self.num_steps / self.total_steps, 1.0)
        batch = self.memory.sample(self._rainbow.batch_size, beta, self._rng)
        error, metrics = self.learner.update(batch, self._rng)
        priority = (error.clip(0) + _MIN_PRIORITY) ** self._rainbow.priority_exponent
        self.memory.set_priorities(batch.slots, priority)
        return metrics

    def extra_rows(self) -> dict[str, dict[str, float]]:
        return self._env.online_row()

    def reset_unsaveable_envs(self) -> None:
        """Start a new episode, as a resumed run will; not needed at the first and at the last step."""
        if 0 < self.num_steps < self.total_steps:
            self.memory.end_episode(self._observation)
            self._reset()

    def close(self) -> None:
        self._env.close()

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """All but the entries of the replay buffer, just after `reset_unsaveable_envs`."""
        tensors = {f"learner.{k}": v for k, v in self.learner.state().items()}
        tensors |= {f"memory.{k}": v for k, v in self.memory.state().items()}
        tensors["random"] = self._rng.get_state()
        tensors["returns"] = torch.tensor(self.returns, dtype=torch.float64)
        return tensors, {"num_steps": self.num_steps, "num_updates": self.learner.num_updates}

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        self.num_steps = counts["num_steps"]
        self.learner.load_state(within(tensors, "learner."), counts["num_updates"])
        self.memory.load_state(within(tensors, "memory."))
        self._rng.set_state(tensors["random"])
        self.returns[:] = tensors["returns"].tolist()
        self._reset()


class RainbowLearner:
    """Minimises KL(target || p), the target being that of a distributional double n-step update."""

    def __init__(self, network: DuelingDistribution, config: RainbowConfig) -> None:
        self.network, self._config = network, config
        self._target = copy.deepcopy(network).requires_grad_(False)
        self._optimiser = Adam(
            network.parameters(), lr=config.learning_rate, eps=config.adam_epsilon
        )
        self._device = network.atoms.device
        self.num_updates = 0

    def update(
        self, batch: PrioritisedBatch, rng: torch.Generator
    ) -> tuple[NDArray[np.float64], dict[str, Tensor]]:
        """One step of Adam; returns the error of every sample [B], and metrics."""
        self.network.draw_noise(rng)
        self._target.draw_noise(rng)
        observation, action, reward, discount, after = (x.to(self._device) for x in batch.steps)
        target = self._target_distribution(after, reward, discount)
        predicted = _select(self.network(observation), action)
        error = divergence(target, predicted)
        loss = (batch.weight.to(self._device) * error).mean()
        self._optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self._config.max_gradient_norm)
        self._optimiser.step()
        self.num_updates += 1
        if self.num_updates % self._config.target_period == 0:
            self._target.load_state_dict(self.network.state_dict())
        error, value = error.detach(), self.network.values(predicted.detach())
        return error.cpu().numpy().astype(np.float64), {"loss": error.mean(), "value": value.mean()}

    @torch.no_grad()
    def _target_distribution(self, after: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """The target network's distribution for the online network's best action: [B, atoms]"""
        best = self.network.values(self.network(after)).argmax(dim=-1)
        following = _select(self._target(after), best).exp()
        return project(following, self.network.atoms, reward, discount)

    def state(self) -> dict[str, Tensor]:
        """Weights of both networks, and Adam's state."""
        tensors = {f"network.{k}": v for k, v in self.network.state_dict().items()}
        tensors |= {f"target.{k}": v for k, v in self._target.state_dict().items()}
        return tensors | {f"adam.{k}": v for k, v in self._optimiser.moments().items()}

    def load_state(self, tensors: dict[str, Tensor], num_updates: int) -> None:
        self.num_updates = num_updates
        self.network.load_state_dict(within(tensors, "network."))
        self._target.load_state_dict(within(tensors, "target."))
        self._optimiser.load_moments(within(tensors, "adam."))


def project(probability: Tensor, atoms: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
    """The distribution of r + discount * Z on Z's atoms: each mass goes to its two neighbours (C51).

    probability [B, K], atoms [K] evenly spaced, reward [B], discount [B] -> [B, K]
    """
    lowest, spacing = atoms[0], atoms[1] - atoms[0]
    moved = (reward[:, None] + discount[:, None] * atoms).clamp(atoms[0], atoms[-1])
    place = ((moved - lowest) / spacing).clamp(0, len(atoms) - 1)
    below = place.floor()
    upper_share = place - below
    low = below.long()
    high = (low + 1).clamp(max=len(atoms) - 1)
    projected = torch.zeros_like(probability)
    projected.scatter_add_(1, low, probability * (1 - upper_share))
    return projected.scatter_add_(1, high, probability * upper_share)


def divergence(target: Tensor, log_probability: Tensor) -> Tensor:
    """KL(target || p) of distributions on the same atoms: [B, K], [B, K] -> [B]"""
    return (torch.xlogy(target, target) - target * log_probability).sum(dim=-1)


def _select(log_probability: Tensor, action: Tensor) -> Tensor:
    """[B, actions, atoms], [B] -> [B, atoms]"""
    return log_probability[torch.arange(len(action), device=action.device), action]


@torch.inference_mode()
def greedy(network: DuelingDistribution, observation: NDArray) -> NDArray[np.int64]:
    """The actions with the largest expected returns: [B, ...] -> [B]"""
    seen = torch.as_tensor(observation).to(network.atoms.device)
    return network.values(network(seen)).argmax(dim=-1).cpu().numpy()


def load(run: RunDir, config: RunConfig) -> tuple[Callable[[NDArray], NDArray[np.int64]], int]:
    """The greedy policy of a finished run, without noise, and its number of actions."""
    finished = run.checkpoint(config.training.num_steps)
    if not finished.exists():
        raise UserError(f"{run.path} has not finished its training; train it to the end first.")
    env = envs.make_vec(config, 1)
    network = new_network(config, envs.spec(config)).eval()
    env.close()
    tensors, _ = checkpoint.load(finished)
    with checkpoint.refuse_mismatch(finished):
        network.load_state_dict(within(tensors, "learner.network."))
    return lambda observation: greedy(network, observation), network.num_actions
