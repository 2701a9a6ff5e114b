"""The commands, names, links and pictures of README.md and docs/ are correct."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.envs.test_modules import MEADOW
from visr import cli
from visr.cli import main

ROOT = Path(__file__).parent.parent
GENERATED = ROOT / "docs/reference/generated"
FIRST = [ROOT / "docs/get_started.md", ROOT / "docs/guides/prompts.md"]
"""The runs of these pages are used by the others."""
PAGES = [
    page
    for page in [*FIRST, *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p not in FIRST)]
    if page.name != "README.md" and GENERATED not in page.parents
]
ALL_PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *PAGES]

NOT_RUN = {
    "pip install": "changes the machine",
    "ray up": "rents machines",
    "ray attach": "rents machines",
    "git worktree": "checks out an old commit",
    "cd": "is typed on rented machines",
    "make": "runs this test, or takes longer",
}
TINY_TRAINING = shlex.split("--num-steps 64 --num-envs 4 --batch-size 2 --unroll-length 4")
TINY_FINETUNING = shlex.split(
    "--num-steps 40 --num-envs 2 --unroll-length 5 --batch-size 2 --updates-per-round 1 "
    "--checkpoint-every 20"
)
TINY_ATARI = shlex.split("--num-rewarded-envs 1 --max-episode-frames 600 --num-threads 1")
TINY_PHASE_TWO = shlex.split("--rewarded-steps 300 --rewarded-episodes 3")
TINY_FREE_STEPS = shlex.split("--free-steps 1000 --free-updates 2 --sweep-steps 20")

KEPT = ("--from-scratch", "--reward", "--json", "--preset", "--algorithm")
"""Flags without a value, and those whose value makes another command."""
Words = tuple[str, ...]
RUN_EACH = """
import json, sys
import numpy as np
import visr
for number, program in enumerate(json.loads(sys.argv[1])):
    code = compile(program, f"program {number} of the pages", "exec")
    exec(code, {"__name__": "__main__", "np": np, "visr": visr})
"""
"""Runs programs one after another, each with names of its own."""


# ---- commands in code blocks


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def commands(page: Path) -> list[Words]:
    """The words of each command in a page's shell blocks, without comments."""
    lines = [line for b in blocks(page, "sh") for line in b.replace("\\\n", " ").splitlines()]
    return [tuple(words) for line in lines if (words := shlex.split(line, comments=True))]


def signature(words: Words) -> tuple[str, ...]:
    """The verb, what it is applied to, its flags and the reward: equal for commands that do the same."""
    plain = list(words)
    for i, word in enumerate(words):
        if word.startswith("--") and word not in KEPT:
            plain[i + 1 : i + 2] = ["VALUE"] * len(plain[i + 1 : i + 2])
    is_run = re.compile(r"runs/|RUN")
    return tuple("RUN" if is_run.match(w) else w for w in plain if w != "VALUE")


def distinct_commands(with_cluster: bool) -> list[Words]:
    """`visr` commands of docs/ that neither the README nor an earlier page has in another wording."""
    seen = {signature(words) for words in commands(ROOT / "README.md")}
    found = []
    for words in (words for page in PAGES for words in commands(page) if words[0] == "visr"):
        if signature(words) not in seen and with_cluster == ("--cluster" in words):
            seen.add(signature(words))
            found.append(words)
    return found


