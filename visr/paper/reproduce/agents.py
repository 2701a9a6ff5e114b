"""The agents of a plan: what each name changes in a preset."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from visr.config import presets
from visr.errors import UserError

_UNITS = {"k": 1_000, "m": 1_000_000}
_PLAIN: dict[str, dict[str, Any]] = {
    "visr": {},
    "visr-no-gpi": {"gpi": False},
    "rf-visr": {"features": "random"},
    "rf-visr-no-gpi": {"features": "random", "gpi": False},
    "pos-nsq": {"algorithm": "pos-nsq"},
    "rf-curiosity": {"algorithm": "rf-curiosity"},
    "idf-curiosity": {"algorithm": "idf-curiosity"},
    "uniform": {"algorithm": "uniform", "num_steps": 1},
    # beyond the paper (docs/agents/additions.md): one addition to VISR each, and visr-plus with several
    "visr-visited": {"task_distribution": "visited"},
    "visr-rnd": {"bonus": "rnd"},
    "visr-particles": {"bonus": "particles"},
    "visr-laplacian": {"objective": "laplacian", "centred": True},
    "visr-metra": {"objective": "metra", "centred": True},
    "visr-plus": presets.MINATAR_PLUS,
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "der": {"algorithm": "rainbow", "rainbow_recipe": "data-efficient"},
    "simple": presets.SIMPLE,
}
"""Agents that need more than the name of their algorithm."""
FORMS = (
    *_PLAIN,
    "visr-dD",
    "visr-plus-dD",
    "diayn-K",
    "diayn-K-log-q",
    "nsq-STEPS",
    "dqn-STEPS",
    "ppo-STEPS",
    "rainbow-STEPS",
    "der-STEPS",
    "simple-STEPS",
)
"""D is a number of features, K a number of skills, STEPS a number of steps such as 100k or 10m."""

Way = Literal["fine-tuned", "from scratch", "relabelled", "without free steps"]
"""How the plan `beyond` uses the rewarded steps, apart from the paper's way; see phases.py."""
INFERENCE_SHARE = 0.2
"""Share of the rewarded steps that infers the task before fine-tuning uses the rest."""
RELABELLING: dict[str, Any] = {
    "from_scratch": True,
    "batch_size": 16,
    "updates_per_round": 16,
    "learning_rate": 1e-3,
}
"""Fine-tuning settings of the way `relabelled`: a new Q learnt faster than one that starts from psi . w."""
UPDATES_PER_FREE_STEP = 0.006
"""Updates on relabelled steps, per reward-free step, before Q acts."""
_WAYS: dict[str, tuple[Way, ...]] = {
    "visr": ("fine-tuned", "from scratch", "relabelled"),
    "visr-plus": ("relabelled", "without free steps"),
}


@dataclass(frozen=True)
class PlannedAgent:
    """An agent of a plan."""

    name: str
    fields: dict[str, Any]
    """Configuration fields that differ from the preset's, `num_steps` if the name fixes it."""
    ways: tuple[Way, ...] = ()
    """Other ways than the paper's in which the plan `beyond` uses its rewarded steps."""


def named(name: str) -> PlannedAgent:
    """The agent of that name."""
    if name in _PLAIN:
        return PlannedAgent(name, _PLAIN[name], _WAYS.get(name, ()))
    if features := re.fullmatch(r"(visr|visr-plus)-d(\d{1,4})", name):
        agent = named(features[1])
        ways = agent.ways if name.startswith("visr-plus") else ()
        return PlannedAgent(name, {**agent.fields, "num_features": int(features[2])}, ways)
    if skills := re.fullmatch(r"diayn-(\d{1,6})(-log-q)?", name):
        fields: dict[str, Any] = {"algorithm": "diayn", "num_skills": int(skills[1])}
        if skills[2]:
            fields["diayn_subtract_prior"] = False
        return PlannedAgent(name, fields)
    if budget := re.fullmatch(r"(nsq|dqn|ppo|rainbow|der|simple)-(\d{1,9})([km]?)", name):
        num_steps = int(budget[2]) * _UNITS.get(budget[3], 1)
        fields = _SETTINGS.get(budget[1], {"algorithm": budget[1]})
        return PlannedAgent(name, {**fields, "num_steps": num_steps})
    raise UserError(f"There is no agent {name!r} for a plan; there are {', '.join(FORMS)}.")
