"""visr task: list, mix and compare tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from visr.commands import options, output
from visr.errors import UserError
from visr.run_files import SavedTasks, find_task, new_path
from visr.storage import packed_models
from visr.storage.records.task import Task, cosine, mix
from visr.storage.run_dir import RunDir


@dataclass(frozen=True)
class Options:
    """List a run's tasks, mix some into a new one, or compare them.

    visr task list RUN; visr task mix RUN a 0.7 b 0.3 --name both; visr task compare RUN a b
    Files instead: visr task mix A.json 0.7 B.json 0.3 --out C.json; visr task compare A.json B.json
    """

    what: Annotated[Literal["list", "mix", "compare"], tyro.conf.Positional]
    """What to do."""
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="...")]
    """A run to list; tasks and weights to mix; tasks to compare: RUN and names in it, or files."""
    out: str | None = None
    """mix: the file to write; by default the new task is saved in the run."""
    name: str | None = None
    """mix: name of the new task."""
    json: options.Json = False


def run(args: list[str]) -> int:
    """Do one of the three."""
    chosen = options.parse(Options, args, "task")
    if chosen.what != "mix" and (chosen.out is not None or chosen.name is not None):
        raise UserError("--out and --name belong to `visr task mix`; leave them out.")
    {"list": _list, "mix": _mix, "compare": _compare}[chosen.what](chosen)
    return 0


def _list(chosen: Options) -> None:
    if len(chosen.names) != 1:
        raise UserError("`visr task list` takes one run.")
    name = chosen.names[0]
    tasks = dict(SavedTasks(_open(name)))
    rows = [(stem, task.name, task.method, *_trust(task)) for stem, task in tasks.items()]
    output.show(
        {"tasks": {stem: task.to_dict() for stem, task in tasks.items()}},
        chosen.json,
        f"tasks of {name}",
        rows,
        ("task", "asked for", "method", "from", "R^2"),
        remarks=() if tasks else ["No tasks yet; `visr infer` makes one."],
    )


def _trust(task: Task) -> tuple[str, str]:
    """What w was made from, and R^2 where a reward was regressed."""
    if not task.is_regressed:
        return f"{task.num_steps:,} {task.counted}" if task.num_steps else "-", "-"
    return f"{task.num_rewarded:,} rewarded steps", f"{task.r_squared:.3f}"


def _mix(chosen: Options) -> None:
    run, words = None, chosen.names
    if len(words) % 2 and not words[0].endswith(".json"):
        run, words = _open(words[0]), words[1:]
    if not words or len(words) % 2:
        raise UserError(
            "`visr task mix` takes pairs of a task and its weight: A.json 0.7 B.json 0.3, or RUN a 0.7 b 0.3."
        )
    weights = [_number(word) for word in words[1::2]]
    if chosen.out is None and run is None:
        raise UserError("The new task needs a file: add --out C.json.")
    parts = [(_load(name, run), k) for name, k in zip(words[::2], weights, strict=True)]
    task = mix(parts, chosen.name)
    path = new_path(run, task) if run is not None and chosen.out is None else Path(chosen.out or "")
    task.save(path)
    rows = [(f"cosine with {part.name}", f"{cosine(task, part):+.3f}") for part, _ in parts]
    rows.append(("task", str(path)))
    output.show({**task.to_dict(), "file": str(path)}, chosen.json, f"task: {task.name}", rows)


def _compare(chosen: Options) -> None:
    run, names = None, chosen.names
    if len(names) > 2 and not names[0].endswith(".json"):
        run, names = _open(names[0]), names[1:]
    if len(names) < 2:
        raise UserError("`visr task compare` takes two or more task.json files, or RUN and names.")
    tasks = {name: _load(name, run) for name in names}
    pairs = {a: {b: cosine(tasks[a], tasks[b]) for b in tasks} for a in tasks}
    rows = [
        (Path(a).stem, *(f"{cosine:+.3f}" for cosine in row.values())) for a, row in pairs.items()
    ]
    title = "1: the same task; 0: nothing in common; -1: opposites"
    header = ("cosine", *(Path(name).stem for name in tasks))
    output.show({"cosines": pairs}, chosen.json, title, rows, header)


def _open(name: str) -> RunDir:
    is_packed = packed_models.is_packed(name)
    return packed_models.open_model(name).run_dir() if is_packed else RunDir.open(name)


def _load(name: str, run: RunDir | None) -> Task:
    """A task of a file, or of a run under the name that it has there."""
    if run is None:
        return Task.load(name)
    path = find_task(run, name)
    return replace(Task.load(path), name=path.stem)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(
            f"{text!r} is not a weight; `visr task mix` takes A.json 0.7 B.json 0.3, or RUN a 0.7 b 0.3."
        ) from None
