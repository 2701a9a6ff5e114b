"""A packed model: phi and psi of a run, its card and its tasks in one safetensors file, without any code.

tensors     phi.* and psi.*; task/NAME/* of refined tasks; with precision int8 also the scales of rows
metadata    `card`: the JSON of `Card`; `tasks`: a JSON object of task.json contents by name; `checksum`

Models of the package are such files, pretrained/NAME.safetensors, of at most 2 MB.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from visr import strict_json, terminal
from visr.config import Bound, RunConfig
from visr.errors import UserError, did_you_mean
from visr.storage import schema
from visr.storage.files import (
    CHECKSUM,
    DamagedFile,
    read_tensors,
    sha256,
    tensor_metadata,
    write_tensors,
)
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir

if TYPE_CHECKING:
    from torch import Tensor

log = terminal.logger()

PREFIX = "pretrained:"
"""Marks the name of a model of the package where the directory of a run is expected."""
PLACE = Path(__file__).parents[1] / "pretrained"
LARGEST_OF_PACKAGE = 2_000_000
"""Bytes of a model of the package."""
LARGEST = 2**31
"""Bytes of any packed model."""
_LARGEST_METADATA = 32_000_000
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
"""Names of tasks, which become names of files."""
_MAKE = "`visr pack` makes one"
_TASK = "task/{}/"
"""Precedes the names of a refined task's weights."""
Precision = Literal["float32", "float16", "int8"]
_SCALE = ".scale_of_rows"
"""Follows the name of a tensor of 8-bit rows: weight = scale * number."""
_LEAST_ROWS = 10_000
"""Smaller tensors stay in half precision."""


Text = Annotated[str, Bound(0, 2_000)]


@dataclass(frozen=True)
class PromptScore:
    """What prompts of one kind reach without a weight change, beside policies that know nothing of them."""

    kind: Literal["reward", "goal", "demonstration"]
    prompt: Text
    """What was asked for."""
    unit: Text
    """What the numbers are."""
    score: float
    random: float
    """Of the random policy."""
    best_constant: float | None = None
    """Of the best action when repeated; None where there are too many actions."""
    standard_error: float | None = None
    """Of the score."""


@dataclass(frozen=True)
class Scores:
    """Measured scores, and the command that measures them."""

    fraction_of_optimal: dict[str, float] = field(default_factory=dict)
    mean_score_of_30_episodes: dict[str, float] = field(default_factory=dict)
    command: Text = ""
    by_prompt: Annotated[tuple[PromptScore, ...], Bound(0, 100)] = ()


@dataclass(frozen=True)
class Card:
    """A description of a model, with its configuration."""

    FORMAT: ClassVar[int] = 1

    name: Annotated[str, Bound(1, 100)]
    about: Text
    """One sentence."""
    num_steps: schema.Count
    """Steps that trained the weights."""
    seed: int
    precision: Precision
    """Of the stored weights."""
    scores: Scores
    recipe: Annotated[tuple[Annotated[str, Bound(0, 4_000)], ...], Bound(0, 20)]
    """Commands that make it again."""
    config: RunConfig
    cannot: Annotated[tuple[Text, ...], Bound(0, 100)] = ()
    """What it cannot do, one sentence each."""


@dataclass(frozen=True)
class PackedModel:
    """A file that was opened: its card and tasks; the weights are still on disk."""

    path: Path
    address: str
    """The name for `visr.load` and for the command line."""
    output: Path
    """Where results made with the model are written; the file itself stays unchanged."""
    card: Card
    tasks: dict[str, Task]

    def run_dir(self) -> RunDir:
        """The directory of the model's output, with the packed tasks in it."""
        run = RunDir(self.output)
        for name, task in self.tasks.items():
            try:
                if not run.task(name).exists():
                    self._with_weights(name, task).save(run.task(name))
            except UserError as error:  # the model can be used without its tasks
                log.warning("visr: the packed task %s is left out: %s", name, error)
        return run

    def _with_weights(self, name: str, task: Task) -> Task:
        """The task; with the weights that its refinement adds, if there are any."""
        if task.refinement is None:
            return task
        prefix = _TASK.format(name)
        own = {k.removeprefix(prefix): v for k, v in self._tensors.items() if k.startswith(prefix)}
        weights = {k: tensor.numpy() for k, tensor in own.items()}
        return replace(task, refinement=replace(task.refinement, weights=weights))

    def weights(self) -> dict[str, Tensor]:
        """The tensors of phi and psi by name, in full precision."""
        return {k: v for k, v in self._tensors.items() if not k.startswith(_TASK[:-3])}

    @property
    def _tensors(self) -> dict[str, Tensor]:
        tensors = read_tensors(self.path, "get it again from where it came")
        try:
            return restored_weights(tensors)
        except ValueError as error:
            raise UserError(f"{self.path} is damaged ({error}).") from None


def is_packed(address: str | Path) -> bool:
    """Whether it names a packed model and not the directory of a run."""
    is_of_package = isinstance(address, str) and address.startswith(PREFIX)
    with contextlib.suppress(OSError, ValueError):
        return is_of_package or Path(address).is_file()
    return False


def names() -> list[str]:
    """Names of the package's models, sorted."""
    return sorted(path.stem for path in PLACE.glob("*.safetensors"))


