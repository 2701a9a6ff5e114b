"""docs/results/speed.md from results/speed/; see results_pages.py."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from page_parts import DASH, NOTE, RESULTS, by, joined, read_if_there, table

SPEED_WORDS = """\
Every benchmark runs ours and its limit in turns, at least eight of each after a warm-up; every second turn has the opposite order.
The ratio is ours over the limit, the median over turns, with its quartiles in brackets. Times are CPU seconds of the busiest thread or
process, which is about what a run takes on idle cores; other programs change them little. *Noise* is the limit over itself in
neighbouring turns: 1 would be a perfect meter. Each benchmark was run twice, on a busy machine with two cores. Other programs empty the
caches, which slows a loop down more than a product that is repeated on the same numbers: the grid's ratio was
between .51 and .61 in eight runs, with seven to twelve programs on the two cores. *Quickest ratio* compares the quickest turns of both.

What a limit leaves out: the grid's is matrix products alone by `torch.matmul`, each with its factors stored as is quickest, without biases,
ReLUs, sampling of tasks, targets and Adam, which all cost time next to matrices this small. The loop itself multiplies its large matrices by
oneDNN, which on this AMD processor gives the same bits in half of the time. The replay learner's limit leaves out Adam, the target network's
step, sampling and relabelling; MinAtar's leaves out Adam and sampling. With two processes, a limit is half of one core's time, as if acting
and learning could be divided evenly: MinAtar's second process only acts and waits for the first, which only learns. `bench start`'s `training` is a whole run of one round, with its
evaluation, report and checkpoint. The passes of one action have w folded into the last layer
before, as a policy does once for each task. A painted reward's wall time is from the request to the last byte of the answer of a real server;
`idle` leaves out what its slowest thread waited for a core, because other programs ran."""


SPEED_LIMITS = {
    "grid": ("grid loop, two processes", "its matrix products on as many cores, and the bare grid"),
    "minatar": ("MinAtar loop, one process", "its networks' passes, and the bare game"),
    "minatar-2": ("MinAtar loop, two processes", "half of the same"),
    "atari-small": ("Atari loop, `atari-small`, one core", "the bare passes of its image torsos"),
    "atari": ("Atari loop, the paper's network, one core", "the bare passes of its image torsos"),
    "replay-grid": ("replay updates, grid", "losses and gradients of one batch"),
    "replay-vectors": ("replay updates, CartPole", "losses and gradients of one batch"),
    "replay-minatar": ("replay updates, MinAtar", "losses and gradients of one batch"),
    "infer": ("w from 100,000 steps, all methods validated", "one plain regression"),
    "refine": ("updates of refine, CartPole", "the network's passes"),
    "policy": ("one action for one observation", "psi's passes"),
    "explorer": ("painted reward to picture", "GPI in all states"),
    "start": ("start-up", "Python, or importing torch"),
}


def speed_page() -> str:
    rows, numbers = [], []
    for name, (what, limit) in SPEED_LIMITS.items():
        runs = [json.loads(path.read_text()) for path in _runs_of(name)]
        parts = [run if "ratio" not in run else {"": run} for run in runs]
        for part in parts[0] if parts else ():
            found = [one[part] for one in parts]
            (unit,) = (
                k for k in found[0] if k.endswith("_per_second") and f"limit_{k}" in found[0]
            )
            noise = ", ".join(f"{one['noise']:.2f}" for one in found)
            label = f"{what}: {part}" if part else what
            rates = [", ".join(_rate(one[k]) for one in found) for k in (unit, f"limit_{unit}")]
            rows.append([label, *_ratios(found), *rates, unit.split("_")[0], noise, limit])
            numbers += [
                [f"{label}: {key.replace('_', ' ')}", ", ".join(f"{one[key]:.3g}" for one in found)]
                for key in found[0]
                if key.endswith(("seconds", "steps", "ratio", "_mb", "percentile"))
                and key not in ("ratio", "wall_ratio")
            ]
    columns = ["ours", "ratio, run 1", "ratio, run 2", "per second", "the limit's"]
    columns += ["unit", "noise", "limit"]
    versions = [
        [
            one.get("old", "715ec78"),
            one["preset"],
            *(f"{q[1]:.2f} [{q[0]:.2f}, {q[2]:.2f}]" for q in (one["cpu"], one["wall"])),
        ]
        for one in json.loads((RESULTS / "speed/versions.json").read_text())
    ]
    return joined([
        "# Results: speed", NOTE, SPEED_WORDS, "```sh\nvisr bench grid --seconds 2 --json\n```",
        table(columns, rows), "## Seconds, memory and other ratios", table(["", "runs 1 and 2"], numbers),
        "## Before and after a change",
        "Seconds of an old commit over those after a change, in turns of whole rounds, two runs each: above 1 is faster. 715ec78 is the last\n"
        "commit before the restructuring, 5eb5546 the last one without oneDNN in the grid's networks, on two processes.\n\n"
        "```sh\ngit worktree add --detach OLD 715ec78\npython experiments/compare_versions.py OLD . --preset grid\n```",
        table(["old", "preset", "CPU time [quartiles]", "elapsed time"], versions),
        *_growth(),
        *_memory(),
        *_side_by_side(),
        TRIED_ON_CPU,
    ])  # fmt: skip


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def _growth() -> list[str]:
    """Time and memory by size, and the power of the size with which the time grew since the row before."""
    cells = []
    for (what,), rows in by(read_if_there("speed/growth.csv"), "what").items():
        for before, row in zip([None, *rows], rows, strict=False):
            power = ""
            if before is not None:
                times, sizes = (
                    math.log(float(row[k]) / float(before[k])) for k in ("cpu_seconds", "size")
                )
                power = f"{times / sizes:.2f}"
            size = f"{int(row['size']):,}"
            cells.append([what, size, row["cpu_seconds"], power, row["numpy_mb"]])
    columns = ["what grows", "size", "CPU seconds", "power", "MB of numpy"]
    words = (
        "The least CPU time of three calls, one thread. Power: the time grew as the size to this power; 1 is linear. More than linear is\n"
        "inference from d = 128 on: a linear regression needs the products of all pairs of features, d² numbers from every step, and solves d\n"
        "equations, which costs d³; below, parts that do not depend on d hide it. One policy of GPI is w alone, without GPI."
    )
    command = "```sh\npython experiments/growth.py results/speed/growth.csv\n```"
    return ["## Growth", words, command, table(columns, cells)] if cells else []


def _memory() -> list[str]:
    """Peak memory of a short run of each preset."""
    rows = [
        [f"`{row['preset']}`", row["env"], f"{int(row['num_steps']):,}", row["peak_mb"]]
        for row in read_if_there("speed/memory.csv")
    ]
    words = (
        "The largest resident memory of the process that learns, in a short run with at least one update. Replay learners\n"
        "also keep their steps: 60 bytes and one per event for each step of Breakout."
    )
    command = "```sh\npython experiments/preset_memory.py results/speed/memory.csv\n```"
    columns = ["preset", "environment", "steps", "MB"]
    return ["## Memory of every preset", words, command, table(columns, rows)] if rows else []


def _side_by_side() -> list[str]:
    """Steps per CPU second of other programs, beside ours."""
    cells = [
        [name, *(f"{int(row['steps_per_cpu_second']):,}" for row in rows)]
        for (name,), rows in by(read_if_there("speed/side_by_side.csv"), "program").items()
    ]
    words = (
        "Environment steps per CPU second of whole programs on one core, each with its own default network and numbers of\n"
        "environments and updates; from two numbers of steps, whose difference leaves out imports and compilation. On a busy machine, with\n"
        "programs run once except ours; JAX_VISR with gymnax 0.0.8, a present jax and its calls of flax brought up to date."
    )
    command = (
        "```sh\npython experiments/side_by_side.py results/speed/side_by_side.csv \\\n"
        '    "JAX_VISR, MinAtar Breakout=PYTHON JAX_VISR/VISR.py --num_steps {n/640}" \\\n'
        '    "CleanRL\'s dqn.py, CartPole=PYTHON cleanrl/dqn.py --total-timesteps {n}"\n```'
    )
    table_rows = table(
        ["program", "run 1", "run 2"], [[*row, *[DASH] * (3 - len(row))] for row in cells]
    )
    return ["## Beside other programs", words, command, table_rows] if cells else []


TRIED_ON_CPU = """\
## Tried on CPU, without a gain

- MinAtar's 64 environments in eight groups: 55 µs of CPU time a step for acting, 19 µs in one group, because networks this small cost the same for 8 and for
  64 observations. Processes therefore share groups out, and the preset has one.
- Huge pages for the C library's memory in the grid's loop: no difference in three runs.
- Counting events by shifts of flat, padded planes: a shift is five times faster, the padding costs what that saves."""


def _runs_of(name: str) -> list[Path]:
    return [path for k in (1, 2) if (path := RESULTS / f"speed/{name}-{k}.json").exists()]


def _ratios(found: list[dict[str, Any]]) -> list[str]:
    """The ratio of the first and of the second run."""
    cells = [
        f"{one['ratio']:.3g} [{', '.join(f'{q:.3g}' for q in one['ratio_quartiles'])}]"
        for one in found
    ]
    return [*cells, *[DASH] * (2 - len(cells))]
