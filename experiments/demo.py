"""Ask a pre-trained grid run for three things, film the answers, and write one page about them.

    python experiments/demo.py runs/demo                                     # runs/demo/demo.html
    python experiments/demo.py runs/demo --gif docs/images/three_prompts.gif  # one film of all three

`make demo` pre-trains the run first. Nothing is opened: the last line says where the page is.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

import visr
from visr.envs.grid.world import GridWorld
from visr.report import page

CELL = 30
STEPS = 16
UPDATES = 60  # of `run.refine`: less than a second
STARTS = (0, 9, 94, 55)
PAUSE, RATE = 900, 120  # milliseconds: the last frame, the others
GROUND, LINE, INK, GREEN, BLUE = "#f3f4f2", "#d9dcda", "#20262c", "#4aa98a", "#0065a0"
MUTED, MARGIN, ABOVE, BELOW = "#5b6670", 24, 78, 46
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Wish:
    """One prompt, the task that visr made of it, and how good its policy is."""

    title: str
    words: str
    code: str
    task: visr.Task
    shown: Floats
    """[S], the cells to colour."""
    fraction: float
    """Of optimal: the instant policy's."""
    better: visr.Task
    """The task after a moment of Q-learning on the recorded steps."""
    refined: float
    """Of optimal: that policy's."""
    constant: float
    """The fraction of optimal of the best constant action."""


def painted(world: GridWorld) -> Floats:
    """Two boxes, as somebody might paint them."""
    reward = np.zeros((world.height, world.width))
    reward[1:4, 6:9] = 1
    reward[6:9, 1:4] = 1
    return reward


def shown_path(world: GridWorld) -> NDArray[np.int64]:
    """A staircase from the lower left to the upper right."""
    cells = [(8, 1)]
    while cells[-1] != (2, 7):
        row, col = cells[-1]
        cells.append((row - 1, col) if len(cells) % 2 else (row, col + 1))
    return np.array([row * world.width + col for row, col in cells])


def ask(run: visr.Run) -> list[Wish]:
    """The three prompts."""
    world = run.world
    if world is None or (world.height, world.width) != (10, 10):
        raise visr.UserError(f"{run.path} is no run of the 10 x 10 grid; pre-train one first.")
    boxes, path = painted(world), shown_path(world)
    goal, visited = np.zeros(world.num_states), np.zeros(world.num_states)
    goal[8 * world.width + 8] = visited[path] = 1
    found = [
        (
            "Painted boxes",
            "Two boxes were painted. Every step inside is worth 1.",
            "run.infer(reward=boxes)",
            run.infer(reward=boxes, name="painted"),
            boxes.ravel(),
        ),
        (
            "A goal",
            "One cell was named. Being there is worth 1 a step.",
            'run.infer("goal:8,8")',
            run.infer("goal:8,8", name="goal"),
            goal,
        ),
        (
            "A demonstration",
            "A path was shown, without actions. Being on it is worth 1.",
            "run.infer(demonstration=path)",
            run.infer(demonstration=path, name="shown"),
            visited,
        ),
    ]
    return [wish(run, *parts) for parts in found]


def wish(run: visr.Run, title: str, words: str, code: str, task: visr.Task, shown: Floats) -> Wish:
    """Evaluate the task's policy exactly, for the coloured cells as the reward."""
    task.save(run.directory.task(task.name))  # for `visr play` and `visr explore`
    result = run.evaluate_exactly(dataclasses.replace(task, reward=shown))
    low, high = result.value_random, result.value_optimal
    assert result.value_constant is not None
    constant = (result.value_constant - low) / (high - low)
    better = dataclasses.replace(run.refine(task, num_updates=UPDATES), reward=shown)
    refined = run.evaluate_exactly(better).fraction_of_optimal
    fraction = result.fraction_of_optimal
    return Wish(title, words, code, task, shown, fraction, better, refined, constant)


# ---- films


def walk(run: visr.Run, task: visr.Task, start: int, num_steps: int = STEPS) -> list[int]:
    """The states that the task's policy visits."""
    assert run.world is not None
    policy, states = run.policy(task), [start]
    for _ in range(num_steps):
        states.append(int(run.world.transitions[states[-1], int(policy(states[-1]))]))
    return states


