"""library.json: the tasks that the replay learner practised, in words, and how often each is reached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from visr.config import Bound
from visr.storage import schema
from visr.storage.files import read_json, write_json

_LARGEST = 1e12
_MOST = 10_000
Share = Annotated[float, Bound(0, 1)]
Number = Annotated[float, Bound(-_LARGEST, _LARGEST)]


@dataclass(frozen=True)
class PractisedTask:
    """An event to bring about, a state to reach, or every step to survive."""

    name: Annotated[str, Bound(1, 400)]
    kind: Literal["event", "goal", "survival"]
    row: schema.Count
    """Its row in the agent's library."""
    reached: Share
    """Share of the recorded steps in which it happened."""
    observation: Annotated[tuple[Number, ...], Bound(0, 64)] = ()
    """The numbers of a goal's state."""
    lift: Annotated[float, Bound(0, _LARGEST)] | None = None
    """Its rate while pursued over its rate otherwise; None where it was not counted."""
    pursued: Share | None = None
    """Share of the steps that pursued it in which it happened."""
    num_pursued: schema.Count = 0
    """Steps that pursued it."""


@dataclass(frozen=True)
class Library:
    """The library of a run."""

    FORMAT: ClassVar[int] = 1

    num_steps: schema.Count
    """Recorded steps that `reached` counts."""
    tasks: Annotated[tuple[PractisedTask, ...], Bound(0, _MOST)]
    field_names: Annotated[tuple[Annotated[str, Bound(0, 200)], ...], Bound(0, 64)] = ()
    """Names of the numbers of an observation."""
    has_planes: bool = False
    """Whether observations are binary planes, of which one may be the agent's."""
    agent_plane: schema.Count | None = None
    agent_name: Annotated[str, Bound(0, 200)] = ""
    """The environment's name of that plane."""

    @property
    def agent_words(self) -> str:
        """Which plane is the agent's, and how it was found; empty without planes."""
        if not self.has_planes:
            return ""
        if self.agent_plane is None:
            return "no agent plane found"
        name = f" ({self.agent_name})" if self.agent_name else ""
        return f"plane {self.agent_plane}{name}, found by how its object's moves follow the actions"

    def save(self, path: Path) -> None:
        """Write library.json."""
        write_json(path, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The content of the file."""
        return schema.to_dict(self)

    @classmethod
    def load(cls, path: Path) -> Library:
        """Read and check the file."""
        content = read_json(path)
        with schema.refusing(
            f"{path} is not a library", "remove it; a longer training writes another"
        ):
            library = schema.read(cls, content)
            sizes = {len(task.observation) for task in library.tasks} - {0}
            if len(sizes | ({len(library.field_names)} - {0})) > 1:
                raise ValueError("its goals have not one number for each field name")
            return library
