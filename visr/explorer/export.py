"""The skill atlas as one HTML file that needs nothing else: no script, no network."""

from __future__ import annotations

import html
from importlib import resources
from pathlib import Path
from typing import Any

from visr.api import Run
from visr.config import GRID
from visr.explorer import atlas
from visr.explorer.atlas import Atlas
from visr.storage.files import write_bytes

TOLD_APART = (
    "given one state of each of two skills, how often φ says which is whose "
    "(0.5 is chance, 1 is always)."
)
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write(path: Path, drawn: Atlas, run: Run) -> Path:
    """The page as a file, whole or not at all."""
    write_bytes(path, page(drawn, run).encode())
    return path


def page(drawn: Atlas, run: Run) -> str:
    """The whole document."""
    content = atlas.to_dict(drawn, run)
    style = (resources.files("visr.explorer") / "static" / "style.css").read_text("utf-8")
    title = html.escape(f"{run.path.resolve().name}: skills of {run.config.env}")
    warnings = "".join(f'<p class="warning">{html.escape(w)}</p>' for w in content["warnings"])
    cards = "\n".join(_card(skill, content, run) for skill in content["skills"])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<main class="exported">
<h1>{title}</h1>
<p class="muted">{len(drawn.skills)} tasks spread over the unit sphere of {run.config.agent.num_features}
features, each played for {content["skills"][0]["num_steps"]} steps; weights after {run.num_steps:,}
steps of training without rewards. Told apart: {drawn.discriminability:.2f} on average; {TOLD_APART}</p>
{warnings}
<div class="atlas">
{cards}
</div>
</main>
</body>
</html>
"""


def _card(skill: dict[str, Any], content: dict[str, Any], run: Run) -> str:
    tall, wide = content["scale"]
    width, height = skill["size"]
    numbers = ", ".join(f"{x:.2f}" for x in skill["w"])
    film = _film(skill, f"aspect-ratio: {width * wide} / {height * tall}")
    visits = ""
    if skill["visits"]:
        visits = f'<img class="visits" alt="Visits of skill {skill["index"] + 1}" src="{skill["visits"]}">'
    score = "" if run.config.env == GRID else _fact("return", f"{skill['score']:g}")
    nearest = (
        "" if skill["nearest"] is None else f'<p class="muted">like {skill["nearest"] + 1}</p>'
    )
    facts = (
        score
        + _fact("told apart", f"{skill['discriminability']:.2f}")
        + _fact("own reward", f"{skill['own_reward']:.2f}")
    )
    return f"""<article class="skill">
<h3>Skill {skill["index"] + 1}</h3>
<div class="screens">{film}{visits}</div>
<dl>{facts}</dl>
{nearest}<details><summary>w</summary><code>{html.escape(numbers)}</code></details>
</article>"""


def _film(skill: dict[str, Any], shape: str) -> str:
    if not skill["film"]:
        return '<p class="muted">This environment cannot draw itself.</p>'
    style = (
        f"{shape}; --frames: {skill['num_frames']}; background-image: url({skill['film']}); "
        f"animation-duration: {skill['num_frames'] / 8:g}s"
    )
    label = f"Film of skill {skill['index'] + 1}"
    return f'<div class="film" role="img" tabindex="0" aria-label="{label}" style="{style}"></div>'


def _fact(name: str, value: str) -> str:
    return f"<div><dt>{name}</dt><dd>{html.escape(value)}</dd></div>"
