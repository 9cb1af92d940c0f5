"""Adam for stacked parameters: each symbol has its own moments, count of steps and gradient norm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn

__all__ = ["StackedAdam", "clip_each"]


class StackedAdam(torch.optim.Optimizer):
    """Adam (Kingma, Ba 2015) on parameters (symbol, …) that leaves absent symbols, and their moments, alone.

    A symbol's parameters go the way they would under an Adam of their own.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        learning_rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(parameters, {"lr": learning_rate, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, present: torch.Tensor) -> None:  # type: ignore[override]
        """One step of the symbols where `present` (symbol,) is true."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step(parameter, parameter.grad, present, **group)

    def _step(
        self,
        parameter: nn.Parameter,
        gradient: torch.Tensor,
        present: torch.Tensor,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        **_: object,
    ) -> None:
        state = self.state[parameter]
        if not state:
            state["steps"] = torch.zeros(len(parameter), device=parameter.device)
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        shape = (-1,) + (1,) * (parameter.ndim - 1)  # (symbol, 1, …), to spread over the rest
        moves = present.to(parameter.dtype).view(shape)
        # Counted by symbol: one that joins late has its own bias correction.
        steps = state["steps"].add_(present).view(shape)
        state["mean"].add_((gradient - state["mean"]) * moves * (1 - betas[0]))
        state["square"].add_((gradient.square() - state["square"]) * moves * (1 - betas[1]))
        # Both bias corrections in one fraction: m̂ / (√v̂ + ε), multiplied through by √(1 − β₂ᵗ).
        size = (1 - betas[1] ** steps).sqrt()
        change = state["mean"] * size / ((1 - betas[0] ** steps) * (state["square"].sqrt() + eps * size))
        parameter.sub_(torch.where(moves > 0, lr * change, 0.0))  # where no step was taken yet, change is 0 / 0


@torch.no_grad()
def clip_each(parameters: Sequence[nn.Parameter], largest: float) -> torch.Tensor:
    """Shrink the gradients of each symbol whose norm is above `largest`; gives the norms (symbol,) before."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norms = torch.stack([gradient.reshape(len(gradient), -1).square().sum(1) for gradient in gradients]).sum(0).sqrt()
    # 1e-6 as in torch's clip_grad_norm_.
    factors = (largest / (norms + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factors.view((-1,) + (1,) * (gradient.ndim - 1)))
    return norms
