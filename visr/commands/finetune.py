"""visr finetune: train further on the true reward, starting from a pre-trained psi."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from visr.commands import options, output
from visr.config import FinetuneConfig
from visr.errors import UserError
from visr.run_files import find_task
from visr.storage import schema
from visr.storage.records.finetuning import EpisodeScore, ExactScore, FinetuneResult
from visr.storage.records.task import Task
from visr.training import progress

if TYPE_CHECKING:
    from visr.storage.run_dir import RunDir
    from visr.training.driver import Observer

_SAME = 0.01
"""Smaller differences of the fraction of optimal are not reported as a loss."""


@dataclass(frozen=True)
class Options:
    """Train psi . w on the reward that the task was asked for, as Q values, in a run of its own."""

    run: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = None
    """Directory of a pre-trained run."""
    task: str | None = None
    """Name of a task in the run, or a task.json."""
    reward: Literal["asked", "env"] = "asked"
    """Train on the reward that the task was asked for, or on the environment's own."""
    out: str | None = None
    """Directory of the new run; by default RUN/finetuned/TASK, or TASK-scratch."""
    resume: str | None = None
    """Continue a fine-tuning that was stopped; takes no other options except --accept-cost."""
    accept_cost: bool = False
    """With --resume: go on although the run's settings ask for much memory or time."""
    env: options.Env = None
    device: options.Device = "auto"
    json: options.Json = False
    settings: FinetuneConfig = field(default_factory=FinetuneConfig)


def run(args: list[str]) -> int:
    """Fine-tune, then compare the scores before and after."""
    chosen = options.parse(Options, args, "finetune")
    with progress.training_progress("fine-tuning") as observe:
        if chosen.resume is not None:
            _refuse_other_options(chosen)
            from visr.finetuning import run as finetuning

            directory = finetuning.resume(chosen.resume, observe, chosen.accept_cost)
        else:
            directory = _start(chosen, observe)
    result = FinetuneResult.load(directory)
    assert result.after is not None
    start = "fresh weights" if result.from_scratch else "pre-trained psi at w"
    kind = "fraction of optimal"
    if isinstance(result.after, EpisodeScore):
        kind = f"mean return, {len(result.after.scores)} episodes"
    output.show(
        {**schema.to_dict(result), "run": str(directory.path)},
        chosen.json,
        f"{result.env}, task {result.task}",
        [
            (start, _score(result.before)),
            (f"after {result.num_steps:,} steps", _score(result.after)),
        ],
        header=("psi", kind),
        path=directory.path,
        remarks=remarks(result, directory),
    )
    return 0


def _start(chosen: Options, observe: Observer | None) -> RunDir:
    if chosen.run is None or chosen.task is None:
        raise UserError(
            "Give a RUN and a --task (`visr infer RUN --reward ...` makes tasks), or --resume a run."
        )
    options.refuse(chosen, ("accept_cost",), "belongs to --resume")
    from visr import api

    loaded = api.load(chosen.run, device=chosen.device, env=chosen.env)
    task = Task.load(find_task(loaded.directory, chosen.task))
    settings = dataclasses.asdict(chosen.settings)
    name = Path(chosen.task).stem
    reward = None if chosen.reward == "asked" else chosen.reward
    tuned = loaded.finetune(
        task, name=name, out=chosen.out, reward=reward, observe=observe, **settings
    )
    return tuned.directory


def _refuse_other_options(chosen: Options) -> None:
    given = (chosen.run, chosen.task, chosen.out, chosen.env, chosen.device, chosen.reward)
    if given != (None, None, None, None, "auto", "asked") or chosen.settings != FinetuneConfig():
        raise UserError("--resume takes everything from the run; leave out the other options.")


def remarks(result: FinetuneResult, directory: RunDir) -> list[str]:
    """How well the reward model did, whether the score fell, and what to do next."""
    trained = f"It was trained and evaluated on {result.reward}."
    if result.num_updates == 0:
        return [f"There was no reward in {result.num_steps:,} steps, so nothing was learnt."]
    lines = [trained] if result.reward else []
    if result.reward_r_squared is not None:
        lines.append(
            f"{result.num_free_steps:,} reward-free steps were used as well; the reward model explained "
            f"{result.reward_r_squared:.0%} of the variance of new rewards."
        )
    assert result.after is not None
    if _is_worse(result.before, result.after):
        lines.append(
            "The score is lower than before: the first updates change what psi has learnt. Fine-tune for "
            "more --num-steps, or keep the inferred task."
        )
    else:
        lines.append(f"Next: visr play {directory.path} --task task")
    return lines


def _is_worse(before: ExactScore | EpisodeScore, after: ExactScore | EpisodeScore) -> bool:
    """Lower by two standard errors of the difference; on the grid, by more than 0.01."""
    if isinstance(before, EpisodeScore) and isinstance(after, EpisodeScore):
        error = math.hypot(before.standard_error or 0.0, after.standard_error or 0.0)
        return after.mean < before.mean - 2 * error
    assert isinstance(before, ExactScore)
    assert isinstance(after, ExactScore)
    return after.fraction_of_optimal < before.fraction_of_optimal - _SAME


def _score(score: ExactScore | EpisodeScore) -> str:
    if isinstance(score, ExactScore):
        return f"{score.fraction_of_optimal:.3f}"
    error = score.standard_error
    return f"{score.mean:,.2f}" + (f" ± {error:,.2f}" if error is not None else "")
