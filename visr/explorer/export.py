"""The skill atlas as one HTML file without scripts or network requests."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import jinja2

from visr.api import Run
from visr.explorer import atlas
from visr.explorer.atlas import Atlas
from visr.storage.files import write_bytes

SEPARABILITY = (
    "given one state of each of two skills, how often φ assigns them correctly "
    "(0.5 is chance, 1 is always)."
)
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("visr.explorer"), autoescape=True, undefined=jinja2.StrictUndefined
)


def write(path: Path, drawn: Atlas, run: Run) -> Path:
    """Write the page atomically."""
    write_bytes(path, page(drawn, run).encode())
    return path


def page(drawn: Atlas, run: Run) -> str:
    """The whole document."""
    style = (resources.files("visr.explorer") / "static" / "style.css").read_text("utf-8")
    return _TEMPLATES.get_template("atlas.html").render(
        **atlas.to_dict(drawn, run),
        title=f"{run.path.resolve().name}: skills of {run.config.env}",
        style=style,
        separability=SEPARABILITY,
        num_features=run.config.agent.num_features,
        num_steps=run.num_steps,
        has_score=run.world is None,
    )
