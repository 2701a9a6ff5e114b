"""Write docs/results/*.md, their figures and the numbers of README.md from results/ and the packed models: `make results`.

Every number is read from a file. tests/test_site.py compares the pages with the files.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from games_pages import atari_page, classic_control_page, minatar_page
from grid_page import grid_page
from models_page import models_page
from page_parts import (
    NOTE,
    PLACE,
    RESULTS,
    ROOT,
    joined,
    number,
    read,
    seeds,
    seeds_of,
    table,
    with_numbers,
)
from replay_page import refined, replay_grid_rows, replay_iqm, replay_page, replay_scores
from speed_page import speed_page

from visr.paper.suite import build, figures, tables
from visr.paper.suite.entries import Suite
from visr.report import style


def index_page(minatar: Suite) -> str:
    """What to expect, with links."""
    quality = read("grid/tables/quality.csv")
    replay = read("replay/minatar.csv")
    rows = [
        *replay_grid_rows(),
        ["MinAtar, five games", "replay learner", f"IQM {replay_iqm(minatar):.0f}", seeds_of(replay), "[MinAtar](minatar.md)"],
        ["grid 10 x 10, two boxes", "VISR, preset `grid`", f"{number(quality, 'boxes'):.2f} of optimal",
         seeds_of(quality), "[grid](grid.md)"],
        ["grid 10 x 10, goal cells", "VISR, preset `grid`", f"{number(quality, 'goals'):.2f} of optimal",
         seeds_of(quality), "[grid](grid.md)"],
        _visr_row(minatar, "GPI VISR @100k", "VISR by regression"),
        _visr_row(minatar, "GPI VISR by search @100k", "VISR by search"),
    ]  # fmt: skip
    return joined([
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


README = ROOT / "README.md"
GAMES = "Asterix Breakout Freeway Seaquest SpaceInvaders"


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
         f"{boxes:.2f} of optimal on two boxes, {goals:.2f} on goal cells ({seeds(replay)})",
         "`python experiments/replay_grid.py open-10`"],
        ["grid, VISR with our learning rates (`grid`)",
         f"{number(quality, 'boxes'):.2f} and {number(quality, 'goals'):.2f} ({seeds(quality)})",
         "`python experiments/grid_quality.py runs/quality`"],
        ["five MinAtar games, replay learner",
         f"{replay_iqm(minatar):.0f} ({seeds(games)}); VISR has {paper:.1f} by regression, {search:.1f} by search",
         f"`python experiments/replay_minatar.py {GAMES}`"],
    ]  # fmt: skip
    return table(["", "score", "command"], rows).replace("---:", "---")


def run_program(text: str) -> str:
    """README.md with the output of its Python program as it is printed now."""
    code = text.split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, rest = text.split("```text\n", 1)
    return f"{before}```text\n{done.stdout}```{rest.split('```', 1)[1]}"


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
        "../guides/refine.md": with_numbers(ROOT / "docs/guides/refine.md", refined(minatar)),
        "../agents/replay.md": with_numbers(ROOT / "docs/agents/replay.md", replay_scores()),
        "../agents/simple.md": with_numbers(
            ROOT / "docs/agents/simple.md", simple_page.page(minatar)
        ),
    }


def pictures() -> dict[str, bytes]:
    """The figures of docs/images that are drawn from results/, by file."""
    sys.path.insert(0, str(ROOT / "experiments"))
    import grid_ablation

    found = build.gather(RESULTS)
    (minatar,) = (suite for suite in found.suites if suite.key == "minatar")
    drawn = {
        "minatar_intervals": figures.intervals(minatar),
        "grid_intervals": figures.intervals(found.grid) if found.grid else None,
        "grid_curves": build.grid.over_training(build.grid.evaluated(found.runs)),
    }
    shown = {f"{name}.png": one.picture.png for name, one in drawn.items() if one is not None}
    with style.figure_style():
        return shown | {"ablation.png": grid_ablation.draw([*read("grid/tables/ablation.csv")])}


def main() -> None:
    """Write the pages that are named, or all of them and the figures."""
    alone = {"models.md": models_page, "speed.md": speed_page}
    chosen = [name for name in sys.argv[1:] if name in alone]
    found = {name: alone[name]() for name in chosen} if chosen else pages()
    for name, text in found.items():
        path = (PLACE / name).resolve()
        path.write_text(run_program(text) if path == README else text)
        print(path)
    for name, content in ({} if chosen else pictures()).items():
        (ROOT / "docs/images" / name).write_bytes(content)
        print(ROOT / "docs/images" / name)


if __name__ == "__main__":
    main()