def frame(world: GridWorld, shown: Floats, paths: list[list[int]]) -> Image.Image:
    """The grid, the coloured cells, and each agent with its path so far."""
    size = world.width * CELL
    image = Image.new("RGB", (2 * size, 2 * size), "#ffffff")
    draw = ImageDraw.Draw(image)
    for state in range(world.num_states):
        row, col = divmod(state, world.width)
        box = [2 * col * CELL, 2 * row * CELL, 2 * (col + 1) * CELL, 2 * (row + 1) * CELL]
        draw.rectangle(box, fill=GREEN if shown[state] > 0 else GROUND, outline=LINE, width=2)
    for states in paths:
        places = [divmod(state, world.width) for state in states]
        centres = [((2 * col + 1) * CELL, (2 * row + 1) * CELL) for row, col in places]
        if len(centres) > 1:
            draw.line(centres, fill=BLUE, width=6, joint="curve")
        x, y = centres[-1]
        draw.ellipse([x - 17, y - 17, x + 17, y + 17], fill=BLUE, outline="#ffffff", width=4)
    return image.resize((size, size), Image.Resampling.LANCZOS)


def side_by_side(world: GridWorld, one: Wish, number: int, paths: list[list[int]]) -> Image.Image:
    """The instant policy and the refined one, with what was asked and how good they are."""
    grids = [frame(world, one.shown, [path]) for path in paths]
    size = grids[0].width
    image = Image.new("RGB", (2 * size + 3 * MARGIN, ABOVE + size + BELOW), "#ffffff")
    draw = ImageDraw.Draw(image)
    large, small = ImageFont.load_default(size=24), ImageFont.load_default(size=16)
    draw.text((MARGIN, 12), f"Prompt {number} of 3: {one.title.lower()}", fill=INK, font=large)
    words = "The agent was trained without any reward. Green is what it is asked for now."
    draw.text((MARGIN, 46), words, fill=MUTED, font=small)
    labels = (
        f"instant policy: {one.fraction:.2f} of optimal",
        f"refined for a second: {one.refined:.2f}",
    )
    for i in range(2):
        x = MARGIN + i * (size + MARGIN)
        image.paste(grids[i], (x, ABOVE))
        draw.text((x, ABOVE + size + 10), labels[i], fill=INK, font=ImageFont.load_default(size=20))
    return image


