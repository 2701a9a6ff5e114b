"""Peak memory of every preset: a short run of each, with at least one update, as CSV.

python experiments/preset_memory.py results/speed/memory.csv
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from visr.bench.replay import ENVS
from visr.config import presets

_GAMES = {
    **dict.fromkeys(("paper", "atari", "atari-small"), "ALE/Pong-v5"),
    **dict.fromkeys(("minatar", "minatar-plus"), "MinAtar/Breakout-v1"),
    "classic": "CartPole-v1",
    **ENVS,
}
"""The environment of each preset that is not for the grid."""
_ROUNDS = 2
_WARM_UP, _UPDATES = 20_000, 20


def main() -> None:
    """Run every preset, or those named after the file, and write the largest process's peak."""
    names = sys.argv[2:] or presets.PRESETS
    with Path(sys.argv[1]).open("w", newline="") as file, tempfile.TemporaryDirectory() as out:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["preset", "env", "num_steps", "peak_mb"])
        for name in names:
            config, env = presets.get(name), _GAMES.get(name, "visr/Grid-v0")
            steps = _ROUNDS * config.training.num_envs * config.training.unroll_length
            settings: list[object] = ["--num-steps", steps]
            if config.replay.warmup_steps and config.agent.algorithm == "replay":
                steps = 2 * _WARM_UP
                settings = ["--num-steps", steps, "--warmup-steps", _WARM_UP]
                settings += ["--num-updates", _UPDATES]
            command = [sys.executable, "-m", "visr", "pretrain", env, "--preset", name]
            command += [*map(str, settings), "--out", f"{out}/{name}"]
            rows.writerow([name, env, steps, f"{_peak_mb(command):.0f}"])
            file.flush()


def _peak_mb(command: list[str]) -> float:
    """The largest resident memory of a command's process, or of one that it waited for."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_maxrss / 2**10


if __name__ == "__main__":
    main()
