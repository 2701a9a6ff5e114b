"""Add a finished run to the package: the packed model, its card with measured scores, and a film.

    python experiments/pack_model.py runs/grid --name grid

Writes visr/pretrained/NAME.safetensors, of at most 2 MB, in the highest precision that fits, and
docs/images/models/NAME.gif. Scores are measured on the packed weights. `make model` does this, and then
writes the page of all models.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import tempfile
from pathlib import Path
from typing import Any, get_args

import model_card
import model_film
from model_card import Measured

import visr
from visr import sharing
from visr.config import RunConfig, presets
from visr.storage import packed_models
from visr.storage.packed_models import PackedModel, Precision, Scores

FILMS = Path(__file__).parents[1] / "docs/images/models"


def shortest_command(config: RunConfig) -> str:
    """The command that trains such weights, by the preset that needs the fewest settings beside it."""
    commands = (sharing.pretrain_command(config, name) for name in presets.PRESETS)
    return min((without_evaluations(command) for command in commands), key=len)


def without_evaluations(command: str) -> str:
    """How often a run was evaluated changes no weight."""
    return re.sub(r" --evaluate-every \d+", "", command)


def about_run(run: visr.Run) -> str:
    """One sentence on what was trained where."""
    config = run.config
    agent = {"replay": "The replay learner", "visr": "VISR"}.get(config.agent.algorithm)
    where = config.env
    if run.world is not None:
        layout = "open" if config.grid.layout == "open" else config.grid.layout.replace("-", " ")
        where = f"the grid world ({layout}, {run.world.height} x {run.world.width} cells)"
    trained = f"{run.num_steps:,} reward-free steps"
    if config.agent.algorithm != "visr":
        trained += f" and {config.replay.num_updates:,} updates"
    return f"{agent or config.agent.algorithm} in {where}: {trained}, d = {run.agent.task_size}."


def opened(model: PackedModel, place: str) -> visr.Run:
    """The packed model; what it records is written to `place`."""
    return visr.Run(dataclasses.replace(model, output=Path(place)).run_dir(), "cpu", model)


def scores(run: visr.Run, measured: Measured, name: str) -> Scores:
    """The scores of the card, with the command that repeats the main one."""
    address, by_prompt = f"{packed_models.PREFIX}{name}", tuple(measured.scores)
    if run.world is not None:
        families = {k: round(v, 3) for k, v in run.evaluate_families().items()}
        command = f"visr evaluate {address}"
        return Scores(fraction_of_optimal=families, command=command, by_prompt=by_prompt)
    command = f"visr infer {address} --reward env --name env && visr evaluate {address} env"
    return Scores(command=command, by_prompt=by_prompt)


def pack_first_that_fits(run: visr.Run, path: Path, wanted: str, **fields: Any) -> PackedModel:
    """The model in the wanted precision, or in the highest one in which it is small enough."""
    tried = [wanted] if wanted != "auto" else list(get_args(Precision))
    most = packed_models.LARGEST_OF_PACKAGE - 20_000  # for the scores, which come later
    for precision in tried[:-1]:
        try:
            return sharing.pack(run, path, precision=precision, most=most, **fields)
        except visr.UserError:
            continue
    return sharing.pack(run, path, precision=tried[-1], most=most, **fields)  # pyright: ignore


def demonstrate_again(run: visr.Run, path: Path, num_episodes: int) -> None:
    """Replace the demonstration's score on the card of a packed model; its weights and film stay."""
    assert run.model is not None
    card = run.model.card
    assert card.scores is not None
    with tempfile.TemporaryDirectory() as place:
        found = model_card.measure_demonstration(opened(run.model, place), num_episodes)
    kept = [one for one in card.scores.by_prompt if one.kind != found.kind]
    by_prompt = (*kept, found)
    others = [words for words in card.cannot if not words.startswith("Not clearly better than")]
    sharing.pack(
        run, path, name=card.name, about=card.about, precision=card.precision, tasks=False,
        scores=dataclasses.replace(card.scores, by_prompt=by_prompt), recipe=card.recipe,
        cannot=(*model_card.weak(list(by_prompt)), *others), most=packed_models.LARGEST_OF_PACKAGE,
    )  # fmt: skip
    print(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="the directory of a finished run, or a packed model")
    parser.add_argument("--name", required=True)
    parser.add_argument("--about", default="", help="one sentence; by default what was trained")
    parser.add_argument(
        "--cannot", action="append", default=[], help="a sentence to add to what it cannot do"
    )
    parser.add_argument("--precision", choices=["auto", *get_args(Precision)], default="auto")
    parser.add_argument("--num-episodes", type=int, default=30, help="of each score")
    parser.add_argument("--num-tasks", type=int, default=50, help="of each kind, on the grid")
    parser.add_argument("--models", type=Path, default=packed_models.PLACE)
    parser.add_argument("--films", type=Path, default=FILMS)
    parser.add_argument(
        "--again",
        action="store_true",
        help="measure only the demonstration of a packed model again",
    )
    options = parser.parse_args()
    run = visr.load(options.run, device="cpu")
    path = options.models / f"{options.name}.safetensors"
    if options.again:
        demonstrate_again(run, path, options.num_episodes)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    trained = f"{shortest_command(run.config)} --out runs/{options.name}"
    if run.model is not None:
        trained = without_evaluations(run.model.card.recipe[0])
        trained = f"{trained.split(' --out ')[0]} --out runs/{options.name}"
    recipe = (trained, f"make model RUN=runs/{options.name} NAME={options.name}")
    fields = {"name": options.name, "about": options.about or about_run(run), "tasks": False}
    model = pack_first_that_fits(run, path, options.precision, **fields, recipe=recipe)
    with tempfile.TemporaryDirectory() as place:
        packed = opened(model, place)
        measured = model_card.measure(packed, options.num_episodes, options.num_tasks)
        picture = model_film.film(packed, measured.examples, options.films / f"{options.name}.gif")
        found = scores(packed, measured, options.name)
    cannot = (*options.cannot, *measured.cannot)
    precision = model.card.precision
    sharing.pack(
        run, path, precision=precision, **fields, recipe=recipe, scores=found, cannot=cannot,
        most=packed_models.LARGEST_OF_PACKAGE,
    )  # fmt: skip
    for one in measured.scores:
        constant = "-" if one.best_constant is None else f"{one.best_constant:g}"
        beside = f"random {one.random:g}, best constant action {constant}"
        print(f"{one.kind:<14}{one.prompt}: {one.score:g} ({beside}; {one.unit})")
    print("\n".join(f"cannot        {sentence}" for sentence in cannot))
    print(f"{path}: {path.stat().st_size:,} bytes, {precision}")
    print(f"{picture}: {picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
