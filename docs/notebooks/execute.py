"""Execute the notebooks and store their outputs: `make notebooks`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import nbclient
import nbformat

PLACE = Path(__file__).parent


def executed(path: Path, directory: Path, parameters: str = "") -> nbformat.NotebookNode:
    """The notebook with its outputs; `parameters` is run after the cell that sets them."""
    kernel = directory / "share/jupyter/kernels/visr-notebook"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    os.environ["JUPYTER_PATH"] = str(directory / "share/jupyter")
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            cell.source = f"{cell.source}\n{parameters}".strip()
    client = nbclient.NotebookClient(
        notebook,
        timeout=800,
        coalesce_streams=True,
        kernel_name="visr-notebook",
        resources={"metadata": {"path": str(directory)}},
    )
    client.execute()
    return notebook


def store(path: Path) -> None:
    """Execute a notebook and write it with its outputs, without times and versions."""
    with tempfile.TemporaryDirectory() as place:
        notebook = executed(path, Path(place))
    kernel = {"display_name": "Python 3", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(notebook, path)
    print(path)


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.name for path in PLACE.glob("*.ipynb")):
        store(PLACE / name)
