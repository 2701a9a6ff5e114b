"""`make demo` ends with a page: three prompts, their films and exact scores."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from visr.cli import main

ROOT = Path(__file__).parent.parent


def demo(run: Path, *options: str) -> str:
    command = [sys.executable, str(ROOT / "experiments/demo.py"), str(run), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    run = tmp_path_factory.mktemp("demo") / "run"
    tiny = shlex.split(
        "--num-steps 8000 --warmup-steps 4000 --num-updates 20 --evaluate-every 100000"
    )
    assert main(["pretrain", "visr/Grid-v0", "--preset", "demo", "--out", str(run), *tiny]) == 0
    return run, demo(run)


def test_the_page_holds_three_films_and_loads_nothing(asked: tuple[Path, str]):
    html = (asked[0] / "demo.html").read_text()
    assert html.count('<img src="data:image/gif;base64,') == 3
    assert re.findall(r'(?:src|href)="(?!data:)', html) == []
    for words in ("Painted boxes", "A goal", "A demonstration", "What you saw", "Try next"):
        assert words in html


def test_the_output_has_three_scores_and_says_where_the_page_is(asked: tuple[Path, str]):
    run, printed = asked
    assert (
        len(re.findall(r"^  .+ -?\d\.\d{3}, refined -?\d\.\d{3} ", printed, flags=re.MULTILINE))
        == 3
    )
    assert str(run / "demo.html") in printed
    assert f"visr explore {run}" in printed


def test_the_tasks_are_kept_in_the_run(asked: tuple[Path, str]):
    names = {path.stem for path in (asked[0] / "tasks").glob("*.json")}
    assert {"painted", "goal", "shown"} <= names


def test_the_makefile_runs_the_demo_on_the_run_that_it_trained():
    lines = (ROOT / "Makefile").read_text().partition("\ndemo:")[2].partition("\n\n")[0]
    assert "visr pretrain visr/Grid-v0 --preset demo --out runs/demo" in lines
    assert "experiments/demo.py runs/demo" in lines
