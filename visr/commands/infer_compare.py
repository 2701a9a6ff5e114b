"""What `visr infer` does where there is no exact model: every method on the same data, and which to trust."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from visr.commands import evaluate_episodes, output
from visr.errors import UserError

if TYPE_CHECKING:
    from visr.api import Run
    from visr.commands.infer import Options
    from visr.evaluation.two_phase import Scores
    from visr.inference.compare import Answer, Comparison
    from visr.storage.records.task import Task


def infer(loaded: Run, chosen: Options) -> tuple[Task, Comparison, dict[str, Scores]]:
    """Compare the methods, play each if asked to, and make the chosen one a task."""
    playing = evaluate_episodes.counts(trials=chosen.trials)
    if playing and not chosen.evaluate:
        raise UserError(
            f"trials = {chosen.trials} says how often to play; give --evaluate with it."
        )
    given: dict[str, Any] = evaluate_episodes.counts(
        num_episodes=chosen.episodes,
        num_steps=chosen.steps,
        seed=chosen.seed,
    )
    if chosen.clip_rewards is not None:
        given["clip_rewards"] = chosen.clip_rewards
    if chosen.reward == "env":
        loaded.require_rewards()
        if not chosen.json:
            output.say("meeting the environment's rewards ...")
    compared = loaded.compare(chosen.reward, **given)
    task = loaded.task_of(compared, chosen.method, chosen.reward)
    return task, compared, _played(loaded, chosen, compared) if chosen.evaluate else {}


def _played(loaded: Run, chosen: Options, compared: Comparison) -> dict[str, Scores]:
    from visr.evaluation import two_phase

    scores = {}
    for name in compared.answers:
        task = loaded.task_of(compared, name, name)
        scores[name] = loaded.try_task(task, num_episodes=chosen.trials or two_phase.NUM_TRIALS)
        if not chosen.json:
            output.say(f"{name}: {scores[name].mean:,.2f}")
    return scores


def to_dict(compared: Comparison, played: dict[str, Scores]) -> dict[str, Any]:
    """JSON-able: the same as the table."""
    methods = {name: _method(answer, played.get(name)) for name, answer in compared.answers.items()}
    return {
        "best": compared.best,
        "methods": methods,
        "num_episodes": compared.num_episodes,
        "words": compared.words,
    }


def _method(answer: Answer, scores: Scores | None) -> dict[str, Any]:
    content: dict[str, Any] = {
        "method": answer.method,
        "w": answer.w.tolist(),
        "r_squared": answer.r_squared,
        "condition_number": answer.condition_number,
        "expected_return": answer.expected_return,
        "interval": answer.interval.tolist(),
        "steadiness": answer.steadiness,
    }
    if scores is not None:
        content |= {"mean_return": scores.mean, "interval_of_mean": list(interval(scores))}
        content["scores"] = scores.scores
    return content


def interval(scores: Scores) -> tuple[float, float]:
    """The middle 95 % of the mean over resampled episodes."""
    random, values = np.random.default_rng(0), np.asarray(scores.scores)
    means = values[random.integers(len(values), size=(2_000, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def show(
    loaded: Run, task: Task, compared: Comparison, played: dict[str, Scores], path: Path
) -> None:
    """A table, then words."""
    header = ["method", "R^2 held out", "condition", "steadiness", "w"]
    is_judged = any(answer.expected_return is not None for answer in compared.answers.values())
    if is_judged:
        header.insert(1, "neighbours' return")
    if played:
        header.insert(1, "mean return (95 %)")
    rows = []
    for name, answer in compared.answers.items():
        condition = "-" if math.isinf(answer.condition_number) else f"{answer.condition_number:.3g}"
        mark = " *" if name == compared.best else ""
        row = [
            f"{answer.method}{mark}",
            f"{answer.r_squared:.3f}",
            condition,
            f"{answer.steadiness:.2f}",
            _numbers(answer),
        ]
        if is_judged:
            row.insert(1, f"{answer.expected_return:,.2f}")
        if played:
            low, high = interval(played[name])
            row.insert(1, f"{played[name].mean:,.2f} ({low:,.2f} to {high:,.2f})")
        rows.append(tuple(row))
    title = (
        f"{loaded.config.env}, reward {task.name}: {compared.num_steps:,} steps of "
        f"{compared.num_episodes:,} episodes, {compared.num_rewarded:,} with a reward; * is best"
    )
    output.table(title, rows, header=tuple(header))
    for sentence in compared.words:
        output.say(sentence)
    print(path)
    output.say(next_step(loaded, path))


def next_step(loaded: Run, path: Path) -> str:
    """What to do with a task that was just saved."""
    name = path.stem if path == loaded.directory.task(path.stem) else path
    return f"Next: visr evaluate {loaded.address} {name}"


def _numbers(answer: Answer, most: int = 5) -> str:
    pairs = zip(answer.w[:most], np.ptp(answer.interval, axis=0)[:most] / 2, strict=True)
    shown = " ".join(f"{value:+.2f}±{half:.2f}" for value, half in pairs)
    return shown if len(answer.w) <= most else f"{shown} ..."
