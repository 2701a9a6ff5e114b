"""A plan: agents x games x seeds x phases, as a list of jobs in the order in which they should be done."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from visr import atari_games
from visr import config as configuration
from visr.config import GRID, MINATAR, FinetuneConfig, RunConfig, presets
from visr.errors import UserError
from visr.paper.reproduce import agents as lineup

Suite = Literal["grid", "minatar", "atari", "beyond"]
Phase = Literal["train", "evaluate", "adapt"]

_VISR = ("visr", "visr-no-gpi", "rf-visr", "rf-visr-no-gpi", "diayn-5", "diayn-50")
_REWARD_FREE = ("pos-nsq", "rf-curiosity", "idf-curiosity")
AGENTS: dict[Suite, tuple[str, ...]] = {
    "grid": _VISR,
    "minatar": (*_VISR, "nsq-100k", "nsq-1m", "nsq-10m", *_REWARD_FREE, "uniform"),
    "atari": (*_VISR, "nsq-100k", "nsq-1m", *_REWARD_FREE, "uniform"),
    "beyond": (
        *("visr", "visr-visited", "visr-d64", "visr-rnd", "visr-particles", "visr-forward"),
        *("visr-inverse", "visr-laplacian", "visr-metra", "rf-visr", "visr-plus"),
        *("nsq-100k", "nsq-1m", "nsq-10m", "dqn-100k", "dqn-1m", "uniform"),
    ),
}
PAPER_AGENTS = (*_VISR, "nsq-2500k", *_REWARD_FREE, "uniform")
"""NSQ learns for 10M frames there: 2.5M steps."""
ADAPTING = ("visr", "diayn")
"""Algorithms that can be given a task."""
_PRESETS: dict[Suite, str] = {
    "grid": "grid",
    "minatar": "minatar",
    "atari": "atari-small",
    "beyond": "minatar",
}
# A killed job goes on from its last checkpoint: let it be near.
_ON_MINATAR: dict[str, Any] = {"checkpoint_every": 100_000, "curiosity_size": 128}
_FIELDS: dict[Suite, dict[str, Any]] = {
    "grid": {},
    "minatar": _ON_MINATAR,
    "atari": {},
    "beyond": _ON_MINATAR,
}
_MINATAR_GAMES = tuple(
    f"{MINATAR}{name}-v1"
    for name in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
)


@dataclass(frozen=True)
class Counts:
    """How the rewarded phase is played."""

    rewarded_steps: int = 100_000
    """Steps with rewards, the paper's."""
    rewarded_episodes: int = 50
    """Episodes with rewards at most, the paper's; 0: steps alone decide, and so many tasks take turns."""
    trials: int = 30
    """Episodes that judge each way to act."""
    free_steps: int = 1_000_000
    """Reward-free steps, after pre-training, that the way `relabelled` learns from."""


@dataclass(frozen=True)
class Job:
    """One thing to do for one agent in one game with one seed."""

    suite: Suite
    agent: str
    phase: Phase
    config: RunConfig
    counts: Counts
    ways: tuple[lineup.Way, ...] = ()
    """Of the phase `adapt`."""

    @property
    def game(self) -> str:
        """The environment's id."""
        return self.config.env

    @property
    def seed(self) -> int:
        """Of the run."""
        return self.config.training.seed

    @property
    def run(self) -> Path:
        """Where its run lies below the plan's directory."""
        return Path("runs", self.agent, self.game.replace("/", "-"), f"seed-{self.seed}")

    @property
    def id(self) -> str:
        """The same for the same job in any plan."""
        return "/".join([*self.run.parts[1:], self.phase])

    @property
    def num_steps(self) -> int:
        """Of the environment, as far as known before; agents that do not adapt meet no rewards."""
        if self.phase == "train":
            return self.config.training.num_steps
        if self.phase == "adapt":
            return len(self.ways) * self.counts.rewarded_steps
        adapts = self.config.agent.algorithm in ADAPTING
        return self.counts.rewarded_steps if adapts else 0

    @property
    def config_hash(self) -> str:
        """Of every choice that is not the default, so that new fields leave old plans alone.

        What fine-tuning does by default counts whole: a plan's ways stand on all of it.
        """
        content: dict[str, Any] = {"config": _choices(self.config)}
        relabels = "relabelled" in self.ways
        if self.phase != "train":
            counts = vars(self.counts)
            content["counts"] = {k: v for k, v in counts.items() if k != "free_steps" or relabels}
        if self.ways:
            content["ways"] = self.ways
            content["adapting"] = [lineup.ROUNDS, lineup.INFERRING, vars(FinetuneConfig())]
        if relabels:
            content["relabelling"] = [lineup.RELABELLING, lineup.UPDATES_PER_FREE_STEP]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Plan:
    """Jobs in order: an evaluation follows its training."""

    suite: Suite
    jobs: tuple[Job, ...]


