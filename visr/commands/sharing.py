"""visr pack, push and pull: a run as one file to share, here or on a Hugging Face hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from visr.commands import options, output

if TYPE_CHECKING:
    from visr.storage.packed_models import PackedModel


@dataclass(frozen=True)
class Pack:
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
    precision: Literal["float32", "float16", "int8"] = "float32"
    """Of the stored weights."""
    tasks: bool = True
    """Include the tasks that are saved in the run."""
    json: options.Json = False


def pack(args: list[str]) -> int:
    """Pack, and print what is in the file."""
    chosen = options.parse(Pack, args, "pack")
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
        _summary(model), chosen.json, f"packed: {model.card.name}", _rows(model), remarks=remarks
    )
    return 0


@dataclass(frozen=True)
class Push:
    """Pack a run and upload it, with a page that describes it (needs visr[hub]).

    Log in with `hf auth login`, or set HF_TOKEN. HF_ENDPOINT names another hub.
    """

    run: options.Run
    repo: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="REPO")]
    """Repository, OWNER/NAME; created if it does not exist."""
    about: str = ""
    """One sentence on the card."""
    precision: Literal["float32", "float16", "int8"] = "float32"
    """Of the stored weights."""
    tasks: bool = True
    """Include the tasks that are saved in the run."""
    private: bool = False
    """Create the repository as a private one."""
    json: options.Json = False


def push(args: list[str]) -> int:
    """Upload, and print the address."""
    chosen = options.parse(Push, args, "push")
    from visr import api, sharing

    loaded = api.load(chosen.run, device="cpu")
    address = sharing.push(
        loaded,
        chosen.repo,
        private=chosen.private,
        about=chosen.about,
        precision=chosen.precision,
        tasks=chosen.tasks,
    )
    remarks = [f"Next: visr pull {'/'.join(address.split('/')[-2:])}"]  # OWNER/NAME
    output.show({"address": address}, chosen.json, path=address, remarks=remarks)
    return 0


@dataclass(frozen=True)
class Pull:
    """Download a packed model that `visr push` uploaded, and check it (needs visr[hub])."""

    repo: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="REPO")]
    """Repository, OWNER/NAME."""
    out: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")] = None
    """The file to write; by default runs/NAME.safetensors."""
    json: options.Json = False


def pull(args: list[str]) -> int:
    """Download, and print what is in the file."""
    chosen = options.parse(Pull, args, "pull")
    from visr import sharing
    from visr.storage import packed_models

    model = packed_models.open_model(sharing.pull(chosen.repo, chosen.out))
    remarks = [f"Next: visr evaluate {model.path}"]
    output.show(
        _summary(model), chosen.json, f"pulled: {chosen.repo}", _rows(model), remarks=remarks
    )
    return 0


def _summary(model: PackedModel) -> dict[str, object]:
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


def _rows(model: PackedModel) -> list[tuple[str, str]]:
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
