"""The results pages of MinAtar, Atari and classic control from results/; see results_pages.py."""

from __future__ import annotations

import statistics

from page_parts import (
    DASH,
    NOTE,
    RESULTS,
    Csv,
    Rows,
    by,
    folded,
    joined,
    markdown,
    number,
    read,
    seeds_of,
    short,
    spread,
    table,
)
from replay_page import replay_iqm

from visr.paper.suite import claims, tables
from visr.paper.suite.entries import Entry, Suite, name_of
from visr.storage.records.two_phase import TwoPhase
from visr.storage.run_dir import RunDir


def minatar_page(suite: Suite) -> str:
    constant = {
        game: f"{number(runs, 'best_constant'):.1f}"
        for (game,), runs in by(read("replay/minatar.csv"), "game").items()
    }
    parts = [
        "# Results: MinAtar",
        NOTE,
        f"{suite.scale_words} Scores are means of 30 whole episodes. 2M reward-free steps unless a row says otherwise; then 100,000 "
        "rewarded steps shared among 50 tasks in turn.",
        _replay(suite),
        "## The paper's agents, by game",
        "Mean over seeds, and the standard deviation. @0, @100k: rewarded steps.",
        "```sh\nvisr reproduce minatar --seeds 0 1 2\nvisr reproduce beyond --seeds 0 1 2\n```",
        _by_game(suite, [e for e in suite.entries if not _is_ours(e)], constant),
        folded("The same, seed by seed", _seed_by_seed(suite)),
        folded("Additions to VISR, and short runs of one seed", _by_game(suite, [e for e in suite.entries if _is_ours(e)], constant)),
        "## Aggregates",
        "![IQM, median and mean of all that was run](../images/minatar_intervals.png)",
        folded("The numbers of this picture", *(markdown(t).partition("\n\n")[2] for t in tables.robust(suite))),
        *_claims(suite),
    ]  # fmt: skip
    return joined(parts)


def _claims(suite: Suite) -> list[str]:
    """The tables of claims; equal captions are shown once."""
    shown = claims.tables(suite)
    texts = [markdown(table) for table in shown]
    first = shown[0].caption if shown else ""
    return [*texts[:1], *(text.replace(first, "") for text in texts[1:])]


def _is_ours(entry: Entry) -> bool:
    """Whether a row is an addition of ours, or a short trial of a paper's agent."""
    name = entry.key.name
    is_trial = "VISR" in name and len(entry.seeds) == 1
    return "," in name or "+" in name or name.startswith("Fine-tuning") or is_trial


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
            game, shown, f"{number(runs, 'random'):.1f}", f"{number(runs, 'best_constant'):.1f}", f"{statistics.mean(normal):.0f}",
            f"{number(runs, 'r_squared'):.2f}", seeds_of(runs), f"{number(runs, 'cpu_seconds') / 60:.1f}",
        ])  # fmt: skip
    columns = ["game", "score", "random policy", "best constant action", "score in %"]
    columns += ["held-out R^2", "seeds", "CPU minutes"]
    return (
        "## The replay learner\n\nPreset `replay-minatar`, 1M reward-free steps, no weight changes after pre-training. ± is the standard error of 30 "
        "episodes, or with several seeds the standard deviation over them.\n\n"
        "```sh\npython experiments/replay_minatar.py Breakout Asterix Freeway Seaquest SpaceInvaders\n```\n\n"
        f"{table(columns, rows)}\n\n*Score in %*: 0 is the random policy, 100 NSQ @10M. Its interquartile mean is {replay_iqm(suite):.0f}."
    )


def _by_game(suite: Suite, entries: list[Entry], constant: dict[str, str]) -> str:
    games = [name_of(game) for game in suite.games]
    rows = [_entry(suite, entry) for entry in entries]
    rows.append(["best constant action", "", "", *(constant.get(game, DASH) for game in games)])
    return table(["agent", "steps", "seeds", *games], rows)


