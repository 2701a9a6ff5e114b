"""A plan: agents x games x seeds x phases, as a list of jobs in the order in which they run."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from visr import atari_games
from visr import config as configuration
from visr.config import GRID, MINATAR, FinetuneConfig, RunConfig, presets
from visr.errors import UserError
from visr.paper.reproduce import agents
from visr.paper.reproduce.agents import PlannedAgent, Way

SuiteName = Literal["grid", "minatar", "atari", "beyond"]
Phase = Literal["train", "evaluate", "adapt"]

_VISR = ("visr", "visr-no-gpi", "rf-visr", "rf-visr-no-gpi", "diayn-5", "diayn-50")
_REWARD_FREE = ("pos-nsq", "rf-curiosity", "idf-curiosity")
AGENTS: dict[SuiteName, tuple[str, ...]] = {
    "grid": _VISR,
    "minatar": (*_VISR, "nsq-100k", "nsq-1m", "nsq-10m", *_REWARD_FREE, "uniform"),
    "atari": (*_VISR, "nsq-100k", "nsq-1m", *_REWARD_FREE, "uniform"),
    "beyond": (
        *("visr", "visr-visited", "visr-d64", "visr-rnd", "visr-particles", "visr-laplacian"),
        *("visr-metra", "rf-visr", "visr-plus"),
        *("nsq-100k", "nsq-1m", "nsq-10m", "dqn-100k", "dqn-1m", "uniform"),
    ),
}
PAPER_AGENTS = (*_VISR, "nsq-2500k", *_REWARD_FREE, "uniform")
"""In the paper NSQ learns for 10M frames: 2.5M steps."""
ADAPTING = ("visr", "diayn")
"""Algorithms that can be given a task."""
_PRESETS: dict[SuiteName, str] = {
    "grid": "grid",
    "minatar": "minatar",
    "atari": "atari-small",
    "beyond": "minatar",
}
_MINATAR_SUITES = ("minatar", "beyond")
# A killed job resumes from its last checkpoint, so checkpoints are frequent.
_ON_MINATAR: dict[str, Any] = {"checkpoint_every": 100_000, "curiosity_size": 128}
_MINATAR_GAMES = tuple(
    f"{MINATAR}{name}-v1"
    for name in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
)


@dataclass(frozen=True)
class Counts:
    """Sizes of the rewarded phase."""

    rewarded_steps: int = 100_000
    """Steps with rewards, as in the paper."""
    rewarded_episodes: int = 50
    """Most episodes with rewards, as in the paper; each has its own task."""
    trials: int = 30
    """Episodes that score each policy."""
    free_steps: int = 1_000_000
    """Reward-free steps after pre-training that the way `relabelled` learns from."""
    draws: int = 3
    """Times that rewards are collected and tasks are inferred; scores are means over them."""


@dataclass(frozen=True)
class Job:
    """One phase of one agent in one game with one seed."""

    suite: SuiteName
    agent: str
    phase: Phase
    config: RunConfig
    counts: Counts
    ways: tuple[Way, ...] = ()
    """Only in the phase `adapt`."""

    @property
    def game(self) -> str:
        """The environment's id."""
        return self.config.env

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.config.training.seed

    @property
    def run(self) -> Path:
        """The run's directory, relative to the plan's."""
        return Path("runs", self.agent, self.game.replace("/", "-"), f"seed-{self.seed}")

    @property
    def id(self) -> str:
        """The same for the same job in any plan."""
        return "/".join([*self.run.parts[1:], self.phase])

    @property
    def training_id(self) -> str:
        """The id of the job that trains this run."""
        return self.id.removesuffix(self.phase) + "train"

    @property
    def num_steps(self) -> int:
        """Environment steps, as far as they are known before the job runs."""
        if self.phase == "train":
            return self.config.training.num_steps
        if self.phase == "adapt":
            return len(self.ways) * self.counts.rewarded_steps
        adapts = self.config.agent.algorithm in ADAPTING
        return self.counts.draws * self.counts.rewarded_steps if adapts else 0

    @property
    def config_hash(self) -> str:
        """Hash of every setting that differs from its default, so that new fields keep old hashes.

        The defaults of fine-tuning are all included, because every way depends on them.
        """
        content: dict[str, Any] = {"config": _choices(self.config)}
        relabels = bool({"relabelled", "without free steps"} & set(self.ways))
        if self.phase != "train":
            counts = vars(self.counts)
            matters = {
                "free_steps": relabels,
                "draws": self.phase == "evaluate" and self.counts.draws > 1,
            }
            content["counts"] = {k: v for k, v in counts.items() if matters.get(k, True)}
        if self.ways:
            # Ledgers written before the way `rounds` was removed contain these two values.
            all_ways = self.ways == agents.named("visr").ways
            content["ways"] = ("rounds", *self.ways) if all_ways else self.ways
            content["adapting"] = [5, agents.INFERENCE_SHARE, vars(FinetuneConfig())]
        if relabels:
            content["relabelling"] = [agents.RELABELLING, agents.UPDATES_PER_FREE_STEP]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Plan:
    """Jobs in order; an evaluation follows its training."""

    suite: SuiteName
    jobs: tuple[Job, ...]


