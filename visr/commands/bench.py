"""visr bench: speed as a ratio of ours and of the limit, measured in turns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

from visr.commands import options, output
from visr.config import ATARI, MINATAR
from visr.errors import UserError

Name = Literal[
    "grid", "minatar", "atari", "replay", "infer", "refine", "explorer", "policy", "start"
]
_SECONDS = {"atari": 300.0, "grid": 20.0}
_OTHERS_SECONDS = 30.0
_PRESETS = {"grid": "grid", "minatar": "minatar", "atari": "atari", "replay": "replay-grid"}
_GAMES = {"minatar": "MinAtar/Breakout-v1", "atari": "ALE/Pong-v5"}
_PREFIXES = {"minatar": MINATAR, "atari": ATARI}
_NUM_ENVS, _MOST_PROCESSES = 32, 64
_REPLAY_PRESETS = ("replay-grid", "replay-vectors", "replay-minatar")


@dataclass(frozen=True)
class Options:
    """Measure speed and its limit in turns: the ratio of both, its spread, and the noise of the measurement.

    `grid`, `minatar`, `atari`: the training loop, against its networks and environments alone.
    `replay`: updates of the replay learner, against the passes of one batch.
    `infer`: w from 100,000 steps. `refine`: its updates. `explorer`: a stroke to its picture.
    `policy`: one action, beside ONNX Runtime. `start`: the help, `import visr`, the first trained steps.
    """

    what: Annotated[Name, tyro.conf.Positional] = "grid"
    """What to measure."""
    preset: str | None = None
    """Sizes of networks and batches: for `replay` a preset replay-..., by default replay-grid."""
    seconds: float | None = None
    """About how long to measure, at least eight turns; by default 20 (grid), 300 (atari) or 30."""
    env: Annotated[str | None, tyro.conf.arg(metavar="ENV")] = None
    """minatar, atari: which game; by default MinAtar/Breakout-v1, ALE/Pong-v5."""
    num_envs: int | None = None
    """atari: games side by side, by default 32; best a divisor or a multiple of the batch size."""
    num_processes: int | None = None
    """minatar: processes that act and learn, by default 1."""
    json: options.Json = False


def run(args: list[str]) -> int:
    """Measure and print."""
    chosen = options.parse(Options, args, "bench")
    seconds = (
        _SECONDS.get(chosen.what, _OTHERS_SECONDS) if chosen.seconds is None else chosen.seconds
    )
    if not 0 < seconds < math.inf:
        raise UserError(f"seconds = {seconds} must be a finite number greater than 0.")
    options.check_range(chosen, ("num_processes",), 1, _MOST_PROCESSES)
    preset = _PRESETS.get(chosen.what, "") if chosen.preset is None else chosen.preset
    from visr.bench import time_slices

    time_slices.ask_for_long_ones()
    result = _measure(chosen, preset, seconds)
    rows = [(name.replace("_", " "), _words(value)) for name, value in _flat(result).items()]
    title = f"visr bench {chosen.what}" + (f", preset {preset}" if preset else "")
    output.show(result, chosen.json, title, rows)
    return 0


def _measure(chosen: Options, preset: str, seconds: float) -> dict[str, Any]:
    if chosen.what != "atari":
        options.refuse(chosen, ("num_envs",), "belongs to `visr bench atari`")
    if chosen.what != "minatar":
        options.refuse(chosen, ("num_processes",), "belongs to `visr bench minatar`")
    if chosen.what not in _GAMES:
        options.refuse(chosen, ("env",), "belongs to `visr bench minatar` and `visr bench atari`")
        return _without_game(chosen, preset, seconds)
    game = _GAMES[chosen.what] if chosen.env is None else chosen.env
    if not game.startswith(_PREFIXES[chosen.what]):
        raise UserError(
            f"env = {game!r} is not a game of `visr bench {chosen.what}`; "
            f"give one like {_GAMES[chosen.what]}."
        )
    if chosen.what == "minatar":
        from visr.bench import loops

        return loops.minatar(preset, game, seconds, chosen.num_processes or 1)
    from visr.bench import atari

    num_envs = _NUM_ENVS if chosen.num_envs is None else chosen.num_envs
    return atari.atari(preset, game, num_envs, seconds, output.say)


def _without_game(chosen: Options, preset: str, seconds: float) -> dict[str, Any]:
    if chosen.what == "grid":
        from visr.bench import loops

        return loops.grid(preset, seconds)
    if chosen.what == "replay":
        if preset not in _REPLAY_PRESETS:
            raise UserError(
                f"preset = {preset!r} is not measured by `visr bench replay`; "
                f"choose one of {', '.join(_REPLAY_PRESETS)}."
            )
        from visr.bench import replay

        return replay.replay(preset, seconds)
    options.refuse(chosen, ("preset",), "belongs to training loops")
    if chosen.what == "explorer":
        from visr.bench import strokes

        return strokes.explorer(seconds)
    from visr.bench import latency

    return getattr(latency, chosen.what)(seconds)


def _flat(result: dict[str, Any]) -> dict[str, Any]:
    """Results of several things measured as one dict, with the thing before each name."""
    if not all(isinstance(value, dict) for value in result.values()):
        return result
    return {f"{what}: {k}": v for what, found in result.items() for k, v in found.items()}


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
