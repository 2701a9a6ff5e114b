"""The agents of a plan by name: what each changes in a preset, and how many steps it is given."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

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
_DATA_EFFICIENT = {"algorithm": "rainbow", "rainbow_recipe": "data-efficient"}
FORMS = (
    *_PLAIN,
    "diayn-K",
    "diayn-K-log-q",
    "nsq-STEPS",
    "dqn-STEPS",
    "ppo-STEPS",
    "rainbow-STEPS",
    "der-STEPS",
)
"""K is a number of skills; STEPS a budget such as 100k or 10m."""


@dataclass(frozen=True)
class Entry:
    """An agent of a plan."""

    name: str
    fields: dict[str, Any]
    """Of the configuration, where they differ from the preset's."""

    @property
    def has_own_budget(self) -> bool:
        """Whether its name says how long it trains, so that a plan's --num-steps does not."""
        return "num_steps" in self.fields


def entry(name: str) -> Entry:
    """The agent of that name."""
    if name in _PLAIN:
        return Entry(name, _PLAIN[name])
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
