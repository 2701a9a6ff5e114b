"""One page for many runs, which needs nothing but itself."""

from __future__ import annotations

import base64
import shlex
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from visr.config import GRID
from visr.paper.suite.drawing import Plate
from visr.paper.suite.game_suites import Suite
from visr.paper.suite.read import Run, Trouble
from visr.paper.suite.table import Table
from visr.report import html as elements
from visr.report.figures import Picture
from visr.report.html import HEAD, text
from visr.report.stylesheet import CSS

_MORE_CSS = """
main { max-width: 66rem; }
main > header p, section > p, figcaption, .muted { max-width: 48rem; }
nav { margin: 1.4rem 0 0; padding: 0.7rem 0; border: solid var(--rule); border-width: 1px 0;
  font-size: 0.9rem; columns: 2; }
nav a { display: block; text-decoration: none; padding: 0.1rem 0; }
nav a.inner { padding-left: 1.1rem; }
.frame.themed { background: var(--card); }
.frame.themed img { mix-blend-mode: normal; width: 100%; max-width: 50rem; }
.frame.themed img.dark { display: none; }
@media screen and (prefers-color-scheme: dark) {
  .frame.themed img.dark { display: inline; }
  .frame.themed img.light { display: none; } }
h2.suite { font-size: 1.65rem; margin-top: 4.5rem; padding-top: 1.2rem; border-top: 2px solid var(--ink); }
table.results { font-size: 0.82rem; width: auto; }
table.results th, table.results td { padding: 0.28rem 0; border-bottom: 0; }
table.results tbody th { font-weight: 400; text-align: left; min-width: 13rem; padding-right: 0.8rem; }
table.results .number { padding-left: 0.75rem; }
table.results .words { padding-left: 1.2rem; }
table.results .start { padding-left: 1.5rem; }
table.results thead tr:last-child th { border-bottom: 1px solid var(--rule); }
table.results th.group { text-align: center; color: var(--ink); padding-left: 1.5rem; }
table.results tr.rule > * { border-top: 1px solid var(--rule); }
table.results tr.ours > * { color: var(--accent); font-weight: 600; }
.all-ours table.results tr.ours > * { color: inherit; font-weight: 400; }
.trouble { color: var(--muted); }
details + details { margin-top: 0.8rem; }
details .scroll { margin-top: 0.8rem; }
@media (max-width: 40rem) { nav { columns: 1; } }
@media print { nav { display: none; } table.results { font-size: 7pt; }
  table.results .number { padding-left: 0.4rem; } .scroll { overflow: visible; }
  table.results tbody th { min-width: 8rem; } table.results .start { padding-left: 0.8rem; }
  h2.suite { margin-top: 1.6rem; } details:not([open]), .on-screen { display: none; }
  .frame.themed { border: 0; padding: 0; }
  .frame.themed img { width: auto; max-width: 100%; max-height: 21cm; } }
"""
_TAIL = """<footer>VISR: Hansen et al., Fast Task Inference with Variational Intrinsic Successor Features,
ICLR 2020. Beside this page lie every figure as PNG (light and dark) and CSV, and every table as Markdown,
CSV, LaTeX and HTML; the page itself needs none of them.</footer>
</main>
</body>
</html>
"""


@dataclass(frozen=True)
class Chapter:
    """A suite's part of the page."""

    key: str
    title: str
    words: str
    tables: tuple[Table, ...]
    """Shown in full."""
    folded: tuple[Table, ...]
    """Shown when asked for."""
    plates: tuple[Plate, ...]
    pictures: tuple[Picture, ...] = ()


def html(
    root: Path, runs: Sequence[Run], troubles: Sequence[Trouble], chapters: Sequence[Chapter]
) -> str:
    """The whole page; the same runs make the same page."""
    name = root.resolve().name
    return "".join(
        [
            HEAD.format(title=text(f"{name} · VISR"), css=CSS + _MORE_CSS),
            _header(name, runs, troubles, chapters),
            *(_chapter(chapter) for chapter in chapters),
            _runs(runs, troubles),
            elements.section(
                "How it was made", elements.commands([shlex.join(["visr", "report", str(root)])])
            ),
            _TAIL,
        ]
    )


