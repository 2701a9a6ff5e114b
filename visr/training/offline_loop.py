"""The replay learner's training on a fixed dataset, without an environment."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from visr.config.fields import RunConfig
from visr.networks.transition_features.base import of_unroll
from visr.training.loop import Round
from visr.training.recorded_steps import RecordedSteps, empty_unroll
from visr.training.replay_loop import ReplayLearning
from visr.types import Unroll

_ROUND = 50
"""Updates of one round."""


class WholeDataset(RecordedSteps):
    """A dataset's steps, saved once, with the first checkpoint."""

    @property
    def max_steps(self) -> int:
        """So large that no saved piece is ever removed."""
        return sys.maxsize

    def restore(self, piece: dict[str, Tensor]) -> None:
        """Put the saved steps back, unless they were read from the dataset just now."""
        if not len(self.buffer):
            super().restore(piece)


class OfflineLoop(ReplayLearning):
    """Rounds of updates; `num_steps` counts the recorded steps that they drew, with repetition."""

    def __init__(self, config: RunConfig, data: Unroll | None) -> None:
        """`data` is None for a run that is resumed: its own files hold the steps."""
        super().__init__(config)
        length, spec = config.training.unroll_length, self.agent.spec
        example = empty_unroll(spec, length, self.agent.task_size) if data is None else data
        self.recorded = WholeDataset(config.replay.buffer_steps, example, spec.observation_space)
        if data is not None:
            self.recorded.add(data)

    def close(self) -> None:
        """Nothing is open."""

    @property
    def num_steps(self) -> int:
        """Recorded steps that updates drew."""
        return self.num_updates * self.config.replay.transitions_per_update

    @property
    def is_done(self) -> bool:
        """Whether all updates have been made."""
        return self.num_updates >= self.config.replay.num_updates

    @property
    def _progress(self) -> float:
        return self.num_updates / self.config.replay.num_updates

    def _round(self) -> Round:
        if self.stage < self._stage_due():
            self._begin_stage()
            self._count_events()
        left = self.config.replay.num_updates - self.num_updates
        metrics = self._learn(min(_ROUND, left))
        self._choose_library()
        return Round(self.num_updates, metrics)

    @torch.no_grad()
    def _count_events(self) -> None:
        """How often each event happens; nothing pursues one, so that lifts are not known."""
        agent = self.agent
        agent.lift.fill_(2.0)
        if agent.chi.counts_events:
            happened = agent.cumulant(of_unroll(self.recorded.sample(self._rng))) > 0
            agent.rate.copy_(happened.float().mean(dim=0))

    def reset_unsaveable_envs(self) -> None:
        """There are none."""
