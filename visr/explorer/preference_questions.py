"""The page's question "which of these two do you like better?": pairs of recorded segments, with films."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from visr.api import Run
from visr.errors import UserError
from visr.explorer import painting, pictures
from visr.inference import preferences, recording
from visr.inference.preferences import SEGMENT, Preferences
from visr.inference.recording import Recording
from visr.play.rendering import Picture
from visr.play.segment_films import SegmentFilms

MAX_ANSWERS = 400
_UNSAVED_STEPS = 1_500
"""Steps recorded for this page alone, where observations are too large to be kept with the run."""
_LEAST_STARTS = 20
"""Fewer segments that can be filmed are too few to choose from."""
_MAX_FIELDS = 6
"""Most numbers of an observation that are plotted."""

Answers = NDArray[np.intp]
"""[N, 3], first steps of the better and of the worse segment; 1 where both are as good, else 0."""


class Questions:
    """Segments of one run's recording, and what answers about them say."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @functools.cached_property
    def _films(self) -> SegmentFilms | None:
        """Episodes that the environment draws again; None for grids, images, and what cannot be drawn."""
        run = self._run
        if painting.is_paintable(run) or self._has_images or not run.config.has_environment:
            return None
        try:
            films = SegmentFilms(run.visr, run.config)
        except UserError:
            return None
        return films if len(preferences.starts(films.recorded.episode)) > _LEAST_STARTS else None

    @property
    def _has_images(self) -> bool:
        space = self._run.agent.spec.observation_space
        return isinstance(space, spaces.Box) and len(space.shape) == 3

    @functools.cached_property
    def recorded(self) -> Recording:
        """The steps that are asked about, episode after episode: the run's recording, or filmed steps."""
        if self._films is not None:
            return self._films.recorded
        if self._has_recording:
            return self._run.recording().in_order()
        return recording.record(self._run.visr, self._run.config, _UNSAVED_STEPS).in_order()

    @functools.cached_property
    def _prior(self) -> NDArray[np.float64] | None:
        recorded = self.recorded
        return preferences.prior_of(self._run.agent, recorded.phi, recorded.episode)

    @property
    def is_kept(self) -> bool:
        """Whether the run keeps the steps that are asked about, so that Python finds the same segments."""
        return self._films is None and self._has_recording

    @property
    def _has_recording(self) -> bool:
        run = self._run
        is_possible = recording.can_record(run.visr, run.config)
        return is_possible or run.inference.has_recording

    def next(self, answers: Answers, number: int) -> dict[str, Any]:
        """The pair to compare after these answers, as first steps and films."""
        recorded, known = self.recorded, self.prompt(answers).posterior() if len(answers) else None
        starts = preferences.starts(recorded.episode)
        pair = preferences.next_pair(recorded.phi, starts, known, number)
        return {"pair": pair, "num_steps": SEGMENT, "films": self._shown(pair)}

    def prompt(self, answers: Answers) -> Preferences:
        """The prompt that the answers are."""
        phi, at = self.recorded.phi, answers[:, :2]
        if at.min() < 0 or at.max() > len(phi) - SEGMENT:
            raise UserError(
                f"An answer names a step that is not recorded: segments start from 0 to {len(phi) - SEGMENT}."
            )
        sums = preferences.segment_sums(phi, [(i, i + SEGMENT) for i in at.ravel().tolist()])
        first, second, is_equal = sums[::2], sums[1::2], answers[:, 2] != 0
        count = len(answers)
        return Preferences(
            f"{count} preference{'s' if count > 1 else ''}",
            first[~is_equal],
            second[~is_equal],
            (first - second)[is_equal],
            self._prior,
        )

    def _shown(self, pair: Sequence[int]) -> list[dict[str, Any]]:
        """Films by the environment, where it draws both segments."""
        if self._films is not None:
            with contextlib.suppress(UserError):  # it does not repeat one of them
                return [_strip(self._films.film(start, SEGMENT)) for start in pair]
        return [self._film(start) for start in pair]

    def _film(self, start: int) -> dict[str, Any]:
        """A path on the grid, pictures of images, curves of numbers."""
        recorded = self.recorded
        states = np.concatenate(
            [recorded.before[start : start + 1], recorded.reached[start : start + SEGMENT]]
        )
        if painting.is_paintable(self._run):
            return {"kind": "path", "states": states.tolist()}
        if self._has_images:
            return _strip([pictures.of_observation(state, self._run) for state in states])
        return {"kind": "numbers", **self._curves(states)}

    def _curves(self, states: NDArray) -> dict[str, Any]:
        """The numbers that vary most, in standard deviations from their mean."""
        recorded = self.recorded
        table = recorded.reached.reshape(len(recorded.action), -1).astype(np.float64)
        mean, deviation = table.mean(axis=0), table.std(axis=0)
        varied = np.flatnonzero(deviation > 1e-9)[:_MAX_FIELDS]
        values = states.reshape(len(states), -1)[:, varied].astype(np.float64)
        scaled = (values - mean[varied]) / deviation[varied]
        return {
            "names": [recorded.names[column] for column in varied],
            "values": [painting.rounded(column) for column in scaled.T],
        }


def _strip(frames: Sequence[Picture]) -> dict[str, Any]:
    film, size = pictures.strip(frames)
    return {"kind": "film", "film": film, "size": size, "num_frames": len(frames)}


def lines(answers: Answers) -> list[str]:
    """Python that gives the same answers."""
    pairs = [
        ((a, a + SEGMENT), (b, b + SEGMENT), *(["equal"] if is_equal else []))
        for a, b, is_equal in answers.tolist()
    ]
    return [f"preferences = {pairs!r}", "task = run.infer(preferences=preferences)"]
