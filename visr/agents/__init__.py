"""One published agent per file, imported when asked for; `extensions` goes beyond the paper."""

from __future__ import annotations

from visr.agents.base import Agent
from visr.agents.visr import Visr
from visr.config.fields import AgentConfig
from visr.config.replay import ReplayConfig
from visr.types import EnvSpec

_BEYOND_THE_PAPER = (
    "objective",
    "bonus",
    "task_distribution",
    "value_weight",
    "cumulant",
    "gpi_distribution",
)
"""Settings that only `VisrPlus` has; their defaults are the paper's."""


def new(config: AgentConfig, spec: EnvSpec, replay: ReplayConfig | None = None) -> Agent:
    """The configured agent with new weights; DQN, PPO and Rainbow are in `visr.paper.baselines`."""
    if config.algorithm == "visr":
        return new_visr(config, spec)
    if config.algorithm == "replay":
        from visr.agents.replay_successor_features import ReplaySuccessorFeatures

        return ReplaySuccessorFeatures(config, spec, replay or ReplayConfig())
    if config.algorithm == "fb":
        from visr.agents.forward_backward import ForwardBackward

        return ForwardBackward(config, spec, replay or ReplayConfig())
    from visr.agents import curiosity, diayn, nsq

    classes: dict[str, type[Agent]] = {
        "diayn": diayn.Diayn,
        "nsq": nsq.Nsq,
        "pos-nsq": nsq.PosNsq,
        "rf-curiosity": curiosity.Curiosity,
        "idf-curiosity": curiosity.InverseDynamicsCuriosity,
        "uniform": nsq.Uniform,
    }
    return classes[config.algorithm](config, spec)


def new_visr(config: AgentConfig, spec: EnvSpec) -> Visr:
    """VISR as in the paper, or with what goes beyond it where a setting asks for that."""
    if any(getattr(config, f) != getattr(AgentConfig, f) for f in _BEYOND_THE_PAPER):
        from visr.agents.extensions.visr_plus import VisrPlus

        return VisrPlus(config, spec)
    return Visr(config, spec)
