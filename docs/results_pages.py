"""Write docs/results/*.md and the numbers of README.md from results/ and the packed models: `make results`.

Every number is read from a file. tests/test_site.py compares the pages with the files.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from visr import envs
from visr.config import RunConfig
from visr.envs.grid import dynamic_programming as dp
from visr.evaluation.grid_benchmark import GridBenchmark
from visr.paper.suite import build, claims, tables
from visr.paper.suite.entries import Entry, Suite, name_of
from visr.paper.suite.tables import Table
from visr.storage import packed_models
from visr.storage.records.two_phase import TwoPhase
from visr.storage.run_dir import RunDir

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PLACE = Path(__file__).parent / "results"
NOTE = "<!-- Written by `make results` from results/. Edit docs/results_pages.py instead. -->"
DASH = "–"
Rows = Sequence[Sequence[str]]
Csv = list[dict[str, str]]

GRID_WORDS = """\
Values are exact: 0 is a random policy, 1 an optimal one, (V - V_random) / (V_optimal - V_random), with discount
0.95, averaged over all start cells and 50 unseen tasks of each family. *Own* is w's own greedy policy, *GPI* maximises
over w and its neighbours, *planned* is an optimal policy for the fitted reward phi . w, scored on the true one. It is no bound: where the fit is poor, the
agent's own policy can do better. These are VISR's agents; the replay learner has [a page of its own](replay.md#grid-worlds)."""


# ---- helpers


def read(path: str) -> Csv:
    """The rows of a CSV file below results/."""
    with (RESULTS / path).open(newline="") as file:
        return list(csv.DictReader(file))


def read_if_there(path: str) -> Csv:
    """The rows of a CSV file; none before its experiment was run."""
    return read(path) if (RESULTS / path).exists() else []


def by(rows: Csv, *columns: str) -> dict[tuple[str, ...], Csv]:
    """Rows with the same values in these columns, in the order in which they appear."""
    found: dict[tuple[str, ...], Csv] = {}
    for row in rows:
        found.setdefault(tuple(row[column] for column in columns), []).append(row)
    return found


def table(columns: Sequence[str], rows: Rows) -> str:
    """A Markdown table; columns of numbers are aligned to the right, the first one never."""
    texts = [{row[i] for row in rows} for i in range(1, len(columns))]
    rule = ["---", *("---" if any(map(_is_text, cells)) else "---:" for cells in texts)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))


def _is_text(cell: str) -> bool:
    return cell[:1].isalpha() or cell.startswith("`")