def _seed_by_seed(suite: Suite) -> str:
    """The scores of the paper's agents with several seeds, in the order of the seeds."""
    rows = []
    for entry in (e for e in suite.entries if not _is_ours(e) and len(e.seeds) > 1):
        scores = (entry.scores.get(game, {}) for game in suite.games)
        cells = [", ".join(f"{found[seed]:.1f}" for seed in sorted(found)) for found in scores]
        rows.append([entry.key.name, ", ".join(map(str, sorted(entry.seeds))), *cells])
    return table(["agent", "seeds", *(name_of(game) for game in suite.games)], rows)


def _entry(suite: Suite, entry: Entry) -> list[str]:
    cells = []
    for game in suite.games:
        scores = list(entry.scores.get(game, {}).values())
        cells.append(spread(scores, 1) if scores else DASH)
    steps = short(entry.key.num_steps) if entry.key.num_steps else ""
    return [entry.key.name, steps, ", ".join(map(str, sorted(entry.seeds))), *cells]


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
    rows, seeds, constant = [], set[str](), _constant_actions()
    for path in sorted(RESULTS.glob("atari/visr/*/seed-*")):
        directory = RunDir.open(path)
        record = TwoPhase.load(directory.phase_two, directory.config().env)
        found = {c.name.split(" (")[0]: c for c in record.conditions}
        names = ("env-regression", "env-search", "@0", "random policy")
        cells = [f"{found[n].mean:,.1f} ± {found[n].standard_error:,.1f}" for n in names]
        game = path.parent.name.removeprefix("ALE-").removesuffix("-v5")
        seen = f"{record.num_seen:,} of {record.num_rewarded_steps:,}"
        cells.append(constant.get(record.env, DASH))
        seeds.add(path.name.removeprefix("seed-"))
        rows.append([game, *cells, short(record.num_steps), seen])
    columns = ["game", "regression", "random search", "@0", "random policy", "best constant action"]
    columns += ["steps", "steps with a reward"]
    return joined([
        "# Results: Atari", NOTE,
        f"Preset `atari-small`, seed {', '.join(sorted(seeds))}, one core per game, at most 2M steps; the paper has 250M. Raw scores, mean ± standard error of 30 episodes; "
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
        "standard error, each seed by itself. Bold: the method that `best` chose. Scores of the "
        "replay learner: [vectors](replay.md#vectors), [MinAtar](minatar.md#the-replay-learner).",
        "```sh\npython experiments/small_worlds.py runs/classic --envs CartPole-v1 Acrobot-v1 MountainCar-v0 --seeds 0 1 2\n```",
    ]  # fmt: skip
    constant = _constant_actions()
    constant |= {
        f"MinAtar/{row['game']}-v1": f"{float(row['best_constant']):.1f}"
        for row in read("replay/minatar.csv")
    }
    games = {env: found for env, found in by_env.items() if env.startswith("MinAtar")}
    for env, found in ((env, found) for env, found in by_env.items() if env not in games):
        seeds = sorted({row["seed"] for row in found}, key=int)
        methods = list(dict.fromkeys(row["method"] for row in found))
        rows = []
        for method in methods:
            by_seed = {row["seed"]: row for row in found if row["method"] == method}
            cells = [_return(by_seed[s]) if s in by_seed else DASH for s in seeds]
            rows.append([method.split(" (")[0], *cells])
        rows.append(["best constant action", *[constant.get(env, DASH)] * len(seeds)])
        parts += [f"## {env}", table(["method", *(f"seed {s}" for s in seeds)], rows)]
    return joined([*parts, "## MinAtar", "Seed 0 of each game:", _methods_by_game(games, constant)])


def _methods_by_game(games: dict[str, Csv], constant: dict[str, str]) -> str:
    """One row a method, one column a game; all of one seed."""
    cells: dict[str, dict[str, str]] = {}
    for env, found in games.items():
        for row in found:
            cells.setdefault(row["method"].split(" (")[0], {})[env] = _return(row)
    cells["best constant action"] = constant
    rows = [[method, *(known.get(env, DASH) for env in games)] for method, known in cells.items()]
    return table(["method", *(name_of(env) for env in games)], rows)


def _return(row: dict[str, str]) -> str:
    shown = f"{float(row['mean']):.1f} ± {float(row['standard_error']):.1f}"
    return f"**{shown}**" if row["chosen"] == "1" else shown
