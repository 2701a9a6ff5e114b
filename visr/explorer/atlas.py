"""The skill atlas: play tasks spread over the sphere, and measure how well they can be separated.

It is shown on the explorer's page, and exported as one HTML file without scripts or network requests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import jinja2
import numpy as np
import torch
from numpy.typing import NDArray

from visr.agents.replay_successor_features import ReplaySuccessorFeatures
from visr.api import Run
from visr.config import ATARI, GRID, MINATAR
from visr.envs.grid import dynamic_programming
from visr.evaluation import grid_benchmark
from visr.explorer import painting, pictures
from visr.ops import sphere
from visr.play.session import Session
from visr.storage.records.library import Library, PractisedTask
from visr.strict_json import encodable

NUM_SKILLS = 12
MAX_SKILLS = 48
_LENGTHS = {GRID: (32, 1), MINATAR: (96, 3), ATARI: (160, 8)}
"""Steps of a film, and steps between two frames."""
_OTHER_LENGTHS = (150, 5)
_ALIKE = 0.95
_MIN_SEPARABILITY = 0.6
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("visr.explorer"), autoescape=True, undefined=jinja2.StrictUndefined
)

Floats = NDArray[np.float32]


@dataclass(eq=False)
class Skill:
    """One task of the atlas and its rollout."""

    w: Floats
    phi: Floats
    """[T, d], of every state reached."""
    film: str | None
    """The frames side by side as a data URI; None if the environment cannot render."""
    size: tuple[int, int]
    """(width, height) of a frame."""
    frame_phi: list[Floats]
    """phi of the states on the film's frames."""
    score: float
    """The environment's own rewards, summed over the film."""
    num_episodes: int
    practised: PractisedTask | None = None
    """What the replay learner practised; None for other tasks."""
    visits: str | None = None
    """On grids: a map of exact visits over all starts, as a data URI."""
    discriminability: float = 0.5
    nearest: int | None = None
    """The most similar other skill, if it is too similar."""


@dataclass(eq=False)
class Atlas:
    """All skills, with warnings about them together."""

    skills: list[Skill] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    scale: tuple[int, int] = (1, 1)

    @property
    def discriminability(self) -> float:
        """The mean over skills."""
        return float(np.mean([skill.discriminability for skill in self.skills]))


def draw(run: Run, num_skills: int = NUM_SKILLS, seed: int = 0) -> Iterator[Atlas]:
    """Yield the growing atlas after each skill; the last one has its scores."""
    tasks = practised(run, num_skills, seed) or _spread(run, num_skills, seed)
    num_skills = len(tasks)
    screen = pictures.screen_of(run.config)
    session = Session(
        run.visr, run.config, epsilon=run.config.agent.epsilon, seed=seed, screen=screen
    )
    atlas = Atlas(scale=(1, 1) if screen is None else screen.scale)
    with contextlib.closing(session):
        for known, w in tasks:
            atlas.skills.append(_play(session, run, w, seed, known))
            if len(atlas.skills) < num_skills:
                yield atlas
    score(atlas)
    yield atlas


ToPlay = list[tuple[PractisedTask | None, Floats]]


def _spread(run: Run, num_skills: int, seed: int) -> ToPlay:
    """Directions spread over the sphere."""
    rng, size = torch.Generator().manual_seed(seed), run.config.agent.num_features
    return [(None, w) for w in spread(num_skills, size, rng).numpy()]


@torch.no_grad()
def spread(count: int, d: int, generator: torch.Generator, num_rounds: int = 200) -> torch.Tensor:
    """Unit vectors [count, d] far from each other: uniform draws that then repel each other.

    x_i <- normalise(x_i + step * sum_j (x_i - x_j) / |x_i - x_j|^3), with a step that falls to 0
    """
    points = sphere.uniform(count, d=d, generator=generator)
    for round in range(num_rounds):
        apart = points[:, None] - points[None]
        distance = apart.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        push = (apart / distance**3).sum(dim=1)
        step = 0.1 * (1 - round / num_rounds)
        points = sphere.normalise(
            points + step * push / push.norm(dim=-1, keepdim=True).clamp(min=1.0)
        )
    return points


def practised(run: Run, most: int, seed: int) -> ToPlay:
    """Tasks of the replay learner's library: events by lift, or states that are unlike each other.

    A packed model holds the library without names.
    """
    if not isinstance(run.agent, ReplaySuccessorFeatures):
        return []
    rows = run.agent.library.cpu().numpy()
    if not run.directory.library.exists():
        units = rows[rows.any(axis=1)]
        units = units / np.linalg.norm(units, axis=1, keepdims=True)
        chosen = _unlike(units, seed)[:most] if len(units) > 1 else []
        return [(None, units[i].astype(np.float32)) for i in chosen]
    known = Library.load(run.directory.library).tasks
    known = [task for task in known if task.row < len(rows) and rows[task.row].any()]
    if len(known) < 2:
        return []
    units = np.stack([rows[task.row] / np.linalg.norm(rows[task.row]) for task in known])
    if any(task.lift is not None for task in known):
        order = sorted(range(len(known)), key=lambda i: -(known[i].lift or 0))
    else:
        order = _unlike(units, seed)
    return [(known[i], units[i].astype(np.float32)) for i in order[:most]]


def _unlike(units: NDArray, seed: int) -> list[int]:
    """An order in which each row is the one least like all before it; the seed chooses the first."""
    order = [int(np.random.default_rng(seed).integers(len(units)))]
    likeness = units @ units[order[0]]
    while len(order) < len(units):
        likeness[order] = np.inf
        order.append(int(likeness.argmin()))
        likeness = np.maximum(likeness, units @ units[order[-1]])
    return order


