"""Packages import one way only: from the layers before their own."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "visr"

LAYERS = [
    "errors",
    "optional_packages",
    "terminal",
    "strict_json",
    "startup_checks",
    "working_directory",
    "arguments",
    "types",
    "atari_games",
    "config",
    "ops",
    "networks",
    "agents",
    "storage",
    "envs",
    "training",
    "inference",
    "evaluation",
    "finetuning",
    "play",
    "cluster",
    "report",
    "extend_run",
    "pretraining",
    "run_files",
    "run_refine",
    "run",
    "sharing",
    "api",
    "explorer",
    "bench",
    "commands",
    "cli",
    "__init__",
    "__main__",
    "tasks",
    "paper",
]
"""A module imports only from its own layer and from those named before it."""

LATER = {
    ("pretraining.py", "paper"),
    ("report/__init__.py", "paper"),
}
"""The only imports of a later layer: (file, layer)."""

WITHOUT_TORCH = {
    "errors",
    "optional_packages",
    "terminal",
    "startup_checks",
    "strict_json",
    "types",
    "atari_games",
    "config",
    "cli",
}
HEAVY = {"torch", "gymnasium", "matplotlib", "scipy"}


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path, run_time_only: bool = False) -> Iterator[tuple[str, str]]:
    """(module, name) of every import in a file; name is empty for `import module`."""
    tree = ast.parse(path.read_text())
    guarded = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if run_time_only and node in guarded:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


FILES = sorted(ROOT.rglob("*.py"))


def test_every_file_belongs_to_a_layer():
    assert {layer_of(path) for path in FILES} <= set(LAYERS)


def test_imports_go_one_way():
    wrong, used = [], set()
    for path in FILES:
        rank = LAYERS.index(layer_of(path))
        for module, name in imports(path):
            parts = f"{module}.{name}".split(".")
            if parts[0] != "visr" or parts[1] not in LAYERS or LAYERS.index(parts[1]) <= rank:
                continue
            exception = (path.relative_to(ROOT).as_posix(), parts[1])
            used |= {exception} & LATER
            if exception not in LATER:
                wrong.append(f"{exception[0]} imports {module}.{name}")
    assert not wrong
    assert used == LATER, "an exception is no longer needed"


def test_only_the_cluster_imports_ray():
    users = {
        layer_of(p) for p in FILES for module, _ in imports(p) if module.split(".")[0] == "ray"
    }
    assert users <= {"cluster"}


def test_light_modules_import_no_heavy_library():
    for path in FILES:
        if layer_of(path) in WITHOUT_TORCH:
            modules = {module.split(".")[0] for module, _ in imports(path, run_time_only=True)}
            assert not modules & HEAVY, path


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["list", "presets"], ["list", "models"]]
)
def test_commands_that_need_no_network_do_not_load_torch(arguments: list[str]):
    code = (
        "import sys; from visr.cli import main; main(sys.argv[1:]); "
        "sys.exit(int(any(m in sys.modules for m in ('torch', 'gymnasium', 'matplotlib'))))"
    )
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("name", ["visr", "base"])
def test_the_papers_agent_imports_no_extension(name: str):
    modules = {f"{module}.{imported}" for module, imported in imports(ROOT / f"agents/{name}.py")}
    assert not [module for module in modules if "extensions" in module]


def test_a_run_of_visr_as_in_the_paper_loads_no_other_agent():
    code = (
        "import sys; from visr.config import presets; from visr.training.loop import Loop; "
        "Loop(presets.get('smoke')).close(); "
        "sys.exit([m for m in sys.modules if 'agents.extensions' in m or 'agents.nsq' in m] or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