def save_gif(frames: list[Image.Image], target: Path | io.BytesIO, pauses: set[int]) -> None:
    """An animated GIF that repeats; the frames in `pauses` stay longer."""
    sample = Image.new("RGB", (frames[0].width, frames[0].height * 4))
    for i in range(4):  # one palette for all frames, so that no colour changes
        sample.paste(frames[(len(frames) - 1) * i // 3], (0, frames[0].height * i))
    palette = sample.quantize(64)
    colours = [f.quantize(palette=palette, dither=Image.Dither.NONE) for f in frames]
    durations = [PAUSE if i in pauses else RATE for i in range(len(frames))]
    first, *others = colours
    first.save(target, "GIF", save_all=True, append_images=others, duration=durations, loop=0)


def film(run: visr.Run, one: Wish) -> str:
    """The film of one task, as a data address for HTML."""
    assert run.world is not None
    paths = [walk(run, one.task, start) for start in STARTS]
    frames = [frame(run.world, one.shown, [p[: i + 1] for p in paths]) for i in range(STEPS + 1)]
    target = io.BytesIO()
    save_gif(frames, target, {0, len(frames) - 1})
    return "data:image/gif;base64," + base64.b64encode(target.getvalue()).decode()


def one_film(run: visr.Run, wishes: list[Wish], target: Path) -> None:
    """One agent that obeys the prompts in turn, from where it was: instant policy and refined one."""
    assert run.world is not None
    frames, pauses, states = [], set(), [94, 94]
    for number, one in enumerate(wishes, 1):
        tasks = (one.task, one.better)
        paths = [walk(run, task, state) for task, state in zip(tasks, states, strict=True)]
        # There is no action for staying: end where both stand on a green cell.
        on_green = [all(one.shown[path[i]] > 0 for path in paths) for i in range(STEPS + 1)]
        end = max((i for i in range(STEPS + 1) if on_green[i]), default=STEPS)
        paths = [path[: end + 1] for path in paths]
        pauses.add(len(frames))
        for i in range(end + 1):
            frames.append(side_by_side(run.world, one, number, [path[: i + 1] for path in paths]))
        pauses.add(len(frames) - 1)
        states = [path[-1] for path in paths]
    target.parent.mkdir(parents=True, exist_ok=True)
    save_gif(frames, target, pauses)


# ---- the page

TEMPLATE = """\
{% extends "base.html" %}
{% block style %}
main { max-width: 62rem; }
.films { display: grid; grid-template-columns: repeat(3, 1fr); gap: 1.1rem; margin: 1.6rem 0; }
.film { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 1rem; }
.film h2 { font-size: 1.1rem; margin: 0 0 0.3rem; }
.film img { width: 100%; display: block; border-radius: 6px; margin: 0.7rem 0; image-rendering: auto; }
.film .figure { font-size: 2.1rem; font-weight: 600; line-height: 1.2; font-variant-numeric: tabular-nums; }
.film p { margin: 0 0 0.4rem; font-size: 0.9rem; }
@media (max-width: 40rem) { .films { grid-template-columns: 1fr; } }
{% endblock %}
{% block content %}
<header>
<p class="eyebrow">VISR, a demonstration</p>
<h1>One agent, three prompts, no reward in training</h1>
<p class="lead">This agent took {{ steps | thousands }} steps in a 10 × 10 grid world without
seeing any reward. Then it was asked for three things. Each answer took less than a second: no further step
in the world, and no change of its weights.</p>
</header>
<div class="films">
{% for one, picture in films %}
<section class="film">
<h2>{{ one.title }}</h2>
<p class="muted">{{ one.words }}</p>
<img src="{{ picture }}" alt="The agent moves to the coloured cells and stays there.">
<p class="figure">{{ "%.2f"|format(one.fraction) }}</p>
<p class="muted">of optimal, instantly. Refined for a second on the recorded steps:
<strong>{{ "%.2f"|format(one.refined) }}</strong>. A random policy has 0, the best constant action
{{ '%.2f' | format(one.constant) }}.</p>
<p><code>{{ one.code }}</code></p>
</section>
{% endfor %}
</div>
<section>
<h2>What you saw</h2>
<p>Green cells are what was asked for. The blue lines are paths of the same policy from four starts. There is
no action for standing still: at a single cell the agent steps off and on again. The number is exact, the mean
over all starts: 0 is the value of a random policy, 1 that of an optimal one.</p>
<p>Before the prompts, the agent learnt what follows its actions, for many tasks at once. A prompt
only picks one of these tasks. <code>run.refine(task)</code> then improves its policy from recorded steps.</p>
</section>
<section>
<h2>Try next</h2>
<p>Paint your own reward in the browser:</p>
<pre><code>{{ bin }}visr explore {{ run }}</code></pre>
<p>Ask on the command line:</p>
<pre><code><span class="line">{{ bin }}visr infer {{ run }} --reward "row &gt; 5" --name low</span>
<span class="line">{{ bin }}visr evaluate {{ run }} low</span>
<span class="line">{{ bin }}visr refine {{ run }} low</span>
<span class="line">{{ bin }}visr play {{ run }} --task low --video low.gif</span></code></pre>
<p>Use your own environment: <code>{{ bin }}visr doctor my_file.py:MyEnv</code>, then the guide in
<code>docs/guides/own_environment.md</code>. All figures of this run:
<code>{{ bin }}visr report {{ run }}</code>.</p>
</section>
{% endblock %}
"""


def write_page(run: visr.Run, wishes: list[Wish], target: Path) -> None:
    """One self-contained HTML file."""
    films = [(one, film(run, one)) for one in wishes]
    template = page.environment().from_string(TEMPLATE)
    text = template.render(
        title="Three prompts", steps=run.num_steps, films=films, run=run.address, bin=".venv/bin/"
    )
    target.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--gif", help="write one film of all three prompts to this file instead")
    options = parser.parse_args()
    run = visr.load(options.run)
    wishes = ask(run)
    if options.gif:
        one_film(run, wishes, Path(options.gif))
        print(options.gif)
        return
    target = run.path / "demo.html"
    write_page(run, wishes, target)
    print(
        "\nWithout any reward in training; exact fraction of optimal (0: a random policy, 1: an optimal one):"
    )
    for one in wishes:
        scores = f"{one.fraction:.3f}, refined {one.refined:.3f}"
        print(f"  {one.title:<16} {scores}   (best constant action {one.constant:.3f})")
    print(f"\nFilms of all three, side by side: {target}")
    print(f"Next: .venv/bin/visr explore {options.run}    paint a reward in the browser")


if __name__ == "__main__":
    main()
