"""From runs to lines of a table: which agent, after how much interaction, which score per game and seed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from visr.config import ATARI
from visr.paper.suite import published
from visr.paper.suite.read import UNIFORM, Run, Trouble, short_count
from visr.storage.records.two_phase import UNTRAINED, Condition

_EPISODES = 50  # with rewards, in the paper
SEARCH = "env-search"
REGRESSION = "env-regression"
TOP, MIDDLE, BOTTOM = "top_unsupervised_only", "mid_data_limited_rl", "bottom_rl_with_pretraining"
"""The three parts of the paper's table, as `data/paper_table.csv` names them."""
RANDOM = "Random"
FROM_SCRATCH = "Fine-tuning's learner from scratch"

# as `visr reproduce` and as the paper call them
_ADAPTED = {
    "visr": "GPI VISR",
    "visr-no-gpi": "VISR",
    "rf-visr": "GPI RF VISR",
    "rf-visr-no-gpi": "RF VISR",
}
_ADDITIONS = {
    "visr-visited": "VISR + visited tasks",
    "visr-rnd": "VISR + RND bonus",
    "visr-particles": "VISR + particle bonus",
    "visr-forward": "VISR + forward-model bonus",
    "visr-inverse": "VISR, inverse-dynamics phi",
    "visr-laplacian": "VISR, Laplacian phi",
    "visr-metra": "VISR, METRA phi",
    "visr-plus": "VISR+",
}
"""Beyond the paper (docs/beyond.md)."""
_UNREWARDED = {
    "pos-nsq": "Pos Reward NSQ",
    "rf-curiosity": "RF Curiosity",
    "idf-curiosity": "IDF Curiosity",
    UNIFORM: RANDOM,
}
_REWARDED = {"nsq": "NSQ", "dqn": "DQN", "ppo": "PPO", "rainbow": "Rainbow", "der": "DER"}
_FEATURES = re.compile(r"(visr|visr-plus)-d(\d+)")
_MIXED = re.compile(r"((?:rf-)?visr(?:-no-gpi)?)-([a-z-]+)")
_DIAYN = re.compile(r"diayn-(\d+)(-log-q)?")
_BUDGET = re.compile(r"(.+)-(\d+(?:\.\d+)?)([km]?)")


@dataclass(frozen=True)
class Key:
    """What makes two runs the same line of a table but for game and seed."""

    algorithm: str
    """As in the paper."""
    interaction: str
    """Rewarded steps allowed: 0, 100k, 10M."""
    section: str
    num_steps: int
    """Of training: without rewards, or for reinforcement learning with them."""

    @property
    def name(self) -> str:
        """As in the paper's first column."""
        return f"{self.algorithm} @{self.interaction}"


@dataclass(frozen=True, eq=False)
class Entry:
    """A line of a table: mean raw scores of whole episodes by game and seed."""

    key: Key
    scores: dict[str, dict[int, float]] = field(default_factory=dict)

    @property
    def seeds(self) -> set[int]:
        """All that played any game."""
        return {seed for of in self.scores.values() for seed in of}

    def mean(self, game: str) -> float:
        """Over seeds."""
        return float(np.mean(list(self.scores[game].values())))


def adapted_name(agent: str) -> str | None:
    """The paper's name of an agent that meets rewards after pre-training; None for others."""
    features = _FEATURES.fullmatch(agent)
    base = _ADDITIONS.get(features[1], "VISR") if features else ""
    wide = f"{base}, d = {features[2]}" if features else None
    return _diayn_name(agent) or wide or (_ADAPTED | _ADDITIONS).get(agent) or _mixed_name(agent)


def _mixed_name(agent: str) -> str | None:
    """Of a VISR with additions that no plan has by name."""
    found = _MIXED.fullmatch(agent)
    return f"{_ADAPTED[found[1]]} with {found[2].replace('-', ', ')}" if found else None


def _diayn_name(agent: str) -> str | None:
    """With log q(z | s') alone for its reward, it is a line of its own."""
    found = _DIAYN.fullmatch(agent)
    return f"Q-DIAYN-{found[1]}{' (log q)' if found[2] else ''}" if found else None


def agent_name(run: Run) -> str:
    """The paper's name of a run's agent, whatever it was judged by."""
    return adapted_name(run.agent) or _unadapted_key(run).name


