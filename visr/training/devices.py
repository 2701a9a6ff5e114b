"""Where networks live and how they compute: one code path for CPU and CUDA."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from typing import TypeVar

import torch
from torch import nn

from visr.config import TrainingConfig
from visr.errors import UserError, short_repr
from visr.networks import images

Network = TypeVar("Network", bound=nn.Module)


def device(name: str) -> torch.device:
    """The device of that name; `auto` is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(name)
        torch.zeros(1, device=chosen).item()  # `meta` makes tensors, but holds no numbers
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        raise UserError(
            f"device = {short_repr(name)} is not to be had here; use cpu, or auto for whatever there is."
        ) from error
    return chosen


def precision(name: str, where: torch.device) -> torch.dtype:
    """The torsos' number format; `auto` is bfloat16 where the hardware multiplies it."""
    if name == "auto":
        return torch.bfloat16 if _multiplies_bfloat16(where) else torch.float32
    return getattr(torch, name)


def _multiplies_bfloat16(where: torch.device) -> bool:
    if where.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def keep_freed_memory() -> None:
    """Ask the C library to reuse large blocks instead of handing them back after every operation.

    Fresh pages cost a fault each: convolutions of images spend up to half of their time on them.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is not None and hasattr(libc, "mallopt"):
        libc.mallopt(_MMAP_THRESHOLD, 32 * 2**20)  # the largest it takes
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_TOP_PAD, 64 * 2**20)


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


def num_threads(config: TrainingConfig) -> int:
    """Threads inside one operation; 0 asks for every core this process may use."""
    if config.num_threads:
        return config.num_threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def threads(config: TrainingConfig) -> Iterator[None]:
    """Meanwhile operations use as many threads as the configuration says."""
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads(config))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def prepared(network: Network, config: TrainingConfig) -> Network:
    """The network where it shall live, told how to compute."""
    where = device(config.device)
    images.set_arithmetic(network, precision(config.precision, where), config.channels_last)
    return network.to(where)
