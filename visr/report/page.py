"""One HTML page that needs nothing but itself: pictures are inside it, and nothing is fetched."""

from __future__ import annotations

from typing import Any

from visr.config import SECTIONS
from visr.report import commands as recipe
from visr.report import episodes_page, header, style
from visr.report import html as elements
from visr.report.figures import Picture
from visr.report.html import text
from visr.report.read import Record, SavedTask
from visr.report.stylesheet import CSS

Pictures = dict[str, Picture]

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<main>
"""
_READING_TASKS = (
    "R² says how much of the true reward φ·w expresses: 1 is all of it, 0 no more than a constant. In the "
    "pictures, arrows show the move made in each cell, and dots the cells where the agent stays, held by a "
    "wall or an edge. φ·w has no scale of its own: compare its shape with the true reward. The value is what "
    "the arrows collect of the true reward from each cell on."
)
_TAIL = """<footer>VISR: Hansen et al., Fast Task Inference with Variational Intrinsic Successor Features,
ICLR 2020. The pictures lie beside this page as PNG files; the page itself needs none of them.</footer>
</main>
</body>
</html>
"""


def html(record: Record, pictures: Pictures) -> str:
    """The whole page; the same run makes the same page."""
    name = record.path.resolve().name
    sections = _grid if record.is_grid else _elsewhere
    if record.tuned is not None:
        sections = _tuned
    parts = [
        HEAD.format(title=text(f"{name} · VISR"), css=CSS),
        header.html(record, name),
        *sections(record, pictures),
        _configuration(record),
        _commands(record),
        _TAIL,
    ]
    return "".join(parts)


def _grid(record: Record, pictures: Pictures) -> list[str]:
    """Where every state is known, so that values are exact."""
    return [
        _optimal(record, pictures),
        _tasks(record, pictures),
        _portrait(record, pictures),
        _training(record, pictures),
    ]


def _tuned(record: Record, pictures: Pictures) -> list[str]:
    """Where weights went on to change, for one task."""
    return [
        _worth(record),
        (_tasks(record, pictures) if record.is_grid else episodes_page.tasks(record)),
        _training(record, pictures),
    ]


def _worth(record: Record) -> str:
    tuned = record.tuned
    assert tuned is not None
    start = "fresh weights" if tuned.from_scratch else "pre-trained ψ at w"
    kind = "Fraction of optimal" if tuned.is_exact else "Mean score of 30 episodes"
    rows = [[start, style.number(tuned.before, 3)]]
    if tuned.after is not None:
        rows.append([f"after {record.num_steps:,} rewarded steps", style.number(tuned.after, 3)])
    besides = (
        f" It learnt from {tuned.num_free_steps:,} reward-free steps besides."
        if tuned.num_free_steps
        else ""
    )
    words = f"Reinforcement learning on the reward of the task {tuned.task}.{besides}"
    table = elements.table({"ψ": False, kind: True}, rows)
    return elements.section("What it was worth", f"<p>{text(words)}</p>\n", table)


def _elsewhere(record: Record, pictures: Pictures) -> list[str]:
    """Where only playing tells."""
    return [
        episodes_page.phase_two(record, pictures.get("phase two")),
        episodes_page.online(record, pictures.get("online")),
        episodes_page.tasks(record),
        _training(record, pictures),
    ]


def _optimal(record: Record, pictures: Pictures) -> str:
    title = "How near to optimal"
    if "optimal" not in pictures:
        return elements.section(title, _lacking(record, "There is no exact evaluation"))
    words = (
        "While it trained, the agent was handed the same unseen tasks again and again, and the policy it "
        "answered with was valued exactly."
    )
    figure = elements.figure(pictures["optimal"], wide=True)
    return elements.section(title, f"<p>{words}</p>\n", figure)


def _portrait(record: Record, pictures: Pictures) -> str:
    if "features" not in pictures:
        missing = _lacking(record, "There is no portrait of φ and ψ")
        return elements.section("Features, rewards, values", missing)
    sections = {
        "features": "What the features say",
        "rewards": "Rewards it can imagine",
        "values": "What it expects of them",
    }
    return "".join(elements.section(t, elements.figure(pictures[n])) for n, t in sections.items())


def _training(record: Record, pictures: Pictures) -> str:
    title = "Training"
    if "training" in pictures:
        figure = elements.figure(pictures["training"], wide=True)
        return elements.section(title, *episodes_page.warnings(record), figure)
    return elements.section(title, _lacking(record, "There are no training curves"))


def _lacking(record: Record, what: str) -> str:
    """Why something is missing, and which command makes it."""
    if record.is_finished:
        why = "the file is gone from the run. Training again writes it:"
        return elements.note(f"{what}: {why}", recipe.pretrain(record))
    return elements.note(f"{what} yet: training writes it. Go on with", recipe.resume(record))


def _tasks(record: Record, pictures: Pictures) -> str:
    title = "Tasks asked of it"
    if not record.tasks:
        words = "No task has been inferred yet; ask for one with"
        return elements.section(title, elements.note(words, recipe.infer(record)))
    rows = [
        [
            f'<a href="#task-{i}"><bdi>{text(saved.task.name)}</bdi></a>',
            _fraction(saved),
            style.number(saved.task.r_squared),
        ]
        for i, saved in enumerate(record.tasks)
    ]
    table = elements.table({"Task": False, "Fraction of optimal": True, "R² of φ·w": True}, rows)
    each = [_task(record, s, i, pictures.get(f"task {i}")) for i, s in enumerate(record.tasks)]
    return elements.section(title, table, f"<p>{_READING_TASKS}</p>\n", *each)


def _task(record: Record, saved: SavedTask, index: int, picture: Picture | None) -> str:
    task, found = saved.task, saved.evaluation
    fitted = (
        f"w found by {task.method} on {task.num_steps:,} states, {task.num_rewarded:,} of them rewarded; "
        f"R² = {style.number(task.r_squared)}."
    )
    parts = [
        f'<h3 id="task-{index}"><bdi>{text(task.name)}</bdi></h3>\n<p class="muted">{text(fitted)}</p>\n'
    ]
    if found is None:
        parts.append(_not_evaluated(record, saved))
    if picture is not None:
        parts.append(elements.figure(picture, wide=found is not None))
    return "".join(parts)


def _not_evaluated(record: Record, saved: SavedTask) -> str:
    if saved.task.reward is None:
        return "<p>It carries no reward over states, so its policy has no exact value.</p>\n"
    words = "Its policy has not been evaluated yet; do so with"
    return elements.note(words, recipe.evaluate(record, saved))


def _fraction(saved: SavedTask) -> str:
    found = saved.evaluation
    return "not evaluated" if found is None else style.number(found.fraction_of_optimal)


def _configuration(record: Record) -> str:
    pairs = recipe.fields(record.config)
    columns = {"Field": False, "Here": False, "Default, where it differs": False}
    parts = [f"<details><summary>All {len(pairs) + 1} fields</summary>\n"]
    parts.append(f"<p>env: <code>{text(record.config.env)}</code></p>\n")
    for section in SECTIONS:
        names = vars(getattr(record.config, section))
        rows = [[name, *_here_and_default(*pairs[name])] for name in names]
        parts.append(f"<h3>{section}</h3>\n{elements.table(columns, rows)}")
    return elements.section("Configuration", *parts, "</details>\n")


def _here_and_default(value: Any, default: Any) -> tuple[str, str]:
    return text(_value(value)), text(_value(default)) if value != default else ""


def _commands(record: Record) -> str:
    lines = [
        recipe.pretrain(record),
        *(_grid_commands if record.is_grid else episodes_page.commands)(record),
    ]
    lines.append(recipe.report(record))
    words = "The first command makes the same run again, whatever the presets become."
    made = [f"<p>{words}</p>\n", elements.commands(lines)]
    if not record.is_grid:
        made += [
            "<p>And what can be done with it:</p>\n",
            elements.commands(episodes_page.next_steps(record)),
        ]
    return elements.section("How it was made", *made)


def _grid_commands(record: Record) -> list[str]:
    lines = []
    for saved in record.tasks:
        lines.append(recipe.infer(record, saved))
        if saved.evaluation is not None:
            lines.append(recipe.evaluate(record, saved))
    return lines


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
