"""SimPLe: collect real steps, train the model on all of them, train PPO inside the model; again."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from torch import Tensor

from visr.config import RunConfig
from visr.errors import UserError
from visr.networks import conv_torsos
from visr.ops import derived_seed
from visr.paper.baselines.env import BaselineEnv
from visr.paper.baselines.simple import SimpleConfig, accuracy, simple_config
from visr.paper.baselines.simple.env import SimulatedEnv
from visr.paper.baselines.simple.frame_distributions import distribution_of
from visr.paper.baselines.simple.model import LearnedModel, ModelLearner
from visr.paper.baselines.simple.network import WorldNetwork
from visr.paper.baselines.simple.policy import PolicyLearner
from visr.paper.baselines.simple.real_steps import RealSteps, draw
from visr.storage.records.imagined import Imagined
from visr.storage.run_dir import RunDir
from visr.training import checkpoint, devices
from visr.training.learner import within
from visr.training.loop import Round
from visr.training.replay import ReplayBuffer

_REAL, _MODEL, _POLICY, _MEASURE, _PICTURE, _WEIGHTS = range(1, 7)
"""Purposes of derived seeds."""
_UPDATES_PER_ROUND = 20
"""Updates of the model between two signs of progress."""


class Simple:
    """A `Trainer` whose checkpoints lie between iterations; an iteration that was cut short is repeated."""

    agent: None = None
    """It cannot be given a task."""

    def __init__(self, config: RunConfig, simple: SimpleConfig | None = None) -> None:
        self.config, self._seed = config, config.training.seed
        self._simple = simple = simple or simple_config(config)
        self.returns: list[float] = []
        """Of episodes that ended since the last row."""
        self._env = BaselineEnv(config, self.returns)
        space, actions = self._env.observation_space, self._env.action_space
        if not conv_torsos.is_image(space):
            raise UserError(
                f"algorithm = 'simple' predicts images, and {config.env} has none; use ppo or rainbow."
            )
        assert isinstance(space, Box)
        assert isinstance(actions, Discrete)
        self._stacks = config.is_atari  # its observations are the last four frames
        shape = (1, *space.shape[1:]) if self._stacks else space.shape
        self.steps = RealSteps(np.zeros(shape, np.uint8), self.total_steps, simple.history)
        self.model = ModelLearner(
            _new_network(config, simple, space, shape, int(actions.n)), simple.model_learning_rate
        )
        self.world = LearnedModel(self.model.network)
        simulated = SimulatedEnv(
            self.world,
            self._starts,
            space,
            int(actions.n),
            simple.num_simulated_envs,
            simple.rollout_length,
            self._stacks,
        )
        self.policy = PolicyLearner(simulated, config, simple)
        self.num_steps = 0
        self.num_iterations = 0
        self._is_between = True

    @property
    def total_steps(self) -> int:
        """Real steps of the whole run."""
        return self.config.training.num_steps

    @property
    def is_done(self) -> bool:
        """Whether all iterations have been made."""
        return self.num_iterations >= self._simple.num_iterations

    @property
    def can_save_now(self) -> bool:
        """Only between iterations."""
        return self._is_between

    @property
    def replay(self) -> ReplayBuffer | None:
        """The real steps, while there are iterations left."""
        return None if self.is_done else self.steps.buffer

    def rounds(self) -> Generator[Round]:
        """Iterate until done; the last round before a row has the metrics of its iteration."""
        with devices.training_arithmetic(self.config.training):
            while not self.is_done:
                self._is_between = False
                end = self.total_steps * (self.num_iterations + 1) // self._simple.num_iterations
                self._collect(end - self.num_steps)
                yield self._round(end, "real steps")
                metrics: dict[str, float] = {}
                for metrics_of_model in self._train_model():
                    metrics |= metrics_of_model
                    yield self._round(end, "model")
                for metrics_of_policy in self._train_policy():
                    metrics |= metrics_of_policy
                    yield self._round(end, "policy")
                metrics |= accuracy.one_step(self.world, self.steps, self._rng(_MEASURE))
                metrics |= self._counts()
                every, before = self.config.training.log_every, self.num_steps
                is_due = end // every > before // every or end >= self.total_steps
                self.num_steps, self._is_between = end, True
                self.num_iterations += 1
                # Counters must not be averaged with those of other iterations.
                yield Round(self.policy.num_updates, [metrics] if is_due else [])

    def _round(self, num_steps: int, phase: str) -> Round:
        """Progress inside an iteration, with all four counters."""
        counts = ", ".join(f"{v:,} {k.replace('_', ' ')}" for k, v in self._counts().items())
        where = f"iteration {self.num_iterations + 1} of {self._simple.num_iterations}, {phase}"
        return Round(
            self.policy.num_updates,
            [],
            f"{where}: {num_steps:,} real steps, {counts}, {self.policy.num_updates:,} policy updates",
        )

    def _counts(self) -> dict[str, int]:
        return {"model_updates": self.model.num_updates, "simulated_steps": self.policy.num_steps}

    def _rng(self, purpose: int) -> torch.Generator:
        """A generator for one purpose in this iteration."""
        seed = derived_seed(self._seed, purpose, self.num_iterations)
        return torch.Generator().manual_seed(seed)

    def _collect(self, num_steps: int) -> None:
        """Real steps with the current policy; the last ones are held out."""
        rng, first = self._rng(_REAL), self.steps.buffer.num_added
        seed = derived_seed(self._seed, _REAL, self.num_iterations, 1)
        observation, _ = self._env.reset(seed=seed)
        for left in range(num_steps, 0, -1):
            if left == max(1, round(num_steps * self._simple.held_out)):
                first = self.steps.buffer.num_added
            action = self.policy.act(observation, rng)
            after, reward, terminated, _, _ = self._env.step(action)
            self.steps.add(self._frame(observation), action, reward, terminated)
            if self._env.has_ended:
                self.steps.end_episode(self._frame(after))
                after, _ = self._env.reset()
            observation = after
        self.steps.end_episode(self._frame(observation))
        self.steps.held_out.append((first, self.steps.buffer.num_added))

    def _frame(self, observation: NDArray) -> NDArray:
        return observation[-1:] if self._stacks else observation

    def _starts(self, count: int, rng: torch.Generator) -> Tensor:
        """Real states that simulated episodes start from."""
        return self.steps.histories(draw(self.steps.candidates(), count, rng))

    def _train_model(self) -> Generator[dict[str, float]]:
        """Update the model on all real steps so far; the mean losses of some updates at a time."""
        simple, rng = self._simple, self._rng(_MODEL)
        count = simple.model_updates * (1 if self.num_iterations else simple.first_updates)
        entries = self.steps.candidates(held_out=False)
        done = 0
        while done < count:
            losses = []
            for _ in range(min(_UPDATES_PER_ROUND, count - done)):
                # Kaiser et al.: the share grows to 1 around the middle of the first iteration.
                share = 1.0 if self.num_iterations else min(1.0, 2 * done / count)
                drawn = draw(entries, simple.num_sequences, rng)
                batch = self.steps.sequences(drawn, simple.sequence_length, held_out=False)
                losses.append(self.model.update(batch, share, rng))
                done += 1
            yield {name: sum(s[name] for s in losses) / len(losses) for name in losses[0]}

    def _train_policy(self) -> Generator[dict[str, float]]:
        """Rollouts in the model, each with PPO's updates and its metrics."""
        for index in range(self._simple.num_rollouts):
            seed = derived_seed(self._seed, _POLICY, self.num_iterations, index)
            yield self.policy.learn(seed, is_first=index == 0)

    def imagined(self) -> Imagined:
        """Real steps beside the model's predictions of them, for the report."""
        with devices.training_arithmetic(self.config.training):
            rng = self._rng(_PICTURE)
            return accuracy.rollouts(self.world, self.steps, self._simple.rollout_length, rng)

    def extra_rows(self) -> dict[str, dict[str, float]]:
        """Raw returns of the real episodes that ended since the last call."""
        return self._env.online_row()

    def reset_unsaveable_envs(self) -> None:
        """Nothing to do: every iteration starts new episodes."""

    def close(self) -> None:
        self._env.close()

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """All but the real steps, between two iterations."""
        tensors = {f"learner.model.{k}": v for k, v in self.model.state().items()}
        tensors |= {f"learner.policy.{k}": v for k, v in self.policy.state().items()}
        tensors["held_out"] = torch.tensor(self.steps.held_out).view(-1, 2)
        tensors["returns"] = torch.tensor(self.returns, dtype=torch.float64)
        counts = {
            **self._counts(),
            "num_steps": self.num_steps,
            "num_iterations": self.num_iterations,
            "policy_updates": self.policy.num_updates,
            "num_entries": self.steps.buffer.num_added,
        }
        return tensors, counts

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        self.num_steps, self.num_iterations = counts["num_steps"], counts["num_iterations"]
        self.model.load_state(within(tensors, "learner.model."), counts["model_updates"])
        self.policy.load_state(
            within(tensors, "learner.policy."), counts["simulated_steps"], counts["policy_updates"]
        )
        held_out = tensors["held_out"].tolist()
        self.steps.held_out = [(int(first), int(end)) for first, end in held_out]
        self.steps.buffer.expect(counts["num_entries"])
        self.returns[:] = tensors["returns"].tolist()


def _new_network(
    config: RunConfig, simple: SimpleConfig, space: Box, shape: tuple[int, ...], num_actions: int
) -> WorldNetwork:
    """The model's network, with initial weights that depend on nothing but the seed."""
    precision = devices.precision(config.training.precision, torch.device("cpu"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(config.training.seed, _WEIGHTS))
        network = WorldNetwork(
            shape, num_actions, distribution_of(space, shape[0]), simple, precision
        )
    return network.to(memory_format=torch.channels_last)  # pyright: ignore


def load(run: RunDir, config: RunConfig) -> tuple[Callable[[NDArray], NDArray], int]:
    """The most likely actions of a finished run's policy, and the number of actions."""
    finished = run.checkpoint(config.training.num_steps)
    if not finished.exists():
        raise UserError(f"{run.path} has not finished its training; train it to the end first.")
    trainer = Simple(config)
    trainer.close()
    tensors, counts = checkpoint.load(finished)
    with checkpoint.refuse_mismatch(finished):
        trainer.load_state(tensors, counts)
    ppo = trainer.policy.ppo
    return lambda seen: ppo.predict(seen, deterministic=True)[0], int(ppo.action_space.n)  # pyright: ignore
