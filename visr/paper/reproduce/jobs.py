"""One job in a process of its own: `python -m visr.paper.reproduce.jobs`.

The first line of its input says what to do, and it ends when its input does: a runner that is killed takes
its jobs with it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from visr import config as configuration
from visr import pretraining
from visr.config import BASELINES, RunConfig
from visr.errors import UserError
from visr.paper.reproduce.agents import Way
from visr.paper.reproduce.plan import Counts
from visr.storage.files import write_json
from visr.storage.run_dir import RunDir
from visr.training.progress import Stopped

_PATIENCE = 15.0
_PROBE_SECONDS = 2.0


def train(run: RunDir, config: RunConfig, job: dict[str, Any]) -> None:
    """Train from nothing or from the last checkpoint, to the same end."""
    with run.locked(_PATIENCE):  # a worker whose driver was killed may not have noticed yet
        pass
    begun = run.config_file.exists()
    if begun and run.config() != config:
        raise UserError(f"{run.path} was made with other settings; choose another --out.")
    if begun:
        pretraining.resume(run.path)
    else:
        pretraining.start(run.path, config)
    write_json(run.job, job)


def evaluate(run: RunDir, counts: Counts) -> None:
    """The rewarded phase, each agent in its own way."""
    from visr import api
    from visr.evaluation import rewarded_phase

    if run.config().agent.algorithm in BASELINES:
        from visr.paper.baselines import play

        play.evaluate(run, num_trials=counts.trials, seed=run.config().training.seed)
        return
    loaded = api.load(run.path)
    cycles = counts.rewarded_episodes == 0
    result = rewarded_phase.run(
        loaded.agent,
        loaded.config,
        num_episodes=counts.rewarded_steps if cycles else counts.rewarded_episodes,
        num_steps=counts.rewarded_steps,
        num_trials=counts.trials,
        num_tasks=Counts.rewarded_episodes if cycles else None,
        seed=loaded.config.training.seed,
    )
    rewarded_phase.save(run, result, loaded.config, loaded.num_steps)


def probe(config: RunConfig, ways: Sequence[Way], counts: Counts) -> float:
    """Steps per second of training after a round to warm up, or of adapting where ways are named."""
    if ways:
        from visr.paper.reproduce.adaptation import probe as probe_adapting

        return probe_adapting(config, ways, counts, _PROBE_SECONDS)
    if config.agent.algorithm == "rainbow":
        from visr.paper.baselines.rainbow.training import probe as probe_rainbow

        return probe_rainbow(config, _PROBE_SECONDS)
    if config.agent.algorithm in BASELINES:
        from visr.paper.baselines.sb3 import probe as probe_baseline

        return probe_baseline(config, _PROBE_SECONDS)
    from visr.training.loop import Loop

    loop = Loop(configuration.replace(config, num_steps=10**12))
    rounds = loop.rounds()
    for _ in range(2):
        next(rounds)
    start, before = time.perf_counter(), loop.num_steps
    while time.perf_counter() - start < _PROBE_SECONDS:
        next(rounds)
    rounds.close()
    loop.close()
    return (loop.num_steps - before) / (time.perf_counter() - start)


def carry_out(told: dict[str, Any]) -> None:
    """Train, evaluate or adapt, as the order says; what is begun already goes on."""
    if told["phase"] == "train":
        train(RunDir(told["run"]), configuration.from_dict(told["config"]), told["job"])
    elif told["phase"] == "evaluate":
        evaluate(RunDir(told["run"]), Counts(**told["counts"]))
    else:
        from visr.paper.reproduce import adaptation

        adaptation.adapt(RunDir(told["run"]), told["ways"], Counts(**told["counts"]))


def _end_with_the_runner() -> None:
    def wait() -> None:
        while os.read(0, 1):  # not through sys.stdin, whose lock Python wants back when it ends
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _main() -> int:
    told = json.loads(sys.stdin.buffer.readline())
    _end_with_the_runner()
    try:
        if told["phase"] == "probe":
            config = configuration.from_dict(told["config"])
            speed = probe(config, told["ways"], Counts(**told["counts"]))
            print(json.dumps({"steps_per_second": speed}))
        else:
            carry_out(told)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except Stopped as stop:
        return 128 + stop.signal_number
    return 0


if __name__ == "__main__":
    sys.exit(_main())
