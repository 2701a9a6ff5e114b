"""The replay learner's and refinement's numbers from results/; see results_pages.py."""

from __future__ import annotations

import statistics

import numpy as np
from page_parts import (
    DASH,
    NOTE,
    Csv,
    by,
    joined,
    number,
    read,
    read_if_there,
    seeds,
    seeds_of,
    short,
    spread,
    table,
)

from visr.paper.suite.entries import Suite

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


OTHERS = {
    "VISR": "VISR",
    "Q-learning, table": "Q-learning: table",
    "Q-learning, network": "Q-learning: network",
}
"""Methods beside the replay learner, and the names of their columns."""


def replay_page() -> str:
    parts = ["# Results: the replay learner", NOTE, REPLAY_WORDS]
    parts += [_replay_grid(), _replay_minigrid(), _replay_vectors(), _replay_features()]
    parts += [
        "## MinAtar\n\nThe scores are on [the page of MinAtar](minatar.md#the-replay-learner)."
    ]
    return joined(parts)


def _replay_grid() -> str:
    rows, others = [], _others()
    for (world, tasks), runs in by(read_if_there("replay/grid.csv"), "world", "tasks").items():
        scores = spread([float(run["mean"]) for run in runs], 3)
        worst = min(float(run["worst"]) for run in runs)
        cells = [scores, "0", f"{number(runs, 'best_constant'):.2f}"]
        cells += [
            f"{number(others[world, tasks, method], 'mean'):.3f}" if beside else DASH
            for method in OTHERS
            for beside in [others.get((world, tasks, method))]
        ]
        cells += [f"{worst:.2f}", f"{number(runs, 'own_policy'):.3f}", seeds_of(runs)]
        cells += [short(float(runs[0]["steps"])), f"{number(runs, 'cpu_seconds'):.0f}"]
        rows.append([f"{WORLDS.get(world, world)}, {tasks}", *cells])
    if not rows:
        return ""
    columns = ["world, tasks", "fraction of optimal", "random policy", "best constant action"]
    columns += [*OTHERS.values(), "worst task", "own policy", "seeds", "steps", "CPU seconds"]
    words = "Exact fractions of optimal, 64 unseen tasks of each kind."
    command = "python experiments/replay_grid.py open-10 rooms-11 open-20 rooms-21 --seeds 0 1 2"
    if others:
        words += _beside(others)
        command += "\npython experiments/replay_comparison.py open-10 rooms-11 --seeds 0"
    return f"## Grid worlds\n\n{words}\n\n```sh\n{command}\n```\n\n{table(columns, rows)}"


def _others() -> dict[tuple[str, ...], Csv]:
    return by(read_if_there("replay/comparison.csv"), "world", "tasks", "method")


def _beside(others: dict[tuple[str, ...], Csv]) -> str:
    """What the columns of other methods are."""
    runs = {
        m: [row for key, found in others.items() if key[2] == m for row in found] for m in OTHERS
    }
    visr, sweeps, network = (runs[method] for method in OTHERS)
    words = ""
    if visr:
        words += (
            f" *VISR* is the paper's agent (preset `grid`) with GPI after about the same CPU time "
            f"({number(visr, 'cpu_seconds'):.0f} s, {short(float(visr[0]['steps']))} steps; {seeds(visr)})."
        )
    if sweeps and network:
        words += (
            f" *Q-learning* starts from nothing and learns every task by itself, with its true reward, from as many recorded steps "
            f"({network[0]['num_tasks']} tasks of each kind): by sweeps over a table until nothing changes (less than {max(number(sweeps, 'cpu_seconds'), 0.095) + 0.005:.1f} CPU seconds "
            f"a task), or with a network by {int(network[0]['updates']):,} updates of 512 steps ({number(network, 'cpu_seconds'):.1f} CPU seconds a task). "
            "On numbered states that are all recorded this is easy: an instant policy saves these seconds, and shows what psi has learnt."
        )
    return words


def _replay_minigrid() -> str:
    rows = []
    for (task,), runs in by(read_if_there("replay/minigrid.csv"), "task").items():
        cells = [spread([float(run["reached"]) for run in runs], 3)]
        cells += [f"{number(runs, k):.3f}" for k in ("random", "best_constant", "own_policy")]
        cells += [runs[0]["states"], runs[0]["paths"], runs[0]["mean_path"], seeds_of(runs)]
        cells += [short(float(runs[0]["steps"])), f"{number(runs, 'cpu_seconds'):.0f}"]
        rows.append([task, *cells])
    if not rows:
        return ""
    columns = ["task", "goals reached", "random policy", "best constant action", "own policy"]
    columns += ["states", "paths", "mean shortest path", "seeds", "steps", "CPU seconds"]
    words = (
        "Goal prompts: 50 random states as goals, up to four starts each. A goal is reached if the policy is there within twice the shortest "
        "path. States are numbered (`visr/MiniGrid-FourRooms-v0`, `visr/MiniGrid-DoorKey-5x5-v0`), in one layout."
    )
    command = "python experiments/replay_minigrid.py FourRooms DoorKey --seeds 0"
    return f"## MiniGrid\n\n{words}\n\n```sh\n{command}\n```\n\n{table(columns, rows)}"


