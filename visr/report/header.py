"""The top of the page: what one wants to know first."""

from __future__ import annotations

import numpy as np

from visr.config import ATARI
from visr.report import commands as recipe
from visr.report import html as elements
from visr.report import style
from visr.report.html import text
from visr.report.phase_two import Condition, PhaseTwo
from visr.report.read import Record

GAMMA = 0.95  # of visr.envs.grid.dynamic_programming and
FAMILY_SIZE = 50  # of visr.inference.rewards; importing either would import torch

_KINDS = {"_gpi": "with GPI", "": "without GPI", "_planned": "planned on φ·w"}

_TORSOS = {
    "auto": "chosen by the observations", "mlp": "MLP", "nature": "Nature DQN",
    "minatar": "Young and Tian (2019)", "nips": "Mnih et al. (2013)", "impala": "IMPALA residual",
}  # fmt: skip


def html(record: Record, name: str) -> str:
    """The run's name, its headline numbers, and what made it what it is."""
    training, age = record.config.training, record.num_steps
    done = f"{age:,} steps" if record.is_finished else f"{age:,} of {record.total_steps:,} steps"
    how = "pre-trained without rewards" if record.tuning is None else "fine-tuned on one reward"
    if record.config.env.startswith(ATARI):
        done += f" ({age * record.config.atari.frame_skip:,} frames)"
    parts = [
        f'<header>\n<p class="eyebrow">VISR, {how}</p>\n<h1>{text(name)}</h1>\n',
        f'<p class="lead">{text(done)} in <code>{text(record.config.env)}</code>, '
        f"{record.config.agent.num_features} features, "
        f"seed {(record.tuning or training).seed}. {_told(record)}</p>\n",
    ]
    if not record.is_finished:
        parts.append(elements.note("This run is not finished; go on with", recipe.resume(record)))
    tiles = _tiles(record) if record.phase_two is None else _scores(record.phase_two)
    parts += [tiles, _facts(record), "</header>\n"]
    return "".join(parts)


def _told(record: Record) -> str:
    if record.tuned is not None:
        return f"Its task is {text(record.tuned.task)}."
    count = len(record.tasks)
    judged = sum(saved.evaluation is not None for saved in record.tasks)
    if not count:
        return "No task has been asked of it yet."
    if not record.is_grid:
        return f"Since then {count} task{'s were' if count > 1 else ' was'} inferred."
    how_many = "all" if judged == count else f"{judged} of them"
    return f"Since then {count} task{'s were' if count > 1 else ' was'} asked of it, {how_many} evaluated."


def _tiles(record: Record) -> str:
    """The three families' newest fractions of optimal, acting as the run does."""
    latest, suffix = record.fraction_of_optimal, "_gpi" if record.config.agent.gpi else ""
    tiles = []
    for family in style.FAMILIES:
        if family.key not in latest:
            continue
        shown = latest.get(family.key + suffix, latest[family.key])
        others = [
            f"<div><dt>{word}</dt><dd>{style.number(latest[family.key + ending])}</dd></div>\n"
            for ending, word in _KINDS.items()
            if family.key + ending in latest
        ]
        width = 100 * min(max(shown, 0.0), 1.0) if np.isfinite(shown) else 0
        tiles.append(
            f'<section class="tile"><h2>{family.title}</h2>\n<p>{family.explanation}</p>\n'
            f'<p class="figure">{style.number(shown)}</p>\n<div class="meter" aria-hidden="true">'
            f'<span style="width: {width:.1f}%; background: {family.colour}"></span></div>\n'
            f"<dl>\n{''.join(others)}</dl></section>\n"
        )
    if not tiles:
        return ""
    at = int(record.evaluation["num_steps"][-1])
    return (
        f'<div class="tiles">\n{"".join(tiles)}</div>\n<p class="muted">Fraction of optimal at step '
        f"{at:,}: 0 is what a random policy is worth, 1 what an optimal one is. Exact, not sampled: the mean "
        f"of {FAMILY_SIZE} tasks a family and all starts, discount {GAMMA:g}.</p>\n"
    )


