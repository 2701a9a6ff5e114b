"""Learners that share batches: gradients and counts are summed by torch.distributed."""

from __future__ import annotations

import socket

import torch
import torch.distributed as distributed
from torch import Tensor


class TorchPartners:
    """gloo among CPUs, nccl among GPUs.

    Every learner weighs its gradients by its share of the batch's steps, so that their sum is the
    gradient of the joint batch's mean.
    """

    def __init__(self, meeting_point: str, rank: int, num_learners: int, on_gpu: bool) -> None:
        distributed.init_process_group(
            "nccl" if on_gpu else "gloo",
            init_method=meeting_point,
            rank=rank,
            world_size=num_learners,
        )
        self._device = torch.device("cuda" if on_gpu else "cpu")

    @staticmethod
    def address() -> str:
        """A free port of this machine, as the others may reach it."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            try:
                route.connect(("192.0.2.1", 9))  # nothing is sent: it only chooses an interface
                host = route.getsockname()[0]
            except OSError:
                host = "127.0.0.1"
        return f"tcp://{host}:{port}"

    def total(self, count: Tensor) -> Tensor:
        """The sum of everybody's counts."""
        shared = count.to(self._device)
        distributed.all_reduce(shared)
        return shared.cpu()

    def add_up(self, gradients: list[Tensor], metrics: dict[str, Tensor]) -> None:
        """One message for all of them: small ones would cost a round trip each."""
        names = sorted(metrics)
        parts = [*gradients, *(metrics[name] for name in names)]
        flat = torch.cat([part.reshape(-1).float() for part in parts])
        distributed.all_reduce(flat)
        summed = flat.split([part.numel() for part in parts])
        for part, total in zip(gradients, summed, strict=False):
            part.copy_(total.view_as(part))
        for name, total in zip(names, summed[len(gradients) :], strict=True):
            metrics[name] = total.reshape(())