def open_model(address: str | Path) -> PackedModel:
    """Read the card and the tasks of a file, or of a model of the package; both are untrusted."""
    if not str(address).startswith(PREFIX):
        path = Path(address)
        card, tasks, fingerprint = _read(path)
        output = Path("runs") / f"packed-{re.sub(r'[^A-Za-z0-9]+', '-', path.stem)}-{fingerprint}"
        return PackedModel(path, str(path), output, card, tasks)
    name = str(address).removeprefix(PREFIX)
    if name not in names():
        hint = did_you_mean(name, names(), "`visr list models` names them.", f"{PREFIX}{{}}")
        raise UserError(f"There is no pre-trained model {name!r}; {hint}")
    path = PLACE / f"{name}.safetensors"
    card, tasks, _ = _read(path)
    return PackedModel(path, f"{PREFIX}{name}", Path("runs") / f"pretrained-{name}", card, tasks)


def _read(path: Path) -> tuple[Card, dict[str, Task], str]:
    """Card, tasks, and eight digits that change with the file."""
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it is larger than {LARGEST:,} bytes")
        words = tensor_metadata(path, _LARGEST_METADATA)
        if "card" not in words:
            raise ValueError("it has no card")
        card = schema.read(Card, _parsed(words["card"]), "its card")
        tasks = _tasks(words.get("tasks", "{}"), card)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}; check it.") from None
    except (ValueError, OverflowError, UserError) as error:  # DamagedFile is a ValueError
        reason = str(error).rstrip(".")
        raise UserError(f"{path} is not a packed model ({reason}); {_MAKE}.") from None
    return card, tasks, sha256(f"{words.get(CHECKSUM)}{words['card']}")[:8]


def _tasks(text: str, card: Card) -> dict[str, Task]:
    content = _parsed(text)
    if not isinstance(content, dict):
        raise ValueError("its tasks are not a JSON object")
    tasks = {}
    for name, part in content.items():
        if not _NAME.fullmatch(name):
            raise ValueError("a task's name is not made of letters, digits, dots and dashes")
        tasks[name] = Task.from_dict(part)
        tasks[name].require_fit(card.config.env, card.config.agent.num_features)
    return tasks


def _parsed(text: str) -> Any:
    try:
        return strict_json.parse(text)
    except ValueError:
        raise DamagedFile("its metadata is not JSON") from None


def pack(
    path: Path, card: Card, tensors: dict[str, Tensor], tasks: dict[str, Task], most: int = LARGEST
) -> Path:
    """Write a packed model of at most `most` bytes; nothing is written if it could not be opened again."""
    import numpy as np
    import safetensors.torch
    import torch

    refined = {
        _TASK.format(name) + k: torch.from_numpy(np.asarray(weight))
        for name, task in tasks.items()
        if task.refinement is not None
        for k, weight in task.refinement.weights.items()
    }
    with schema.refusing("The model cannot be packed", "give other values"):
        card = schema.read(Card, schema.to_dict(card), "its card")
    try:
        stored = stored_weights(tensors | refined, card.precision)
    except ValueError as error:
        raise UserError(f"{error} in {card.precision}; pack the model in float32.") from None
    metadata = {
        "card": json.dumps(schema.to_dict(card)),
        "tasks": json.dumps({name: task.to_dict() for name, task in sorted(tasks.items())}),
    }
    if sum(map(len, metadata.values())) > _LARGEST_METADATA // 2:
        raise UserError(
            f"The {len(tasks)} tasks are too large to pack; leave them out: --no-tasks."
        )
    content = safetensors.torch.save(stored, metadata=metadata)
    if len(content) > most:
        raise UserError(
            f"{card.name} would take {len(content):,} bytes in {card.precision} and a model may take "
            f"{most:,}; pack it in float16 or int8, or train smaller networks."
        )
    if path.is_dir():
        raise UserError(f"{path} is a directory; name a file such as {path / 'model.safetensors'}.")
    write_tensors(path, content)
    return path


# ---- weights in full, in half precision, or as rows of 8-bit numbers with a scale each


def stored_weights(tensors: dict[str, Tensor], precision: Precision) -> dict[str, Tensor]:
    """The tensors to write; whole numbers stay as they are. A ValueError names what does not fit."""
    import torch

    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        weight = tensor.detach().cpu().contiguous()
        is_large = weight.ndim in (2, 3) and weight.numel() >= _LEAST_ROWS
        if precision == "float32" or weight.dtype != torch.float32:
            found[name] = weight
        elif precision == "int8" and is_large:
            scale = weight.abs().amax(dim=-1, keepdim=True).clamp(min=1e-30) / 127
            found[name] = (weight / scale).round().to(torch.int8)
            found[name + _SCALE] = scale
        else:
            found[name] = weight.half()
    for name, tensor in found.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(f"{name} does not fit")
    return found


def restored_weights(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `stored_weights`: weights are float32 again. A ValueError names damage."""
    import torch

    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(f"{name} holds NaN or infinity")
        if name.endswith(_SCALE):
            continue
        weight = tensor.float() if tensor.dtype == torch.float16 else tensor
        if tensor.dtype == torch.int8:
            scale = tensors.get(name + _SCALE)
            if scale is None or scale.shape != (*tensor.shape[:-1], 1):
                raise ValueError(f"{name} has no scale for each row")
            weight = tensor.float() * scale.float()
            if not torch.isfinite(weight).all():
                raise ValueError(f"{name} is too large")
        found[name] = weight
    return found