def make(
    suite: SuiteName,
    *,
    paper: bool = False,
    only: Sequence[str] = (),
    chosen_games: Sequence[str] = (),
    seeds: Sequence[int] = (0, 1, 2),
    num_steps: int | None = None,
    counts: Counts | None = None,
    ways: Sequence[Way] = (),
) -> Plan:
    """The plan of a suite, limited to the given agents, games, seeds and ways.

    All agents and games run with the first seed before any runs with the second.
    """
    if paper and suite != "atari":
        raise UserError(f"--paper is the plan of the paper's Atari experiments, not of {suite}.")
    if not seeds:
        raise UserError("--seeds names no seed; give at least one, such as --seeds 0.")
    preset = presets.get("atari" if paper else _PRESETS[suite])
    names = only or (PAPER_AGENTS if paper else AGENTS[suite])
    chosen = [agents.named(name) for name in dict.fromkeys(names)]
    _check_ways(ways, suite, chosen)
    games = [_game(name, suite) for name in dict.fromkeys(chosen_games)] or _all_games(suite)
    jobs = []
    for seed, game, agent in itertools.product(dict.fromkeys(seeds), games, chosen):
        changes = {"env": game, "seed": seed, "num_processes": 1}
        changes |= _ON_MINATAR if suite in _MINATAR_SUITES else {}
        changes |= agent.fields if num_steps is None else {"num_steps": num_steps, **agent.fields}
        config = configuration.replace(preset, **changes)
        if suite == "grid" and config.agent.algorithm not in ADAPTING:
            raise UserError(  # the grid has no reward of its own to score it by
                f"The agent {agent.name} cannot be given a task, and the plan grid compares nothing "
                "else; leave it out (a random policy counts as 0 there)."
            )
        train = Job(suite, agent.name, "train", config, counts or Counts())
        jobs.append(train)
        if suite != "grid":  # grid runs are evaluated while they train
            jobs.append(replace(train, phase="evaluate"))
        adapting = tuple(way for way in agent.ways if not ways or way in ways)
        if suite == "beyond" and adapting:
            jobs.append(replace(train, phase="adapt", ways=adapting))
    return Plan(suite, tuple(jobs))


def _check_ways(ways: Sequence[Way], suite: SuiteName, chosen: list[PlannedAgent]) -> None:
    known = {way for agent in chosen if suite == "beyond" for way in agent.ways}
    for way in ways:
        if way not in known:
            raise UserError(
                f"No agent of this plan adapts in the way {way!r}; leave it out, or use the plan beyond "
                "with the agent visr."
            )


def _all_games(suite: SuiteName) -> tuple[str, ...]:
    if suite == "grid":
        return (GRID,)
    if suite == "atari":
        return tuple(game.id for game in atari_games.all_games())
    return _MINATAR_GAMES


def _game(name: str, suite: SuiteName) -> str:
    """The id of a game given by id or by bare name in any case: `breakout`, `ms_pacman`."""
    known = {_bare(id): id for id in _all_games(suite)}
    if (bare := _bare(name)) not in known:
        near = difflib.get_close_matches(bare, known, n=1)
        hint = "`visr list envs` names them."
        if near or len(known) <= 5:
            listed = ", ".join(known.values())
            hint = f"did you mean {known[near[0]]}?" if near else f"there are {listed}."
        raise UserError(f"The plan {suite} has no game {name!r}; {hint}")
    return known[bare]


def _bare(id: str) -> str:
    stem = id.rpartition("/")[2]
    return stem.rpartition("-v")[0].lower() or stem.lower().replace("_", "")


def _choices(config: RunConfig) -> dict[str, Any]:
    """The fields whose values differ from the defaults."""
    chosen: dict[str, Any] = {"env": config.env}
    for section in configuration.SECTIONS:
        default = getattr(RunConfig(), section)
        fields = vars(getattr(config, section))
        chosen |= {k: value for k, value in fields.items() if value != getattr(default, k)}
    return chosen
