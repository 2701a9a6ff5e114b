"""Environment steps per CPU second of whole programs on one core: ours and what one would use instead.

Every program runs with two numbers of steps; the difference leaves out imports, compilation and saving.
Other people's programs are fetched and installed beside this repository, and named as NAME=COMMAND with
{n} for their number of steps, or {n/640} where they count batches of 640:

python experiments/side_by_side.py results/speed/side_by_side.csv \\
    "JAX_VISR=PYTHON VISR.py --num_steps {n/640}" "CleanRL's dqn.py=PYTHON dqn.py --total-timesteps {n}"
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

_OURS = {
    "visr, MinAtar Breakout": "pretrain MinAtar/Breakout-v1 --algorithm visr",
    "replay learner, MinAtar Breakout": "pretrain MinAtar/Breakout-v1",
    "DQN of Stable-Baselines3, MinAtar Breakout": "pretrain MinAtar/Breakout-v1 --algorithm dqn",
    "visr, CartPole": "pretrain CartPole-v1 --algorithm visr",
    "DQN of Stable-Baselines3, CartPole": "pretrain CartPole-v1 --algorithm dqn",
}
_LEAST, _MOST = 32_000, 96_000
_FEWER = 4
"""Programs that update one environment at a time get a quarter of the steps."""


def main() -> None:
    """Measure every program twice, in turns."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    others = dict(argument.split("=", 1) for argument in sys.argv[2:])
    with Path(sys.argv[1]).open("w", newline="") as file, tempfile.TemporaryDirectory() as out:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["program", "run", "steps_per_cpu_second"])
        for run in (1, 2):
            ours = {
                name: f"{sys.executable} -m visr {words} --num-steps {{n}} --device cpu"
                for name, words in _OURS.items()
            }
            for index, (name, command) in enumerate({**ours, **others}.items()):
                share = _FEWER if "DQN" in name or "dqn" in name else 1
                sizes, seconds = (_LEAST // share, _MOST // share), []
                for size in sizes:
                    words = [_filled(word, size) for word in shlex.split(command)]
                    if index < len(ours):
                        words += ["--out", f"{out}/{run}-{index}-{size}"]
                    seconds.append(_cpu_seconds(words))
                rate = (sizes[1] - sizes[0]) / (seconds[1] - seconds[0])
                rows.writerow([name, run, f"{rate:.0f}"])
                file.flush()


def _filled(word: str, size: int) -> str:
    """A word of a command with the number of steps in the place of {n} or {n/K}."""
    return re.sub(r"\{n(?:/(\d+))?\}", lambda found: str(size // int(found[1] or 1)), word)


def _cpu_seconds(command: list[str]) -> float:
    """Of the process and all that it waited for."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    script = next((Path(word) for word in command if word.endswith(".py")), None)
    where = None if script is None else script.parent
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, cwd=where)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
