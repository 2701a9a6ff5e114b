"""A user's reward over the cells of a grid: named, drawn, read from a file, or computed."""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visr import arguments
from visr.errors import UserError, reason_of
from visr.inference import expression

if TYPE_CHECKING:
    from visr.envs.grid.world import GridWorld

FloatArray = NDArray[np.float64]

FAMILY_SIZE = 50
"""Tasks in each family that evaluations share."""

_BOX = 4
_LARGEST_REWARD = 1e12  # whose square still has room in the regression's sums
_LARGEST_FILE = 64 * 1024 * 1024


@dataclass(frozen=True, eq=False)
class CellReward:
    """r(s') for every state of a grid; 0 inside walls, where it is never collected."""

    name: str
    values: FloatArray
    """[S]"""


def parse(text: str, world: GridWorld) -> CellReward:
    """`boxes`, `boxes:SEED`, `goal:ROW,COL`, a .npy or .csv file, or an expression of row, col."""
    text = text.strip()
    if text == "boxes" or text.startswith("boxes:"):
        return _parse_boxes(text, world)
    if text == "goal" or text.startswith("goal:"):
        return _parse_goal(text, world)
    if text.lower().endswith((".npy", ".csv")):
        return _checked(text, read_array(text), world)
    return from_expression(text, world)


def of_cells(reward: str | ArrayLike, world: GridWorld) -> CellReward:
    """A reward in one of the forms of `parse`, or an array over cells."""
    return parse(reward, world) if isinstance(reward, str) else from_array(reward, world)


def from_expression(text: str, world: GridWorld) -> CellReward:
    """A reward computed from row, col, height and width; no file is ever read."""
    row, col = np.divmod(np.arange(world.num_states), world.width)
    names = {"row": row, "col": col, "height": world.height, "width": world.width}
    return _checked(text, expression.evaluate(text, names), world)


def from_array(values: ArrayLike, world: GridWorld, name: str = "array") -> CellReward:
    """A reward from numbers of shape [height, width] or [S]."""
    return _checked(name, arguments.array(values, "reward"), world)


def goal(world: GridWorld, row: int, col: int) -> FloatArray:
    """1 in one cell, 0 elsewhere; [S]."""
    if not (0 <= row < world.height and 0 <= col < world.width):
        raise UserError(
            f"The goal at row {row}, column {col} lies outside the grid: rows go from 0 to "
            f"{world.height - 1} and columns from 0 to {world.width - 1}."
        )
    state = row * world.width + col
    if not world.free[state]:
        raise UserError(f"The goal at row {row}, column {col} lies in a wall: choose a free cell.")
    values = np.zeros(world.num_states)
    values[state] = 1.0
    return values


def boxes(world: GridWorld, rng: np.random.Generator) -> FloatArray:
    """The authors' test reward: two 4x4 boxes of 1 anywhere; 2 where they overlap; [S]."""
    if min(world.height, world.width) < _BOX or world.num_states == _BOX * _BOX:
        raise UserError(
            f"Two {_BOX}x{_BOX} boxes do not fit into a grid of {world.height} x {world.width} "
            f"cells: it needs at least {_BOX} x {_BOX + 1}."
        )
    values = np.zeros((world.height, world.width))
    for _ in range(2):
        row = rng.integers(0, world.height - _BOX + 1)
        col = rng.integers(0, world.width - _BOX + 1)
        values[row : row + _BOX, col : col + _BOX] += 1.0
    return np.where(world.free, values.ravel(), 0.0)


def family(
    name: Literal["boxes", "goals"],
    world: GridWorld,
    num_tasks: int = FAMILY_SIZE,
    seed: int = 12345,
) -> FloatArray:
    """Rewards that all evaluations share, [num_tasks, S]; goals repeat only if cells run out."""
    if num_tasks < 1:
        raise UserError(f"num_tasks is {num_tasks}, but a family has at least 1 task.")
    rng = np.random.default_rng(seed)
    if name == "boxes":
        rewards = [boxes(world, rng) for _ in range(num_tasks)]
    elif name == "goals":
        cells = np.resize(rng.permutation(np.flatnonzero(world.free)), num_tasks)
        rewards = [goal(world, *divmod(int(cell), world.width)) for cell in cells]
    else:
        raise UserError(f"Unknown family of rewards {name!r}: choose 'boxes' or 'goals'.")
    return np.stack([_checked(name, reward, world).values for reward in rewards])


