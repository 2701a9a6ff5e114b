"""What the pages under docs/ tell people to type works; every picture there has a command that draws it."""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from visr import cli
from visr.cli import main

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
ALL_PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]

NOT_RUN = {
    "pip install": "changes the machine",
    "ray up": "rents machines",
    "ray attach": "rents machines",
    "cd": "is typed on rented machines",
    "make": "is what runs this test, or longer than it",
}
FEW = ["--num-steps", "64", "--num-envs", "4", "--batch-size", "2", "--unroll-length", "4"]
"""Minutes, or an afternoon, cut to seconds."""


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def typed(page: Path) -> Iterator[str]:
    """Each command of a page's blocks, on one line and without its comment."""
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield shlex.join(words)


def smaller(words: list[str]) -> list[str]:
    verb, place = words[0], " ".join(words)
    if verb == "pretrain" and "ALE/" in place:
        rewarded = "0" if "--cluster" in words else "1"
        rest = [
            "--max-episode-frames",
            "600",
            "--num-threads",
            "1",
            "--num-rewarded-envs",
            rewarded,
        ]
        return [*words, *FEW, *rest]
    if verb == "pretrain" and "CartPole" in place:
        return [*words, *FEW, "--recorded-steps", "500"]
    if verb == "evaluate" and "MsPacman" in place:
        return [*words, "--episodes", "1", "--rewarded-steps", "1200"]
    if verb == "evaluate" and "cart" in place:
        return [*words, "--episodes", "1"]
    if verb == "finetune" and "--resume" not in words:
        free = ["--free-steps", "1000", "--free-updates", "4", "--sweep-steps", "320"]
        few = [*words, "--num-steps", "640", "--checkpoint-every", "320"]
        return [*few, *free] if "--free-steps" in words else few
    if verb == "reproduce" and words[1] == "grid":  # hours; tests/paper/reproduce run smaller plans
        return [*words, "--dry-run"]
    if verb == "reproduce":
        return smaller_plan(words)
    smallest = {
        "play": ["--max-steps", "5"],
        "explore": ["--skills", "2"],
        "doctor": ["--steps", "50"],
    }
    return [*words, *smallest.get(verb, [])]


def smaller_plan(words: list[str]) -> list[str]:
    """The same with the one agent that learns nothing, one game and one seed; others test more."""
    for option in ("--only", "--ways", "--seeds"):
        words = without(option, words)
    few = ["--only", "uniform", "--games", "breakout", "--seeds", "0"]
    return [*words, *few, "--rewarded-steps", "300", "--trials", "1"]


def without(option: str, words: list[str]) -> list[str]:
    """The words but for an option and its values."""
    if option not in words:
        return words
    start = words.index(option)
    values = itertools.takewhile(lambda word: not word.startswith("--"), words[start + 1 :])
    return [*words[:start], *words[start + 1 + len(list(values)) :]]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, trained: Path) -> Path:
    """What the pages assume: a run of the README, one of CartPole with tasks, data, results."""
    place = tmp_path_factory.mktemp("docs")
    shutil.copytree(trained, place / "runs/first")
    (place / "results").symlink_to(ROOT / "results")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        few = smaller(["pretrain", "CartPole-v1", "--out", "runs/wheels"])
        assert main(few) == 0
        for name, reward in (("a", "angle"), ("b", "position")):
            words = ["infer", "runs/wheels", "--reward", reward, "--out", f"{name}.json"]
            assert main(words) == 0
        assert main(["reproduce", "minatar", "--only", "uniform", "--games", "breakout", "--seeds", "0",
                     "--rewarded-steps", "300", "--trials", "1"]) == 0  # fmt: skip
    random = np.random.default_rng(0)
    observations = random.normal(size=(200, 4)).astype(np.float32)
    np.savez(place / "data.npz", observations=observations, rewards=observations[:, 0])
    return place


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page: Path, scene: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(scene)
    for line in typed(page):
        program, *words = shlex.split(line.replace("RUN", "runs/wheels"))
        if program == "visr":
            if words[0] == "explore" and "--export" not in words:
                continue  # it serves until it is stopped; tests/explorer talk to it
            assert main(smaller(words)) == 0, line
        elif program == "python":
            script = words[:2] if words[0] == "-m" else words[:1]
            known = said_by(*script, "--help")
            assert [w for w in words if w.startswith("--") and w not in known] == [], line
        else:
            assert any(line.startswith(start) for start in NOT_RUN), line
    for code in blocks(page, "python"):
        done = subprocess.run([sys.executable, "-c", f"import visr\n{code}"], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()


def said_by(*words: str) -> str:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def mentioned() -> list[str]:
    """`visr verb --flag` in running text."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in ALL_PAGES)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    found = re.findall(r"`(visr [a-z][^`]*)`", text)
    return sorted({" ".join(command.split()) for command in found})


@pytest.mark.parametrize("command", mentioned())
def test_what_the_text_mentions_exists(command: str, capsys: pytest.CaptureFixture[str]):
    _, verb, *words = command.split()
    if verb in cli.VERBS:
        which = [w for w in words[:1] if w.isalpha() and w.islower()]  # as in `visr task mix`
        with contextlib.suppress(SystemExit):
            main([verb, *which, "--help"])
        shown = capsys.readouterr().out
        flags = [re.split(r"[=\]]", w)[0] for w in words if w.startswith("--")]
        assert [flag for flag in flags if flag not in shown] == []
    else:
        assert verb in ("verb",), f"there is no verb {verb}"


def test_every_picture_is_shown_and_has_a_command_that_draws_it():
    images = ROOT / "docs/images"
    makers = dict(
        re.findall(r"^\| `([\w.-]+\.png)` \| (.+) \|$", (images / "README.md").read_text(), re.M)
    )
    drawn = {path.name for path in images.glob("*.png")}
    assert makers.keys() == drawn
    assert [name for name, maker in makers.items() if "`" not in maker] == []
    text = "".join(page.read_text(encoding="utf-8") for page in ALL_PAGES)
    assert [name for name in sorted(drawn) if f"images/{name}" not in text] == []


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_every_file_that_a_page_points_to_is_there(page: Path):
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
