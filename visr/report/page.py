"""HTML pages: the jinja2 environment, and what the template of one run shows."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from visr.atari_games import human_normalised
from visr.config import BASELINES, REPLAY_LEARNERS, SECTIONS, RunConfig
from visr.report import commands, curves, library, maps, scores, style
from visr.report.figures import Picture
from visr.report.read import RunData
from visr.storage.records.grid import NUM_POLICIES
from visr.storage.records.two_phase import Condition, TwoPhase

GAMMA = 0.95  # of visr.envs.grid.dynamic_programming; importing it would import torch
FAMILY_SIZE = 50  # of visr.inference.grid_rewards, for the same reason
COLLAPSED = 0.99
"""phi counts as collapsed if the last rows of its concentration are above this."""
_LAST_ROWS = 3
CLEAR = 2.0
"""A difference of at least so many standard errors is called better or worse."""
_INVISIBLE = {"Cc", "Cf", "Cs"}  # control and format characters (text direction), lone surrogates
_TORSOS = {
    "auto": "chosen by the observation's shape", "mlp": "MLP", "nature": "Nature DQN",
    "small": "small, chosen by the observation's shape",
    "minatar": "Young and Tian (2019)", "nips": "Mnih et al. (2013)", "impala": "IMPALA residual",
}  # fmt: skip
_AGENTS = {
    "replay": "Replay learner", "dqn": "DQN", "ppo": "PPO", "rainbow": "Rainbow", "simple": "SimPLe"
}  # fmt: skip
_CORES = {"none": "no LSTM", "lstm": "LSTM", "auto": "LSTM for images only"}


def environment(*packages: str) -> Environment:
    """Templates in `templates/` of these packages, then those of visr.report; insertions are escaped."""
    pages = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "visr.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters |= {
        "number": style.number,
        "score": style.score,
        "plus_minus": style.plus_minus,
        "thousands": "{:,}".format,
        "count": lambda n, thing: f"{n:,} {thing}{'' if n == 1 else 's'}",  # `3 episodes`
    }
    pages.globals |= {"zip": zip, "most_features": maps.MOST_FEATURES, "num_policies": NUM_POLICIES}
    return pages


def _visible(value: Any) -> Any:
    """Replace invisible characters of inserted text, so that a name shows all that it contains."""
    if isinstance(value, Markup):
        return value
    spaced = (" " if c.isspace() else c for c in str(value))
    return "".join("\ufffd" if unicodedata.category(c) in _INVISIBLE else c for c in spaced)


def html(run: RunData, pictures: dict[str, Picture]) -> str:
    """The whole page; equal runs give equal bytes."""
    template = environment().get_template("run.html")
    phase, config = run.two_phase, run.config
    latest = run.metrics.get("feature_concentration", np.zeros(0))[-_LAST_ROWS:]
    return template.render(
        title=run.path.resolve().name,
        run=run,
        pictures=pictures,
        commands=commands,
        most_events=library.MOST_EVENTS,
        seed=(run.finetune_config or config.training).seed,
        tiles=_task_tiles(run) or _family_tiles(run) if phase is None else _score_tiles(phase),
        families=[family for family in style.FAMILIES if family.key in run.evaluation],
        family_size=FAMILY_SIZE,
        gamma=GAMMA,
        agent_name=_AGENTS.get(config.agent.algorithm, "VISR"),
        is_baseline=config.agent.algorithm in BASELINES,
        facts=_facts(run),
        metrics={k: words for k, (_, words) in curves.METRICS.items() if k in run.metrics},
        collapsed=float(latest[-1]) if latest.size and (latest > COLLAPSED).all() else None,
        verdict=verdict(phase) if phase else None,
        clear=CLEAR,
        online=_online(run) if run.online else None,
        configuration=_configuration(config),
    )


@dataclass(frozen=True)
class Tile:
    """One headline number."""

    title: str
    subtitle: str
    number: str
    percent: float | None
    """Length of the bar under the number; None: no bar."""
    colour: str
    rows: dict[str, str]
    """Smaller numbers below it."""


def _family_tiles(run: RunData) -> list[Tile]:
    """The newest fraction of optimal of each family, acting as configured."""
    latest, suffix = run.fraction_of_optimal, "_gpi" if run.config.agent.gpi else ""
    kinds = {"_gpi": "with GPI", "": "without GPI", "_planned": "planned on φ·w"}
    tiles = []
    for family in style.FAMILIES:
        if (key := family.key) not in latest:
            continue
        shown = latest.get(key + suffix, latest[key])
        rows = {kinds[k]: style.number(latest[key + k]) for k in kinds if key + k in latest}
        percent = 100 * min(max(shown, 0.0), 1.0) if np.isfinite(shown) else 0.0
        number, words = style.number(shown), family.explanation
        tiles.append(Tile(family.title, words, number, percent, family.colour, rows))
    if run.config.agent.algorithm == "replay" and "span" in latest:
        tiles = [*tiles[1:], tiles[0]]  # it does not practise random w
    return tiles


def _task_tiles(run: RunData) -> list[Tile]:
    """The mean asked return of the first three tasks, beside the other policies'."""
    tiles = []
    for saved, family in zip(run.tasks, style.FAMILIES, strict=False):
        if saved.episodes is not None:
            own, *others = saved.episodes.policies
            rows = {other.policy: style.score(other.asked.mean) for other in others}
            shown = style.score(own.asked.mean)
            tiles.append(Tile(saved.name, "asked return", shown, None, family.colour, rows))
    return tiles


