"""visr pull: download a packed model from a Hugging Face hub repository."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from visr.commands import options, output
from visr.commands.pack import rows, summary


@dataclass(frozen=True)
class Options:
    """Download a packed model that `visr push` uploaded, and check it (needs visr[hub])."""

    repo: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="REPO")]
    """Repository, OWNER/NAME."""
    out: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")] = None
    """The file to write; by default runs/NAME.safetensors."""
    json: options.Json = False


def run(args: list[str]) -> int:
    """Download, and print what is in the file."""
    chosen = options.parse(Options, args, "pull")
    from visr import sharing
    from visr.storage import packed_models

    model = packed_models.open_model(sharing.pull(chosen.repo, chosen.out))
    remarks = [f"Next: visr evaluate {model.path}"]
    output.show(summary(model), chosen.json, f"pulled: {chosen.repo}", rows(model), remarks=remarks)
    return 0