def make(
    suite: Suite,
    *,
    paper: bool = False,
    only: Sequence[str] = (),
    chosen_games: Sequence[str] = (),
    seeds: Sequence[int] = (0, 1, 2),
    num_steps: int | None = None,
    counts: Counts | None = None,
    ways: Sequence[lineup.Way] = (),
) -> Plan:
    """The suite's plan, cut down; one seed of everything comes before the next seed.

    `ways`, if any, are the only ones in which agents adapt beyond the paper's.
    """
    if paper and suite != "atari":
        raise UserError(f"--paper is the plan of the paper's Atari experiments, not of {suite}.")
    preset = presets.get("atari" if paper else _PRESETS[suite])
    names = only or (PAPER_AGENTS if paper else AGENTS[suite])
    entries = [lineup.entry(name) for name in dict.fromkeys(names)]
    if ways:
        entries = _only_in(ways, suite, entries)
    ids = [_game(name, suite) for name in dict.fromkeys(chosen_games)] or list(_all_games(suite))
    counts = counts or counts_of(suite)
    if not seeds:
        raise UserError("--seeds names no seed; give at least one, such as --seeds 0.")
    jobs = []
    for seed in dict.fromkeys(seeds):
        for game in ids:
            for entry in entries:
                config = _config(preset, entry, game, seed, num_steps, _FIELDS[suite])
                _refuse_aimless(suite, entry, config)
                jobs += _jobs(suite, entry, config, counts)
    return Plan(suite, tuple(jobs))


def _only_in(
    ways: Sequence[lineup.Way], suite: Suite, entries: list[lineup.Entry]
) -> list[lineup.Entry]:
    """The agents, each with those of its ways."""
    known = {way for entry in entries if suite == "beyond" for way in entry.ways}
    for way in ways:
        if way not in known:
            raise UserError(
                f"No agent of this plan adapts in the way {way!r}; leave it out, or take the plan beyond "
                "with the agent visr, which does."
            )
    return [replace(e, ways=tuple(way for way in e.ways if way in ways)) for e in entries]


def _jobs(suite: Suite, entry: lineup.Entry, config: RunConfig, counts: Counts) -> list[Job]:
    """Of one run: the grid's are judged while they train, and only `beyond` goes further than the paper."""
    jobs = [Job(suite, entry.name, "train", config, counts)]
    if suite != "grid":
        jobs.append(Job(suite, entry.name, "evaluate", config, counts))
    if suite == "beyond" and entry.ways:
        jobs.append(Job(suite, entry.name, "adapt", config, counts, entry.ways))
    return jobs


def _refuse_aimless(suite: Suite, entry: lineup.Entry, config: RunConfig) -> None:
    """The grid has tasks and no rewards of its own: who cannot be given a task has no score there."""
    if suite == "grid" and config.agent.algorithm not in ADAPTING:
        raise UserError(
            f"The agent {entry.name} cannot be given a task, and the plan grid compares nothing else; "
            "leave it out (a random policy counts as 0 there)."
        )


def counts_of(suite: Suite) -> Counts:
    """The paper's; but MinAtar's episodes are short, so there 100,000 steps are truly met."""
    is_short = suite in ("minatar", "beyond")
    return Counts(rewarded_episodes=0 if is_short else Counts.rewarded_episodes)


def _config(
    preset: RunConfig,
    entry: lineup.Entry,
    game: str,
    seed: int,
    num_steps: int | None,
    fields: dict[str, Any],
) -> RunConfig:
    changes = {"env": game, "seed": seed, "num_processes": 1, **fields, **entry.fields}
    if num_steps is not None and not entry.has_own_budget:
        changes["num_steps"] = num_steps
    return configuration.replace(preset, **changes)


def _all_games(suite: Suite) -> tuple[str, ...]:
    if suite == "grid":
        return (GRID,)
    if suite == "atari":
        return tuple(game.id for game in atari_games.all_games())
    return _MINATAR_GAMES


def _game(name: str, suite: Suite) -> str:
    """A game by its id, or by its bare name in any case: `breakout`, `ms_pacman`."""
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
    """What differs from the defaults, by field."""
    default = RunConfig()
    chosen = {
        name: value
        for name, section in configuration.field_names().items()
        if section
        and (value := getattr(getattr(config, section), name))
        != getattr(getattr(default, section), name)
    }
    return {"env": config.env, **chosen}
