"""The floor plan, held: a room imports only from rooms upstream of it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "visr"

# A room may import itself and what stands here. `cli`, `commands`, `api`, `presets`, `pretraining`
# and `bench` are the front door: nothing below imports them.
_ARROWS = {
    "errors": "",
    "disk": "errors",
    "config": "errors",
    "types": "",
    "oversight": "",
    "ops": "errors",
    "run_dir": "config disk errors",
    "networks": "errors ops types",
    "agents": "config errors networks ops types",
    "games": "",
    "published": "games",
    "statistics": "",
    "envs": "config errors games",
    "training": "agents config disk envs errors networks ops run_dir types",
    "tasks": "agents config disk envs errors games ops run_dir",
    "report": "config disk errors games published run_dir statistics tasks",
    "presets": "config errors",
    "baselines": "config disk envs errors networks ops run_dir tasks training types",
    "cluster": "agents config envs errors ops training types",
    "pretraining": "agents baselines cluster config disk errors oversight run_dir tasks training",
    "finetuning": "agents config disk envs errors oversight run_dir tasks training",
    "models": "config disk errors run_dir",
    "policy": "agents envs errors tasks",
    "exporting": "agents disk errors networks run_dir tasks",
    "run": "agents config envs errors exporting finetuning models ops oversight policy "
    "run_dir tasks training types",
    "api": "cluster config envs errors models oversight policy presets pretraining run run_dir tasks",
    "explorer": "api config disk envs errors ops run_dir tasks",
    "bench": "agents api cluster config disk envs games ops "
    "presets pretraining report run_dir tasks training types",
    "reproduce": "agents api baselines cluster config disk envs errors finetuning games "
    "oversight presets pretraining run_dir tasks training",
    "commands": "api baselines bench config disk envs errors explorer finetuning "
    "models oversight presets pretraining report reproduce run_dir tasks",
    "cli": "commands errors oversight",
    "__init__": "api errors",
    "__main__": "cli",
}
MAY_IMPORT = {room: set(others.split()) for room, others in _ARROWS.items()}
HEAVY = {"torch", "gymnasium", "matplotlib", "scipy"}
LIGHT_ROOMS = {"errors", "config", "disk", "types", "run_dir", "oversight", "presets", "cli"}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> set[tuple[str, bool]]:
    """(module, at run time) of every import; those under TYPE_CHECKING are not at run time."""
    tree = ast.parse(path.read_text())
    guarded = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        else:
            continue
        found |= {(name, node not in guarded) for name in names}
    return found


def rooms_imported(path: Path) -> set[str]:
    names = [name.split(".") for name, _ in imports(path)]
    return {parts[1] for parts in names if parts[0] == "visr" and len(parts) > 1}


FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path):
    room = room_of(path)
    known = MAY_IMPORT[room] | {room, "__version__"}
    assert rooms_imported(path) <= known


def test_the_floor_plan_has_no_circle():
    done: set[str] = set()
    while len(done) < len(MAY_IMPORT):
        ready = {room for room, needs in MAY_IMPORT.items() if room not in done and needs <= done}
        assert ready, f"a circle among {sorted(set(MAY_IMPORT) - done)}"
        done |= ready


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_cluster_imports_ray(path: Path):
    modules = {name.split(".")[0] for name, _ in imports(path)}
    assert "ray" not in modules or room_of(path) == "cluster"


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) in LIGHT_ROOMS], ids=str)
def test_the_light_rooms_import_nothing_heavy(path: Path):
    heavy = {name for name, at_run_time in imports(path) if at_run_time}
    assert not {name.split(".")[0] for name in heavy} & HEAVY


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["list", "presets"], ["list", "models"]]
)
def test_words_that_need_no_network_do_not_load_torch(arguments: list[str]):
    code = (
        "import sys; from visr.cli import main; main(sys.argv[1:]); "
        "sys.exit(int(any(m in sys.modules for m in ('torch', 'gymnasium', 'matplotlib'))))"
    )
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL)
