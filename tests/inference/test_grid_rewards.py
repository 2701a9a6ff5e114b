from __future__ import annotations

import contextlib
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from visr.envs.grid.world import GridWorld
from visr.errors import UserError
from visr.inference import grid_rewards

OPEN = GridWorld(10, 10)
SMALL = GridWorld(2, 3)
ROOMS = GridWorld.four_rooms(7, 9)
SIX = np.array([[0.0, 1, 2], [3, 4, 5]])


def refused(text: str, world: GridWorld) -> str:
    with pytest.raises(UserError) as refusal:
        grid_rewards.parse(text, world)
    sentence = str(refusal.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


# --- named rewards


def test_boxes_are_two_squares_of_sixteen_cells():
    for seed in range(30):
        values = grid_rewards.boxes(OPEN, np.random.default_rng(seed)).reshape(10, 10)
        assert values.sum() == 32
        assert set(np.unique(values)) <= {0, 1, 2}
        for _ in range(2):  # the first cell that is left is the corner of a box
            row, col = np.argwhere(values)[0]
            values[row : row + 4, col : col + 4] -= 1
        assert not values.any()


def test_boxes_reach_every_corner_of_the_grid():
    rng = np.random.default_rng(0)
    total = np.sum([grid_rewards.boxes(OPEN, rng) for _ in range(300)], axis=0).reshape(10, 10)
    assert (total[[0, 0, 9, 9], [0, 9, 0, 9]] > 0).all()


def test_overlapping_boxes_add_up():
    overlaps = [grid_rewards.boxes(OPEN, np.random.default_rng(seed)) for seed in range(30)]
    assert any((values == 2).any() for values in overlaps)


def test_boxes_are_decided_by_their_seed():
    first, again, other = (
        grid_rewards.parse(text, OPEN) for text in ("boxes", "boxes:0", "boxes:1")
    )
    assert first.name == again.name == "boxes:0"
    assert np.array_equal(first.values, again.values)
    assert not np.array_equal(first.values, other.values)


def test_boxes_leave_walls_alone():
    values = grid_rewards.parse("boxes:3", ROOMS).values
    assert (values[~ROOMS.free] == 0).all()
    assert values.any()


@pytest.mark.parametrize(("height", "width"), [(3, 10), (10, 3), (4, 4), (1, 1)])
def test_boxes_do_not_fit_into_small_grids(height: int, width: int):
    sentence = refused("boxes", GridWorld(height, width))
    assert f"{height} x {width}" in sentence
    assert "at least 4 x 5" in sentence


def test_a_goal_is_one_cell():
    reward = grid_rewards.parse("goal:1,2", SMALL)
    assert reward.name == "goal:1,2"
    assert reward.values.tolist() == [0, 0, 0, 0, 0, 1]
    assert grid_rewards.parse(" goal: 1 , 2 ", SMALL).name == "goal:1,2"


@pytest.mark.parametrize(
    ("text", "world", "words"),
    [
        ("goal:2,0", SMALL, "rows go from 0 to 1 and columns from 0 to 2"),
        ("goal:0,3", SMALL, "outside the grid"),
        ("goal:-1,0", SMALL, "outside the grid"),
        ("goal:3,0", ROOMS, "in a wall"),
        ("goal:999999999999999999,0", SMALL, "outside the grid"),
        ("goal", SMALL, "write goal:ROW,COL"),
        ("goal:", SMALL, "write goal:ROW,COL"),
        ("goal:1", SMALL, "write goal:ROW,COL"),
        ("goal:1,2,3", SMALL, "write goal:ROW,COL"),
        ("goal:1.5,2", SMALL, "write goal:ROW,COL"),
        ("goal:a,b", SMALL, "write goal:ROW,COL"),
        ("goal:" + "9" * 5000 + ",1", SMALL, "write goal:ROW,COL"),
        ("goal:0,0", GridWorld(1, 1), "in every cell"),
        ("boxes:", OPEN, "write boxes or boxes:SEED"),
        ("boxes:-1", OPEN, "write boxes or boxes:SEED"),
        ("boxes:x", OPEN, "write boxes or boxes:SEED"),
        ("boxes:" + "9" * 5000, OPEN, "write boxes or boxes:SEED"),
    ],
)
def test_a_named_reward_that_makes_no_sense_is_refused(text: str, world: GridWorld, words: str):
    assert words in refused(text, world)


# --- expressions


def test_an_expression_sees_rows_columns_and_the_size():
    reward = grid_rewards.parse("row * width + col - height", SMALL)
    assert reward.name == "row * width + col - height"
    assert reward.values.tolist() == [-2, -1, 0, 1, 2, 3]
    assert reward.values.dtype == np.float64


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0", "zero everywhere"),
        ("row * 0", "zero everywhere"),
        ("3", "3 in every cell"),
        ("row - row + 1", "1 in every cell"),
        ("1 / row", "not a finite number"),
        ("(row + 1) * 1e12", "at most 1e+12"),
        ("x + y", "'x' is unknown"),
        ("", "empty"),
        ("row +", "Cannot read the expression"),
    ],
)
def test_an_expression_that_rewards_nothing_is_refused(text: str, words: str):
    assert words in refused(text, SMALL)