def tiny(words: Words) -> list[str]:
    """The same command with numbers so small that it takes seconds; plans are only printed."""
    verb, *rest = words[1:]
    if verb == "reproduce":
        return [verb, *(w for w in rest if w != "--dry-run"), "--dry-run"]
    rest = ["runs/wheels" + w.removeprefix("RUN") if w.startswith("RUN") else w for w in rest]
    extra: list[str] = []
    if "--resume" not in rest:
        if verb == "pretrain" and "--cluster" in rest:
            rest = ["visr/Grid-v0" if w.startswith("ALE/") else w for w in rest]
            rest[rest.index("--num-actor-groups") + 1] = "1"
            extra = ["--preset", "smoke", "--num-steps", "1280"]
        elif verb == "pretrain" and "--dataset" in rest:
            extra = ["--num-updates", "5"]
        elif verb == "pretrain":
            extra = [*TINY_TRAINING, "--recorded-steps", "500"]
            if "simple" in rest:
                extra = ["--num-steps", "300"]
            elif "minatar" in rest:
                extra += ["--num-rewarded-envs", "0"]
            elif {"replay", "fb"} & {*rest}:
                extra = shlex.split(
                    "--num-steps 4096 --num-envs 16 --unroll-length 32 --num-updates 20"
                )
        elif verb == "finetune":
            extra = [*TINY_FINETUNING, *(TINY_FREE_STEPS if "--free-steps" in rest else [])]
    elif verb == "pretrain" and "--num-steps" in rest:
        rest[rest.index("--num-steps") + 1] = "21k"  # a little more than the run has
    if verb == "pretrain" and rest[0].startswith("ALE/") and "--cluster" not in rest:
        extra += TINY_ATARI
    if verb == "evaluate" and not is_grid(rest[0]):
        is_phase_two = len(rest) < 2 or rest[1].startswith("--")
        extra = ["--episodes", "1", *(TINY_PHASE_TWO if is_phase_two else [])]
    if verb == "infer" and "env" in rest:
        extra = shlex.split("--episodes 3 --steps 300")
    extra += {
        "doctor": ["--steps", "50"],
        "play": ["--max-steps", "5"],
        "refine": ["--num-updates", "2"],
    }.get(verb, [])
    return [verb, *rest, *extra]


def is_grid(run: str) -> bool:
    """Whether a run, in the current directory or of the package, is one of the grid world."""
    config = Path(run, "config.json")
    return "pretrained:" in run or (config.exists() and '"visr/Grid-v0"' in config.read_text())


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory, trained: Path) -> Path:
    """What the pages assume: runs of the grid and of CartPole, tasks, a dataset, a finished plan."""
    path = tmp_path_factory.mktemp("docs")
    shutil.copytree(trained, path / "runs/first")
    own = next(b for b in blocks(ROOT / "docs/guides/own_environment.md", "python") if "class" in b)
    (path / "my_file.py").write_text(f"{MEADOW}\n\n{own}")
    (path / "results").symlink_to(ROOT / "results")
    shutil.copytree(ROOT / "results/minatar/uniform", path / "runs/reproduce-minatar/uniform")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert main(tiny(("visr", "pretrain", "CartPole-v1", "--out", "runs/wheels"))) == 0
        for name, reward in (("a", "angle"), ("b", "position")):
            assert main(["infer", "runs/wheels", "--reward", reward, "--out", f"{name}.json"]) == 0
    observations = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    np.savez(path / "data.npz", observations=observations, rewards=observations[:, 0])
    steps = {"observations": observations, "rewards": observations[:, 0]}
    np.savez(path / "steps.npz", actions=np.arange(200) % 2, allow_pickle=False, **steps)
    return path


