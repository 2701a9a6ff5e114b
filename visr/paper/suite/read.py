"""Read every run below a directory; a damaged run is left out with a sentence that says why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visr.config import GRID
from visr.errors import UserError
from visr.report import read as load
from visr.report import style
from visr.report.read import Columns
from visr.storage.files import read_json, reading
from visr.storage.records.two_phase import AdaptedCondition, TwoPhase
from visr.storage.run_dir import FORMAT, RunDir
from visr.storage.tables import complete_lines

_PAPER_FEATURES = 5
_ADDITIONS = {
    "visited": "VISR + visited tasks",
    "rnd": "VISR + RND bonus",
    "particles": "VISR + particle bonus",
    "laplacian": "VISR, Laplacian phi",
    "metra": "VISR, METRA phi",
    # agents of older versions
    "forward": "VISR + forward-model bonus",
    "inverse": "VISR, inverse-dynamics phi",
}
"""Labels of GPI VISR with one change that goes beyond the paper (docs/agents/additions.md)."""
_WITHOUT_REWARDS = {
    "pos-nsq": "Pos Reward NSQ @0",
    "rf-curiosity": "RF Curiosity @0",
    "idf-curiosity": "IDF Curiosity @0",
    "uniform": "Random @0",
}
_WITH_REWARDS = {"nsq": "NSQ", "dqn": "DQN", "ppo": "PPO", "rainbow": "Rainbow", "simple": "SimPLe"}


@dataclass(frozen=True, eq=False)
class RunSummary:
    """What a report of many runs uses of one run."""

    name: str
    """Its path below the directory of the report."""
    path: Path
    label: str
    """The agent's name in the paper: `GPI VISR`; with the rewarded steps if it trains on them: `NSQ @10M`."""
    env: str
    seed: int
    num_steps: int
    """Steps of the configuration; 0 for the random policy, which does not learn."""
    steps_done: int
    frame_skip: int
    phase_two: TwoPhase | None
    adapted: tuple[AdaptedCondition, ...]
    """Other uses of the rewarded steps than the paper's."""
    online: Columns
    evaluation: Columns
    """Exact fractions of optimal, on grid worlds."""
    is_finetuned: bool = False

    @property
    def adapts(self) -> bool:
        """Whether it is given a task after pre-training."""
        return "@" not in self.label

    @property
    def title(self) -> str:
        """The label with the steps of training, if it does not contain them."""
        return f"{self.label}, {short_count(self.num_steps)}" if self.adapts else self.label

    @property
    def has_score(self) -> bool:
        """Whether tables include it."""
        return not self.why_left_out

    @property
    def why_left_out(self) -> str:
        """Empty if it is finished, not fine-tuned, and scored after its last step."""
        if self.is_finetuned:
            return "fine-tuned on one reward, so it is not in these tables"
        if self.steps_done < self.num_steps:
            return f"stopped at {self.steps_done:,} of {self.num_steps:,} steps"
        if self.evaluation:
            return ""
        if self.phase_two is None:
            return "trained, but not scored; `visr evaluate` scores it"
        if (scored := self.phase_two.num_steps) < self.num_steps:
            return f"scored at step {scored:,} and trained further; `visr evaluate` scores it again"
        return ""


def read(root: Path) -> tuple[list[RunSummary], dict[str, str]]:
    """All runs below `root` in the order of their names; and why a run is damaged, by its name."""
    runs: list[RunSummary] = []
    damaged: dict[str, str] = {}
    for path in find(root):
        name = path.relative_to(root).as_posix()
        try:
            runs.append(_run(path, name))
        except UserError as error:
            damaged[name] = str(error).replace(f"{path}{os.sep}", "")
    return runs, damaged


def find(root: Path) -> Iterator[Path]:
    """Directories with a config.json, in the order of their names; runs inside a run are ignored."""
    config, report = RunDir(root).config_file.name, RunDir(root).report.name
    with reading(root):
        for place, folders, files in os.walk(root):
            if config in files:
                folders.clear()
                yield Path(place)
            folders[:] = sorted(set(folders) - {report})


def _run(path: Path, name: str) -> RunSummary:
    run = RunDir(path)
    content = read_json(run.config_file)
    try:  # few fields are needed, so runs of other versions can be read, too
        config = content["config"]
        env, training, agent = config["env"], config["training"], config["agent"]
        if content["format"] != FORMAT or not isinstance(env, str):
            raise ValueError(f"it is not of format {FORMAT}, or its env is not a name")
        seed, num_steps = int(training["seed"]), int(training["num_steps"])
        frame_skip = int(config.get("atari", {}).get("frame_skip", 1))
        label = label_of(agent, num_steps)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise UserError(f"{run.config_file} is not a run's configuration ({error}).") from None
    is_grid = env == GRID
    phase = None if is_grid else load.two_phase(run, env)
    evaluation = load.columns(run.evaluation) if is_grid else {}
    ends = [_last_step(run.metrics), phase.num_steps if phase else 0]
    ends += [int(evaluation["num_steps"][-1])] if evaluation else []
    return RunSummary(
        name=name,
        path=path,
        label=label,
        env=env,
        seed=seed,
        num_steps=0 if label == _WITHOUT_REWARDS["uniform"] else num_steps,
        steps_done=max(ends),
        frame_skip=frame_skip,
        phase_two=phase,
        adapted=() if is_grid else load.adapted(run, env),
        online={} if is_grid else load.online(run.online),
        evaluation=evaluation,
        is_finetuned=run.is_finetuned,
    )


def label_of(agent: dict[str, Any], num_steps: int) -> str:
    """The agent's name in tables, from the section `agent` of its configuration."""
    algorithm = str(agent.get("algorithm", "visr"))
    if algorithm == "visr":
        return _visr_label(agent)
    if algorithm == "diayn":
        reward = "" if agent["diayn_subtract_prior"] else " (log q)"
        return f"Q-DIAYN-{int(agent['num_skills'])}{reward}"
    if algorithm in _WITHOUT_REWARDS:
        return _WITHOUT_REWARDS[algorithm]
    name = _WITH_REWARDS.get(algorithm, style.plain(algorithm))
    if algorithm == "rainbow" and agent.get("rainbow_recipe") == "data-efficient":
        name = "DER"
    return f"{name} @{short_count(num_steps)}"


def _visr_label(agent: dict[str, Any]) -> str:
    random = "RF " if agent["features"] == "random" else ""
    name = f"{'GPI ' if agent['gpi'] else ''}{random}VISR"
    defaults = {"objective": "visr", "bonus": "none", "task_distribution": "uniform"}
    added = [str(agent[k]) for k, default in defaults.items() if agent.get(k, default) != default]
    added += ["weighted"] if agent.get("value_weight") else []
    if name == "GPI VISR" and added == ["rnd", "visited", "weighted"]:
        name = "VISR+"
    elif name == "GPI VISR" and len(added) == 1 and added[0] in _ADDITIONS:
        name = _ADDITIONS[added[0]]
    elif added:
        name = style.plain(f"{name} with {', '.join(added)}")
    d = int(agent.get("num_features", _PAPER_FEATURES))
    return name if d == _PAPER_FEATURES else f"{name}, d = {d}"


def short_count(count: float) -> str:
    """100k, 2M, 2.5M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:g}"


def _last_step(metrics: Path) -> int:
    """The steps in the last complete row of metrics.csv; 0 if there is none."""
    rows = complete_lines(metrics)[1:]
    try:
        return int(float(rows[-1].split(",")[0])) if rows else 0
    except (ValueError, OverflowError):
        raise UserError(f"{metrics} is damaged: a row does not start with a number.") from None