def _scores(phase: PhaseTwo) -> str:
    """The first inferred tasks and the random policy: mean raw scores."""
    inferred = [condition for condition in phase.conditions if condition.is_inferred]
    colours = [family.colour for family in style.FAMILIES]
    shown = [*zip(inferred, colours, strict=False)][:2]
    shown += [(phase.untrained, style.MUTED)] if phase.untrained else []
    tiles = [_score(condition, colour) for condition, colour in shown]
    meters = any(condition.human_normalised is not None for condition, _ in shown)
    words = f"Mean raw scores of {phase.num_trials:,} episodes each, at step {phase.num_steps:,}."
    words += " The bar is full at the published score of a human." if meters else ""
    return f'<div class="tiles">\n{"".join(tiles)}</div>\n<p class="muted">{words}</p>\n'


def _score(condition: Condition, colour: str) -> str:
    normalised, error = condition.human_normalised, condition.standard_error
    meter, rows = "", {} if error is None else {"standard error": style.score(error)}
    if normalised is not None:
        rows["human-normalised"] = f"{style.number(normalised, 1)} %"
        width = min(max(normalised, 0.0), 100.0)
        meter = (
            '<div class="meter" aria-hidden="true">'
            f'<span style="width: {width:.1f}%; background: {colour}"></span></div>\n'
        )
    others = "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>\n" for k, v in rows.items())
    what = "an inferred task" if condition.is_inferred else "no task at all"
    return (
        f'<section class="tile"><h2><bdi>{text(condition.name)}</bdi></h2>\n<p>{what}</p>\n'
        f'<p class="figure">{style.score(condition.mean)}</p>\n{meter}<dl>\n{others}</dl></section>\n'
    )


def _facts(record: Record) -> str:
    agent, grid, training = record.config.agent, record.config.grid, record.config.training
    learning = record.tuning or training
    sampling = "uniform" if agent.gpi_distribution == "uniform" else f"vMF, κ = {agent.gpi_kappa:g}"
    acting = f"GPI, {agent.gpi_samples} neighbours ({sampling})" if agent.gpi else "w's own policy"
    facts = {
        "World": f"{grid.height} × {grid.width} cells, {grid.layout}" if record.is_grid else None,
        "Network": None if record.is_grid else _network(record),
        "Features φ": f"{agent.num_features}, {agent.features}",
        "Acting": acting,
        "Discount γ": f"{agent.gamma:g}",
        "Returns": f"{(record.tuning or agent).n_step}-step",
        "Hidden layers": " + ".join(map(str, agent.hidden_sizes)) if _has_layers(record) else None,
        "Environments": None if record.is_grid else _environments(record),
        "Batch": f"{learning.batch_size} unrolls of {learning.unroll_length}",
        "Speed": _speed(record),
    }
    rows = [f"<div><dt>{k}</dt><dd>{text(v)}</dd></div>\n" for k, v in facts.items() if v]
    return f'<dl class="facts">\n{"".join(rows)}</dl>\n'


def _has_layers(record: Record) -> bool:
    """Whether hidden layers are what reads observations; a game's screen is read by convolutions."""
    torso = record.config.agent.torso
    return torso == "mlp" or (torso == "auto" and not record.config.env.startswith(ATARI))


def _network(record: Record) -> str:
    agent, is_atari = record.config.agent, record.config.env.startswith(ATARI)
    torso = "impala" if is_atari and agent.torso == "auto" else agent.torso
    core = "lstm" if is_atari and agent.core == "auto" else agent.core
    words = {"none": "no memory", "lstm": "LSTM", "auto": "memory as needed"}
    return f"{_TORSOS[torso]}, {words[core]}"


def _environments(record: Record) -> str:
    training = record.config.training
    seen = training.num_rewarded_envs
    return f"{training.num_envs}" + (f", {seen} of them rewarded" if seen else "")


def _speed(record: Record) -> str | None:
    rates = record.timing.get("steps_per_second", np.zeros(0))
    rates = rates[np.isfinite(rates)]
    return f"{float(np.median(rates)):,.0f} steps/s" if rates.size else None
