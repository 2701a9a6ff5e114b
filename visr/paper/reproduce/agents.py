"""The agents of a plan by name: what each changes in a preset, and how many steps it is given."""

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
}
# docs/beyond.md: one addition to VISR each, then all that earned a place together
_ADDITIONS: dict[str, dict[str, Any]] = {
    "visr-visited": {"task_distribution": "visited"},
    "visr-rnd": {"bonus": "rnd"},
    "visr-particles": {"bonus": "particles"},
    "visr-forward": {"bonus": "forward"},
    "visr-inverse": {"objective": "inverse"},
    "visr-laplacian": {"objective": "laplacian", "centred": True},
    "visr-metra": {"objective": "metra", "centred": True},
    "visr-plus": presets.MINATAR_PLUS,
}
_DATA_EFFICIENT = {"algorithm": "rainbow", "rainbow_recipe": "data-efficient"}
FORMS = (
    *_PLAIN,
    *_ADDITIONS,
    "visr-dD",
    "visr-plus-dD",
    "diayn-K",
    "diayn-K-log-q",
    "nsq-STEPS",
    "dqn-STEPS",
    "ppo-STEPS",
    "rainbow-STEPS",
    "der-STEPS",
)
"""D is a number of features, K of skills; STEPS a budget such as 100k or 10m."""

Way = Literal["rounds", "fine-tuned", "from scratch", "relabelled"]
"""To spend the rewarded steps otherwise than the paper: `reproduce.adapting` has each."""
ROUNDS = 5
"""Of inference: the paper's sweep, then four that draw from the posterior."""
INFERRING = 0.2
"""The share of the steps that goes to inference where fine-tuning takes the rest."""
RELABELLING: dict[str, Any] = {
    "from_scratch": True,
    "batch_size": 16,
    "updates_per_round": 16,
    "learning_rate": 1e-3,
}
"""Fine-tuning where most is learnt from reward-free steps: a fresh Q, which learnt sooner than psi at w."""
UPDATES_PER_FREE_STEP = 0.006
"""Before Q acts."""
_WAYS: dict[str, tuple[Way, ...]] = {
    "visr": ("rounds", "fine-tuned", "from scratch", "relabelled"),
    "visr-plus": ("relabelled",),
}


@dataclass(frozen=True)
class Entry:
    """An agent of a plan."""

    name: str
    fields: dict[str, Any]
    """Of the configuration, where they differ from the preset's."""
    ways: tuple[Way, ...] = ()
    """What the plan `beyond` has it do besides the paper's rewarded phase."""

    @property
    def has_own_budget(self) -> bool:
        """Whether its name says how long it trains, so that a plan's --num-steps does not."""
        return "num_steps" in self.fields


def entry(name: str) -> Entry:
    """The agent of that name."""
    plain = _PLAIN | _ADDITIONS
    if name in plain:
        return Entry(name, plain[name], _WAYS.get(name, ()))
    if features := re.fullmatch(r"(visr|visr-plus)-d(\d{1,4})", name):
        agent = entry(features[1])
        ways = agent.ways if name.startswith("visr-plus") else ()
        return Entry(name, {**agent.fields, "num_features": int(features[2])}, ways)
    if skills := re.fullmatch(r"diayn-(\d{1,6})(-log-q)?", name):
        fields: dict[str, Any] = {"algorithm": "diayn", "num_skills": int(skills[1])}
        if skills[2]:
            fields["diayn_subtract_prior"] = False
        return Entry(name, fields)
    if budget := re.fullmatch(r"(nsq|dqn|ppo|rainbow|der)-(\d{1,9})([km]?)", name):
        num_steps = int(budget[2]) * _UNITS.get(budget[3], 1)
        fields = _DATA_EFFICIENT if budget[1] == "der" else {"algorithm": budget[1]}
        return Entry(name, {**fields, "num_steps": num_steps})
    raise UserError(f"There is no agent {name!r} for a plan; there are {', '.join(FORMS)}.")
