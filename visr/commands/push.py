"""visr push: upload a run to a Hugging Face hub repository."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from visr.commands import options, output


@dataclass(frozen=True)
class Options:
    """Pack a run and upload it, with a page that describes it (needs visr[hub]).

    Log in with `hf auth login`, or set HF_TOKEN. HF_ENDPOINT names another hub.
    """

    run: options.Run
    repo: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="REPO")]
    """Repository, OWNER/NAME; created if it does not exist."""
    about: str = ""
    """One sentence on the card."""
    precision: Literal["float32", "float16"] = "float32"
    """Of the stored weights."""
    tasks: bool = True
    """Include the tasks that are saved in the run."""
    private: bool = False
    """Create the repository as a private one."""
    json: options.Json = False


def run(args: list[str]) -> int:
    """Upload, and print the address."""
    chosen = options.parse(Options, args, "push")
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
    remarks = [f"Next: visr pull {chosen.repo}"]
    output.show({"address": address}, chosen.json, path=address, remarks=remarks)
    return 0
