"""Pre-trained models that come with the package: phi and psi of a finished run, and a card beside them.

pretrained/NAME.json            the card: how it was trained, what it scored, how to make it again
pretrained/NAME.safetensors     phi.* and psi.*, at most 2 MB
"""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visr import config as configuration
from visr.config import RunConfig
from visr.errors import UserError
from visr.storage import checksums
from visr.storage.files import read_json, write_json, write_tensors

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "pretrained:"
"""What names a model where a run's directory is expected."""
PLACE = Path(__file__).parents[1] / "pretrained"
LARGEST = 2_000_000
"""Bytes of a model's weights."""
FORMAT = 1


@dataclass(frozen=True)
class Card:
    """What there is to know about a model."""

    name: str
    about: str
    """One sentence."""
    num_steps: int
    """Reward-free steps it was trained for."""
    seed: int
    precision: str
    """Of the stored weights: float32, or float16 where they would not fit otherwise."""
    scores: dict[str, Any]
    """As measured after packing, with the command that measures them."""
    recipe: list[str]
    """Commands that make it again."""
    config: RunConfig


def is_model(path: str | Path) -> bool:
    """Whether a name asks for a model of the package rather than a run's directory."""
    return isinstance(path, str) and path.startswith(PREFIX)


def workplace(name: str) -> Path:
    """Where what is made with that model goes: its own files are the package's."""
    return Path("runs") / f"pretrained-{card(name).name}"


def names() -> list[str]:
    """The models there are."""
    return sorted(path.stem for path in PLACE.glob("*.json"))


def card(name: str) -> Card:
    """The card of that model; `pretrained:` in front is understood."""
    name = name.removeprefix(PREFIX)
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {PREFIX}{near[0]}?" if near else "`visr list models` names them."
        raise UserError(f"There is no pre-trained model {name!r}; {hint}")
    path = PLACE / f"{name}.json"
    content = read_json(path)
    try:
        if content.pop("format") != FORMAT:
            raise ValueError("another version of visr wrote it")
        return Card(**{**content, "config": configuration.from_dict(content["config"])})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); install visr anew.") from None


def weights(name: str) -> dict[str, Tensor]:
    """phi's and psi's tensors by name, in the numbers that networks compute with."""
    import safetensors
    import safetensors.torch
    import torch

    path = PLACE / f"{card(name).name}.safetensors"
    try:
        checksums.check(path)
        tensors = safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); install visr anew.") from None
    return {k: v.float() if v.dtype == torch.float16 else v for k, v in tensors.items()}


def pack(model: Card, tensors: dict[str, Tensor], place: Path = PLACE) -> Path:
    """Write a model; what does not fit into 2 MB is refused."""
    import safetensors.torch

    kind = {"float32": lambda t: t, "float16": lambda t: t.half() if t.is_floating_point() else t}
    stored = {k: kind[model.precision](v).contiguous() for k, v in tensors.items()}
    content = safetensors.torch.save(stored)
    if len(content) > LARGEST:
        raise UserError(
            f"{model.name} would take {len(content):,} bytes in {model.precision} and a model may take "
            f"{LARGEST:,}; pack it in float16, or train smaller networks."
        )
    path = place / f"{model.name}.safetensors"
    write_tensors(path, content)
    plain = {**asdict(model), "config": configuration.to_dict(model.config)}
    write_json(place / f"{model.name}.json", {"format": FORMAT, **plain})
    return path
