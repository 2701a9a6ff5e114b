"""Numbers that go wrong stop a run with a sentence, and never replace what was saved before."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from tests.conftest import tiny
from visr import cli, pretraining
from visr.config import AgentConfig
from visr.errors import UserError
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows, read_rows
from visr.training import checkpoint, metrics
from visr.training.loop import Loop
from visr.training.metrics import MetricsWriter


class Odd(gymnasium.Env[Any, np.int64]):
    """Two numbers that wander until, at step 30 of an episode, something odd happens."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, oddity: str) -> None:
        self._oddity = oddity
        if oddity == "state":
            self.observation_space = spaces.Discrete(3)

    def _seen(self) -> Any:
        match self._oddity if self._age >= 30 else "":
            case "nan":
                return np.array([0.0, np.nan], np.float32)
            case "infinity":
                return np.array([np.inf, 0.0], np.float32)
            case "shape":
                return np.zeros(3, np.float32)
            case "state":
                return 3
            case "raises":
                raise ZeroDivisionError("the reservoir is\nempty")
        place = np.float32(self._place)
        if self._oddity == "state":
            return int(self._place) % 3
        return (
            np.zeros(2, np.float32)
            if self._oddity == "still"
            else np.array([place, 0.5], np.float32)
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._age, self._place = 0, 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self._age += 1
        self._place += 1 if action else -1
        return self._seen(), 0.0, False, self._age == 200, {}


ODDITIES = ("nan", "infinity", "shape", "state", "raises", "still")
for oddity in ODDITIES:
    if (id := f"Odd/{oddity.capitalize()}-v0") not in gymnasium.registry:
        gymnasium.register(id, entry_point=f"{__name__}:Odd", kwargs={"oddity": oddity})

SMALL = {
    "num_steps": 20_480,
    "log_every": 1_280,
    "checkpoint_every": 1_280,
    "normalise_observations": False,
}


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("Odd/Nan-v0", r"Odd/Nan-v0 returned nan as 'x1'"),
        ("Odd/Infinity-v0", r"Odd/Infinity-v0 returned inf as 'x0'"),
        ("Odd/State-v0", r"is in state 3, but promised states 0 to 2"),
        ("Odd/Shape-v0", r"Odd/Shape-v0 failed with ValueError"),
        (
            "Odd/Raises-v0",
            r"failed with ZeroDivisionError: the reservoir is empty \(test_diagnostics.py, line \d+\)",
        ),
    ],
)
def test_an_environment_with_invalid_observations_is_reported(
    env: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "run"
    words = ["pretrain", env, "--preset", "smoke", "--out", str(path)]
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert re.search(said, error), error
    assert error.count("\n") == 1
    assert RunDir.open(path).checkpoints()


def test_features_that_are_equal_in_all_states_stop_a_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "run"
    with (
        caplog.at_level(logging.WARNING, "visr"),
        pytest.raises(
            UserError, match=r"phi is nearly the same in all states .* centred_features="
        ),
    ):
        pretraining.start(path, tiny(env="Odd/Still-v0", **SMALL))
    assert len(read_rows(RunDir(path).metrics)) == metrics.PATIENCE
    assert len(caplog.records) == 1  # one warning only
    assert RunDir.open(path).checkpoints()


def test_a_run_can_be_set_to_warn_only(tmp_path: Path):
    config = tiny(env="Odd/Still-v0", on_trouble="warn", **SMALL)
    assert read_rows(pretraining.start(tmp_path / "run", config).metrics)[-1]["num_steps"] == 20_480


def test_the_count_of_troubled_rows_is_saved(tmp_path: Path, tiny: Any):
    run = RunDir.create(tmp_path / "run", tiny())
    first, second = MetricsWriter(run), MetricsWriter(run)
    row = {"feature_concentration": torch.tensor(1.0)}
    for step in range(metrics.PATIENCE - 1):
        first.add([row])
        first.write(step, step, {})
    second.load_state(first.state())
    second.add([row])
    with pytest.raises(UserError, match="phi is nearly the same"):
        second.write(10, 10, {})
    first.close()
    second.close()


def test_a_psi_with_dead_units_is_detected():
    config = tiny(num_steps=1_280)
    alive, dead = Loop(config), Loop(config)
    with torch.no_grad():
        for name, parameter in dead.agent.psi.named_parameters():
            if name.endswith("bias") and parameter.ndim == 1:
                parameter.fill_(-1e3)
    found = []
    for loop in (alive, dead):
        reports = [dict(m) for round in loop.rounds() for m in round.metrics]
        found.append(
            metrics.find_trouble(config.agent, {k: float(v) for k, v in reports[0].items()})
        )
    assert found[0] is None
    assert found[1] is not None
    assert found[1].name == "psi is dead"


@pytest.mark.parametrize("rate", [3.0, 1e18])
def test_a_psi_that_explodes_stops_a_run_and_leaves_finite_checkpoints(tmp_path: Path, rate: float):
    path = tmp_path / "run"
    config = tiny(psi_learning_rate=rate, log_every=1_280, checkpoint_every=1_280, num_steps=40_960)
    with pytest.raises(UserError, match=r"no sum of cumulants|diverged before step"):
        pretraining.start(path, config)
    for file in RunDir.open(path).checkpoints():
        tensors, _ = checkpoint.load(file)
        assert all(torch.isfinite(t).all() for t in tensors.values() if t.is_floating_point())


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path):
    loop = Loop(tiny())
    tensors, _ = loop.state()
    checkpoint.refuse_non_finite(tensors, 1)
    next(iter(tensors.values()))[0] = float("inf")
    with pytest.raises(
        UserError, match=r"learner\.agent\..* is not finite; the last checkpoint is kept"
    ):
        checkpoint.refuse_non_finite(tensors, 1)


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({}, 4e4),
        ({"algorithm": "nsq"}, 4e4),
        ({"gamma": 0.9}, 4e2),
        ({"value_weight": 1.0}, 8e4),
        ({"bonus": "rnd"}, float("inf")),
        ({"algorithm": "diayn"}, float("inf")),
        ({"objective": "laplacian"}, float("inf")),
    ],
)
def test_the_psi_loss_is_bounded_where_cumulants_are(changes: dict[str, Any], bound: float):
    assert metrics.largest_error(AgentConfig(**changes)) == pytest.approx(bound)


def test_random_features_may_be_nearly_equal_in_all_states():
    row = {"feature_concentration": 1.0}
    assert metrics.find_trouble(AgentConfig(features="random"), row) is None
    assert metrics.find_trouble(AgentConfig(), row) is not None


def test_a_table_of_an_older_version_keeps_its_columns(tmp_path: Path):
    path = tmp_path / "metrics.csv"
    append_rows(path, ["num_steps", "b", "gone"], [[1, 2.0, 3.0]])
    append_rows(path, ["num_steps", "a", "b"], [[2, 5.0, 6.0]])
    assert path.read_text().splitlines() == ["num_steps,b,gone", "1,2.0,3.0", "2,6.0,nan"]
