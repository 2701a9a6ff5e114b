"""The notebooks of the documentation run, with small numbers, and are stored with their outputs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

PLACE = Path(__file__).parent.parent / "docs/notebooks"
NOTEBOOKS = sorted(PLACE.glob("*.ipynb"))


def executor() -> ModuleType:
    spec = importlib.util.spec_from_file_location("execute", PLACE / "execute.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(PLACE.parent.parent))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("JUPYTER_PATH", "")  # `executed` sets it
    notebook = executor().executed(path, tmp_path, "NUM_UPDATES = 20")
    assert all(out.output_type != "error" for c in code_cells(notebook) for out in c.outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_has_the_outputs_of_one_execution_and_is_small(path: Path):
    cells = code_cells(nbformat.read(path, as_version=4))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any(cell.outputs for cell in cells)
    assert path.stat().st_size < 100_000


def test_there_are_four_notebooks():
    names = ["offline_data", "own_environment", "prompts", "quickstart"]
    assert [path.stem for path in NOTEBOOKS] == names
