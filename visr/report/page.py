"""The HTML page of one run: what its templates show, computed from the run's data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from visr.atari_games import human_normalised
from visr.config import SECTIONS
from visr.report import commands, comparison, scores, style, templating
from visr.report.figures import Picture
from visr.report.read import RunData
from visr.storage.records.finetuning import EpisodeScore, ExactScore
from visr.storage.records.two_phase import Condition, TwoPhase

GAMMA = 0.95  # of visr.envs.grid.dynamic_programming; importing it would import torch
FAMILY_SIZE = 50  # of visr.inference.rewards, for the same reason
COLLAPSED = 0.99
"""phi counts as collapsed if the last rows of its concentration are above this."""
_LAST_ROWS = 3
_NO_VALUE = "–"
_TORSOS = {
    "auto": "chosen by the observation's shape", "mlp": "MLP", "nature": "Nature DQN",
    "minatar": "Young and Tian (2019)", "nips": "Mnih et al. (2013)", "impala": "IMPALA residual",
}  # fmt: skip
_CORES = {"none": "no LSTM", "lstm": "LSTM", "auto": "LSTM for images only"}


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


def html(run: RunData, pictures: dict[str, Picture]) -> str:
    """The whole page; equal runs give equal bytes."""
    environment = templating.environment()
    environment.globals |= {"commands": commands}
    phase, settings = run.two_phase, run.finetune_config or run.config.training
    is_atari = run.config.is_atari
    return environment.get_template("run.html").render(
        title=run.path.resolve().name,
        run=run,
        pictures=pictures,
        seed=settings.seed,
        frames=run.num_steps * run.config.atari.frame_skip if is_atari else None,
        num_evaluated=sum(saved.evaluation is not None for saved in run.tasks),
        tiles=_family_tiles(run) if phase is None else _score_tiles(phase),
        has_human=phase is not None and _has_human(phase.conditions),
        family_size=FAMILY_SIZE,
        gamma=GAMMA,
        facts=_facts(run),
        collapsed=_collapsed(run),
        missing=_missing(run),
        configuration=_configuration(run),
        num_fields=len(commands.fields(run.config)) + 1,
        **(_finetuned(run) if run.finetuned else {} if run.is_grid else _episodes(run)),
    )


# --- header


def _family_tiles(run: RunData) -> list[Tile]:
    """The newest fraction of optimal of each family, acting as configured."""
    latest, suffix = run.fraction_of_optimal, "_gpi" if run.config.agent.gpi else ""
    kinds = {"_gpi": "with GPI", "": "without GPI", "_planned": "planned on φ·w"}
    tiles = []
    for family in style.FAMILIES:
        if family.key in latest:
            shown = latest.get(family.key + suffix, latest[family.key])
            rows = {
                word: style.number(latest[family.key + ending])
                for ending, word in kinds.items()
                if family.key + ending in latest
            }
            percent = 100 * min(max(shown, 0.0), 1.0) if np.isfinite(shown) else 0.0
            number = style.number(shown)
            tiles.append(
                Tile(family.title, family.explanation, number, percent, family.colour, rows)
            )
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
    sampling = "uniform" if agent.gpi_distribution == "uniform" else f"vMF, κ = {agent.gpi_kappa:g}"
    rates = run.timing.get("steps_per_second", np.zeros(0))
    rates = rates[np.isfinite(rates)]
    rewarded = f", {training.num_rewarded_envs} with rewards" if training.num_rewarded_envs else ""
    facts = {
        "World": f"{grid.height} × {grid.width} cells, {grid.layout}" if run.is_grid else None,
        "Network": None if run.is_grid else _network(run),
        "Features φ": f"{agent.num_features}, {agent.features}",
        "Acting": f"GPI over {agent.gpi_samples} samples ({sampling})" if agent.gpi else "no GPI",
        "Discount γ": f"{agent.gamma:g}",
        "Returns": f"{(run.finetune_config or agent).n_step}-step",
        "Hidden layers": " + ".join(map(str, agent.hidden_sizes)) if _is_mlp(run) else None,
        "Environments": None if run.is_grid else f"{training.num_envs}{rewarded}",
        "Batch": f"{settings.batch_size} unrolls of {settings.unroll_length} steps",
        "Speed": f"{float(np.median(rates)):,.0f} steps/s" if rates.size else None,
    }
    return {name: value for name, value in facts.items() if value}


def _is_mlp(run: RunData) -> bool:
    """Whether hidden layers read the observations; images are read by convolutions."""
    torso = run.config.agent.torso
    return torso == "mlp" or (torso == "auto" and not run.config.is_atari)


def _network(run: RunData) -> str:
    agent, is_atari = run.config.agent, run.config.is_atari
    torso = "impala" if is_atari and agent.torso == "auto" else agent.torso
    core = "lstm" if is_atari and agent.core == "auto" else agent.core
    return f"{_TORSOS[torso]}, {_CORES[core]}"


# --- sections


def _collapsed(run: RunData) -> float | None:
    """The concentration of phi if it is the same in all states."""
    latest = run.metrics.get("feature_concentration", np.zeros(0))[-_LAST_ROWS:]
    return float(latest[-1]) if latest.size and (latest > COLLAPSED).all() else None


def _missing(run: RunData) -> dict[str, str]:
    """Why a figure is missing, and the command that makes it."""
    if run.is_finished:
        words = ": the file is missing from the run. Train again with"
        return {"words": words, "command": commands.pretrain(run)}
    return {"words": " yet. Continue training with", "command": commands.resume(run)}


def _finetuned(run: RunData) -> dict[str, Any]:
    """The scores before and after fine-tuning."""
    result = run.finetuned
    assert result is not None
    start = "new" if result.from_scratch else "pre-trained"
    rows = [[start, _finetuned_score(result.before)]]
    if result.after is not None:
        rows.append([f"after {run.num_steps:,} rewarded steps", _finetuned_score(result.after)])
    kind = "Fraction of optimal"
    if isinstance(result.before, EpisodeScore):
        kind = f"Mean score of {len(result.before.scores)} episodes"
    return {"score_kind": kind, "scores": rows}


def _finetuned_score(score: ExactScore | EpisodeScore) -> str:
    is_exact = isinstance(score, ExactScore)
    return style.number(score.fraction_of_optimal if is_exact else score.mean, 3)


def _episodes(run: RunData) -> dict[str, Any]:
    """Scores of whole episodes: after the rewarded phase, and during training."""
    phase = run.two_phase
    return {
        "verdict": comparison.verdict(phase) if phase else None,
        "clear": f"{comparison.CLEAR:g}",
        "conditions": _condition_table(phase.conditions) if phase else None,
        "adapted": _condition_table(run.adapted) if run.adapted else None,
        "online": _online(run) if run.online else None,
    }


def _condition_table(
    conditions: tuple[Condition, ...],
) -> tuple[dict[str, bool], list[list[str]]]:
    """Columns (whether each is numeric) and rows."""
    human = {"Human-normalised": True, "At 75 %": True, "At 100 %": True}
    columns = {"Policy": False, "Mean score": True}
    columns |= (human if _has_human(conditions) else {}) | {"R² of φ·w": True}
    reached = {None: _NO_VALUE, True: "reached", False: "no"}
    rows = []
    for c in conditions:
        normalised, fit = c.human_normalised, c.r_squared
        cells = {
            "Policy": c.name,
            "Mean score": style.plus_minus(c.mean, c.standard_error),
            "Human-normalised": _NO_VALUE
            if normalised is None
            else f"{style.number(normalised, 1)} %",
            "At 75 %": reached[c.at_75],
            "At 100 %": reached[c.at_100],
            "R² of φ·w": _NO_VALUE if fit is None else style.number(fit, 3),
        }
        rows.append([cells[column] for column in columns])
    return columns, rows


def _has_human(conditions: tuple[Condition, ...]) -> bool:
    return any(condition.human_normalised is not None for condition in conditions)


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


def _configuration(run: RunData) -> dict[str, list[list[str]]]:
    """Rows (field, value, the paper's value if it differs) of each section."""
    pairs, sections = commands.fields(run.config), {}
    for section in SECTIONS:
        sections[section] = []
        for name in vars(getattr(run.config, section)):
            value, default = pairs[name]
            sections[section].append(
                [name, _shown(value), _shown(default) if value != default else ""]
            )
    return sections


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
