"""The page of a run without an exact model: what playing whole episodes tells."""

from __future__ import annotations

import numpy as np

from visr.atari_games import human_normalised
from visr.report import commands as recipe
from visr.report import html, scores, style
from visr.report import phase_two as phases
from visr.report.figures import Picture
from visr.report.html import text
from visr.report.phase_two import Condition, Difference, PhaseTwo
from visr.report.read import Record

COLLAPSED = 0.99
"""A concentration of phi from which on it tells no state from another."""
_LATEST = 3  # rows of metrics that a warning asks


def phase_two(record: Record, picture: Picture | None) -> str:
    """What the rewarded phase came to, or how to have one."""
    title, phase = "Phase two", record.phase_two
    why = (
        f"Maps and exact values exist for grid worlds only, and this run plays {record.config.env}: what it "
        "is worth, playing tells."
    )
    if phase is None or picture is None:
        words = "Rewards have not been met yet. To meet some, infer tasks from them and play each:"
        note = html.note(words, recipe.evaluate(record))
        return html.section(title, f"<p>{text(why)}</p>\n", note)
    return html.section(
        title,
        f"<p>{text(why)} {text(_told(phase))}</p>\n",
        f"<p><strong>{text(verdict(phase))}</strong></p>\n",
        _outdated(record, phase),
        _table(phase.conditions),
        f'<p class="muted">{text(_reading(phase))}</p>\n',
        html.figure(picture, wide=True),
        _otherwise(record.adapted),
    )


def _otherwise(adapted: tuple[Condition, ...]) -> str:
    """What `visr reproduce beyond` had it do besides."""
    if not adapted:
        return ""
    words = (
        "As many rewarded steps, spent in ways beyond the paper's. Rounds infer again and again and act on "
        "what they know; fine-tuning changes psi, from scratch with fresh weights."
    )
    return f"<h3>Otherwise spent</h3>\n<p>{text(words)}</p>\n{_table(adapted)}"


def _told(phase: PhaseTwo) -> str:
    clipped = ", clipped to [−1, 1] for the fit" if phase.clip_rewards else ""
    return (
        f"After {phase.num_steps:,} steps without them, it met rewards for "
        f"{phase.num_rewarded_steps:,} steps in {_count(phase.num_rewarded_episodes, 'episode')}; "
        f"{phase.num_seen:,} of these steps had one{clipped}. No weight changed. Then each way to act "
        f"played {_count(phase.num_trials, 'episode')}, with {100 * phase.epsilon:g} % random actions "
        "(the random policy: all)."
    )


def verdict(phase: PhaseTwo) -> str:
    """One sentence: whether the inferred tasks are worth more than acting at random."""
    found = phases.differences(phase)
    if not found:
        missing = "No random policy was" if phase.untrained is None else "No inferred task was"
        return f"{missing} played, so nothing can be said about what the inferred tasks are worth."
    said = "; ".join(_compared(difference) for difference in found)
    return f"Against the random policy, {said}."


def _compared(difference: Difference) -> str:
    name = difference.condition.name
    if difference.standard_error is None:
        return f"{name} cannot be judged, for a single episode has no standard error"
    if difference.verdict == "no clear difference":
        size = style.plus_minus(difference.mean, difference.standard_error)
        return f"{name} makes no clear difference ({size} points)"
    size = style.plus_minus(abs(difference.mean), difference.standard_error)
    return f"{name} is {difference.verdict} by {size} points"


def _outdated(record: Record, phase: PhaseTwo) -> str:
    if phase.num_steps >= record.num_steps:
        return ""
    words = (
        f"Since then the run has trained on, to {record.num_steps:,} steps; measure it again with"
    )
    return html.note(words, recipe.evaluate(record))


def _table(conditions: tuple[Condition, ...]) -> str:
    has_human = any(condition.human_normalised is not None for condition in conditions)
    columns = {"Acting with": False, "Mean score": True}
    columns |= {"Human-normalised": True, "At 75 %": True, "At 100 %": True} if has_human else {}
    rows = [_row(condition, has_human) for condition in conditions]
    return html.table({**columns, "R² of φ·w": True}, rows)


