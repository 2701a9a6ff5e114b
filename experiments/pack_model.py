"""Add a finished run to the package as a pre-trained model, with measured scores on its card.

    python experiments/pack_model.py runs/plus --name grid --preset grid-plus --about "The 10 x 10 grid, ..."

Scores are measured on the packed weights: exact fractions of optimal on the grid; elsewhere the
paper's second phase (100,000 rewarded steps, 30 episodes each).
"""

from __future__ import annotations

import argparse
from typing import Any

import visr
from visr import sharing
from visr.storage import packed_models
from visr.storage.packed_models import Scores


def scores(run: visr.Run, name: str) -> Scores:
    """The scores of a packed model."""
    command = f"visr evaluate {packed_models.PREFIX}{name}"
    if run.world is not None:
        measured = {k: round(v, 3) for k, v in run.evaluate_families().items()}
        return Scores(fraction_of_optimal=measured, command=command)
    conditions = run.phase_two().record.conditions
    means = {c.name: round(c.mean, 2) for c in conditions}
    return Scores(mean_score_of_30_episodes=means, command=command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--name", required=True)
    parser.add_argument("--about", required=True)
    parser.add_argument(
        "--preset", required=True, help="the preset that the training command starts from"
    )
    parser.add_argument("--precision", choices=["float32", "float16"], default="float32")
    options = parser.parse_args()
    run = visr.load(options.run, device="cpu")
    path = packed_models.PLACE / f"{options.name}.safetensors"
    commands = (
        f"{sharing.pretrain_command(run.config, options.preset)} --out runs/{options.name}",
        f"python experiments/pack_model.py runs/{options.name} --name {options.name} "
        f'--preset {options.preset} --precision {options.precision} --about "{options.about}"',
    )

    def pack(**fields: Any) -> packed_models.PackedModel:
        return sharing.pack(
            run,
            path,
            name=options.name,
            about=options.about,
            precision=options.precision,
            tasks=False,
            recipe=commands,
            most=packed_models.LARGEST_OF_PACKAGE,
            **fields,
        )

    pack(scores=Scores())
    pack(scores=scores(visr.load(f"{packed_models.PREFIX}{options.name}"), options.name))
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