def _parse_boxes(text: str, world: GridWorld) -> CellReward:
    match = re.fullmatch(r"boxes(?::([0-9]{1,18}))?", text)
    if match is None:
        raise UserError(f"Cannot read the reward {text!r}: write boxes or boxes:SEED, as boxes:7.")
    seed = int(match[1] or 0)
    return _checked(f"boxes:{seed}", boxes(world, np.random.default_rng(seed)), world)


def _parse_goal(text: str, world: GridWorld) -> CellReward:
    match = re.fullmatch(r"goal:\s*(-?[0-9]{1,18})\s*,\s*(-?[0-9]{1,18})", text)
    if match is None:
        raise UserError(f"Cannot read the reward {text!r}: write goal:ROW,COL, as goal:2,7.")
    row, col = int(match[1]), int(match[2])
    return _checked(f"goal:{row},{col}", goal(world, row, col), world)


def _checked(name: str, values: np.ndarray, world: GridWorld) -> CellReward:
    """The reward, if an agent can tell with it one place from another."""
    what = f"The reward {expression.short(name)!r}"
    if values.dtype.kind not in "fiub":
        raise UserError(f"{what} holds {values.dtype} values: it must hold real numbers.")
    if values.shape not in ((world.height, world.width), (world.num_states,)):
        raise UserError(
            f"{what} has shape {values.shape}, but the grid needs ({world.height}, {world.width}) "
            f"or ({world.num_states},)."
        )
    values = np.where(world.free, values.ravel().astype(np.float64), 0.0)
    unusable = np.flatnonzero(~(np.abs(values) <= _LARGEST_REWARD))
    if len(unusable):
        row, col = divmod(int(unusable[0]), world.width)
        raise UserError(
            f"{what} is {values[unusable[0]]} at row {row}, column {col}: it must be a finite "
            f"number of at most {_LARGEST_REWARD:.0e} everywhere."
        )
    here = values[world.free]
    if not here.any():
        raise UserError(f"{what} is zero everywhere: give at least one cell another value.")
    if np.ptp(here) == 0:
        raise UserError(
            f"{what} is {here[0]:g} in every cell, so all behaviour is worth the same: "
            "let it differ between cells."
        )
    return CellReward(name, values)


def read_array(name: str) -> np.ndarray:
    """The numbers of a .npy or .csv file; nothing is unpickled."""
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            raise ValueError("it is a directory; name a .npy or .csv file in it")
        if not path.exists():
            raise ValueError("it does not exist")
        if not path.is_file():
            raise ValueError("it is not an ordinary file")
        if path.stat().st_size > _LARGEST_FILE:
            raise ValueError(f"it is larger than {_LARGEST_FILE:,} bytes")
        return _read_csv(path) if path.suffix.lower() == ".csv" else _read_npy(path)
    except Exception as error:  # a damaged file can fail in any way numpy or the system knows
        reason = reason_of(error)
        if "pickle" in reason or "Python objects" in reason:
            reason = "it holds pickled Python objects, which are never loaded; save plain numbers"
        raise UserError(f"Cannot read the file {name!r}: {reason}.") from error


def _read_npy(path: Path) -> np.ndarray:
    # mapped first, so that a header that promises more than the file holds costs no memory
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(mapped, np.ndarray):
        mapped.close()
        raise ValueError("it is an archive of arrays; save one array with numpy.save")
    return np.array(mapped)


def _read_csv(path: Path) -> np.ndarray:
    text = path.read_text(encoding="utf-8-sig")
    if not text.strip():
        raise ValueError("it is empty")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy only warns about a file without data
        try:
            values = np.loadtxt(io.StringIO(text), delimiter=",", ndmin=2)
        except ValueError as error:
            reason = f"{str(error).rstrip('.')}; separate numbers by commas, without a header"
            raise ValueError(reason) from None
    return values.ravel() if 1 in values.shape else values  # a list of states, across or down
