"""A policy as an ONNX file, for programs without Python."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import os
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from visr.agents.base import BehaviourModel
from visr.networks import conv_torsos
from visr.networks.factored_successor import FactoredSuccessorFeatures
from visr.optional_packages import needing
from visr.storage.files import write_bytes
from visr.storage.records.task import Task
from visr.strict_json import encodable

_OPSET = 18


class OnnxPolicy(nn.Module):
    """argmax_a max_i psi(o, a, w_i) . w, for one w and a fixed set of w_i; one step at a time."""

    def __init__(self, agent: BehaviourModel, w: Tensor, policies: Tensor, gpi: bool) -> None:
        super().__init__()
        self.psi = copy.deepcopy(agent.psi).cpu()
        conv_torsos.set_arithmetic(self.psi, torch.float32, channels_last=False)
        self.w: Tensor
        self.policies: Tensor
        self.register_buffer("w", w)
        self.register_buffer("policies", policies)
        self.weight: Tensor | None
        self.bias: Tensor
        readout = agent.readout(w.to(agent.device)[None], gpi)
        has_own_layers = readout.weight.shape[-1] > 1 and isinstance(
            self.psi, FactoredSuccessorFeatures
        )
        self.register_buffer("weight", readout.weight[0].mT.cpu() if has_own_layers else None)
        self.register_buffer("bias", readout.bias[0].cpu() if has_own_layers else None)

    def _choose(self, hidden: Tensor) -> Tensor:
        if self.weight is None:
            values = self.psi.heads(hidden.unsqueeze(1), self.policies) @ self.w
        else:  # each policy has its own last layer
            joined = self.psi.joined(hidden.unsqueeze(1), self.policies)  # pyright: ignore
            values = (joined * self.weight.unsqueeze(1)).sum(dim=-1) + self.bias.unsqueeze(-1)
        return values.amax(dim=1).argmax(dim=-1)


class FeedForwardPolicy(OnnxPolicy):
    """A policy without an LSTM."""

    def forward(self, observation: Tensor) -> Tensor:
        """observation [N, ...] -> action [N]"""
        count = observation.shape[0]  # len() would fix the size of batches
        nothing, memory = torch.full((count,), -1), torch.zeros(count, 0)
        return self._choose(self.psi.step(observation, nothing, memory)[0])


class RecurrentPolicy(OnnxPolicy):
    """A policy with an LSTM; it takes its last action (-1 at the start of an episode) and its last memory."""

    def forward(
        self, observation: Tensor, previous_action: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """observation [N, ...], previous_action [N], memory [N, M] -> action [N], memory [N, M]"""
        hidden, memory = self.psi.step(observation, previous_action, memory)
        return self._choose(hidden), memory


@torch.no_grad()
def export(
    agent: BehaviourModel, task: Task, path: str | Path, gpi: bool = False, seed: int = 0
) -> Path:
    """Write the greedy policy of a task; with GPI, over neighbours of w that are drawn once."""
    with needing("onnx", "export", "Exporting"), needing("onnxscript", "export", "Exporting"):
        import onnx
        import onnxscript  # noqa: F401  # torch's exporter imports it
    w = torch.as_tensor(task.w, dtype=torch.float32)
    random = torch.Generator().manual_seed(seed)
    policies = agent.sample_policies(w, random, gpi)
    observation = _example(agent)
    memory, names = (), ["observation"]
    kind: type[OnnxPolicy] = FeedForwardPolicy
    if agent.psi.memory_size:
        kind, names = RecurrentPolicy, ["observation", "previous_action", "memory"]
        previous_action, zeros = agent.psi.no_memory(2)
        memory = (previous_action.cpu(), zeros.cpu())
    program = _traced(kind(agent, w, policies, gpi).eval(), (observation, *memory), names)
    model = onnx.load_from_string(program)
    words = {"env": task.env, "task": task.name, "method": task.method}
    words = {name: encodable(text) for name, text in words.items()}
    greedy = "greedy with GPI" if gpi else "greedy"
    model.doc_string = f"visr: {words['env']}, task {words['task']}, {greedy}"
    onnx.helper.set_model_props(model, words)
    target = Path(path)
    write_bytes(target, model.SerializeToString())
    return target


def _example(agent: BehaviourModel) -> Tensor:
    space = agent.spec.observation_space
    if not space.shape:
        return torch.zeros(2, dtype=torch.int64)
    is_bytes = conv_torsos.is_image(space)
    return torch.zeros(2, *space.shape, dtype=torch.uint8 if is_bytes else torch.float32)


def _traced(policy: OnnxPolicy, inputs: tuple[Tensor, ...], names: list[str]) -> bytes:
    """Export without torch's messages; the batch of every input may have any size."""
    batch = torch.export.Dim("batch")
    shapes = tuple({0: batch} for _ in inputs)
    outputs = ["action", "next_memory"][: 1 + (len(inputs) > 1)]
    silence = contextlib.redirect_stdout(io.StringIO())
    logging.disable(logging.WARNING)
    try:
        with silence, warnings.catch_warnings(), open(os.devnull, "w") as nowhere:
            warnings.simplefilter("ignore")
            with contextlib.redirect_stderr(nowhere):
                program = torch.onnx.export(
                    policy,
                    inputs,
                    dynamo=True,
                    input_names=names,
                    output_names=outputs,
                    dynamic_shapes=shapes,
                    opset_version=_OPSET,
                    verbose=False,
                )
        assert program is not None
        return program.model_proto.SerializeToString()
    finally:
        logging.disable(logging.NOTSET)
