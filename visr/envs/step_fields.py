"""Names for the numbers of a step: what expressions over observations and actions refer to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gymnasium import spaces
from numpy.typing import NDArray

from visr.envs.spaces import SpaceCodec, identifier, vector_size

Field = NDArray | Sequence[NDArray]
"""One number of every step, [N], or several under one name, to be indexed."""


@dataclass(frozen=True)
class FieldGroup:
    """Neighbouring columns of an observation that belong to one part of its space."""

    columns: slice
    first: int | None = None
    """The smallest value of a Discrete part, whose columns are one-hot; None for any other part."""

    def of(self, table: NDArray) -> Field:
        """The value of a Discrete part, or its columns: [N, width] -> [N] or a list of [N]."""
        part = table[:, self.columns]
        if self.first is not None:
            return part.argmax(axis=1) + self.first
        return list(part.T) if part.shape[1] > 1 else part[:, 0]


def groups(space: spaces.Space) -> dict[str, FieldGroup]:
    """The parts of an environment's own observation space by name: `x` for a vector, a Dict's keys."""
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return {"x": FieldGroup(slice(0, space.shape[0]))}
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return {}
    found, start = {}, 0
    for name, part in _parts(space, ""):
        stop = start + vector_size(part)
        first = int(part.start) if isinstance(part, spaces.Discrete) else None
        if stop > start:
            found.setdefault(identifier(name), FieldGroup(slice(start, stop), first))
        start = stop
    return found


def _parts(space: spaces.Space, stem: str) -> Iterator[tuple[str, spaces.Space]]:
    """Simple parts in the order in which they are joined, by the keys that lead to them."""
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            yield from _parts(part, f"{stem}{key}_")
    elif isinstance(space, spaces.Tuple):
        for index, part in enumerate(space):
            yield from _parts(part, f"{stem or 'x'}{index}_")
    else:
        yield stem.rstrip("_"), space


def scope(
    codec: SpaceCodec, before: NDArray, action: NDArray, reached: NDArray
) -> dict[str, Field]:
    """Names of the next observation's numbers, the same with `before_` for the observation, and `action`."""
    named: dict[str, Field] = {}
    for prefix, observations in (("", reached), ("before_", before)):
        table = observations.reshape(len(action), -1)
        named |= {f"{prefix}{name}": table[:, i] for i, name in enumerate(codec.field_names)}
        for name, group in groups(codec.own_space).items():
            named.setdefault(f"{prefix}{name}", group.of(table))
    if isinstance(codec.own_space, spaces.Box) and codec.field_names:  # x0 where fields have names
        for prefix, observations in (("", reached), ("before_", before)):
            table = observations.reshape(len(action), -1)
            for index in range(table.shape[1]):
                named.setdefault(f"{prefix}x{index}", table[:, index])
    return {**named, "action": action}
