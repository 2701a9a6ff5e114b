"""One job in a process of its own: `python -m visr.paper.reproduce.jobs`.

The first line of its input is the job as JSON. The process exits when its input is closed, so jobs end
when their runner is killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from visr import config as configuration
from visr import pretraining
from visr.config import BASELINES, RunConfig
from visr.errors import Stopped, UserError
from visr.paper.reproduce.plan import Counts
from visr.storage.files import write_json
from visr.storage.run_dir import RunDir

_LOCK_TIMEOUT = 15.0


def run(arguments: dict[str, Any]) -> None:
    """Train, evaluate or adapt, as `runner.instructions` says; continue what was started before."""
    directory = RunDir(arguments["run"])
    if arguments["phase"] == "train":
        train(directory, configuration.from_dict(arguments["config"]), arguments["job"])
    elif arguments["phase"] == "evaluate":
        evaluate(directory, Counts(**arguments["counts"]))
    else:
        from visr.paper.reproduce import adaptation

        adaptation.adapt(directory, arguments["ways"], Counts(**arguments["counts"]))


def train(run: RunDir, config: RunConfig, job: dict[str, Any]) -> None:
    """Train from the start or from the last checkpoint; the result is the same."""
    with run.locked(_LOCK_TIMEOUT):  # a worker of a killed driver may still be running
        pass
    has_started = run.config_file.exists()
    if has_started and run.config() != config:
        raise UserError(f"{run.path} was made with other settings; choose another --out.")
    if has_started:
        pretraining.resume(run.path)
    else:
        pretraining.start(run.path, config)
    write_json(run.job, job)


def evaluate(run: RunDir, counts: Counts) -> None:
    """The rewarded phase of the run's agent."""
    from visr import api

    if run.config().agent.algorithm in BASELINES:
        from visr.paper.baselines import play

        play.evaluate(run, num_trials=counts.trials, seed=run.config().training.seed)
        return
    loaded = api.load(run.path)
    cycles = counts.rewarded_episodes == 0
    result = loaded.phase_two(
        num_episodes=counts.rewarded_steps if cycles else counts.rewarded_episodes,
        num_steps=counts.rewarded_steps,
        num_trials=counts.trials,
        num_tasks=Counts.rewarded_episodes if cycles else None,
        seed=loaded.config.training.seed,
    )
    result.save(run)


def _exit_when_input_closes() -> None:
    def wait() -> None:
        while os.read(0, 1):  # not through sys.stdin: Python takes its lock when it exits
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _main() -> int:
    arguments = json.loads(sys.stdin.buffer.readline())
    _exit_when_input_closes()
    try:
        run(arguments)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except Stopped as stop:
        return 128 + stop.signal_number
    return 0


if __name__ == "__main__":
    sys.exit(_main())