def _play(
    session: Session, run: Run, w: Floats, seed: int, known: PractisedTask | None = None
) -> Skill:
    env = run.config.env
    num_steps, every = next((v for k, v in _LENGTHS.items() if env.startswith(k)), _OTHER_LENGTHS)
    session.actor.pursue(w)
    session.begin(seed)
    score, num_episodes, phi, frames = 0.0, 1, [], []
    for step in range(num_steps):
        if session.is_over:
            session.begin(seed + num_episodes)
            num_episodes += 1
        session.step()
        score += session.reward
        phi.append(session.features())
        if step % every == 0 and session.picture is not None:
            frames.append(session.picture.copy())
    film, size = pictures.strip(frames) if frames else (None, (1, 1))
    shown = phi[::every] if frames else []
    visits = _visits(run, w) if painting.is_paintable(run) else None
    return Skill(w, np.stack(phi), film, size, shown, score, num_episodes, known, visits)


def _visits(run: Run, w: Floats) -> str:
    world, task = painting.world(run), w[None].astype(np.float64)
    policy = grid_benchmark.actions(run.visr, world, task, run.config.agent.gpi)[0]
    visits = dynamic_programming.visits(world.transitions, policy, world.start, painting.NUM_MOVES)
    shape = (world.height, world.width)
    return pictures.heat(np.log1p(visits).reshape(shape), world.free.reshape(shape))


def score(atlas: Atlas) -> None:
    """Compute how well states identify their skill; warn where they do not."""
    skills = atlas.skills
    for skill in skills:
        pairs = {
            i: separability(skill, other) for i, other in enumerate(skills) if other is not skill
        }
        skill.discriminability = float(np.mean(list(pairs.values())))
        nearest = min(pairs, key=lambda index: pairs[index])
        skill.nearest = nearest if pairs[nearest] < _MIN_SEPARABILITY else None
    atlas.warnings = _warnings(atlas)


def separability(skill: Skill, other: Skill) -> float:
    """Given one state of each skill, how often phi assigns them correctly; 0.5 is chance, 1 is always.

    P(phi(s) . (w - w') > phi(s') . (w - w')), as q(w | s) is prop. to exp(phi(s) . w).
    """
    direction = skill.w - other.w
    own, theirs = skill.phi @ direction, np.sort(other.phi @ direction)
    below = np.searchsorted(theirs, own, side="left")
    not_above = np.searchsorted(theirs, own, side="right")
    return float((below + not_above).mean() / 2 / len(theirs))


def _warnings(atlas: Atlas) -> list[str]:
    """What is wrong with features of unit length, from which the task should be inferred."""
    skills, found = atlas.skills, []
    phi = np.concatenate([skill.phi for skill in skills])
    if not np.allclose(np.linalg.norm(phi, axis=1), 1, atol=1e-3):
        return found
    length = float(np.linalg.norm(phi.mean(axis=0)))
    if length > _ALIKE:
        found.append(
            f"phi has collapsed: it points the same way in all states (length of its mean {length:.2f}; "
            "1 is one direction for everything)."
        )
    if len(skills) > 1 and atlas.discriminability < _MIN_SEPARABILITY:
        found.append(
            f"The skills have collapsed: states hardly identify their skill "
            f"({atlas.discriminability:.2f} on average; 0.5 is chance, 1 is always)."
        )
    alike = sum(skill.nearest is not None for skill in skills)
    if alike > len(skills) // 4:
        found.append(
            f"{alike} of {len(skills)} skills can hardly be separated from another one "
            f"(less often than {_MIN_SEPARABILITY:g}; 0.5 is chance)."
        )
    return found


def page(drawn: Atlas, run: Run) -> str:
    """The atlas as a whole HTML document."""
    style = (resources.files("visr.explorer") / "static" / "style.css").read_text("utf-8")
    return _TEMPLATES.get_template("atlas.html").render(
        **to_dict(drawn),
        title=encodable(f"{run.path.resolve().name}: skills of {run.config.env}"),
        style=style,
        num_features=run.config.agent.num_features,
        num_steps=run.num_steps,
        has_score=run.world is None,
    )


def to_dict(atlas: Atlas, first: int = 0) -> dict[str, Any]:
    """The JSON of the page and the exported file, from skill `first` on."""
    return {
        "warnings": atlas.warnings,
        "discriminability": atlas.discriminability if atlas.skills else None,
        "scale": atlas.scale,
        "skills": [_skill(skill, index) for index, skill in enumerate(atlas.skills)][first:],
    }


def _skill(skill: Skill, index: int) -> dict[str, Any]:
    return {
        "index": index,
        "name": f"Skill {index + 1}" if skill.practised is None else skill.practised.name,
        "lift": None if skill.practised is None else skill.practised.lift,
        "reached": None if skill.practised is None else skill.practised.reached,
        "w": skill.w.astype(np.float64).tolist(),
        "film": skill.film,
        "num_frames": len(skill.frame_phi),
        "size": skill.size,
        "frame_phi": [painting.rounded(phi) for phi in skill.frame_phi],
        "mean_phi": painting.rounded(skill.phi.mean(axis=0)),
        "score": skill.score,
        "num_steps": len(skill.phi),
        "num_episodes": skill.num_episodes,
        "own_reward": float((skill.phi @ skill.w).mean()),
        "discriminability": skill.discriminability,
        "nearest": skill.nearest,
        "visits": skill.visits,
    }
