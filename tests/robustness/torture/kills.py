"""`python -m tests.robustness.torture.kills`: kill commands at random; all must end the same.

Half of the signals strike at a random call that touches a file, the others at a random moment of the time
that the command took undisturbed: the command, its workers, or both. Half are SIGKILL; the others SIGTERM,
SIGINT, SIGHUP, and SIGSTOP followed by SIGKILL. A command that is done before counts no kill, whatever the
machine's speed.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.robustness.torture import victims
from tests.robustness.torture.processes import BLOWS, Blow, Ended, strike_at, visr
from tests.robustness.torture.victims import VICTIMS, Victim
from visr.storage.run_dir import RunDir

_MOST_KILLS = 4
"""In a row, of one and the same work."""
LOADED_ONCE = (
    *(f"visr.commands.{v}" for v in ("pretrain", "infer", "evaluate", "finetune", "report")),
    *("visr.api", "visr.finetuning", "visr.report", "matplotlib.backends.backend_agg"),
    *("torch.utils.tensorboard.writer", "torch._dynamo"),
)
"""Here, and not in every child."""
_ASKING = ("SIGTERM", "SIGINT")
"""These ask a training to stop: it saves a checkpoint."""
_READERS = (("infer", "--reward", "goal:1,1", "--name", "probe"), ("report",))


class Loss(Exception):
    """A result was lost, or nobody said what is wrong."""


class Torture:
    """One place, one seed, many kills."""

    def __init__(self, place: Path, seed: int) -> None:
        self._place, self._draw = place, random.Random(seed)
        self._prepared = place.parent / "prepared"
        self._whole: dict[str, tuple[dict[str, str], Ended]] = {}
        self.kills: collections.Counter[str] = collections.Counter()
        self.by_signal: collections.Counter[str] = collections.Counter()
        self.by_whom: collections.Counter[str] = collections.Counter()
        self.num_ends = self.num_looks = 0

    def strike(self, victim: Victim, at_most: int) -> None:
        """Strike a command a few times, let it finish, and compare with one that was left in peace."""
        wanted, undisturbed = self._undisturbed(victim)
        self._begin(victim)
        was_asked = False
        for _ in range(self._draw.randint(1, min(_MOST_KILLS, at_most))):
            blow = self._blow(victim, undisturbed)
            ended = self._run(victim, blow)
            if not ended.struck:
                break
            was_asked |= blow.signal in _ASKING
            self.kills[victim.name] += 1
            self.by_signal[blow.signal] += 1
            self.by_whom[ended.struck] += 1
            victims.refuse_torn_files(self._place)
            self._let_read(victim)
        ended = self._run(victim)
        if ended.code != 0:
            raise Loss(f"{victim.name} does not go on: {ended}")
        found = victims.results(self._place)
        differing = {k for k in found.keys() | wanted.keys() if found.get(k) != wanted.get(k)}
        if (
            was_asked
        ):  # then a checkpoint and a piece of the replay buffer were saved between two others
            differing -= {k for k in differing if _is_in_between(k, wanted)}
        if differing:
            raise Loss(f"{victim.name} came to another end: {sorted(differing)}")
        self.num_ends += 1

    def _undisturbed(self, victim: Victim) -> tuple[dict[str, str], Ended]:
        if victim.name not in self._whole:
            self._begin(victim)
            inside = strike_at(self._place, None)
            ended = visr(*victim.command(self._place), place=self._place, inside=inside)
            if ended.code != 0:
                raise Loss(f"{victim.name} fails undisturbed: {ended}")
            self._whole[victim.name] = (victims.results(self._place), ended)
        return self._whole[victim.name]

    def _begin(self, victim: Victim) -> None:
        """An empty place, always at the same path, or one with the prepared run."""
        shutil.rmtree(self._place, ignore_errors=True)
        if not victim.needs_run:
            self._place.mkdir()
            return
        if not self._prepared.exists():
            self._place.mkdir()
            victims.prepare(self._place)
            shutil.copytree(self._place, self._prepared)
            return
        shutil.copytree(self._prepared, self._place)

    def _blow(self, victim: Victim, undisturbed: Ended) -> Blow:
        """SIGKILL half of the time; at a call half of the time, if the parent is struck."""
        draw = self._draw
        name = "SIGKILL" if draw.random() < 0.5 else draw.choice(BLOWS[1:])
        whom = draw.choice(("parent", "worker", "both")) if victim.has_workers else "parent"
        if whom == "parent" and draw.random() < 0.5:
            return Blow(name, at_call=draw.randint(1, max(len(undisturbed.calls), 1)))
        return Blow(name, whom, after_seconds=draw.uniform(0, undisturbed.seconds))

    def _run(self, victim: Victim, blow: Blow | None = None) -> Ended:
        inside = strike_at(self._place, blow) if blow and blow.at_call else None
        ended = visr(
            *victim.command(self._place),
            place=self._place,
            blow=blow,
            inside=inside,
            look=lambda: self._refuse_held_lock(victim),
            leaving=victim.leaving,
        )
        if ended.left:
            raise Loss(f"{victim.name} leaves processes {ended.left} behind after {blow}")
        if not victims.said_well(ended):
            raise Loss(f"{victim.name} does not say what is wrong after {blow}: {ended}")
        return ended

    def _refuse_held_lock(self, victim: Victim) -> None:
        """The lock ends with the process that held it, whatever its workers still do."""
        if victim.name != "reproduce" and RunDir(self._place / "run").is_in_use:
            raise Loss(f"{victim.name} has ended, and its lock is still held")

    def _let_read(self, victim: Victim) -> None:
        """Now and then somebody looks at what the killed command left; here, at a copy of it."""
        if victim.name == "reproduce" or not (self._place / "run" / "config.json").exists():
            return
        if self._draw.random() < 0.3:
            copy = self._place.parent / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self._place / "run", copy, ignore=shutil.ignore_patterns("*.partial"))
            verb, *words = self._draw.choice(_READERS)
            ended = visr(verb, str(copy), *words, place=self._place)
            if not victims.said_well(ended):
                raise Loss(f"{verb} after a killed {victim.name}: {ended}")
            self.num_looks += 1


def _is_in_between(name: str, wanted: dict[str, str]) -> bool:
    """Whether a file is a checkpoint before the last, or a piece of the replay buffer."""
    path = Path(name)
    newest = max((k for k in wanted if Path(k).parent == path.parent), default="")
    return path.parent.name == "replay" or (path.parent.name == "checkpoints" and name != newest)


def schedule(names: list[str], num_kills: int) -> dict[str, int]:
    """How many kills each victim gets: by its share, and at least one."""
    total = sum(VICTIMS[name].share for name in names)
    quota = {name: max(1, num_kills * VICTIMS[name].share // total) for name in names}
    quota[names[0]] += max(0, num_kills - sum(quota.values()))
    return quota


def torture(place: Path, names: list[str], num_kills: int, seed: int) -> dict[str, object]:
    """All kills; raises `Loss` at the first one that something did not survive."""
    began, work = time.monotonic(), Torture(place, seed)
    for name, quota in schedule(names, num_kills).items():
        while (left := quota - work.kills[name]) > 0:
            work.strike(VICTIMS[name], left)
            told = f"\r{name}: {work.kills[name]} of {quota} kills, no loss"
            print(told, end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    return {
        "seed": seed,
        "kills": sum(work.kills.values()),
        "losses": 0,
        "by_command": dict(work.kills),
        "by_signal": dict(work.by_signal),
        "by_whom": dict(work.by_whom),
        "compared_to_the_undisturbed_end": work.num_ends,
        "looks_at_what_a_kill_left": work.num_looks,
        "seconds": round(time.monotonic() - began),
    }


def main() -> int:
    """Torture as asked; the figures go to stdout as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.robustness.torture.kills", description=__doc__
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=list(VICTIMS), default=list(VICTIMS))
    chosen = parser.parse_args()
    for module in LOADED_ONCE:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory(prefix="visr-torture-") as scratch:
        try:
            print(json.dumps(torture(Path(scratch) / "x", chosen.only, chosen.kills, chosen.seed)))
        except Loss as loss:
            print(f"LOSS: {loss}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
