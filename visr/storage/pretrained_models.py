"""Pre-trained models that are part of the package: phi and psi of a finished run, and a card.

pretrained/NAME.json            the card: how it was trained, its scores, the commands that made it
pretrained/NAME.safetensors     phi.* and psi.*, at most 2 MB
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from visr.config import RunConfig
from visr.errors import UserError, did_you_mean
from visr.storage import schema
from visr.storage.files import read_json, read_tensors, write_json, write_tensors

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "pretrained:"
"""Marks the name of a model where the directory of a run is expected."""
PLACE = Path(__file__).parents[1] / "pretrained"
LARGEST = 2_000_000
"""Bytes of a model's weights."""


@dataclass(frozen=True)
class Card:
    """NAME.json: a description of a model."""

    FORMAT: ClassVar[int] = 1

    name: str
    about: str
    """One sentence."""
    num_steps: int
    """Reward-free steps of its training."""
    seed: int
    precision: Literal["float32", "float16"]
    """Of the stored weights: float16 if they would be too large otherwise."""
    scores: dict[str, Any]
    """Measured after packing, with the command that measures them."""
    recipe: tuple[str, ...]
    """Commands that make it again."""
    config: RunConfig


def is_model(path: str | Path) -> bool:
    """Whether a name means a model of the package and not the directory of a run."""
    return isinstance(path, str) and path.startswith(PREFIX)


def output_directory(name: str) -> Path:
    """Where results made with that model are written; the package's own files stay unchanged."""
    return Path("runs") / f"pretrained-{card(name).name}"


def names() -> list[str]:
    """Names of all models, sorted."""
    return sorted(path.stem for path in PLACE.glob("*.json"))


def card(name: str) -> Card:
    """The card of that model; the name may begin with `pretrained:`."""
    name = name.removeprefix(PREFIX)
    if name not in names():
        hint = did_you_mean(name, names(), "`visr list models` names them.", f"{PREFIX}{{}}")
        raise UserError(f"There is no pre-trained model {name!r}; {hint}")
    path = PLACE / f"{name}.json"
    content = read_json(path)
    with schema.refusing(f"{path} is damaged", "reinstall visr"):
        return schema.read(Card, content)


def weights(name: str) -> dict[str, Tensor]:
    """The tensors of phi and psi by name, as float32."""
    import torch

    tensors = read_tensors(PLACE / f"{card(name).name}.safetensors", "reinstall visr")
    return {k: v.float() if v.dtype == torch.float16 else v for k, v in tensors.items()}


def pack(model: Card, tensors: dict[str, Tensor], place: Path = PLACE) -> Path:
    """Write a model of at most 2 MB."""
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
    write_json(place / f"{model.name}.json", schema.to_dict(model))
    return path
