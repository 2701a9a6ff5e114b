"""visr bench: speed as a ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

from visr.commands import explore, options, output
from visr.config import ATARI, MINATAR
from visr.errors import UserError, needing

_NUM_RUNS = 1_000
_SECONDS = {"grid": 20.0, "minatar": 30.0, "atari": 300.0, "cluster": 300.0, "explorer": 30.0}
_GAME = "ALE/Pong-v5"
_SMALL_GAME = "MinAtar/Breakout-v1"
_NUM_ENVS = 32


@dataclass(frozen=True)
class Options:
    """Measure the full training loop, and in the same run the bare cost of its networks' products.

    `grid` compares with the matrix products; `minatar` with the networks' passes and the games alone; `atari`
    with the image torsos' passes, the games alone, and the loop in float32 and the default layout. `cluster`
    compares an actor and a learner on Ray with the same loop in one process, on Atari frames and one core.
    `explorer` times strokes on the grid, and streamed frames of a game against the same play without pictures
    and wire; `report` the report over 1,000 made-up runs against the bare reading of their files.
    """

    what: Annotated[
        Literal["grid", "minatar", "atari", "cluster", "explorer", "report"], tyro.conf.Positional
    ] = "grid"
    """What to measure."""
    preset: str | None = None
    """Whose networks and batches; by default `grid`, `minatar`, `atari` (cluster, too) or (explorer)
    `atari-small`."""
    seconds: float | None = None
    """About how long, by default 20 (grid), 30 (minatar, explorer) or 300 (atari, cluster)."""
    env: Annotated[str | None, tyro.conf.arg(metavar="ENV")] = None
    """Which game, by default ALE/Pong-v5 or MinAtar/Breakout-v1; the grid has none."""
    num_envs: int | None = None
    """atari, cluster: games side by side, by default 32; a divisor or a multiple of the batch suits best."""
    simulate: bool = False
    """cluster only: up to 800 actors of --num-envs games each (by default 1), from measured times."""
    num_runs: int | None = None
    """report only: how many made-up runs, by default 1,000."""
    learner_speedup: float = 1.0
    """With --simulate: how many times as quick as one core of this machine the learner shall be."""
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
    _check_simulation(chosen)
    usual = {"explorer": "atari-small", "cluster": "atari"}.get(chosen.what, chosen.what)
    preset = usual if chosen.preset is None else chosen.preset
    measures = {
        "grid": _grid,
        "minatar": _minatar,
        "atari": _atari,
        "cluster": _cluster,
        "explorer": _explorer,
    }
    measure = measures[chosen.what]
    result = measure(chosen, preset, seconds)
    return _show(f"visr bench {chosen.what}, preset {preset}", result, chosen.json)


def _check_simulation(chosen: Options) -> None:
    if chosen.simulate and chosen.what != "cluster":
        raise UserError(
            f"--simulate belongs to `visr bench cluster`; leave it out for {chosen.what}."
        )
    speedup = chosen.learner_speedup
    if not 0 < speedup < math.inf or (speedup != 1 and not chosen.simulate):
        raise UserError(
            f"--learner-speedup {speedup:g} must be a finite number greater than 0 and go with --simulate."
        )


def _show(title: str, result: dict[str, Any], as_json: bool) -> int:
    if as_json:
        output.emit(result)
        return 0
    tables = {name: value for name, value in result.items() if isinstance(value, list)}
    plain = {name: value for name, value in result.items() if name not in tables}
    rows = [(name.replace("_", " "), _words(value)) for name, value in plain.items()]
    output.table(title, rows)
    for name, lines in tables.items():
        header = tuple(column.replace("_", " ") for column in lines[0])
        output.table(name, [tuple(map(_words, line.values())) for line in lines], header)
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


def _explorer(chosen: Options, preset: str, seconds: float) -> dict[str, Any]:
    if chosen.num_envs is not None:
        raise UserError("--num-envs belongs to `visr bench atari`; leave it out for the explorer.")
    explore.require_packages()
    from visr.bench import explorer

    return explorer.measure(preset, _GAME if chosen.env is None else chosen.env, seconds)


def _cluster(chosen: Options, preset: str, seconds: float) -> dict[str, Any]:
    env = _GAME if chosen.env is None else chosen.env
    if not env.startswith(ATARI):
        raise UserError(f"env = {env!r} is no Atari game; give one like {_GAME}.")
    with needing("ray", "cluster"):
        from visr.bench import cluster
    usual = 1 if chosen.simulate else _NUM_ENVS
    num_envs = usual if chosen.num_envs is None else chosen.num_envs
    if chosen.simulate:
        return cluster.simulate(preset, env, num_envs, chosen.learner_speedup, output.say)
    return cluster.measure(preset, env, num_envs, seconds, output.say)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_words(v)} {k.replace('_', ' + ')}" for k, v in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
