"""visr bench: speed as a ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

from visr.commands import options, output
from visr.config import ATARI, MINATAR
from visr.errors import UserError

_NUM_RUNS = 1_000
_SECONDS = {"grid": 20.0, "minatar": 30.0, "atari": 300.0}
_GAME = "ALE/Pong-v5"
_SMALL_GAME = "MinAtar/Breakout-v1"
_NUM_ENVS = 32


@dataclass(frozen=True)
class Options:
    """Measure the full training loop, and in the same run the bare cost of its networks' products.

    `grid` compares with the matrix products; `minatar` with the networks' passes and the games alone; `atari`
    with the image torsos' passes, the games alone, and the loop in float32 and the default layout. `report`
    is another matter: the report over 1,000 made-up runs, compared with the bare reading of their files.
    """

    what: Annotated[Literal["grid", "minatar", "atari", "report"], tyro.conf.Positional] = "grid"
    """Which loop."""
    preset: str | None = None
    """Whose networks and batches; by default the preset `grid`, `minatar` or `atari`."""
    seconds: float | None = None
    """About how long, by default 20 (grid), 30 (minatar) or 300 (atari)."""
    env: Annotated[str | None, tyro.conf.arg(metavar="ENV")] = None
    """Which game, by default ALE/Pong-v5 or MinAtar/Breakout-v1; the grid has none."""
    num_envs: int | None = None
    """atari only: games side by side, by default 32; a divisor or a multiple of the batch suits best."""
    num_runs: int | None = None
    """report only: how many made-up runs, by default 1,000."""
    json: bool = False
    """Print the result as one JSON object."""


def run(args: list[str]) -> int:
    """Measure and print."""
    chosen = options.parse(Options, args, "bench")
    if chosen.what == "report":
        return _show("visr bench report", _report(chosen), chosen.json)
    options.refuse(chosen, ("num_runs",), "belongs to `visr bench report`")
    seconds = _SECONDS[chosen.what] if chosen.seconds is None else chosen.seconds
    if not 0 < seconds < math.inf:
        raise UserError(f"seconds = {seconds} must be a finite number greater than 0.")
    preset = chosen.what if chosen.preset is None else chosen.preset
    measure = {"grid": _grid, "minatar": _minatar, "atari": _atari}[chosen.what]
    result = measure(chosen, preset, seconds)
    return _show(f"visr bench {chosen.what}, preset {preset}", result, chosen.json)


def _show(title: str, result: dict[str, Any], as_json: bool) -> int:
    if as_json:
        output.emit(result)
        return 0
    rows = [(name.replace("_", " "), _words(value)) for name, value in result.items()]
    output.table(title, rows)
    return 0


def _report(chosen: Options) -> dict[str, Any]:
    options.refuse(chosen, ("preset", "seconds", "env", "num_envs"), "does not go with `report`")
    num_runs = _NUM_RUNS if chosen.num_runs is None else chosen.num_runs
    if not 1 <= num_runs <= 100_000:
        raise UserError(f"num_runs = {num_runs} must be from 1 to 100,000.")
    from visr.bench import report

    return report.measure(num_runs)


def _grid(chosen: Options, preset: str, seconds: float) -> dict[str, Any]:
    for option, value in (("--env", chosen.env), ("--num-envs", chosen.num_envs)):
        if value is not None:
            raise UserError(f"{option} belongs to `visr bench atari`; leave it out for the grid.")
    from visr.bench import grid

    return grid.measure(preset, seconds)


def _minatar(chosen: Options, preset: str, seconds: float) -> dict[str, Any]:
    env = _SMALL_GAME if chosen.env is None else chosen.env
    if not env.startswith(MINATAR):
        raise UserError(f"env = {env!r} is no MinAtar game; give one like {_SMALL_GAME}.")
    if chosen.num_envs is not None:
        raise UserError("--num-envs belongs to `visr bench atari`; leave it out for MinAtar.")
    from visr.bench import minatar

    return minatar.measure(preset, env, seconds)


def _atari(chosen: Options, preset: str, seconds: float) -> dict[str, Any]:
    env = _GAME if chosen.env is None else chosen.env
    if not env.startswith(ATARI):
        raise UserError(f"env = {env!r} is no Atari game; give one like {_GAME}.")
    num_envs = _NUM_ENVS if chosen.num_envs is None else chosen.num_envs
    from visr.bench import atari

    try:
        return atari.measure(preset, env, num_envs, seconds, output.say)
    except EOFError as error:
        raise UserError(
            f"A loop that was being measured ended unexpectedly ({error}); its own words stand above, "
            "and fewer --num-envs need less memory."
        ) from None


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_words(v)} {k.replace('_', ' + ')}" for k, v in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
