"""Adam (Kingma and Ba, 2015), by torch's fused kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

_BETAS = (0.9, 0.999)
_STATE = ("step", "exp_avg", "exp_avg_sq")


class Adam:
    """The numbers of `torch.optim.Adam(..., fused=True)`, with the same groups and state.

    That class imports torch's compiler, a second at the start of every command, and takes longer to call.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter] | list[dict[str, Any]],
        lr: float = 1e-3,
        eps: float = 1e-8,
    ) -> None:
        """`parameters`, or groups of them that may have settings of their own."""
        given: list[Any] = list(parameters)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        self.param_groups: list[dict[str, Any]] = [{"lr": lr, "eps": eps, **one} for one in groups]
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}
        """Of every parameter that has had a gradient: step, exp_avg, exp_avg_sq."""

    @property
    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change every parameter that has a gradient."""
        for group in self.param_groups:
            changed = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not changed:
                continue
            kept = [self.state.get(parameter) or self._begin(parameter) for parameter in changed]
            averages, squares, steps = (
                [one[name] for one in kept] for name in ("exp_avg", "exp_avg_sq", "step")
            )
            torch._foreach_add_(steps, 1)  # pyright: ignore
            torch._fused_adam_(  # pyright: ignore
                changed,
                [parameter.grad for parameter in changed],
                averages,
                squares,
                [],
                steps,
                lr=group["lr"],
                beta1=_BETAS[0],
                beta2=_BETAS[1],
                weight_decay=0.0,
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    def _begin(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        self.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
        }
        return self.state[parameter]

    def moments(self) -> dict[str, Tensor]:
        """The state of every parameter, as NUMBER.NAME."""
        numbered = enumerate(self._parameters)
        kept = ((k, self.state[one]) for k, one in numbered if one in self.state)
        return {f"{k}.{name}": tensor for k, state in kept for name, tensor in state.items()}

    def load_moments(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `moments`; settings stay as they are."""
        parameters = self._parameters
        self.state = {}
        for key, tensor in tensors.items():
            number, name = key.split(".")
            parameter = parameters[int(number)]
            kept = tensor.to(parameter.device)
            if name != "step":  # fused Adam needs the parameter's memory layout
                kept = torch.empty_like(parameter).copy_(tensor)
            self.state.setdefault(parameter, {})[name] = kept
        if any(len(state) != len(_STATE) for state in self.state.values()):
            raise KeyError(f"a parameter does not have all of {', '.join(_STATE)}")
