"""Settings of the replay learners, `--algorithm replay` and `fb`; other agents ignore them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from visr.config.bounds import Count, CountFromOne, Fraction, Size

TransitionFeatures = Literal[
    "auto",
    "projection",
    "events",
    "rare-events",
    "pooled",
    "phi",
    "laplacian",
    "inverse",
    "self-predictive",
]
LEARNED_FEATURES = ("phi", "laplacian", "inverse", "self-predictive")

CANDIDATES = 32
"""Recorded steps for each task of the library that are drawn to choose from."""


@dataclass(frozen=True)
class ReplayConfig:
    """How psi learns from recorded steps; `--algorithm replay` and `fb` only."""

    transition_features: TransitionFeatures = "auto"
    """Features of a step (docs/agents/replay.md): fixed ones by the observations, or learned ones."""
    smooth_states: bool = False
    """Numbered states: automatic features are Laplacian ones, and psi reads those of states and tasks."""
    feature_updates: CountFromOne = 2_000
    """Updates of learned features at the start of each stage."""
    dataset: str = ""
    """Learn from these recorded steps instead of new ones: an .npz file, or minari:ID."""
    num_updates: CountFromOne = 6_000
    """Updates in the whole run, spread evenly over the steps after `warmup_steps`."""
    warmup_steps: Count = 50_000
    """First steps, taken by random actions, before anything is learnt."""
    buffer_steps: CountFromOne = 1_000_000
    """Capacity of the replay buffer, in steps."""
    transitions_per_update: Size = 32
    """Recorded steps in an update; each is learnt from under every task of the update."""
    tasks_per_update: Size = 32
    """Tasks in an update."""
    whole_psi_tasks: Size = 32
    """Tasks of an update under which the whole psi is learnt; under the others only psi . w."""
    num_stages: Size = 1
    """Stages, each three times as long as all before it; each fits the features and learns psi afresh."""
    goal_share: Fraction = 0.5
    """Share of practised tasks that reward one recorded step, or one event."""
    stretch_share: Fraction = 0.4
    """Share of practised tasks that reward stretches of recorded steps, or several events."""
    constant_share: Fraction = 0.0
    """Share of practised tasks that reward or punish every step; the rest are Gaussian."""
    library_size: Size = 128
    """Practised tasks whose policies GPI consults."""
    library_steps: Count = 0
    """Recorded steps that give each policy of the library a last layer of its own in the end; 0: none."""
    target_rate: Fraction = 0.1
    """Share of psi that moves into its target network at every update."""
    target_temperature: Fraction = 0.0
    """Temperature of the softmax over actions in psi's targets, a share of the task's value; 0: greedy."""
    psi_width: Size = 256
    """Units that join a state, an action and a task."""

    def num_library_numbers(self, num_features: int) -> int:
        """Numbers in the library's tasks, in the steps that they are drawn from, and in its last layers."""
        last_layer = self.psi_width + 1 if self.library_steps else 0
        return self.library_size * num_features * (CANDIDATES + last_layer)


def fewest_features(num_inputs: int) -> int:
    """d of vectors: 1, the end of the episode, every number, and at least one cosine."""
    return num_inputs + 3
