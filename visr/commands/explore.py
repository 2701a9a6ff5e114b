"""visr explore: a local web page for a run, or its skill atlas as one file; a list of open pages."""

from __future__ import annotations

import contextlib
import http
import importlib.util
import os
import sys
import threading
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from visr import terminal
from visr.commands import options, output
from visr.errors import UserError
from visr.explorer import running_explorers
from visr.storage.files import write_bytes
from visr.strict_json import encodable

if TYPE_CHECKING:
    from visr.explorer.serve import Server

_MOST_SKILLS = 48


@dataclass(frozen=True)
class Options:
    """Open a web page for a run, finished or in training: paint rewards, watch tasks, compare skills.

    The server listens on this machine only, unless --host says otherwise, and requires the token in the
    printed address. Ctrl-C or `visr explore --stop` stops it.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = ""
    """Directory of a run."""
    list: bool = False
    """List the explorers that you run on this machine."""
    stop: bool = False
    """Stop the explorers of RUN; without RUN, all that you run on this machine."""
    export: Annotated[str | None, tyro.conf.arg(metavar="FILE.html")] = None
    """Write the skill atlas into one static HTML file and stop."""
    skills: int = 12
    """With --export: number of tasks, spread over the sphere."""
    seed: int = 0
    """With --export: random seed of the tasks and the episodes."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 admits other machines, which need the token too."""
    port: int | None = None
    """Port; by default 8017 or the next free one; 0 takes any free one."""
    open: bool = True
    """Open a browser if stdout is a terminal; its command line does not show the token."""
    env: options.Env = None
    device: options.Device = "auto"
    json: bool = False
    """Print the address, or the atlas's main numbers, as one JSON object."""


def run(args: list[str]) -> int:
    """Serve until stopped, or export."""
    chosen = options.parse(Options, args, "explore")
    _check(chosen)
    if chosen.list or chosen.stop:
        return _list(chosen)
    _require_packages()
    return _serve(chosen) if chosen.export is None else _export(chosen)


def _require_packages() -> None:
    for name in ("starlette", "uvicorn", "websockets"):
        if importlib.util.find_spec(name) is None:
            raise UserError(f'The explorer needs {name}: pip install "visr[explorer]".')


def _check(chosen: Options) -> None:
    options.check_range(chosen, ("port",), 0, 2**16 - 1)
    if chosen.list or chosen.stop:
        others = ("export", "skills", "seed", "host", "port", "open", "env", "device")
        options.refuse(chosen, others, "belongs neither to --list nor to --stop")
        return
    if not chosen.run:
        raise UserError(
            "Which run? Name its directory, such as `visr explore runs/first`; `visr explore --list` lists "
            "the explorers that are open."
        )
    if chosen.export is None:
        options.refuse(chosen, ("skills", "seed"), "belongs to --export")
        return
    options.refuse(chosen, ("host", "port", "open"), "belongs to serving, not to --export")
    if Path(chosen.export).suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"{chosen.export!r} is not the name of an HTML file; give one such as atlas.html."
        )
    options.check_range(chosen, ("skills",), 2, _MOST_SKILLS)
    options.check_range(chosen, ("seed",), 0)


def _serve(chosen: Options) -> int:
    from visr.explorer.serve import Server

    where = {"host": chosen.host, "port": chosen.port}
    server = Server(chosen.run, **where, device=chosen.device, env=chosen.env)
    result = {"url": server.url, "port": server.port, "token": server.token}
    with contextlib.suppress(KeyboardInterrupt), _registered(server, chosen.run) as page:
        output.show(result, chosen.json, path=server.url)
        sys.stdout.flush()
        output.say("Open this address in a browser; Ctrl-C stops the explorer.")
        if server.warning:
            output.say(server.warning)
        if page is not None and chosen.open and sys.stdout.isatty():
            threading.Timer(0.5, webbrowser.open, [page.as_uri()]).start()
        server.run()
    return 0


@contextlib.contextmanager
def _registered(server: Server, run: str) -> Iterator[Path | None]:
    """List this explorer while it serves, where that is possible."""
    with contextlib.ExitStack() as stack:
        try:
            launch = running_explorers.Launch(os.getpid(), server.url, str(Path(run).absolute()))
            page = stack.enter_context(running_explorers.registered(launch))
        except (OSError, UserError) as error:
            output.say(f"This explorer is not listed, and no browser is opened: {error}")
            page = None
        yield page


def _list(chosen: Options) -> int:
    """Show, or stop, the explorers of this user."""
    wanted = encodable(str(Path(chosen.run).absolute())) if chosen.run else None
    found = [launch for launch in running_explorers.running() if wanted in (None, launch.run)]
    if chosen.stop:
        found = [
            launch for launch in found if launch.ask("POST", "/api/stop") == http.HTTPStatus.OK
        ]
    title = "Stopped" if chosen.stop else "Running"
    shown = [{"address": one.address, "run": one.run, "pid": one.pid} for one in found]
    rows = [(one.address, one.run, str(one.pid)) for one in found]
    remarks = () if rows else (f"No explorer {'of this run ' if wanted else ''}is running here.",)
    header = ("address", "run", "process")
    output.show({title.lower(): shown}, chosen.json, title, rows, header, remarks=remarks)
    return 0


def _export(chosen: Options) -> int:
    from visr import api
    from visr.explorer import atlas

    assert chosen.export is not None
    loaded = api.load(chosen.run, device=chosen.device, env=chosen.env)
    drawn = atlas.Atlas()
    for drawn in atlas.draw(loaded, chosen.skills, chosen.seed):
        terminal.count(f"{len(drawn.skills)} of {chosen.skills} skills")
    terminal.count("")
    path = Path(chosen.export)
    write_bytes(path, atlas.page(drawn, loaded).encode())
    for warning in drawn.warnings:
        output.say(warning)
    result = {
        "file": str(path),
        "skills": len(drawn.skills),
        "discriminability": drawn.discriminability,
        "scores": [skill.score for skill in drawn.skills],
        "warnings": drawn.warnings,
    }
    output.show(result, chosen.json, path=path)
    return 0
