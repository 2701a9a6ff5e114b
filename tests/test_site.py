"""The documentation builds without a warning, needs no network, and its generated pages are up to date."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from visr.report import style
from visr.storage.run_dir import RunDir

pytest.importorskip("sphinx")
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    options = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(target / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, "docs", str(target / "html")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target / "html"


def test_every_part_of_the_site_is_there(site: Path):
    parts = "index get_started guides/index concepts/visr agents/index results/index reference/api "
    parts += "reference/generated/cli reference/generated/configuration reference/generated/errors "
    parts += "reference/file_formats contributing changelog notebooks/quickstart search"
    assert [name for name in parts.split() if not (site / f"{name}.html").is_file()] == []


def test_no_page_loads_anything_from_the_network(site: Path):
    loads = re.compile(
        r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//|<link[^>]+href="(?:https?:)?//'
    )
    pages = [p for p in site.rglob("*.html") if loads.search(p.read_text())]
    styles = [
        p
        for p in site.rglob("*.css")
        if re.search(r"(?:url\(|@import )['\"]?(?:https?:)?//", p.read_text())
    ]
    assert [*pages, *styles] == []


def test_the_reference_has_every_public_name(site: Path):
    import visr

    text = (site / "reference/api.html").read_text()
    assert [name for name in visr.__all__ if f'id="visr.{name}"' not in text] == []


def test_the_page_of_file_formats_names_every_file_of_a_run(tmp_path: Path):
    page = (ROOT / "docs/reference/file_formats.md").read_text()
    (tmp_path / "config.json").touch()
    files = [value.name for value in vars(RunDir(tmp_path)).values() if isinstance(value, Path)]
    assert len(files) > 15
    assert [f for f in files if f not in page and f != tmp_path.name] == []


def test_results_pages_match_the_files_in_results():
    code = (
        "import results_pages as r\n"
        "old = [n for n, t in r.pages().items() if (r.PLACE / n).read_text() != t]\n"
        "raise SystemExit(f'out of date, run `make results`: {old}' if old else 0)"
    )
    command = [sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "docs")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_figures_of_results_show_the_numbers_in_results(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import results_pages  # pyright: ignore[reportMissingImports]

    monkeypatch.setattr(style, "DPI", 216)  # the report's tests draw less
    for name, drawn in results_pages.pictures().items():
        kept = np.asarray(Image.open(ROOT / "docs/images" / name).convert("L"), dtype=int)
        again = np.asarray(Image.open(io.BytesIO(drawn)).convert("L"), dtype=int)
        assert kept.shape == again.shape, f"{name} is out of date, run `make results`"
        changed = (abs(kept - again) > 64).mean()
        assert changed < 1e-4, f"{name} is out of date, run `make results`"


AGENT_SECTIONS = [
    "What it is", "Can I use it?", "Example", "Results", "How to replicate", "Parameters", "Logged metrics",
]  # fmt: skip


@pytest.mark.parametrize(
    "page",
    [p for p in sorted((ROOT / "docs/agents").glob("*.md")) if p.stem != "index"],
    ids=lambda page: page.stem,
)
def test_the_pages_of_agents_have_the_same_order(page: Path):
    found = re.findall(r"^## (.+)$", page.read_text(), flags=re.MULTILINE)
    plain = [h.replace("they are", "it is").replace("them", "it") for h in found]
    assert plain[: len(AGENT_SECTIONS)] == AGENT_SECTIONS