def gather(runs: Sequence[Run]) -> tuple[list[Entry], list[Trouble]]:
    """Every line that these runs make, in the table's order; and runs that say the same twice."""
    entries: dict[Key, Entry] = {}
    origin: dict[tuple[Key, str, int], str] = {}
    doubles: dict[str, str] = {}
    for run in runs:
        for key, condition in _lines(run):
            earlier = origin.setdefault((key, run.env, run.seed), run.name)
            if earlier != run.name:
                doubles[run.name] = earlier
                continue
            scores = entries.setdefault(key, Entry(key)).scores
            scores.setdefault(run.env, {})[run.seed] = condition.mean
    if not any(key.algorithm == RANDOM for key in entries):
        entries |= _random_entry(runs)
    order = sorted(entries, key=_order)
    troubles = [
        Trouble(
            name, f"the same agent, steps, game and seed as {earlier}, which is counted instead."
        )
        for name, earlier in doubles.items()
    ]
    return [entries[key] for key in order], troubles


def _random_entry(runs: Iterable[Run]) -> dict[Key, Entry]:
    """Without runs of their own, the random policies that others were compared with; one for each seed."""
    entry = Entry(Key(RANDOM, "0", TOP, 0))
    for run in runs:
        for condition in run.phase_two.conditions if run.phase_two and run.has_score else ():
            if condition.name == UNTRAINED:
                entry.scores.setdefault(run.env, {}).setdefault(run.seed, condition.mean)
    return {entry.key: entry} if entry.scores else {}


def _lines(run: Run) -> list[tuple[Key, Condition]]:
    """The conditions of a run that tables speak of; its own score is the first."""
    if run.phase_two is None or not run.has_score:
        return []
    conditions, steps = run.phase_two.conditions, run.num_steps
    first, adapted = conditions[0], adapted_name(run.agent)
    if adapted is None:
        return [(_unadapted_key(run), first)]
    budget = _budget(run)
    lines = [(Key(adapted, budget, BOTTOM, steps), first)]
    for condition in conditions[1:]:
        if condition.name == SEARCH and first.name == REGRESSION:
            lines.append((Key(f"{adapted} by search", budget, BOTTOM, steps), condition))
        elif condition.is_unadapted and (name := _unadapted_name(run.agent)):
            lines.append((Key(name, "0", TOP, steps), condition))
    for condition in run.adapted:
        name = FROM_SCRATCH if condition.name == "from scratch" else f"{adapted}, {condition.name}"
        lines.append((Key(name, budget, BOTTOM, steps + condition.num_free_steps), condition))
    return lines


def _unadapted_name(agent: str) -> str | None:
    """The paper runs its full agent without adaptation, and DIAYN; its table calls the former VISR."""
    return _diayn_name(agent) or ("VISR" if agent == "visr" else None)


def _unadapted_key(run: Run) -> Key:
    if run.agent in _UNREWARDED:
        return Key(_UNREWARDED[run.agent], "0", TOP, run.num_steps)
    found = _BUDGET.fullmatch(run.agent)
    name, interaction = (
        (found[1], f"{found[2]}{found[3].replace('m', 'M')}") if found else (run.agent, "")
    )
    interaction = interaction or short_count(run.num_steps)
    return Key(_REWARDED.get(name, name), interaction, MIDDLE, run.num_steps)


def _budget(run: Run) -> str:
    """The paper's 100k (on Atari 50 episodes, if they come first), or what was met where less was allowed."""
    phase = run.phase_two
    assert phase is not None
    is_papers = run.env.startswith(ATARI) and phase.num_rewarded_episodes >= _EPISODES
    if phase.num_rewarded_steps <= 110_000 and (is_papers or phase.num_rewarded_steps >= 90_000):
        return "100k"
    return short_count(_about(phase.num_rewarded_steps))


def _about(count: int) -> float:
    """To half a leading digit (20k, 25k, 30k): seeds of one budget meet a few steps more or less."""
    unit = 10 ** math.floor(math.log10(max(count, 1)))
    return round(2 * count / unit) / 2 * unit


def _order(key: Key) -> tuple[object, ...]:
    """As in the paper; what it has not comes behind, within its part."""
    names = [row.name for row in published.paper_table()]
    place = names.index(key.name) if key.name in names else len(names)
    section = (TOP, MIDDLE, BOTTOM).index(key.section)
    return section, place, key.algorithm, _count(key.interaction), key.num_steps


def _count(interaction: str) -> float:
    unit = {"k": 1e3, "M": 1e6, "G": 1e9}.get(interaction[-1:], 1.0)
    digits = interaction.rstrip("kMG")
    return float(digits) * unit if re.fullmatch(r"\d+(\.\d+)?", digits) else 0.0


def random_scores(runs: Iterable[Run]) -> dict[str, float]:
    """What a random policy scored, by game: the mean over all runs that played one."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for condition in run.phase_two.conditions if run.phase_two else ():
            if condition.name == UNTRAINED:
                found.setdefault(run.env, []).append(condition.mean)
    return {game: float(np.mean(scores)) for game, scores in found.items()}