def test_a_reward_that_differs_only_inside_walls_is_constant():
    values = np.where(ROOMS.free, 1.0, 5.0)
    with pytest.raises(UserError, match="1 in every cell"):
        grid_rewards.from_array(values, ROOMS)


# --- arrays


@pytest.mark.parametrize("values", [SIX, SIX.ravel(), SIX.tolist(), SIX.astype(np.int8)])
def test_an_array_may_be_a_map_or_a_list_of_states(values):
    reward = grid_rewards.from_array(values, SMALL, name="mine")
    assert reward.name == "mine"
    assert reward.values.tolist() == [0, 1, 2, 3, 4, 5]
    assert reward.values.dtype == np.float64


def test_an_array_is_copied():
    mine = SIX.copy()
    reward = grid_rewards.from_array(mine, SMALL)
    mine[:] = 7
    assert reward.values.tolist() == [0, 1, 2, 3, 4, 5]


def test_numbers_inside_walls_are_dropped_even_if_they_are_none():
    values = np.where(ROOMS.free, np.arange(63.0), np.nan)
    reward = grid_rewards.from_array(values, ROOMS)
    assert (reward.values == np.where(ROOMS.free, np.arange(63.0), 0)).all()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros((3, 2)), "(3, 2), but the grid needs (2, 3) or (6,)"),
        (np.arange(5.0), "(5,), but"),
        (np.float64(3), "(), but"),
        (np.zeros((1, 2, 3)), "(1, 2, 3), but"),
        ([], "(0,), but"),
        (np.full((2, 3), np.nan), "nan at row 0, column 0"),
        ([0, 1, 2, 3, np.inf, 5], "inf at row 1, column 1"),
        ([0, 1, 2, 3, 4, -np.inf], "-inf at row 1, column 2"),
        ([0, 1, 2, 3, 4, 1e300], "1e+300 at row 1, column 2"),
        (np.zeros((2, 3)), "zero everywhere"),
        (np.full((2, 3), -2.5), "-2.5 in every cell"),
        (SIX + 1j, "complex128"),
        (["a"] * 6, "<U1"),
        ([None] * 6, "object"),
        ([[1], [2, 3]], "not an array of numbers"),
    ],
)
def test_an_array_that_is_no_reward_is_refused(values, words: str):
    with pytest.raises(UserError) as refusal:
        grid_rewards.from_array(values, SMALL)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


# --- files


@pytest.mark.parametrize("values", [SIX, SIX.ravel(), np.asfortranarray(SIX), SIX.astype(">i4")])
def test_a_reward_is_read_from_npy(values, tmp_path: Path):
    path = tmp_path / "reward.npy"
    np.save(path, values)
    reward = grid_rewards.parse(str(path), SMALL)
    assert reward.name == str(path)
    assert reward.values.tolist() == [0, 1, 2, 3, 4, 5]
    path.unlink()
    assert reward.values.sum() == 15


@pytest.mark.parametrize(
    "text",
    [
        "0,1,2\n3,4,5\n",
        "0, 1.0, 2e0\r\n3, 4, 5",
        "\ufeff0,1,2\n3,4,5\n",
        "0,1,2,3,4,5",
        "0\n1\n2\n3\n4\n5\n",
        "# rows\n0,1,2\n\n3,4,5\n",
    ],
)
def test_a_reward_is_read_from_csv(text: str, tmp_path: Path):
    path = tmp_path / "Reward.CSV"
    path.write_text(text, encoding="utf-8")
    assert grid_rewards.parse(str(path), SMALL).values.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        ("# nothing\n", "no data"),
        ("a,b,c\n0,1,2\n", "'a'"),
        ("0,1,2\n3,x,5\n", "'x'"),
        ("0;1;2\n3;4;5\n", "'0;1;2'"),
        ("0,1,2\n3,4\n", "number of columns"),
        ("0,1,2\n3,,5\n", "''"),
        ("0,1,2\n", "(3,), but the grid needs (2, 3) or (6,)"),
        ("0,1,2\n3,nan,5\n", "nan at row 1, column 1"),
        ("0,1,2\n3,4,1e999\n", "inf at row 1, column 2"),
        ("0,0,0\n0,0,0\n", "zero everywhere"),
        ("1,1,1\n1,1,1\n", "1 in every cell"),
        (b"\xff\xfe\x00\x01", "decode"),
        (b"PK\x03\x04 not text \x00", "Cannot read"),
    ],
)
def test_a_csv_that_is_no_reward_is_refused(content: str | bytes, words: str, tmp_path: Path):
    path = tmp_path / "r.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert words in refused(str(path), SMALL)


