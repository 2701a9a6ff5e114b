"""visr finetune: reinforcement learning on the true reward, from where pre-training ended."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from visr.commands import options, output
from visr.config import FinetuneConfig
from visr.errors import UserError
from visr.storage.files import read_json
from visr.storage.records.task import Task

if TYPE_CHECKING:
    from visr.storage.run_dir import RunDir

_ALIKE = 0.01
"""Of the optimum: less than that is no difference to speak of."""


@dataclass(frozen=True)
class Options:
    """Train psi, read out at a task's w, on the reward itself; the result is a run of its own.

    The reward is the environment's; on the grid, the one that the task was inferred from.
    """

    run: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = None
    """Directory of a pre-trained run."""
    task: str | None = None
    """A task's name in the run, or a task.json."""
    out: str | None = None
    """Where to write; by default RUN/finetuned/TASK, or TASK-scratch."""
    resume: str | None = None
    """Go on with a fine-tuning that was stopped, instead of all the above."""
    device: str = "auto"
    """Where the networks live."""
    json: bool = False
    """Print the result as one JSON object."""
    settings: FinetuneConfig = field(default_factory=FinetuneConfig)


def run(args: list[str]) -> int:
    """Fine-tune, then compare before and after."""
    chosen = options.parse(Options, args, "finetune")
    directory = _resumed(chosen) if chosen.resume is not None else _started(chosen)
    content = read_json(directory.finetuned)
    if chosen.json:
        output.emit({**content, "run": str(directory.path)})
    else:
        show(content, directory)
    return 0


def _started(chosen: Options) -> RunDir:
    if chosen.run is None or chosen.task is None:
        raise UserError(
            "Give a RUN and a --task; `visr infer RUN --reward ...` makes tasks, --resume goes on."
        )
    from visr import api
    from visr.commands.evaluate import task_file

    loaded = api.load(chosen.run, device=chosen.device)
    task = Task.load(task_file(loaded, chosen.task))
    with output.training_progress("fine-tuning") as observe:
        return loaded.finetune(
            task,
            name=Path(chosen.task).stem,
            out=chosen.out,
            observe=observe,
            **dataclasses.asdict(chosen.settings),
        ).directory


def _resumed(chosen: Options) -> RunDir:
    if (chosen.run, chosen.task, chosen.out, chosen.device) != (None, None, None, "auto") or (
        chosen.settings != FinetuneConfig()
    ):
        raise UserError("--resume takes everything from the run; leave out the other options.")
    from visr.finetuning import run as finetuning

    with output.training_progress("fine-tuning") as observe:
        return finetuning.resume(chosen.resume or "", observe)


def show(content: dict[str, Any], directory: RunDir) -> None:
    """What it was worth before and after, and what to do now."""
    before, after = content["before"], content["after"]
    start = "fresh weights" if content["from_scratch"] else "pre-trained psi at w"
    rows = [(start, _score(before)), (f"after {content['num_steps']:,} steps", _score(after))]
    kind = "fraction of optimal" if "fraction_of_optimal" in after else "mean score, 30 episodes"
    output.table(f"{content['env']}, task {content['task']}", rows, header=("psi", kind))
    print(directory.path)
    if content["num_updates"] == 0:
        output.say(f"No reward was met in {content['num_steps']:,} steps, so nothing was learnt.")
        return
    if content.get("reward_r_squared") is not None:
        output.say(
            f"Learnt from {content['num_free_steps']:,} reward-free steps besides; of new rewards' variance "
            f"{content['reward_r_squared']:.0%} were foreseen."
        )
    if _is_worse(before, after):
        output.say(
            "It does worse than before: the first updates lead away from what psi knew. Fine-tune for more "
            "--num-steps, or keep the task as it was inferred."
        )
    else:
        output.say(f"Next: visr play {directory.path} --task task")


def _is_worse(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Beyond what chance explains, where chance had a part: by two standard errors of the difference."""
    if "fraction_of_optimal" in after:
        return after["fraction_of_optimal"] < before["fraction_of_optimal"] - _ALIKE
    doubt = math.hypot(*(worth["standard_error"] or 0.0 for worth in (before, after)))
    return after["mean"] < before["mean"] - 2 * doubt


def _score(worth: dict[str, Any]) -> str:
    if "fraction_of_optimal" in worth:
        return f"{worth['fraction_of_optimal']:.3f}"
    error = worth["standard_error"]
    return f"{worth['mean']:,.2f}" + (f" ± {error:,.2f}" if error is not None else "")