def _score_tiles(phase: TwoPhase) -> list[Tile]:
    """Mean raw scores of the first two inferred tasks and of the random policy."""
    inferred = [condition for condition in phase.conditions if condition.is_inferred][:2]
    tiles = [
        _score_tile(condition, "inferred task", family.colour)
        for condition, family in zip(inferred, style.FAMILIES, strict=False)
    ]
    if phase.untrained is not None:
        tiles.append(_score_tile(phase.untrained, "no task", style.MUTED))
    return tiles


def _score_tile(condition: Condition, subtitle: str, colour: str) -> Tile:
    normalised, error = condition.human_normalised, condition.standard_error
    rows = {} if error is None else {"standard error": style.score(error)}
    if normalised is not None:
        rows["human-normalised"] = f"{style.number(normalised, 1)} %"
    percent = None if normalised is None else min(max(normalised, 0.0), 100.0)
    return Tile(condition.name, subtitle, style.score(condition.mean), percent, colour, rows)


def _facts(run: RunData) -> dict[str, str]:
    agent, grid, training = run.config.agent, run.config.grid, run.config.training
    settings = run.finetune_config or training
    is_grid, is_atari = run.config.is_grid, run.config.is_atari
    sampling = "uniform" if agent.gpi_distribution == "uniform" else f"vMF, κ = {agent.gpi_kappa:g}"
    torso = "impala" if is_atari and agent.torso == "auto" else agent.torso
    core = "lstm" if is_atari and agent.core == "auto" else agent.core
    has_layers = torso in ("mlp", "auto")  # images are read by convolutions
    rates = run.timing.get("steps_per_second", np.zeros(0))
    rates = rates[np.isfinite(rates)]
    rewarded = f", {training.num_rewarded_envs} with rewards" if training.num_rewarded_envs else ""
    facts = {
        "World": f"{grid.height} × {grid.width} cells, {grid.layout}" if is_grid else None,
        "Network": None if is_grid else f"{_TORSOS[torso]}, {_CORES[core]}",
        "Features φ": f"{agent.num_features}, {agent.features}",
        "Acting": f"GPI over {agent.gpi_samples} samples ({sampling})" if agent.gpi else "no GPI",
        "Discount γ": f"{agent.gamma:g}",
        "Returns": f"{(run.finetune_config or agent).n_step}-step",
        "Hidden layers": " + ".join(map(str, agent.hidden_sizes)) if has_layers else None,
        "Environments": None if is_grid else f"{training.num_envs}{rewarded}",
        "Batch": f"{settings.batch_size} unrolls of {settings.unroll_length} steps",
        "Speed": f"{float(np.median(rates)):,.0f} steps/s" if rates.size else None,
    }
    if agent.algorithm in BASELINES:
        facts = {name: facts[name] for name in ("Discount γ", "Speed")}
    if agent.algorithm in REPLAY_LEARNERS:
        facts |= _replay_facts(run)
    return {name: value for name, value in facts.items() if value}


def _replay_facts(run: RunData) -> dict[str, str | None]:
    """What differs in a run of the replay learner."""
    agent, replay = run.config.agent, run.config.replay
    kind = "fixed" if replay.transition_features == "auto" else replay.transition_features
    kind = "learned with F" if agent.algorithm == "fb" else kind
    facts = {
        "Network": None,
        "Features φ": f"{agent.num_features}, {kind}",
        "Acting": f"GPI over {replay.library_size} practised tasks" if agent.gpi else "no GPI",
        "Hidden layers": None,
        "Updates": f"{replay.num_updates:,}",
    }
    if run.finetune_config is None:
        steps, tasks = replay.transitions_per_update, replay.tasks_per_update
        facts["Batch"] = f"{steps} recorded steps × {tasks} tasks"
    return facts


def verdict(phase: TwoPhase) -> str:
    """One sentence that compares every inferred task with the random policy."""
    random = phase.untrained
    inferred = [condition for condition in phase.conditions if condition.is_inferred]
    if random is None or not inferred:
        missing = "random policy" if random is None else "inferred task"
        return f"No {missing} was played, so there is no comparison."
    compared = "; ".join(f"{one.name} {_difference(one, random)}" for one in inferred)
    return f"Compared with the random policy, {compared}."


def _difference(one: Condition, random: Condition) -> str:
    """The difference of two mean scores; its standard error is sqrt(se_1^2 + se_2^2)."""
    if one.standard_error is None or random.standard_error is None:
        return "cannot be compared, because one episode has no standard error"
    points, error = one.mean - random.mean, math.hypot(one.standard_error, random.standard_error)
    if points == 0 or abs(points) < CLEAR * error:
        return f"makes no clear difference ({style.plus_minus(points, error)} points)"
    size = style.plus_minus(abs(points), error)
    return f"is {'better' if points > 0 else 'worse'} by {size} points"


def _online(run: RunData) -> dict[str, Any]:
    """The newest numbers of online.csv."""
    mean = float(scores.smoothed(run.online)[-1])
    return {
        "num_episodes": int(run.online["num_episodes"].sum()),
        "window": scores.window(run.online),
        "mean": mean if np.isfinite(mean) else None,
        "human": human_normalised(mean, run.game) if run.game else None,
        "r_squared": float(run.online.get("r_squared", np.array([np.nan]))[-1]),
    }


def _configuration(config: RunConfig) -> dict[str, list[tuple[str, str, str]]]:
    """Rows (field, value, the paper's value if it differs) of each section."""
    sections = {}
    for section in SECTIONS:
        paper = getattr(RunConfig(), section)
        pairs = {k: (v, getattr(paper, k)) for k, v in vars(getattr(config, section)).items()}
        sections[section] = [
            (name, _shown(value), "" if value == default else _shown(default))
            for name, (value, default) in pairs.items()
        ]
    return sections


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
