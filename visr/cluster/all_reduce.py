"""Sum gradients and counts over several learners with torch.distributed."""

from __future__ import annotations

import socket

import torch
import torch.distributed as distributed
from torch import Tensor


class AllReduce:
    """gloo on CPUs, nccl on GPUs.

    Every learner weights its gradients by its share of the batch's steps, so that the sum is the gradient
    of the whole batch's mean.
    """

    def __init__(self, address_of_first: str, rank: int, num_learners: int, on_gpu: bool) -> None:
        distributed.init_process_group(
            "nccl" if on_gpu else "gloo",
            init_method=address_of_first,
            rank=rank,
            world_size=num_learners,
        )
        self._device = torch.device("cuda" if on_gpu else "cpu")

    @staticmethod
    def address() -> str:
        """A free port of this machine, with an address that other nodes can reach."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            try:
                route.connect(("192.0.2.1", 9))  # sends nothing: it only selects an interface
                host = route.getsockname()[0]
            except OSError:
                host = "127.0.0.1"
        return f"tcp://{host}:{port}"

    def sum_count(self, count: Tensor) -> Tensor:
        """The sum of the learners' counts."""
        shared = count.to(self._device)
        distributed.all_reduce(shared)
        return shared.cpu()

    def sum_gradients(self, gradients: list[Tensor], metrics: dict[str, Tensor]) -> None:
        """Sum all tensors in one message; each small one would cost a round trip."""
        names = sorted(metrics)
        parts = [*gradients, *(metrics[name] for name in names)]
        flat = torch.cat([part.reshape(-1).float() for part in parts])
        distributed.all_reduce(flat)
        summed = flat.split([part.numel() for part in parts])
        for part, total in zip(gradients, summed, strict=False):
            part.copy_(total.view_as(part))
        for name, total in zip(names, summed[len(gradients) :], strict=True):
            metrics[name] = total.reshape(())
