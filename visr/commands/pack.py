"""visr pack: a run as one file to share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from visr.commands import options, output

if TYPE_CHECKING:
    from visr.storage.packed_models import PackedModel


@dataclass(frozen=True)
class Options:
    """Write a run's networks, settings, tasks and a card into one safetensors file.

    Every command that takes a RUN takes such a file, and so does `visr.load`. It holds no code.
    """

    run: options.Run
    out: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """The file to write, such as model.safetensors."""
    name: str | None = None
    """Name on the card; by default the name of the run."""
    about: str = ""
    """One sentence on the card."""
    precision: Literal["float32", "float16"] = "float32"
    """Of the stored weights."""
    tasks: bool = True
    """Include the tasks that are saved in the run."""
    json: options.Json = False


def run(args: list[str]) -> int:
    """Pack, and print what is in the file."""
    chosen = options.parse(Options, args, "pack")
    from visr import api, sharing

    loaded = api.load(chosen.run, device="cpu")
    model = sharing.pack(
        loaded,
        chosen.out,
        name=chosen.name,
        about=chosen.about,
        precision=chosen.precision,
        tasks=chosen.tasks,
    )
    remarks = [f"Next: visr task list {model.path}"]
    output.show(
        summary(model), chosen.json, f"packed: {model.card.name}", rows(model), remarks=remarks
    )
    return 0


def summary(model: PackedModel) -> dict[str, object]:
    """A packed model as JSON."""
    card = model.card
    return {
        "file": str(model.path),
        "size": model.path.stat().st_size,
        "name": card.name,
        "about": card.about,
        "env": card.config.env,
        "num_steps": card.num_steps,
        "precision": card.precision,
        "tasks": list(model.tasks),
    }


def rows(model: PackedModel) -> list[tuple[str, str]]:
    """A packed model as a table."""
    card = model.card
    return [
        ("file", f"{model.path} ({model.path.stat().st_size / 1e6:.2f} MB)"),
        ("about", card.about),
        ("environment", card.config.env),
        ("steps of training", f"{card.num_steps:,}"),
        ("weights", card.precision),
        ("tasks", ", ".join(model.tasks) or "none"),
    ]