def _row(condition: Condition, has_human: bool) -> list[str]:
    normalised, fit = condition.human_normalised, condition.r_squared
    human = [
        "–" if normalised is None else f"{style.number(normalised, 1)} %",
        _reached(condition.at_75),
        _reached(condition.at_100),
    ]
    return [
        f"<bdi>{text(condition.name)}</bdi>",
        style.plus_minus(condition.mean, condition.standard_error),
        *(human if has_human else []),
        "–" if fit is None else style.number(fit, 3),
    ]


def _reached(truth: bool | None) -> str:
    return "–" if truth is None else "reached" if truth else "no"


def _reading(phase: PhaseTwo) -> str:
    words = (
        "Raw scores, never clipped: means and differences of means ± their standard errors over episodes; "
        f"a difference is clear from {phases.CLEAR:g} of these on."
    )
    if phase.random_score is not None and phase.human_score is not None:
        words += (
            f" Human-normalised: 0 % is the published score of a random player "
            f"({style.score(phase.random_score)}), 100 % that of a human ({style.score(phase.human_score)}); "
            "the columns beside it say whether 75 % and 100 % are reached."
        )
    return (
        f"{words} R² says how much of the reward φ·w explains: 0 is no more than a constant would."
    )


def online(record: Record, picture: Picture | None) -> str:
    """Scores of the environments that saw rewards while the others pre-trained, if there were any."""
    training, title = record.config.training, "Score while it trained"
    if not training.num_rewarded_envs and picture is None:
        return ""
    told = (
        f"{training.num_rewarded_envs} of its {training.num_envs} environments saw rewards and acted "
        "with the w of a running regression on them, while the others pre-trained; no weight was learnt "
        "from their episodes."
    )
    if picture is None:
        return html.section(title, f"<p>{told} None of their episodes has ended yet.</p>\n")
    figure = html.figure(picture, wide=True)
    return html.section(title, f"<p>{told} {text(_latest(record))}</p>\n", figure)


def _latest(record: Record) -> str:
    rows, game = record.online, record.game
    mean, total = float(scores.smoothed(rows)[-1]), int(rows["num_episodes"].sum())
    if not np.isfinite(mean):
        return "No episode with a score has ended yet."
    which = f"the last {scores.window(rows):,} or so" if total > scores.window(rows) else "all"
    words = f"{_count(total, 'episode')} ended so far; the mean of {which} is {style.score(mean)}"
    if game:
        words += f", {style.number(human_normalised(mean, game), 1)} % human-normalised"
    fit = rows["r_squared"][-1] if "r_squared" in rows else np.nan
    return f"{words}; the regression's last R² is {style.number(fit, 3)}."


def tasks(record: Record) -> str:
    """The tasks in the run, and how each was found."""
    title = "Tasks asked of it"
    if not record.tasks:
        words = "No task has been inferred yet; let it infer one from the environment's own rewards with"
        return html.section(title, html.note(words, recipe.infer(record)))
    rows = [
        [
            f"<bdi>{text(saved.task.name)}</bdi>",
            text(saved.task.method),
            f"{saved.task.num_steps:,}",
            f"{saved.task.num_rewarded:,}",
            style.number(saved.task.r_squared, 3),
        ]
        for saved in record.tasks
    ]
    columns = {"Task": False, "w found by": False, "Steps": True, "Rewarded": True}
    table = html.table({**columns, "R² of φ·w": True}, rows)
    return html.section(title, table, html.note("Watch one with", recipe.play(record)))


def commands(record: Record) -> list[str]:
    """What made the tasks and the scores."""
    lines = [recipe.infer(record)] if record.tasks and record.phase_two is None else []
    return [*lines, recipe.evaluate(record)] if record.phase_two is not None else lines


def next_steps(record: Record) -> list[str]:
    """What can be done with such a run."""
    return [recipe.infer(record), recipe.evaluate(record), recipe.play(record)]


def warnings(record: Record) -> list[str]:
    """What the curves mean where they mean trouble."""
    latest = record.metrics.get("feature_concentration", np.zeros(0))[-_LATEST:]
    if not (latest.size and (latest > COLLAPSED).all()):
        return []
    words = (
        f"φ has collapsed: its concentration is {latest[-1]:.3f}, and 1 means that it is the same for all "
        "states. No reward can be told apart by such features, so tasks inferred with them mean nothing."
    )
    return [f'<p class="note">{text(words)}</p>\n']


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