def markdown(shown: Table, heading: str | None = None) -> str:
    """A table of a suite with its caption, under a heading."""
    text = shown.files()[f"{shown.name}.md"]
    body = text.split("\n", 2)[2] if text.startswith("**") else text
    return f"## {heading or shown.title}\n\n{body.strip()}"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean ± standard deviation over seeds; a single value by itself."""
    shown = f"{statistics.mean(values):.{digits}f}"
    return f"{shown} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else shown


def short(steps: float) -> str:
    """38.4M for 38,400,000."""
    return f"{steps / 1e6:.3g}M" if steps >= 1e6 else f"{steps / 1e3:.3g}k"


def seeds_of(rows: Iterable[dict[str, str]]) -> str:
    """The seeds of these rows."""
    return ", ".join(sorted({row["seed"] for row in rows}, key=int))


# ---- the grid


def grid_page(suite: Suite | None, by_name: build.grid.ByName) -> str:
    parts = [
        "# Results: the grid world",
        NOTE,
        GRID_WORDS,
        _constant_action(),
        _presets(),
        _curves(),
    ]
    if suite is not None:
        words = (
            "5M reward-free steps, an eighth of the preset `grid`. VISR infers each task by regression on all states; Q-DIAYN "
            "uses the best of its skills by exact value.\n\n"
            "```sh\nvisr reproduce grid --num-steps 5000000 --seeds 0 1 2\n```"
        )
        judged = claims.tables(suite)
        parts += [f"## The paper's claims\n\n{words}"]
        parts += [markdown(t).replace("## ", "### ", 1) for t in judged]
        parts += [markdown(t).replace("## ", "### ", 1) for t in tables.robust(suite)]
        parts += [markdown(build.grid.table(by_name)).replace("## ", "### ", 1)]
        parts += ["![Intervals over seeds](../images/grid_intervals.png)"]
        parts += ["![The same agents over training, one line per seed](../images/grid_curves.png)"]
    parts += [_finetuning(), _variants("ablation"), _variants("beyond")]
    return _joined(parts)


def _constant_action() -> str:
    """The exact value of the best constant action; it depends on no run."""
    config = RunConfig()
    world = envs.exact_model(config)
    assert world is not None
    found = []
    for name, rewards in GridBenchmark(config, world).families.items():
        fractions = []
        for reward in rewards:
            low, high = dp.bounds(world.transitions, reward, world.start, dp.GAMMA)
            value = dp.best_constant(world.transitions, reward, world.start, dp.GAMMA)
            fractions.append(float((value - low) / (high - low)))
        found.append(f"{statistics.mean(fractions):.2f} on {name}")
    return f"The best constant action has {' and '.join(found)}."


def _presets() -> str:
    rows = []
    for path in sorted(RESULTS.glob("grid/tables/quality*.csv")):
        by_preset: dict[str, Csv] = {}
        for row in read(str(path.relative_to(RESULTS))):
            by_preset.setdefault(row["preset"], []).append(row)
        for preset, runs in by_preset.items():
            rows.append((_number(runs, "boxes"), [f"`{preset}`", *_quality(runs)]))
    rows.sort(key=lambda row: -row[0])
    columns = [
        "preset",
        "steps",
        "seeds",
        "random w: own / GPI",
        "boxes: own / GPI",
        "boxes: planned",
    ]
    columns += ["goal cells: own / GPI", "goal cells: planned"]
    words = (
        "Mean ± standard deviation over seeds.\n\n"
        "```sh\npython experiments/grid_quality.py runs/quality --presets grid --seeds 0 1 2\n```"
    )
    return f"## Presets of VISR\n\n{words}\n\n{table(columns, [cells for _, cells in rows])}"


def _number(runs: Csv, column: str) -> float:
    return statistics.mean(float(run[column]) for run in runs)


def _quality(runs: Csv) -> list[str]:
    def of(column: str) -> str:
        return spread([float(run[column]) for run in runs])

    cells = [short(float(runs[0]["num_steps"])), seeds_of(runs)]
    cells += [f"{of('span')} / {of('span_gpi')}", f"{of('boxes')} / {of('boxes_gpi')}"]
    return [*cells, of("boxes_planned"), f"{of('goals')} / {of('goals_gpi')}", of("goals_planned")]


def _curves() -> str:
    rows = []
    for path in sorted(RESULTS.glob("grid/curves/*.csv")):
        last = read(str(path.relative_to(RESULTS)))[-1]
        cells = [f"{float(last[c]):.3f}" for c in ("span_gpi", "boxes_gpi", "goals_gpi")]
        rows.append([f"`{path.name}`", short(float(last["num_steps"])), *cells])
    shown = table(
        ["file in `results/grid/curves/`", "steps", "random w", "boxes", "goal cells"], rows
    )
    return (
        f"## The end of each learning curve\n\nOne run each, with GPI, at the run's own ridge.\n\n{shown}\n\n"
        "![Fraction of optimal while grid-wide trains](../images/optimal.png)"
    )


def _finetuning() -> str:
    rows = read("grid/tables/finetune.csv")
    budgets = sorted({int(row["num_steps"]) for row in rows})
    kinds: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for row in rows:
        free = int(row["free_steps"])
        how = (
            f"{short(free)} reward-free steps"
            if free
            else ("from scratch" if row["from_scratch"] == "1" else "fine-tuned")
        )
        run = {
            "pretrained:grid": "`pretrained:grid-visr`",
            "pretrained:four-rooms": "four rooms, 7M steps",
        }
        key = (run.get(row["run"], row["run"]), row["family"], how)
        kinds.setdefault(key, {}).setdefault(int(row["num_steps"]), []).append(
            float(row["fraction_of_optimal"])
        )
    cells = [
        [f"{run}, {family}, {how}", str(max(map(len, found.values()))),
         *(f"{statistics.mean(found[n]):.2f}" if n in found else "" for n in budgets)]
        for (run, family, how), found in sorted(kinds.items())
    ]  # fmt: skip
    shown = table(["rewarded steps:", "tasks", *(f"{n:,}" for n in budgets)], cells)
    command = "python experiments/finetune_grid.py pretrained:grid-visr --num-tasks 3 --updates-per-round 16"
    return f"## Fine-tuning\n\nMean fraction of optimal over tasks, one seed. VISR models; those of four rooms are no longer part of the package.\n\n```sh\n{command}\n```\n\n{shown}"


def _variants(name: str) -> str:
    titles = {"ablation": "One setting at a time", "beyond": "Additions"}
    words = {
        "ablation": "Preset `demo-visr` with one change each, 2M steps, seed 0.",
        "beyond": "Preset `demo-visr` with one [addition](../agents/additions.md) each, 2M steps, seed 0. "
        "`forward` and `inverse` were removed since.",
    }
    commands = {
        "ablation": "python experiments/grid_ablation.py runs/ablation --num-steps 2000000",
        "beyond": "python experiments/beyond.py runs/beyond --num-steps 2000000",
    }
    keys = ("span", "boxes", "boxes_planned", "goals", "goals_planned")
    rows = [
        [row["variant"], *(f"{float(row[k]):.2f}" for k in keys)]
        for row in read(f"grid/tables/{name}.csv")
    ]
    columns = ["change", "random w", "boxes", "boxes: planned", "goal cells", "goal cells: planned"]
    picture = (
        "\n\n![Fractions of optimal by choice](../images/ablation.png)"
        if name == "ablation"
        else ""
    )
    warning = "Differences below about 0.1 mean little with one seed."
    return (
        f"## {titles[name]}\n\n{words[name]} {warning}\n\n```sh\n{commands[name]}\n```\n\n"
        f"{table(columns, rows)}{picture}"
    )


# ---- MinAtar


def minatar_page(suite: Suite) -> str:
    constant = {
        game: f"{_number(runs, 'best_constant'):.1f}"
        for (game,), runs in by(read("replay/minatar.csv"), "game").items()
    }
    parts = [
        "# Results: MinAtar",
        NOTE,
        f"{suite.scale_words} Scores are means of 30 whole episodes. 2M reward-free steps unless a row says otherwise; then 100,000 "
        "rewarded steps shared among 50 tasks in turn.",
        _replay(suite),
        "## Every agent, by game",
        "Mean over seeds, and the standard deviation. @0, @100k: rewarded steps.",
        "```sh\nvisr reproduce minatar --seeds 0 1 2\nvisr reproduce beyond --seeds 0 1 2\n```",
        _by_game(suite, constant),
        *(markdown(t) for t in claims.tables(suite)),
        *(markdown(t) for t in tables.robust(suite)),
        "![IQM, median and mean of all that was run](../images/minatar_intervals.png)",
    ]
    return _joined(parts)


def _replay(suite: Suite) -> str:
    found: dict[str, Csv] = {}
    for row in read("replay/minatar.csv"):
        found.setdefault(row["game"], []).append(row)
    rows = []
    for game, runs in sorted(found.items()):
        scores = [float(run["score"]) for run in runs]
        normal = [suite.normalised(score, f"MinAtar/{game}-v1") for score in scores]
        error = runs[0]["standard_error"]
        shown = spread(scores, 1) if len(runs) > 1 else f"{scores[0]:.1f} ± {float(error):.1f}"
        rows.append([
            game, shown, f"{_number(runs, 'random'):.1f}", f"{_number(runs, 'best_constant'):.1f}", f"{statistics.mean(normal):.0f}",
            f"{_number(runs, 'r_squared'):.2f}", seeds_of(runs), f"{_number(runs, 'cpu_seconds') / 60:.1f}",
        ])  # fmt: skip
    columns = ["game", "score", "random policy", "best constant action", "score in %"]
    columns += ["held-out R^2", "seeds", "CPU minutes"]
    return (
        "## The replay learner\n\nPreset `replay-minatar`, 1M reward-free steps, no weight changes after pre-training. ± is the standard error of 30 "
        "episodes, or with several seeds the standard deviation over them.\n\n"
        "```sh\npython experiments/replay_minatar.py Breakout Asterix Freeway Seaquest SpaceInvaders\n```\n\n"
        f"{table(columns, rows)}\n\n*Score in %*: 0 is the random policy, 100 NSQ @10M. Its interquartile mean is {_replay_iqm(suite):.0f}."
    )


def _by_game(suite: Suite, constant: dict[str, str]) -> str:
    games = [name_of(game) for game in suite.games]
    rows = [_entry(suite, entry) for entry in suite.entries]
    rows.append(["best constant action", "", "", *(constant.get(game, DASH) for game in games)])
    return table(["agent", "steps", "seeds", *games], rows)


def _entry(suite: Suite, entry: Entry) -> list[str]:
    cells = []
    for game in suite.games:
        scores = list(entry.scores.get(game, {}).values())
        cells.append(spread(scores, 1) if scores else DASH)
    steps = short(entry.key.num_steps) if entry.key.num_steps else ""
    return [entry.key.name, steps, ", ".join(map(str, sorted(entry.seeds))), *cells]


# ---- the replay learner

REPLAY_WORDS = """\
The [replay learner](../agents/replay.md) after pre-training, without weight changes: w by regression, then GPI over w and
its library. *Own policy* is the policy of w alone. Scores are means over seeds ± the standard deviation; with one seed, ± is the
standard error over 30 episodes where scores are sampled."""


WORLDS = {
    "open-10": "open grid, 10 x 10",
    "rooms-11": "four rooms, 11 x 11",
    "open-20": "open grid, 20 x 20",
    "rooms-21": "four rooms, 21 x 21",
}


def replay_page() -> str:
    parts = ["# Results: the replay learner", NOTE, REPLAY_WORDS]
    parts += [_replay_grid(), _replay_vectors(), _replay_features()]
    parts += [
        "## MinAtar\n\nThe scores are on [the page of MinAtar](minatar.md#the-replay-learner)."
    ]
    return _joined(parts)


def _replay_grid() -> str:
    rows = []
    for (world, tasks), runs in by(read_if_there("replay/grid.csv"), "world", "tasks").items():
        scores = spread([float(run["mean"]) for run in runs], 3)
        worst = min(float(run["worst"]) for run in runs)
        cells = [scores, "0", f"{_number(runs, 'best_constant'):.2f}", f"{worst:.2f}"]
        cells += [f"{_number(runs, 'own_policy'):.3f}", seeds_of(runs)]
        cells += [short(float(runs[0]["steps"])), f"{_number(runs, 'cpu_seconds'):.0f}"]
        rows.append([f"{WORLDS.get(world, world)}, {tasks}", *cells])
    if not rows:
        return ""
    columns = ["world, tasks", "fraction of optimal", "random policy", "best constant action"]
    columns += ["worst task", "own policy", "seeds", "steps", "CPU seconds"]
    words = "Exact fractions of optimal, 64 unseen tasks of each kind."
    command = "python experiments/replay_grid.py open-10 rooms-11 open-20 rooms-21 --seeds 0 1 2"
    return f"## Grid worlds\n\n{words}\n\n```sh\n{command}\n```\n\n{table(columns, rows)}"


def _replay_vectors() -> str:
    rows = []
    for (env, reward), runs in by(read_if_there("replay/vectors.csv"), "env", "reward").items():
        cells = [_sampled(runs)]
        cells += [f"{_number(runs, k):.1f}" for k in ("random", "best_constant", "own_policy")]
        cells += [f"{_number(runs, 'r_squared'):.2f}", seeds_of(runs)]
        cells += [f"{_number(runs, 'cpu_seconds'):.0f}" if runs[0]["cpu_seconds"] else DASH]
        rows.append([f"{env}, `{reward}`", *cells])
    if not rows:
        return ""
    columns = ["asked", "return", "random policy", "best constant action"]
    columns += ["own policy", "held-out R^2", "seeds", "CPU seconds"]
    command = (
        "python experiments/replay_vectors.py CartPole-v1 MountainCar-v0 Acrobot-v1 --seeds 0 1 2"
    )
    words = "Returns of the asked reward, 30 episodes."
    return f"## Vectors\n\n{words}\n\n```sh\n{command}\n```\n\n{table(columns, rows)}"


def _replay_features() -> str:
    keys = ("environment", "asked", "features")
    rows = []
    for (env, asked, kind), runs in by(read_if_there("replay/features.csv"), *keys).items():
        cells = [seeds_of(runs), runs[0]["num_features"], runs[0]["cpu_seconds"] or DASH]
        cells += [_mean_if_there(runs, column) for column in ("score", "planned", "r_squared")]
        rows.append([f"{env}, {asked}", f"`{kind}`", *cells])
    if not rows:
        return ""
    columns = ["asked", "features", "seeds", "d", "CPU seconds", "score", "planned", "held-out R^2"]
    words = (
        "The same small budget for all kinds of features. On the grid scores are fractions of optimal, and *planned* is exact "
        "planning on the reward that the features represent. Where only R^2 is given, psi was not trained."
    )
    return f"## Fixed and learned features\n\n{words}\n\n{table(columns, rows)}"


def _mean_if_there(runs: Csv, column: str) -> str:
    values = [float(run[column]) for run in runs if run.get(column)]
    return f"{statistics.mean(values):.2f}" if values else DASH


def _sampled(runs: Csv) -> str:
    if len(runs) > 1:
        return spread([float(run["score"]) for run in runs], 2)
    error = runs[0]["standard_error"]
    return f"{float(runs[0]['score']):.2f}" + (f" ± {float(error):.2f}" if error else "")


# ---- Atari, classic control


def _constant_actions() -> dict[str, str]:
    """The mean return of the best constant action and its standard error, by environment."""
    rows = read("constant_actions.csv")
    return {
        row["env"]: f"{float(row['mean']):,.1f} ± {float(row['standard_error']):,.1f}"
        for row in rows
    }


def _constant_wins(rows: Rows) -> str:
    """The games in which no learnt policy scores as much as a constant action."""
    columns = [[float(cell.split(" ±")[0].replace(",", "")) for cell in row[1:6]] for row in rows]
    games = [row[0] for row, means in zip(rows, columns, strict=True) if means[4] >= max(means[:3])]
    return (
        f"No learnt policy reaches the best constant action on {', '.join(games)}. "
        if games
        else ""
    )


def atari_page() -> str:
    rows, constant = [], _constant_actions()
    for path in sorted(RESULTS.glob("atari/visr/*/seed-*")):
        directory = RunDir.open(path)
        record = TwoPhase.load(directory.phase_two, directory.config().env)
        found = {c.name.split(" (")[0]: c for c in record.conditions}
        names = ("env-regression", "env-search", "@0", "random policy")
        cells = [f"{found[n].mean:,.1f} ± {found[n].standard_error:,.1f}" for n in names]
        game = path.parent.name.removeprefix("ALE-").removesuffix("-v5")
        seen = f"{record.num_seen:,} of {record.num_rewarded_steps:,}"
        cells += [constant.get(record.env, DASH), path.name.removeprefix("seed-")]
        rows.append([game, *cells, short(record.num_steps), seen])
    columns = ["game", "regression", "random search", "@0", "random policy", "best constant action"]
    columns += ["seed", "steps", "steps with a reward"]
    return _joined([
        "# Results: Atari", NOTE,
        "Preset `atari-small`, one core per game, at most 2M steps; the paper has 250M. Raw scores, mean ± standard error of 30 episodes; "
        "tasks inferred from the same 50 episodes. *@0* draws a new task every 40 steps. The best constant action was chosen by 3 other episodes "
        "(`python experiments/constant_actions.py`).",
        "```sh\nvisr pretrain ALE/MsPacman-v5 --preset atari-small --out runs/MsPacman\nvisr evaluate runs/MsPacman\n```",
        table(columns, rows),
        f"{_constant_wins(rows)}[The appendix](appendix_atari.md) says what the scores show and what limits them. The published rows of the paper and ours side by side: `visr report results/`.",
        "![Ms. Pac-Man: 30 episodes of each method](../images/atari_mspacman.png)",
        "![Up'n Down: 30 episodes of each method](../images/atari_upndown.png)",
        "Scores of the rewarded environments during training:",
        "![Ms. Pac-Man during training](../images/atari_mspacman_online.png)",
        "![Up'n Down during training](../images/atari_upndown_online.png)",
    ])  # fmt: skip


def classic_control_page() -> str:
    by_env: dict[str, Csv] = {}
    for row in read("small_worlds/scores.csv"):
        by_env.setdefault(row["env"], []).append(row)
    parts = [
        "# Results: classic control, and every method on MinAtar", NOTE,
        "VISR, presets `classic` and `minatar`, 2M reward-free steps, then 100,000 rewarded steps of the environment's own reward; mean return of 30 episodes ± "
        "standard error, each seed by itself. *Chosen* is the method that `best` chose. Scores of the "
        "replay learner: [vectors](replay.md#vectors), [MinAtar](minatar.md#the-replay-learner).",
        "```sh\npython experiments/small_worlds.py runs/classic --envs CartPole-v1 Acrobot-v1 MountainCar-v0 --seeds 0 1 2\n```",
    ]  # fmt: skip
    constant = _constant_actions()
    constant |= {
        f"MinAtar/{row['game']}-v1": f"{float(row['best_constant']):.1f}"
        for row in read("replay/minatar.csv")
    }
    for env, found in by_env.items():
        seeds = sorted({row["seed"] for row in found}, key=int)
        methods = list(dict.fromkeys(row["method"] for row in found))
        rows = []
        for method in methods:
            by_seed = {row["seed"]: row for row in found if row["method"] == method}
            cells = [_return(by_seed[s]) if s in by_seed else DASH for s in seeds]
            rows.append([method.split(" (")[0], *cells])
        rows.append(["best constant action", *[constant.get(env, DASH)] * len(seeds)])
        parts += [f"## {env}", table(["method", *(f"seed {s}" for s in seeds)], rows)]
    return _joined(parts)


def _return(row: dict[str, str]) -> str:
    chosen = " (chosen)" if row["chosen"] == "1" else ""
    return f"{float(row['mean']):.1f} ± {float(row['standard_error']):.1f}{chosen}"


# ---- speed

SPEED_WORDS = """\
Every benchmark runs ours and its limit in turns, at least eight of each after a warm-up; every second turn has the opposite order.
The ratio is ours over the limit, the median over turns, with its quartiles in brackets. Times are CPU seconds of the busiest thread or
process, which is about what a run takes on idle cores; other programs change them little. *Noise* is the limit over itself in
neighbouring turns: 1 would be a perfect meter. Each benchmark was run twice, on a busy machine with two cores.