def test_commands_and_programs_of_the_pages_run(directory: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(directory)
    for words in distinct_commands(with_cluster=False):
        assert main(tiny(words)) == 0, shlex.join(words)
    # one process for all programs, which takes most of its time to start
    programs = [code for page in PAGES for code in blocks(page, "python")]
    # Ray, if a test started it, sets a safe path, without the current directory
    usual = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    words = [sys.executable, "-c", RUN_EACH, json.dumps(programs)]
    done = subprocess.run(words, capture_output=True, env=usual)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_commands_that_use_ray_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    found = distinct_commands(with_cluster=True)
    assert found
    for words in found:
        assert main(tiny(words)) == 0, shlex.join(words)


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_of_a_page_has_known_flags(page: Path):
    for words in commands(page):
        flags = [word.partition("=")[0] for word in words if word.startswith("--")]
        if words[0] == "visr":
            known = help_of(*words[1:2], *(words[2:3] if words[1] == "task" else ()))
        elif words[0] == "python":
            path = words[2].replace(".", "/") + ".py" if words[1] == "-m" else words[1]
            known = (ROOT / path).read_text()
        else:
            assert shlex.join(words).startswith(tuple(NOT_RUN)), shlex.join(words)
            continue
        assert [flag for flag in flags if flag not in known] == [], shlex.join(words)


# ---- commands, names and files in sentences


@cache
def help_of(*words: str) -> str:
    """What `visr WORDS --help` prints; `--help-all` where the first screen leaves flags out."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*words, "--help-all" if words[0] == "pretrain" else "--help"])
    return printed.getvalue()


def text_of_all_pages() -> str:
    return "\n".join(page.read_text() for page in ALL_PAGES)


def test_commands_in_sentences_have_known_verbs_and_flags():
    text = re.sub(r"```.*?```", "", text_of_all_pages(), flags=re.DOTALL)
    found = {" ".join(c.split()) for c in re.findall(r"`(visr [a-z][^`]*)`", text)} - {"visr verb"}
    for _, verb, *words in sorted(command.split() for command in found):
        assert verb in cli.VERBS, f"there is no verb {verb}"
        which = words[:1] if verb == "task" else []  # `visr task mix` has flags of its own
        flags = [re.split(r"[=\]]", word)[0] for word in words if word.startswith("--")]
        assert [f for f in flags if f not in help_of(verb, *which)] == [], f"visr {verb} {words}"


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_python_name_on_a_page_exists(page: Path):
    names = set(re.findall(r"(?<![\w/.-])visr(?:\.[A-Za-z_]\w*)+", page.read_text()))
    names.discard("visr.md")  # a page
    assert [name for name in sorted(names) if not exists(name)] == []


def exists(name: str) -> bool:
    """Whether `visr.x.y` is a module, or an attribute of a module or class."""
    found = importlib.import_module("visr")
    parts = name.split(".")
    for i, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            with contextlib.suppress(ImportError):
                importlib.import_module(".".join(parts[:i]))
        if not hasattr(found, part):
            return part in getattr(found, "__annotations__", {}) and i == len(parts)
        found = getattr(found, part)
    return True


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_of_the_repository_named_on_a_page_exists(page: Path):
    folders = "visr|tests|experiments|deploy|results|docs"
    endings = "py|sh|yaml|csv|json|md"
    paths = re.findall(
        rf"(?<![\w./(-])((?:{folders})/[\w./-]*(?:/|\.(?:{endings})\b))", page.read_text()
    )
    paths = [path for path in paths if path != "visr/trusted.json"]  # in the user's home
    known = [path for path in paths if not any(part.isupper() for part in re.split(r"[/.]", path))]
    assert [path for path in sorted(set(known)) if not (ROOT / path).exists()] == []


def test_every_test_named_on_a_page_exists():
    names = set(re.findall(r"`(test_\w+)`", text_of_all_pages()))
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in sorted(names) if f"def {name}(" not in sources] == []


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file_and_heading(page: Path, reference: None):
    for link in re.findall(r"\]\(([^):\s]+)\)", page.read_text()):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.fixture(scope="module")
def reference() -> None:
    """Write the pages that Sphinx writes before it builds."""
    program = [sys.executable, "-c", "import reference_pages; reference_pages.write_pages()"]
    docs = ROOT / "docs"
    subprocess.run(program, cwd=docs, env={**os.environ, "PYTHONPATH": str(docs)}, check=True)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def test_every_picture_is_shown_and_has_a_command_that_draws_it():
    images = ROOT / "docs/images"
    table = (images / "README.md").read_text()
    makers = dict(re.findall(r"^\| `([\w.-]+\.\w+)` \| (.+) \|$", table, flags=re.MULTILINE))
    drawn = {path.name for path in images.iterdir() if path.suffix in (".png", ".gif", ".svg")}
    assert makers.keys() == drawn
    assert [name for name, maker in makers.items() if "`" not in maker] == []
    text = text_of_all_pages()
    assert [name for name in sorted(drawn) if f"images/{name}" not in text] == []
