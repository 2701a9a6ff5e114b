"""The power fails at every point of a training; what was saved is still there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.robustness.torture import power_loss
from tests.robustness.torture.file_calls import Call
from tests.robustness.torture.power_loss import Disk, Event


@pytest.mark.parametrize("name", power_loss.RUNS)
def test_the_last_saved_checkpoint_is_intact_after_a_power_loss_at_any_point(
    name: str, tmp_path: Path
):
    figures = power_loss.torture(tmp_path, name, seed=1, num_resumed=1, num_random=1)
    assert figures.disks > 100
    assert figures.losses == 0


def test_a_sync_that_is_missing_is_found(tmp_path: Path):
    (tmp_path / "x").mkdir()
    line = ("pretrain", *power_loss.SMALL, "--num-steps", "1280")
    events = power_loss.record(tmp_path / "x", *line, "--out", str(tmp_path / "x" / "run"))
    files = tuple(p.name for p in (tmp_path / "x").rglob("*") if p.is_file())

    def is_of_directory(event: Event) -> bool:
        return isinstance(event, Call) and not event.path.endswith((*files, ".partial"))

    def losses(kept: list[Event]) -> int:
        count = 0
        for _, promised, held in power_loss.crashes(tmp_path / "x", kept, random.Random(0), 0):
            power_loss.write_out(held, tmp_path / "copy")
            try:
                power_loss.check(tmp_path / "copy", promised)
            except Exception:
                count += 1
        return count

    def is_sync(event: Event) -> bool:
        return isinstance(event, Call) and event.kind == "fsync"

    assert losses(events) == 0
    assert losses([e for e in events if not (is_sync(e) and is_of_directory(e))]) > 0
    assert losses([e for e in events if not is_sync(e) or is_of_directory(e)]) > 0


def test_the_model_of_a_disk_keeps_only_what_was_synced(tmp_path: Path):
    place, inode = str(tmp_path), (1, 1)
    disk, draw = Disk(tmp_path), random.Random(0)

    def nothing_else() -> dict[str, bytes | None]:
        return next(disk.disks(draw, 0))

    def only_names() -> dict[str, bytes | None]:
        return list(disk.disks(draw, 0))[2]

    disk.apply(Call("open", f"{place}/a", flags=0o101, inode=inode))
    disk.apply(Call("write", f"{place}/a", data=b"abc", inode=inode))
    assert nothing_else() == {}
    assert only_names() == {"a": b""}
    disk.apply(Call("fsync", f"{place}/a", inode=inode))
    assert nothing_else() == {}  # the name is not synced
    disk.apply(Call("rename", f"{place}/a", f"{place}/b"))
    assert only_names() == {"b": b"abc"}
    disk.apply(Call("fsync", place))
    assert nothing_else() == {"b": b"abc"}
    disk.apply(Call("unlink", f"{place}/b"))
    assert nothing_else() == {"b": b"abc"}
    disk.apply(Call("fsync", place))
    assert nothing_else() == {}