What a limit leaves out: the grid's is matrix products alone, without biases, ReLUs, sampling of tasks, targets and Adam, which all cost
time next to matrices this small; the replay learner's leaves out Adam, the target network's step, sampling and relabelling; MinAtar's leaves
out Adam and sampling. With two processes, a limit is half of one core's time, as if acting and learning could be divided evenly:
MinAtar's second process only acts and waits for the first, which only learns. `bench start`'s `training` is a whole run of one round, with its
evaluation, report and checkpoint. A ratio above 1 (one action on the grid) says that the passes as measured are no limit; why is not known."""

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
            one["preset"],
            *(f"{q[1]:.2f} [{q[0]:.2f}, {q[2]:.2f}]" for q in (one["cpu"], one["wall"])),
        ]
        for one in json.loads((RESULTS / "speed/versions.json").read_text())
    ]
    return _joined([
        "# Results: speed", NOTE, SPEED_WORDS, "```sh\nvisr bench grid --seconds 2 --json\n```",
        table(columns, rows), "## Seconds, memory and other ratios", table(["", "runs 1 and 2"], numbers),
        "## Before and after the restructuring",
        "Seconds of commit 715ec78 over those of the code of now, in turns of whole rounds, two runs each: above 1 is faster now.\n\n"
        "```sh\ngit worktree add --detach OLD 715ec78\npython experiments/compare_versions.py OLD . --preset grid\n```",
        table(["preset", "CPU time [quartiles]", "elapsed time"], versions),
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
    words = "The least CPU time of three calls, one thread. Power: the time grew as the size to this power; 1 is linear."
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


# ---- packed models


FIRST_MODELS = ("grid", "four-rooms", "cartpole", "acrobot", "mountaincar")


def models_page() -> str:
    names = packed_models.names()
    names.sort(key=lambda n: (FIRST_MODELS.index(n) if n in FIRST_MODELS else 9, n == "grid-visr"))
    cards = [packed_models.open_model(f"{packed_models.PREFIX}{name}").card for name in names]
    kinds = ("reward", "goal", "demonstration")
    rows = [
        [
            f"[`{card.name}`](#{card.name})",
            f"`{card.config.env}`",
            *(_first_score(card, k) for k in kinds),
        ]
        for card in cards
    ]
    parts = [
        "# Pre-trained models", NOTE,
        "These models come with the package. None saw a reward in training, and no weight changed for these scores.",
        "```python\nimport visr\n\nrun = visr.load(\"pretrained:grid\")\nprint(run.evaluate(run.infer(\"row > 5 and col < 3\")))\n```",
        "On the command line: `visr infer pretrained:grid --reward \"row > 5 and col < 3\" --name corner`.",
        "## Overview",
        "Score of one prompt of each kind; in brackets a random policy and the best constant action. Bold: clearly better than both. On the grids 1 is optimal; elsewhere scores are mean returns.",
        table(["model", "environment", *kinds], rows).replace("---:", "---"),
        "`make model RUN=runs/x NAME=x` packs a finished run, scores and films it, and writes this page.",
    ]  # fmt: skip
    for card in cards:
        parts += [f"## {card.name}", *card_parts(card)]
    return _joined(parts)


def _first_score(card: packed_models.Card, kind: str) -> str:
    found = next((one for one in card.scores.by_prompt if one.kind == kind), None)
    if found is None:
        return "not possible"
    constant = DASH if found.best_constant is None else f"{found.best_constant:g}"
    beaten = max(found.random, found.best_constant or found.random) + 2 * (
        found.standard_error or 0
    )
    score = f"**{found.score:g}**" if found.score > beaten else f"{found.score:g}"
    return f"{score} ({found.random:g}, {constant})"


def card_parts(card: packed_models.Card) -> list[str]:
    """What the model is, a film, what it can and cannot do, and how to make it again."""
    film = PLACE.parent / f"images/models/{card.name}.gif"
    about = f"{card.about} Environment `{card.config.env}`, seed {card.seed}, weights in {card.precision}."
    words = f"{card.name} obeys one prompt of each kind in turn"
    shown = f"![{words}](../images/models/{card.name}.gif)" if film.exists() else ""
    recipe = "```text\n" + "\n".join(card.recipe) + "\n```"
    return [about, shown, *_can(card), *_cannot(card), "Make it again:", recipe]


def _can(card: packed_models.Card) -> list[str]:
    """Scores by kind of prompt."""
    columns = ["prompt", "asked for", "score", "random policy", "best constant action", "unit"]
    rows = [
        [one.kind, one.prompt, _with_error(one), f"{one.random:g}",
         DASH if one.best_constant is None else f"{one.best_constant:g}", one.unit]
        for one in card.scores.by_prompt
    ]  # fmt: skip
    if rows:
        aligned = "| --- | --- | ---: | ---: | ---: | --- |"
        lines = table(columns, rows).split("\n")
        return ["**Scores**", "\n".join([lines[0], aligned, *lines[2:]])]
    return []


def _with_error(one: packed_models.PromptScore) -> str:
    error = "" if one.standard_error is None else f" ± {one.standard_error:g}"
    return f"{one.score:g}{error}"


def _cannot(card: packed_models.Card) -> list[str]:
    sentences = "\n".join(f"- {sentence}" for sentence in card.cannot)
    return ["**What it cannot do**", sentences] if sentences else []


# ---- all of them


def index_page(minatar: Suite) -> str:
    """What to expect, with links."""
    quality = read("grid/tables/quality.csv")
    replay = read("replay/minatar.csv")
    rows = [
        *_replay_grid_rows(),
        ["MinAtar, five games", "replay learner", f"IQM {_replay_iqm(minatar):.0f}", seeds_of(replay), "[MinAtar](minatar.md)"],
        ["grid 10 x 10, two boxes", "VISR, preset `grid`", f"{_number(quality, 'boxes'):.2f} of optimal",
         seeds_of(quality), "[grid](grid.md)"],
        ["grid 10 x 10, goal cells", "VISR, preset `grid`", f"{_number(quality, 'goals'):.2f} of optimal",
         seeds_of(quality), "[grid](grid.md)"],
        _visr_row(minatar, "GPI VISR @100k", "VISR by regression"),
        _visr_row(minatar, "GPI VISR by search @100k", "VISR by search"),
    ]  # fmt: skip
    return _joined([
        "# Results", NOTE,
        "No weight changes after pre-training. On the grid 0 is a random policy and 1 an optimal one. On MinAtar 0 is a random policy and 100 "
        "is NSQ after 10M rewarded steps; IQM is the interquartile mean, with its 95 % interval if there are several seeds.",
        table(["where", "agent", "score", "seeds", "more"], rows).replace("---:", "---"),
        "All tables are written from the files in `results/` by `make results`; `results/README.md` says which command made each file. Presets were "
        "chosen on the grid's families of tasks and on MinAtar's Breakout and Asterix, so these numbers are optimistic there.",
        "[The report](../report.md) says what of the paper was reproduced, in the form of a paper; [Table 1](table1.md) sets its rows beside ours.",
        "What was tried, what did not work, and how settings were chosen: the appendices on [the paper's agents](appendix_paper.md), [Atari](appendix_atari.md), [the cluster](appendix_cluster.md), "
        "[the replay learner](appendix_replay.md), [the additions](appendix_additions.md) and [the settings of `grid-wide`](appendix_ablation.md). Numbers in the appendices are those of "
        "the day on which they were written.",
        "```{toctree}\n:hidden:\n\n../report\ntable1\nreplay\ngrid\nminatar\natari\nclassic_control\nspeed\nmodels\nappendix_paper\nappendix_atari\nappendix_cluster\n"
        "appendix_replay\nappendix_additions\nappendix_ablation\n```",
    ])  # fmt: skip


def _visr_row(suite: Suite, name: str, words: str) -> list[str]:
    entry = next(e for e in suite.entries if e.key.name == name and len(e.seeds) > 1)
    found = suite.aggregates[entry.key, "all"]
    seeds = ", ".join(map(str, sorted(entry.seeds)))
    score = f"IQM {tables.with_interval(found.iqm, found.iqm_interval)}"
    return ["MinAtar, five games", words, score, seeds, "[MinAtar](minatar.md)"]


def _replay_grid_rows() -> list[list[str]]:
    rows = []
    for (world, tasks), runs in by(read_if_there("replay/grid.csv"), "world", "tasks").items():
        if world == "open-10" and tasks in ("boxes", "goals"):
            words = "two boxes" if tasks == "boxes" else "goal cells"
            score = f"{spread([float(run['mean']) for run in runs], 3)} of optimal"
            where = f"grid 10 x 10, {words}"
            rows.append([where, "replay learner", score, seeds_of(runs), "[replay](replay.md)"])
    return rows


def _replay_iqm(suite: Suite) -> float:
    scaled = sorted(
        suite.normalised(float(row["score"]), f"MinAtar/{row['game']}-v1")
        for row in read("replay/minatar.csv")
    )
    return float(np.mean(scaled[len(scaled) // 4 : len(scaled) - len(scaled) // 4]))


# ---- the numbers of README.md

README = ROOT / "README.md"
START, END = "<!-- numbers: `make results` writes them -->", "<!-- end of the numbers -->"
GAMES = "Asterix Breakout Freeway Seaquest SpaceInvaders"


def with_numbers(page: Path, numbers: str) -> str:
    """A page with the table between its two marks made again."""
    before, _, rest = page.read_text().partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{numbers}\n\n{END}{after}"


def _replay_scores() -> str:
    """The replay learner's scores for its agent's page: a row for each world, environment and game."""
    tables = [
        ("replay/grid.csv", "world", "tasks", "mean", "{}: fraction of optimal", 3),
        ("replay/vectors.csv", "env", "reward", "score", "{}: return", 1),
        ("replay/minatar.csv", "game", "", "score", "MinAtar {}: score", 1),
    ]
    rows = []
    for path, where, asked, score, words, digits in tables:
        for (name,), found in by(read_if_there(path), where).items():
            groups = by(found, asked) if asked else {("its own reward",): found}
            shown = ", ".join(
                f"{_words(kind)} {_number(runs, score):.{digits}f}"
                for (kind,), runs in groups.items()
            )
            rows.append([words.format(WORLDS.get(name, name)), shown, seeds_of(found)])
    return table(["where", "score", "seeds"], rows).replace("---:", "---")


def _refined(suite: Suite) -> str:
    """The tables of docs/guides/refine.md: instant and refined policies."""
    parts = []
    rows = []
    for (world, tasks), runs in by(read_if_there("refine/grid.csv"), "world", "tasks").items():
        shown = [f"{world}, {tasks}", seeds_of(runs)]
        for policy in ("instant", "refined"):
            worst = min(float(run[f"{policy}_worst"]) for run in runs)
            scores = spread([float(run[policy]) for run in runs], 3)
            shown.append(f"{scores} ({worst:.3f})")
        worse = sum(int(run["made_worse"]) for run in runs)
        cost = f"{_number(runs, 'cpu_seconds'):.2f}"
        rows.append([*shown, str(worse), cost])
    if rows:
        columns = ["world, tasks", "seeds", "instant (worst task)", "refined (worst task)"]
        columns += ["tasks made worse", "CPU seconds a task"]
        parts += [
            "Exact fractions of optimal on 64 unseen tasks of each kind, refined until done:",
            table(columns, rows),
            "```sh\npython experiments/refine_grid.py open-10 rooms-11 --seeds 0 1 2\n```",
        ]
    games = read_if_there("refine/minatar.csv")
    rows = []
    for row in games:
        n = row["n_step"] and f", n = {row['n_step']}"
        scaled = suite.normalised(float(row["score"]), f"MinAtar/{row['game']}-v1")
        score = f"{row['score']} ± {row['standard_error']}"
        cells = [row["updates"], row["cpu_seconds"], row["trial"], score, f"{scaled:.0f}"]
        rows.append(
            [f"{row['game']}, {row['policy']}{n}", row["seed"], *(x or DASH for x in cells)]
        )
    if rows:
        columns = ["game, policy", "seed", "updates", "CPU seconds", "trial", "score", "of 100"]
        names = " ".join(dict.fromkeys(row["game"] for row in games))
        parts += [
            "MinAtar, 30 episodes, 100,000 rewarded steps. *Trial*: mean return in the rewarded steps that choose n. *Of 100*: 0 is "
            "a random policy and 100 NSQ after 10M rewarded steps.",
            table(columns, rows),
            f"```sh\npython experiments/refine_minatar.py {names}\n```",
        ]
    return "\n\n".join(parts)


def _words(asked: str) -> str:
    plain = {"boxes", "goals", "three goals", "16 cells", "its own reward"}
    return "its own reward" if asked == "env" else asked if asked in plain else f"`{asked}`"


def _expected(minatar: Suite) -> str:
    """Three scores, each with its seeds and its command."""
    quality, replay, games = (
        read(f"{name}.csv") for name in ("grid/tables/quality", "replay/grid", "replay/minatar")
    )
    replay = [row for row in replay if row["world"] == "open-10"]
    boxes, goals = (
        statistics.mean(float(row["mean"]) for row in replay if row["tasks"] == tasks)
        for tasks in ("boxes", "goals")
    )
    names = ("GPI VISR @100k", "GPI VISR by search @100k")
    visr = [next(e for e in minatar.entries if e.key.name == n and len(e.seeds) > 1) for n in names]
    paper, search = (minatar.aggregates[entry.key, "all"].iqm for entry in visr)
    rows = [
        ["grid, replay learner (`demo`)",
         f"{boxes:.2f} of optimal on two boxes, {goals:.2f} on goal cells ({_seeds(replay)})",
         "`python experiments/replay_grid.py open-10`"],
        ["grid, VISR with our learning rates (`grid`)",
         f"{_number(quality, 'boxes'):.2f} and {_number(quality, 'goals'):.2f} ({_seeds(quality)})",
         "`python experiments/grid_quality.py runs/quality`"],
        ["five MinAtar games, replay learner",
         f"{_replay_iqm(minatar):.0f} ({_seeds(games)}); VISR has {paper:.1f} by regression, {search:.1f} by search",
         f"`python experiments/replay_minatar.py {GAMES}`"],
    ]  # fmt: skip
    return table(["", "score", "command"], rows).replace("---:", "---")


def _seeds(rows: Csv) -> str:
    count = len({row["seed"] for row in rows})
    return "one seed" if count == 1 else f"{count} seeds"


def run_program(text: str) -> str:
    """README.md with the output of its Python program as it is printed now."""
    code = text.split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, rest = text.split("```text\n", 1)
    return f"{before}```text\n{done.stdout}```{rest.split('```', 1)[1]}"


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def pages() -> dict[str, str]:
    """The text of every page, by its path from docs/results."""
    import paper_pages
    import report_page
    import simple_page

    found = build.gather(RESULTS)
    (minatar,) = (suite for suite in found.suites if suite.key == "minatar")
    return {
        "index.md": index_page(minatar),
        "replay.md": replay_page(),
        "grid.md": grid_page(found.grid, build.grid.evaluated(found.runs)),
        "minatar.md": minatar_page(minatar),
        "atari.md": atari_page(),
        "classic_control.md": classic_control_page(),
        "speed.md": speed_page(),
        "models.md": models_page(),
        "table1.md": paper_pages.table_one(minatar, found.grid),
        "../report.md": report_page.report(minatar, found.grid),
        "../../README.md": with_numbers(README, _expected(minatar)),
        "../guides/refine.md": with_numbers(ROOT / "docs/guides/refine.md", _refined(minatar)),
        "../agents/replay.md": with_numbers(ROOT / "docs/agents/replay.md", _replay_scores()),
        "../agents/simple.md": with_numbers(
            ROOT / "docs/agents/simple.md", simple_page.page(minatar)
        ),
    }


def main() -> None:
    """Write the pages that are named, or all."""
    alone = {"models.md": models_page, "speed.md": speed_page}
    chosen = [name for name in sys.argv[1:] if name in alone]
    found = {name: alone[name]() for name in chosen} if chosen else pages()
    for name, text in found.items():
        path = (PLACE / name).resolve()
        path.write_text(run_program(text) if path == README else text)
        print(path)


if __name__ == "__main__":
    main()
