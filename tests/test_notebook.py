"""A notebook: the Python of the documentation, executed by a real Jupyter kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

CELLS = [
    """
import gymnasium, numpy as np, visr

class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)
    moves = np.array([[0.1, 0], [-0.1, 0], [0, 0.1], [0, -0.1]], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = np.zeros(2, dtype=np.float32), 0
        return self.x, {}

    def step(self, action):
        self.x, self.t = np.clip(self.x + self.moves[action], -1, 1), self.t + 1
        return self.x, 0.0, False, self.t >= 40, {}
""",
    "run = visr.pretrain(Walk, num_steps=np.int64(8_192), recorded_steps=2_000, out='walk')\nrun",
    "left = run.infer('x0 < -0.5')\nleft",
    "both = 0.7 * left + 0.3 * run.infer('x1 > 0')\nrun.evaluate(both, num_episodes=2)",
    "run.policy(left)",
    "run.compare('x0 < -0.5')",
    "run.plot()",
]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    place = tmp_path_factory.mktemp("notebook")
    kernel = place / "share/jupyter/kernels/visr-test"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "visr", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(place / "share/jupyter"))
        patch.setenv("XDG_CONFIG_HOME", str(place / "config"))
        patch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
        client = nbclient.NotebookClient(
            notebook,
            timeout=300,
            kernel_name="visr-test",
            resources={"metadata": {"path": str(place)}},
        )
        client.execute()
    return [cell.outputs for cell in notebook.cells]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("cell", "words"),
    [(1, "Run: walk"), (2, "Task: x0"), (3, "EpisodeEvaluation"), (4, "Policy"), (5, "Comparison")],
)
def test_results_are_shown_as_tables(executed: list[Any], cell: int, words: str):
    shown = [out.data for out in executed[cell] if out.output_type == "execute_result"]
    assert len(shown) == 1
    assert "<table>" in shown[0]["text/html"]
    assert words in shown[0]["text/html"]


@pytest.mark.filterwarnings("ignore")
def test_training_shows_its_progress(executed: list[Any]):
    shown = [out.data["text/plain"] for out in executed[1] if out.output_type == "display_data"]
    assert len(shown) == 1
    assert "pre-training: 100%" in shown[0]


@pytest.mark.filterwarnings("ignore")
def test_a_plot_is_shown_as_a_png(executed: list[Any]):
    assert any("image/png" in out.get("data", {}) for out in executed[6])