def _header(
    name: str, runs: Sequence[Run], troubles: Sequence[Trouble], chapters: Sequence[Chapter]
) -> str:
    told = [_counted(len(runs), "run"), _counted(len({run.agent for run in runs}), "agent")]
    told += [_counted(len({run.env for run in runs}), "environment")]
    told += [_counted(len({run.seed for run in runs}), "seed")]
    unfinished = sum(not run.has_score for run in runs)
    left_out = unfinished + len(troubles)
    rest = f' {left_out} without a score that counts: <a href="#runs">why</a>.' if left_out else ""
    lead = f"{', '.join(told)}.{rest}" if runs else "No runs, but results kept of some."
    links = []
    for chapter in chapters:
        links.append(f'<a href="#{chapter.key}">{text(chapter.title)}</a>\n')
        for part in [*chapter.tables, *chapter.plates]:
            links.append(f'<a class="inner" href="#{part.name}">{text(part.title)}</a>\n')
    links.append('<a href="#runs">The runs</a>\n')
    return (
        '<header>\n<p class="eyebrow">VISR, many runs</p>\n'
        f'<h1>{text(name)}</h1>\n<p class="lead">{lead}</p>\n'
        f"<nav>{''.join(links)}</nav>\n</header>\n"
    )


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _chapter(chapter: Chapter) -> str:
    parts = [f'<section id="{chapter.key}">\n<h2 class="suite">{text(chapter.title)}</h2>\n']
    parts.append(f"<p>{text(chapter.words)}</p>\n" if chapter.words else "")
    parts += [_table(table) for table in chapter.tables]
    parts += [_plate(plate) for plate in chapter.plates]
    parts += [elements.figure(picture) for picture in chapter.pictures]
    if chapter.folded:
        parts.append('<h3 class="on-screen">In full</h3>\n')
    parts += [_folded(table) for table in chapter.folded]
    return "".join([*parts, "</section>\n"])


def _kind(table: Table) -> str:
    return "all-ours" if all(row.is_ours for row in table.rows) else "mixed"


def _table(table: Table) -> str:
    return (
        f'<h3 id="{table.name}">{text(table.title)}</h3>\n<div class="{_kind(table)}">{table.html()}</div>'
        f'<p class="muted">{text(table.caption)}</p>\n'
    )


def _folded(table: Table) -> str:
    return (
        f'<details id="{table.name}"><summary>{text(table.title)}</summary>\n'
        f'<div class="{_kind(table)}">{table.html()}</div>'
        f'<p class="muted">{text(table.caption)}</p></details>\n'
    )


def _plate(plate: Plate) -> str:
    width, height = struct.unpack(">II", plate.light[16:24])  # of the PNG's first chunk
    size = f'alt="{text(plate.alt)}" width="{width // 2}" height="{height // 2}"'
    both = "".join(  # the page's style shows one of them; a <picture> would keep the dark one on paper
        f'<img class="{kind}" src="data:image/png;base64,{base64.b64encode(png).decode()}" {size}>'
        for kind, png in (("light", plate.light), ("dark", plate.dark))
    )
    return (
        f'<h3 id="{plate.name}">{text(plate.title)}</h3>\n<figure><div class="frame wide themed">'
        f"{both}</div>\n"
        f"<figcaption>{text(plate.caption)}</figcaption></figure>\n"
    )


def _runs(runs: Sequence[Run], troubles: Sequence[Trouble]) -> str:
    parts = [f'<section id="runs">\n<h2 class="suite">The runs</h2>\n{_totals(runs, troubles)}']
    odd = [(run.name, run.state) for run in runs if not run.has_score]
    odd += [(trouble.name, trouble.sentence) for trouble in troubles]
    if odd:
        rows = [[f"<code>{text(name)}</code>", text(words)] for name, words in odd]
        parts.append("<h3>Left out, and why</h3>\n")
        parts.append(elements.table({"Run": False, "What is the matter": False}, rows))
    rows = [
        [
            f"<code>{text(run.name)}</code>", text(run.agent), text(run.env), f"{run.seed}",
            f"{run.age:,}", text("finished" if run.has_score else "left out"),
        ]
        for run in runs
    ]  # fmt: skip
    columns = {
        "Run": False,
        "Agent": False,
        "Plays": False,
        "Seed": True,
        "Steps": True,
        "State": False,
    }
    listed = elements.table(columns, rows) if rows else ""
    parts.append(f"<details><summary>All {len(runs):,} runs</summary>\n{listed}</details>\n")
    return "".join([*parts, "</section>\n"])


def _totals(runs: Sequence[Run], troubles: Sequence[Trouble]) -> str:
    finished = sum(run.has_score for run in runs)
    words = f"{finished:,} of {len(runs) + len(troubles):,} count in the tables."
    if any(run.env == GRID for run in runs):
        words += " Of grid worlds, the last exact evaluation counts."
    return f"<p>{words}</p>\n"


def words_of(suite: Suite) -> str:
    """What stands beneath a suite's title."""
    return f"{suite.scale_words} Raw scores are those of whole episodes, never clipped."
