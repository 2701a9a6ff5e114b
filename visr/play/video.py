"""Videos of an agent: frames, captions and MP4 files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from visr.agents.base import Agent
from visr.config import ATARI, GRID, MINATAR, RunConfig
from visr.errors import UserError
from visr.play import rendering
from visr.play.session import Session
from visr.storage.files import writing

FRAMES_PER_SECOND = {ATARI: 15, GRID: 8, MINATAR: 10}
"""An Atari step lasts four frames of sixty a second."""
_CAPTION = 20


@dataclass(frozen=True)
class Frame:
    """One step of a video."""

    picture: NDArray[np.uint8]
    """[H, W, 3]"""
    num_steps: int
    score: float
    is_last: bool
    """Whether the episode ended here."""


def frames(
    agent: Agent,
    config: RunConfig,
    w: NDArray[np.floating],
    *,
    num_episodes: int,
    max_steps: int,
    epsilon: float,
    gpi: bool | None = None,
    seed: int = 0,
    show: bool = True,
) -> Iterator[Frame]:
    """Play whole episodes with one task; `show` adds a picture of every step."""
    shown = rendering.screen(config) if show else None
    session = Session(agent, config, epsilon=epsilon, gpi=gpi, seed=seed, screen=shown)
    session.actor.pursue(w)

    def frame(is_last: bool) -> Frame:
        picture = _NOTHING
        if shown is not None and session.picture is not None:
            picture = rendering.enlarged(session.picture, shown.scale)
        return Frame(picture, session.num_steps, session.score, is_last)

    with contextlib.closing(session):
        for episode in range(num_episodes):
            session.begin(seed + episode)
            is_last = False
            yield frame(is_last)
            while not is_last:
                session.step()
                is_last = session.is_over or session.num_steps >= max_steps
                yield frame(is_last)


_NOTHING = np.zeros((0, 0, 3), dtype=np.uint8)


def play(
    agent: Agent,
    config: RunConfig,
    w: NDArray[np.floating],
    name: str,
    *,
    video: Path | None = None,
    num_episodes: int = 1,
    max_steps: int = 4_500,
    epsilon: float | None = None,
    seed: int = 0,
) -> list[Frame]:
    """Play episodes with one task, and record them if `video` names a file; the last frame of each."""
    rates = FRAMES_PER_SECOND.items()
    rate = next((fps for prefix, fps in rates if config.env.startswith(prefix)), 15)
    writer = VideoWriter(video, rate, name) if video else None
    ends: list[Frame] = []
    try:
        for frame in frames(
            agent,
            config,
            w,
            num_episodes=num_episodes,
            max_steps=max_steps,
            epsilon=config.agent.exploration if epsilon is None else epsilon,
            seed=seed,
            show=writer is not None,
        ):
            if writer:
                writer.add(frame)
            if frame.is_last:
                ends.append(frame)
    finally:
        if writer:
            writer.close(keep=len(ends) == num_episodes)
    return ends


class VideoWriter:
    """Writes an MP4 file, which appears under its name only when it is complete."""

    def __init__(self, path: Path, frames_per_second: int, title: str) -> None:
        self._path, self._title, self._rate = path, title, frames_per_second
        self._partial = path.with_name(f"{path.stem}.partial{path.suffix}")
        self._writer: Any = None

    def add(self, frame: Frame) -> None:
        """Append a frame with its caption."""
        picture = captioned(frame, self._title)
        writer = self._writer or self._open(picture)
        with writing(self._path):
            writer.send(np.ascontiguousarray(picture))

    def _open(self, picture: NDArray[np.uint8]) -> Any:
        try:
            import imageio_ffmpeg
        except ImportError as error:
            raise UserError(
                'Videos need imageio-ffmpeg: pip install "visr[video]", or leave out --video.'
            ) from error
        height, width, _ = picture.shape
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._partial.touch()
            self._writer = imageio_ffmpeg.write_frames(
                str(self._partial),
                (width, height),
                fps=self._rate,
                quality=7,
                macro_block_size=2,
                ffmpeg_log_level="error",
            )
            self._writer.send(None)
        return self._writer

    def close(self, keep: bool) -> None:
        """Finish the file, or delete it."""
        if self._writer is None:
            return
        self._writer.close()
        if keep:
            with writing(self._path):
                self._partial.replace(self._path)
        else:
            self._partial.unlink(missing_ok=True)


def captioned(frame: Frame, title: str) -> NDArray[np.uint8]:
    """The picture with a line of text below it; its sides are even, as the codec requires."""
    height, width, _ = frame.picture.shape
    canvas = Image.new("RGB", (width + width % 2, height + height % 2 + _CAPTION), (20, 20, 20))
    canvas.paste(Image.fromarray(frame.picture), (0, 0))
    words = f"{title}   step {frame.num_steps}   score {frame.score:g}"
    ImageDraw.Draw(canvas).text((6, height + 4), words, fill=(230, 230, 230))
    return np.asarray(canvas)
