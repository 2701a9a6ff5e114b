"""Which agent a configuration asks for, and which tasks it pursues."""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional

from visr.agents.curiosity import Curiosity
from visr.agents.diayn import Diayn
from visr.agents.nsq import Nsq
from visr.agents.pos_nsq import PosNsq
from visr.agents.uniform import Uniform
from visr.agents.visr import Visr
from visr.config import AgentConfig
from visr.ops import sphere
from visr.types import EnvSpec

Agent = Visr | Diayn | Nsq | PosNsq | Curiosity | Uniform

AGENTS: dict[str, type[Agent]] = {
    "visr": Visr,
    "diayn": Diayn,
    "nsq": Nsq,
    "pos-nsq": PosNsq,
    "rf-curiosity": Curiosity,
    "idf-curiosity": Curiosity,
    "uniform": Uniform,
}


def new(config: AgentConfig, spec: EnvSpec) -> Agent:
    """The agent of that algorithm, with fresh weights."""
    return AGENTS[config.algorithm](config, spec)


def draw_tasks(config: AgentConfig, num_tasks: int, generator: Generator | None) -> Tensor:
    """[N, task size]: uniform on the sphere for VISR, one of its skills for DIAYN, 1 for the others."""
    if config.algorithm == "visr":
        return sphere.uniform(num_tasks, d=config.num_features, generator=generator)
    if config.algorithm == "diayn":
        skills = torch.randint(config.num_skills, (num_tasks,), generator=generator)
        return functional.one_hot(skills, config.num_skills).float()
    return torch.ones(num_tasks, 1)