class _Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def test_pickles_are_never_loaded(tmp_path: Path):
    inside, bare = tmp_path / "inside.npy", tmp_path / "bare.npy"
    np.save(inside, np.array([_Bomb()] * 6, dtype=object), allow_pickle=True)
    bare.write_bytes(pickle.dumps(_Bomb()))
    for path in (inside, bare):
        assert "pickled Python objects, which are never loaded" in refused(str(path), SMALL)


def test_a_file_cut_short_at_any_place_is_refused(tmp_path: Path):
    whole, path = tmp_path / "whole.npy", tmp_path / "cut.npy"
    np.save(whole, SIX)
    content = whole.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        assert "Cannot read the file" in refused(str(path), SMALL)


def test_a_damaged_file_is_a_reward_or_a_sentence(tmp_path: Path):
    path = tmp_path / "damaged.npy"
    np.save(path, SIX)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.integers(len(damaged))] = rng.integers(256)
        path.write_bytes(damaged)
        with contextlib.suppress(UserError):
            assert np.isfinite(grid_rewards.parse(str(path), SMALL).values).all()


def test_a_header_that_claims_too_many_numbers_takes_no_memory(tmp_path: Path):
    path = tmp_path / "liar.npy"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    header = header.ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    assert "Cannot read" in refused(str(path), SMALL)


def test_an_archive_is_not_an_array(tmp_path: Path):
    path = tmp_path / "archive.npy"
    with path.open("wb") as file:
        np.savez(file, SIX)
    assert "archive" in refused(str(path), SMALL)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "hello")
    assert "archive" in refused(str(path), SMALL)


@pytest.mark.parametrize("ending", [".npy", ".csv"])
def test_a_path_that_is_no_file_is_refused(ending: str, tmp_path: Path):
    assert "does not exist" in refused(str(tmp_path / f"absent{ending}"), SMALL)
    folder = tmp_path / f"folder{ending}"
    folder.mkdir()
    assert "is a directory" in refused(str(folder), SMALL)
    assert "not an ordinary file" in refused(_device(tmp_path, ending), SMALL)
    assert "Cannot read" in refused("x" * 5000 + ending, SMALL)
    assert "Cannot read" in refused("\0" + ending, SMALL)
    assert "Cannot read" in refused("~no-such-user/x" + ending, SMALL)


def _device(folder: Path, ending: str) -> str:
    path = folder / f"endless{ending}"
    path.symlink_to("/dev/zero")
    return str(path)


def test_a_file_that_is_too_large_is_not_even_opened(tmp_path: Path):
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.truncate(10**12)
    assert "larger than" in refused(str(path), SMALL)


# --- families


@pytest.mark.parametrize("world", [OPEN, ROOMS])
def test_a_family_is_fixed_and_every_member_is_a_reward(world: GridWorld):
    for name in ("boxes", "goals"):
        tasks = grid_rewards.family(name, world)
        assert tasks.shape == (grid_rewards.FAMILY_SIZE, world.num_states)
        assert tasks.dtype == np.float64
        assert np.array_equal(tasks, grid_rewards.family(name, world))
        assert not np.array_equal(tasks, grid_rewards.family(name, world, seed=1))
        assert (tasks[:, ~world.free] == 0).all()
        assert np.array_equal(grid_rewards.family(name, world, num_tasks=5), tasks[:5])


def test_goals_of_a_family_are_different_cells_until_they_run_out():
    goals = grid_rewards.family("goals", OPEN, num_tasks=100)
    assert (goals.sum(axis=0) == 1).all()
    assert (goals.sum(axis=1) == 1).all()
    assert grid_rewards.family("goals", SMALL, num_tasks=9).sum(axis=0).tolist().count(2) == 3


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: grid_rewards.family("boxes", SMALL), "2 x 3"),
        (lambda: grid_rewards.family("goals", GridWorld(1, 1)), "in every cell"),
        (lambda: grid_rewards.family("goals", OPEN, num_tasks=0), "num_tasks is 0"),
        (lambda: grid_rewards.family("mazes", OPEN), "'mazes'"),  # type: ignore[arg-type]
    ],
)
def test_a_family_that_cannot_be_is_refused(build, words: str):
    with pytest.raises(UserError) as refusal:
        build()
    assert words in str(refusal.value)