def _replay_vectors() -> str:
    rows = []
    for (env, reward), runs in by(read_if_there("replay/vectors.csv"), "env", "reward").items():
        cells = [_sampled(runs)]
        cells += [f"{number(runs, k):.1f}" for k in ("random", "best_constant", "own_policy")]
        cells += [f"{number(runs, 'r_squared'):.2f}", seeds_of(runs)]
        cells += [f"{number(runs, 'cpu_seconds'):.0f}" if runs[0]["cpu_seconds"] else DASH]
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


def replay_grid_rows() -> list[list[str]]:
    rows = []
    for (world, tasks), runs in by(read_if_there("replay/grid.csv"), "world", "tasks").items():
        if world == "open-10" and tasks in ("boxes", "goals"):
            words = "two boxes" if tasks == "boxes" else "goal cells"
            score = f"{spread([float(run['mean']) for run in runs], 3)} of optimal"
            where = f"grid 10 x 10, {words}"
            rows.append([where, "replay learner", score, seeds_of(runs), "[replay](replay.md)"])
    return rows


def replay_iqm(suite: Suite) -> float:
    scaled = sorted(
        suite.normalised(float(row["score"]), f"MinAtar/{row['game']}-v1")
        for row in read("replay/minatar.csv")
    )
    return float(np.mean(scaled[len(scaled) // 4 : len(scaled) - len(scaled) // 4]))


def replay_scores() -> str:
    """The replay learner's scores for its agent's page: a row for each world, environment and game."""
    tables = [
        ("replay/grid.csv", "world", "tasks", "mean", "{}: fraction of optimal", 3),
        ("replay/vectors.csv", "env", "reward", "score", "{}: return", 1),
        (
            "replay/minigrid.csv",
            "task",
            "goals",
            "reached",
            "MiniGrid {}: share reached in time",
            3,
        ),
        ("replay/minatar.csv", "game", "its own reward", "score", "MinAtar {}: score", 1),
    ]
    rows = []
    for path, where, asked, score, words, digits in tables:
        for (name,), found in by(read_if_there(path), where).items():
            groups = by(found, asked) if asked in found[0] else {(asked,): found}
            shown = ", ".join(
                f"{_words(kind)} {number(runs, score):.{digits}f}"
                for (kind,), runs in groups.items()
            )
            rows.append([words.format(WORLDS.get(name, name)), shown, seeds_of(found)])
    return table(["where", "score", "seeds"], rows).replace("---:", "---")


def refined(suite: Suite) -> str:
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
        cost = f"{number(runs, 'cpu_seconds'):.2f}"
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
    if games:
        names = " ".join(dict.fromkeys(row["game"] for row in games))
        parts += [MINATAR_WORDS, _refined_games(games, suite)]
        command = f"python experiments/refine_minatar.py {names} --updates 2500"
        kinds = " ".join(dict.fromkeys(row["features"] for row in games))
        parts += [f"```sh\n{command} --set transition_features={kinds}\n```"]
    return "\n\n".join(parts)


MINATAR_WORDS = """\
MinAtar, 100,000 rewarded steps, ± the standard error of 30 episodes. In brackets: 0 is a random policy, 100 is NSQ after 10M rewarded steps.
*Latest*: the policy after the last update, whether or not the guard took it; *guard*: the best one by its estimate, which is what `visr refine`
returns (the given policy where none was better). From nothing: the same learner, rewards, settings and updates without an instant policy."""
_LEARNERS = ("refined", "refined, latest", "from nothing", "from nothing, latest")


def _refined_games(games: Csv, suite: Suite) -> str:
    """A row for each game, seed and number of updates."""
    rows = []
    for (game, seed), found in by(games, "game", "seed").items():

        def score(row: dict[str, str], env: str = f"MinAtar/{game}-v1") -> str:
            of_100 = suite.normalised(float(row["score"]), env)
            return f"{float(row['score']):.1f} ± {float(row['standard_error']):.1f} ({of_100:.0f})"

        untrained = [row for row in found if not row["updates"]]
        instant = next((score(row) for row in untrained if row["policy"] == "instant"), DASH)
        constant = [row["score"] for row in untrained if row["policy"].startswith("always")]
        for (updates,), at in by([row for row in found if row["updates"]], "updates").items():
            shown = {row["policy"]: score(row) for row in at}
            seconds = max(int(row["cpu_seconds"]) for row in at if "refined" in row["policy"])
            cells = [game, seed, updates, str(seconds), constant[0] if constant else DASH, instant]
            rows.append([*cells, *(shown.get(policy, DASH) for policy in _LEARNERS)])
    columns = ["game", "seed", "updates", "CPU seconds", "best constant action", "instant"]
    columns += ["refined: guard", "refined: latest", "from nothing: guard", "from nothing: latest"]
    return table(columns, rows)


def _words(asked: str) -> str:
    plain = {"boxes", "goals", "three goals", "16 cells", "its own reward"}
    return "its own reward" if asked == "env" else asked if asked in plain else f"`{asked}`"
