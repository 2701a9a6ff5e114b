"""visr explore: a local web page over a run, or its skill atlas as one file."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from visr.commands import options, output
from visr.errors import UserError


@dataclass(frozen=True)
class Options:
    """Open a page on a finished or still training run: paint rewards, watch tasks, compare skills.

    It listens on this machine alone unless told otherwise, and asks for the token that the printed address
    holds. Ctrl-C stops it.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Directory of a run."""
    export: Annotated[str | None, tyro.conf.arg(metavar="FILE.html")] = None
    """Write the skill atlas into one static HTML file and stop."""
    skills: int = 12
    """With --export: how many tasks, spread over the sphere."""
    seed: int = 0
    """With --export: decides the tasks and the episodes' beginnings."""
    host: str = "127.0.0.1"
    """Where to listen; 0.0.0.0 lets other machines in, who then need the token."""
    port: int | None = None
    """Which port; by default 8017 or the next that is free, 0 takes any."""
    open: bool = True
    """Open a browser, where there is one to see it."""
    device: str = "auto"
    """Where the networks live."""
    json: bool = False
    """Print the address, or what the atlas says, as one JSON object."""


def run(args: list[str]) -> int:
    """Serve until stopped, or export."""
    chosen = options.parse(Options, args, "explore")
    _check(chosen)
    require_packages()
    return _serve(chosen) if chosen.export is None else _export(chosen)


def require_packages() -> None:
    """Say which package is missing, if one is."""
    for name in ("starlette", "uvicorn", "websockets"):
        if importlib.util.find_spec(name) is None:
            raise UserError(f'The explorer needs {name}: pip install "visr[explorer]".')


def _check(chosen: Options) -> None:
    if chosen.port is not None and not 0 <= chosen.port < 2**16:
        raise UserError(f"port = {chosen.port} must lie between 0 and {2**16 - 1}.")
    if chosen.export is None:
        options.refuse(chosen, ("skills", "seed"), "belongs to --export")
        return
    options.refuse(chosen, ("host", "port", "open"), "belongs to serving, not to --export")
    if Path(chosen.export).suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"{chosen.export!r} is no name of an HTML file; give one such as atlas.html."
        )
    if not 2 <= chosen.skills <= 48:
        raise UserError(f"skills = {chosen.skills} must lie between 2 and 48.")
    if not 0 <= chosen.seed < 2**31:
        raise UserError(f"seed = {chosen.seed} must lie between 0 and {2**31 - 1}.")


def _serve(chosen: Options) -> int:
    from visr.explorer.serve import Server

    server = Server(chosen.run, host=chosen.host, port=chosen.port, device=chosen.device)
    with contextlib.suppress(KeyboardInterrupt):  # the way to stop it, from the first word on
        if chosen.json:
            output.emit({"url": server.url, "port": server.port, "token": server.token})
        else:
            print(server.url)
        sys.stdout.flush()
        output.say("Open this address in a browser; Ctrl-C stops the explorer.")
        if chosen.open and sys.stdout.isatty():
            threading.Timer(0.5, webbrowser.open, [server.url]).start()
        server.run()
    return 0


def _export(chosen: Options) -> int:
    from visr import api
    from visr.explorer import atlas, export

    assert chosen.export is not None
    loaded = api.load(chosen.run, device=chosen.device)
    drawn = atlas.Atlas()
    for drawn in atlas.draw(loaded, chosen.skills, chosen.seed):
        if sys.stderr.isatty():
            print(f"\r{len(drawn.skills)} of {chosen.skills} skills", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    path = export.write(Path(chosen.export), drawn, loaded)
    for warning in drawn.warnings:
        output.say(warning)
    if not chosen.json:
        print(path)
        return 0
    output.emit(
        {
            "file": str(path),
            "skills": len(drawn.skills),
            "discriminability": drawn.discriminability,
            "scores": [skill.score for skill in drawn.skills],
            "warnings": drawn.warnings,
        }
    )
    return 0
