"""Add a finished run to the package as a pre-trained model: phi and psi, and a JSON file with its scores.

    python experiments/pack_model.py runs/plus --name grid --about "The 10 x 10 grid, ..."
    python experiments/pack_model.py runs/breakout --name minatar-breakout --precision float16

Scores are measured on the packed weights: exact fractions of optimal on the grid; elsewhere the
paper's second phase (100,000 rewarded steps, 30 episodes each).
"""

from __future__ import annotations

import argparse
from typing import Any

import visr
from visr import config as configuration
from visr.config import presets
from visr.storage import pretrained_models


def pretrain_command(config: configuration.RunConfig, preset: str) -> str:
    """The command that trains the run, as a preset and the fields that differ from it."""
    known = configuration.to_dict(configuration.replace(presets.get(preset), env=config.env))
    words = [f"visr pretrain {config.env} --preset {preset}"]
    for section in configuration.SECTIONS:
        for name, value in configuration.to_dict(config)[section].items():
            if value != known[section][name] and name not in ("num_processes", "device"):
                flag = name.replace("_", "-")
                shown = " ".join(map(str, value)) if isinstance(value, tuple | list) else value
                is_flag = isinstance(value, bool)
                words.append(
                    f"--{'' if value else 'no-'}{flag}" if is_flag else f"--{flag} {shown}"
                )
    return " ".join(words)


def scores(run: visr.Run, name: str) -> dict[str, Any]:
    """The scores for the JSON file."""
    if run.world is not None:
        measured = {k: round(v, 3) for k, v in run.evaluate_families().items()}
        return {"fraction_of_optimal": measured, "command": f"visr evaluate pretrained:{name}"}
    result = run.phase_two().to_dict()
    means = {c["name"]: round(c["mean"], 2) for c in result["conditions"]}
    return {"mean_score_of_30_episodes": means, "command": f"visr evaluate pretrained:{name}"}


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
    networks = {"phi": run.agent.phi, "psi": run.agent.psi}
    tensors = {f"{n}.{k}": v for n, net in networks.items() for k, v in net.state_dict().items()}
    commands = [
        f"{pretrain_command(run.config, options.preset)} --out runs/{options.name}",
        f"python experiments/pack_model.py runs/{options.name} --name {options.name} "
        f'--preset {options.preset} --precision {options.precision} --about "{options.about}"',
    ]

    def card(measured: dict[str, Any]) -> pretrained_models.Card:
        return pretrained_models.Card(
            name=options.name,
            about=options.about,
            num_steps=run.num_steps,
            seed=run.config.training.seed,
            precision=options.precision,
            scores=measured,
            recipe=tuple(commands),
            config=run.config,
        )

    pretrained_models.pack(card({}), tensors)
    path = pretrained_models.pack(
        card(scores(visr.load(f"pretrained:{options.name}"), options.name)), tensors
    )
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
