"""What `visr evaluate` and `visr infer` do where values are not exact: play, and count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from visr import config as configuration
from visr.commands import options, output
from visr.errors import UserError
from visr.storage import task_store
from visr.storage.files import write_json
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir, evaluation_of

if TYPE_CHECKING:
    from visr.api import Run
    from visr.commands.evaluate import Options
    from visr.evaluation.two_phase import Scores


def evaluate(loaded: Run, chosen: Options, gpi: bool | None) -> None:
    """One task's episodes, or the whole of phase two."""
    if chosen.task is not None:
        _one_task(loaded, chosen, gpi)
    else:
        _phase_two(loaded, chosen)


def counts(**given: int | None) -> dict[str, int]:
    """The counts that were given, if they are any."""
    for name, value in given.items():
        least = 0 if name == "seed" else 1
        if value is not None and not least <= value < 2**31:
            raise UserError(f"{name} = {value} must be at least {least} and at most {2**31 - 1}.")
    return {name: value for name, value in given.items() if value is not None}


def evaluate_baseline(chosen: Options) -> None:
    """Episodes of DQN, PPO or Rainbow."""
    from visr.paper.baselines import play

    given = counts(num_trials=chosen.episodes, seed=chosen.seed)
    run = RunDir.open(chosen.run)
    content = play.evaluate(run, **given)
    if chosen.json:
        output.emit(content)
        return
    rows = [(c["name"], f"{c['mean']:,.1f}", f"{len(c['scores'])}") for c in content["conditions"]]
    title = (
        f"{content['env']}, {content['num_steps']:,} rewarded steps: raw scores of whole episodes"
    )
    output.table(title, rows, header=("way to act", "mean score", "episodes"))


def _one_task(loaded: Run, chosen: Options, gpi: bool | None) -> None:
    phase_two = ("rewarded_steps", "rewarded_episodes", "clip_rewards")
    options.refuse(chosen, phase_two, "belongs to phase two, which takes no task")
    path = task_store.find(loaded.directory, chosen.task or "")
    given = counts(episodes=chosen.episodes, seed=chosen.seed)
    fields: dict[str, Any] = {"num_episodes": given.get("episodes"), "seed": given.get("seed")}
    known = {name: value for name, value in fields.items() if value is not None}
    scores = loaded.try_task(Task.load(path), gpi=gpi, **known)
    content = {
        "task": scores.name,
        "env": loaded.config.env,
        "mean": scores.mean,
        "standard_error": scores.standard_error,
        "human_normalised": scores.human_normalised,
        "scores": scores.scores,
        "num_steps": scores.num_steps,
    }
    write_json(evaluation_of(path), output.plain(content))
    if chosen.json:
        output.emit(content)
    else:
        _table(loaded, [_row(scores)])


def _phase_two(loaded: Run, chosen: Options) -> None:
    from visr.evaluation import rewarded_phase as phase_two

    given = counts(
        num_trials=chosen.episodes,
        num_steps=chosen.rewarded_steps,
        num_episodes=chosen.rewarded_episodes,
        seed=chosen.seed,
    )
    config = loaded.config
    if chosen.clip_rewards is not None:
        config = configuration.replace(config, clip_rewards=chosen.clip_rewards)
    note = (lambda text: None) if chosen.json else output.say
    result = phase_two.run(loaded.agent, config, note=note, **given)
    content = phase_two.save(loaded.directory, result, config, loaded.num_steps)
    if chosen.json:
        output.emit(content)
        return
    _table(loaded, [_row(scores) for scores in result.scores])
    adapted = (
        f"{content['num_seen']:,} of {content['num_rewarded_steps']:,} rewarded steps had a reward"
        if content["num_rewarded_steps"]
        else f"A {config.agent.algorithm} agent adapts to nothing"
    )
    more = "" if loaded.model is not None else f" Next: visr report {loaded.path}"
    output.say(f"{adapted}; saved in {loaded.directory.phase_two}.{more}")


def _row(scores: Scores) -> tuple[str, ...]:
    normalised = scores.human_normalised
    reached = "-"
    if normalised is not None:
        reached = "100 %" if normalised >= 100 else "75 %" if normalised >= 75 else "no"
    return (
        scores.name,
        f"{scores.mean:,.1f} ± {scores.standard_error:,.1f}",
        "-" if normalised is None else f"{normalised:,.1f} %",
        reached,
        f"{len(scores.scores)}",
    )


def _kind(loaded: Run) -> str:
    is_rewarded = loaded.config.agent.algorithm == "nsq" or loaded.directory.is_finetuned
    return "rewarded" if is_rewarded else "reward-free"


def _table(loaded: Run, rows: list[tuple[str, ...]]) -> None:
    output.table(
        f"{loaded.config.env}, {loaded.num_steps:,} {_kind(loaded)} steps: raw scores of whole episodes",
        rows,
        header=("way to act", "mean score", "of human", "human level", "episodes"),
    )
