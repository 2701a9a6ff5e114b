"""visr task: list, mix and compare tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from visr.commands import options, output
from visr.errors import UserError
from visr.storage import packed_models
from visr.storage.records.task import Task, cosine, mix
from visr.storage.run_dir import RunDir


@dataclass(frozen=True)
class Options:
    """List a run's tasks, mix some into a new one, or compare them.

    visr task list RUN; visr task mix A.json 0.7 B.json 0.3 --out C.json; visr task compare A.json B.json
    """

    what: Annotated[Literal["list", "mix", "compare"], tyro.conf.Positional]
    """What to do."""
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="...")]
    """A run to list; files and weights to mix; files to compare."""
    out: str | None = None
    """mix: the file to write."""
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
    is_packed = packed_models.is_packed(name)
    run = packed_models.open_model(name).run_dir() if is_packed else RunDir.open(name)
    tasks = {path.stem: Task.load(path) for path in run.task_files()}
    rows = [
        (stem, task.name, task.method, f"{task.r_squared:.3f}", f"{task.num_rewarded:,}")
        for stem, task in tasks.items()
    ]
    output.show(
        {"tasks": {stem: task.to_dict() for stem, task in tasks.items()}},
        chosen.json,
        f"tasks of {name}",
        rows,
        ("task", "reward", "method", "R^2", "rewarded steps"),
        remarks=() if tasks else ["No tasks yet; `visr infer` makes one."],
    )


def _mix(chosen: Options) -> None:
    words = chosen.names
    if len(words) < 2 or len(words) % 2:
        raise UserError(
            "`visr task mix` takes pairs of a task.json and its weight: A.json 0.7 B.json 0.3."
        )
    if chosen.out is None:
        raise UserError("The new task needs a file: add --out C.json.")
    parts = [
        (Task.load(file), _number(weight))
        for file, weight in zip(words[::2], words[1::2], strict=True)
    ]
    task, path = mix(parts, chosen.name), Path(chosen.out)
    task.save(path)
    rows = [(f"cosine with {part.name}", f"{cosine(task, part):+.3f}") for part, _ in parts]
    rows.append(("task", str(path)))
    output.show({**task.to_dict(), "file": str(path)}, chosen.json, f"task: {task.name}", rows)


def _compare(chosen: Options) -> None:
    if len(chosen.names) < 2:
        raise UserError("`visr task compare` takes two or more task.json files.")
    tasks = {file: Task.load(file) for file in chosen.names}
    pairs = {a: {b: cosine(tasks[a], tasks[b]) for b in tasks} for a in tasks}
    rows = [
        (Path(a).stem, *(f"{cosine:+.3f}" for cosine in row.values())) for a, row in pairs.items()
    ]
    title = "1: the same task; 0: nothing in common; -1: opposites"
    header = ("cosine", *(Path(file).stem for file in tasks))
    output.show({"cosines": pairs}, chosen.json, title, rows, header)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(
            f"{text!r} is not a weight; `visr task mix` takes A.json 0.7 B.json 0.3."
        ) from None
