"""A short technical report on the reproduction, docs/report.md; see results_pages.py."""

from __future__ import annotations

import statistics

import page_parts as r
import paper_pages as p
from replay_page import replay_iqm

from visr.paper.suite import claims
from visr.paper.suite.entries import Suite, name_of
from visr.paper.suite.tables import fixed, with_interval


def report(minatar: Suite, grid: Suite | None) -> str:
    """A short reproduction report; every number is read from results/."""
    quality = r.read("grid/tables/quality.csv")
    entries = {e.key.name: e for e in minatar.entries}
    iqm = {n: minatar.aggregates[entries[n].key, "all"] for n in entries}

    def shown(name: str) -> str:
        return with_interval(iqm[name].iqm, iqm[name].iqm_interval)

    judged = {j.claim.words: j for j in claims.judge(minatar, claims.PAPER)}
    on_grid = {j.claim.words: j for j in (claims.judge(grid, claims.PAPER) if grid else [])}
    replay = [x for x in r.read("replay/grid.csv") if x["world"] == "open-10"]
    seconds = statistics.mean(float(x["cpu_seconds"]) for x in replay)
    boxes, goals = (
        statistics.mean(float(x["mean"]) for x in replay if x["tasks"] == t)
        for t in ("boxes", "goals")
    )
    notebook = r.read_if_there("grid/tables/quality_notebook.csv")
    parity = ""
    if notebook:
        steps = r.short(float(notebook[0]["num_steps"]))
        found_boxes = ", ".join(f"{float(x['boxes']):.2f}" for x in notebook)
        low, high = (f(float(x["span"]) for x in notebook) for f in (min, max))
        parity = (
            f"The preset `notebook` has the authors' settings; three of its updates equal those of a second implementation. After {steps} steps (seeds {r.seeds_of(notebook)}) it has "
            f"{low:.2f}{'' if low == high else f' to {high:.2f}'} of optimal on random w and "
            f"{found_boxes} on boxes; the notebook itself, measured in the same way, .76 to .82 and .10 to .37."
        )
    claim = lambda found, words: p.verdict(found.get(words))  # noqa: E731
    return r.joined([
        "# A reproduction of VISR",
        r.NOTE.replace("docs/results_pages.py", "docs/paper_pages.py"),
        "Hansen, Dabney, Barreto, Van de Wiele, Warde-Farley and Mnih, *Fast Task Inference with Variational Intrinsic Successor Features* (ICLR 2020). This report says what of the "
        "paper was reproduced, what was not, what is new, and what limits it. Every score is computed from the files in `results/`.",
        "## Scope",
        "VISR learns, without rewards, features phi(s) of unit length that tell which task vector w a policy follows, and their successor features psi(s, a, w). A reward is "
        "then fitted by r = phi . w, and the agent acts at once by generalised policy improvement (GPI) over w and its neighbours. The paper's evidence is "
        "a grid world (figures) and 57 Atari games with 250M reward-free steps. We had two CPU cores: the grid at the paper's full size, MinAtar's five games with 2M steps, and "
        "Atari with at most 2M.",
        "## What was reproduced",
        "**The method.** Each equation has its function ([from the paper to the code](paper_map.md)) and tests against independent references; every choice that the paper leaves open, and every "
        f"difference, is numbered in [Deviations](deviations.md). {parity}",
        f"**The grid world.** With our learning rates (ten times the paper's, falling to zero), d = 5 and the paper's 38.4M steps, VISR reaches {r.number(quality, 'span'):.2f} of optimal on random w, "
        f"{r.number(quality, 'boxes'):.2f} on the notebook's two boxes and {r.number(quality, 'goals'):.2f} on single goal cells ({r.seeds(quality)}, exact values; 0 is a random policy). phi's maps and values look as in the paper:",
        "![phi on the grid](images/features.png)",
        "![GPI values of 49 random rewards](images/values.png)",
        "With 5M steps, P(better) and its interval over three seeds: "
        f"learned features beat random ones: {claim(on_grid, 'Learned features beat random ones')}; "
        f"VISR beats Q-DIAYN-5: {claim(on_grid, 'VISR beats Q-DIAYN with 5 skills')} and Q-DIAYN-50: {claim(on_grid, 'VISR beats Q-DIAYN with 50 skills')}; "
        f"GPI helps: {claim(on_grid, 'GPI helps')}.",
        "![The paper's agents on the grid](images/grid_intervals.png)",
        "## What was not",
        f"**MinAtar.** On the scale where 0 is a random policy and 100 is NSQ after 10M rewarded steps (one seed), VISR has an interquartile mean of {shown('GPI VISR @100k')} by regression and "
        f"{shown('GPI VISR by search @100k')} by search over tasks; NSQ with 1M rewarded steps has {shown('NSQ @1M')}. "
        f"Regression beats search: {claim(judged, 'Regression beats random search on the same data')}. "
        f"Learned features beat random ones: {claim(judged, 'Learned features beat random ones')}. GPI helps: {claim(judged, 'GPI helps')}. "
        f"VISR beats NSQ with as many rewarded steps: {claim(judged, 'Pre-training beats as many rewarded steps from scratch')}; with ten times as many: "
        f"{claim(judged, 'Pre-training beats 10 times as many rewarded steps')}. Game by game, with what limits each: [Table 1](results/table1.md). These runs used features that were re-centred "
        "by every batch, and searches with several episodes a task (deviations 33 and 37).",
        f"{_gpi_words()} Online evaluation and phase two disagree on Breakout: [Table 1's page](results/table1.md#the-same-weights-drawn-many-times) says what is known of the reason.",
        "**Atari.** One seed, five games, at most 2M of 250M steps ([numbers](results/atari.md)): they test that the agent runs, not what the paper claims. "
        f"The paper's 12 games at human level are not tested; a row of its Table 1 would take about {p.PAPERS_ATARI[0] * p.PAPERS_ATARI[1] * p.PAPERS_ATARI[2] / p.ATARI_SPEED / 3600:,.0f} core-hours here.",
        "## What is new",
        f"- **The replay learner** keeps the idea (features, successor features, regression, GPI over a library) and changes how it is learnt: many fixed features, a replay buffer, tasks from what was seen. "
        f"On the same grid it has {boxes:.2f} on boxes and {goals:.2f} on goal cells after {seconds:.0f} CPU seconds; on MinAtar an interquartile mean of {replay_iqm(minatar):.0f} "
        f"(seeds {r.seeds_of(r.read('replay/minatar.csv'))}) without weight changes ([page](agents/replay.md)).",
        f"- **Reward-free steps after the reward is known** (relabelling): {shown('VISR+, relabelled @100k')} with 100,000 rewarded steps. It makes about 14,000 updates, NSQ @1M {p.updates(p.MILLION):,} and NSQ @10M "
        f"{p.updates(10 * p.MILLION):,}: against NSQ at equal updates it is behind (100 by definition), against equal or ten times the rewarded steps ahead.",
        "- Prompts by goal, demonstration and preference, refinement with own steps, and other objectives ([additions](agents/additions.md)); most additions to VISR alone changed nothing.",
        "![Aggregates of all that was run on MinAtar](images/minatar_intervals.png)",
        "## Limits",
        "Not tested:",
        p.NOT_TESTED,
        "What was tested has limits, too:",
        f"- The scale's 100 rests on one seed of NSQ @10M, and the replay learner on {fixed(float(len({x['seed'] for x in r.read('replay/minatar.csv')})), 0)} seeds.\n"
        "- Presets were chosen on the grid's own families of tasks and on Breakout and Asterix; these numbers are optimistic there.\n"
        "- With three seeds bootstrap intervals are too narrow: equal agents still get a verdict in about one case of ten.",
        "## How to repeat it",
        "```sh\nvisr reproduce grid --seeds 0 1 2\nvisr reproduce minatar --seeds 0 1 2\nvisr reproduce atari --paper          # the full plan; needs a cluster\n"
        "visr report results/                  # every table and figure from the kept files\n```",
    ])  # fmt: skip


def _gpi_words() -> str:
    rows = [x for x in r.read_if_there("draws/minatar.csv") if x["data"] == "50 episodes"]
    parts = []
    for (env,), found in r.by([x for x in rows if x["method"] == "regression"], "env").items():
        means = [
            statistics.mean(float(x["mean"]) for x in found if x["gpi"] == g) for g in ("1", "0")
        ]
        parts.append(
            f"{name_of(env)} {means[0]:.1f} with and {means[1]:.1f} without ({len(found) // 2} draws)"
        )
    if not parts:
        return ""
    return f"**GPI on the same weights and the same w**, by regression, one seed of weights: {'; '.join(parts)}."
