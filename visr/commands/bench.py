"""visr bench: speed of the training loop as a fraction of what its networks alone would reach."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

from visr.commands import options, output
from visr.config import ATARI, MINATAR
from visr.errors import UserError

_SECONDS = {"grid": 20.0, "minatar": 30.0, "atari": 300.0}
_GAMES = {"minatar": "MinAtar/Breakout-v1", "atari": "ALE/Pong-v5"}
_PREFIXES = {"minatar": MINATAR, "atari": ATARI}
_NUM_ENVS = 32


@dataclass(frozen=True)
class Options:
    """Measure the full training loop and, in turns with it, the bare cost of its networks.

    `grid` compares with the matrix products; `minatar` with the networks' passes, and the games alone;
    `atari` with the image torsos' passes, the games alone, and the loop in float32 and the default layout.
    """

    what: Annotated[Literal["grid", "minatar", "atari"], tyro.conf.Positional] = "grid"
    """What to measure."""
    preset: str | None = None
    """Sizes of networks and batches; by default the preset `grid`, `minatar` or `atari`."""
    seconds: float | None = None
    """About how long to measure; by default 20 (grid), 30 (minatar) or 300 (atari)."""
    env: Annotated[str | None, tyro.conf.arg(metavar="ENV")] = None
    """minatar, atari: which game; by default MinAtar/Breakout-v1, ALE/Pong-v5."""
    num_envs: int | None = None
    """atari: games side by side, by default 32; best a divisor or a multiple of the batch size."""
    json: options.Json = False


def run(args: list[str]) -> int:
    """Measure and print."""
    chosen = options.parse(Options, args, "bench")
    seconds = _SECONDS[chosen.what] if chosen.seconds is None else chosen.seconds
    if not 0 < seconds < math.inf:
        raise UserError(f"seconds = {seconds} must be a finite number greater than 0.")
    preset = chosen.what if chosen.preset is None else chosen.preset
    result = _measure(chosen, preset, seconds)
    rows = [(name.replace("_", " "), _words(value)) for name, value in result.items()]
    output.show(result, chosen.json, f"visr bench {chosen.what}, preset {preset}", rows)
    return 0


def _measure(chosen: Options, preset: str, seconds: float) -> dict[str, Any]:
    if chosen.what != "atari":
        options.refuse(chosen, ("num_envs",), "belongs to `visr bench atari`")
    if chosen.what == "grid":
        options.refuse(chosen, ("env",), "belongs to `visr bench minatar` and `visr bench atari`")
        from visr import bench

        return bench.grid(preset, seconds)
    game = _GAMES[chosen.what] if chosen.env is None else chosen.env
    if not game.startswith(_PREFIXES[chosen.what]):
        raise UserError(
            f"env = {game!r} is not a game of `visr bench {chosen.what}`; "
            f"give one like {_GAMES[chosen.what]}."
        )
    from visr import bench

    if chosen.what == "minatar":
        return bench.minatar(preset, game, seconds)
    num_envs = _NUM_ENVS if chosen.num_envs is None else chosen.num_envs
    return bench.atari(preset, game, num_envs, seconds, output.say)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_words(v)} {k.replace('_', ' + ')}" for k, v in value.items())
    if isinstance(value, list):
        return " to ".join(map(_words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
