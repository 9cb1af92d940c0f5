"""Context encoders: the agent's own recent transitions (row, bar, token) to one vector (row, width).

Tokens are the oldest first; `valid` (row, bar) is 1 where a transition was made in this episode. Without any the vector
is 0, and the policy is that of an agent without a context. GRU and attention follow RL² (Duan et al. 2016) and its
attention variant (Mishra et al. 2018), the Gaussian one PEARL (Rakelly et al. 2019).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from pacesetter.agents.attention import AssetAttention, sinusoids
from pacesetter.errors import ConfigError

__all__ = [
    "AttentionContext",
    "ContextKind",
    "GaussianContext",
    "GruContext",
    "SumContext",
    "kl_to_prior",
    "make_context",
    "product_of_gaussians",
]

ContextKind = Literal["gru", "attention", "pearl", "sums"]
AGE_NUMBERS = 8  # sines and cosines that tell attention how old a token is
HEADS = 4
ORDER_FROM_END = 3  # place of the order in a transition: order, reward, return are the last
LEAST_LOG_VARIANCE, MOST_LOG_VARIANCE = -6.0, 6.0  # of one transition's factor; beyond it sums of precisions overflow


class Context(nn.Module):
    """Transitions (row, bar, token) and which of them were made (row, bar) to one vector (row, width).

    noise_size   how many standard normal numbers a draw of it takes; most are not drawn
    """

    noise_size: int = 0

    def weights(self, tokens: torch.Tensor, valid: torch.Tensor) -> torch.Tensor | None:
        """(row, bar) share of each transition where it weighs them, else None."""
        return None


class GruContext(Context):
    """A GRU reads the transitions in their order; its last state is the context."""

    def __init__(self, tokens: int, bars: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(tokens, width)
        self.memory = nn.GRU(width, width, batch_first=True)

    def forward(self, tokens: torch.Tensor, valid: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        # What was not played is 0 without a bias, so that an episode's first transition meets a fresh state.
        states, _ = self.memory(self.embed(tokens).relu() * valid[..., None])
        return states[:, -1] * valid[:, -1:]  # type: ignore[no-any-return]


class AttentionContext(Context):
    """Transitions look at each other, those of this episode alone; the context is their mean."""

    ages: torch.Tensor

    def __init__(self, tokens: int, bars: int, width: int) -> None:
        super().__init__()
        if width % HEADS:
            raise ConfigError(f"agent.context_width={width} must be a multiple of {HEADS} for agent.context=attention")
        self.attend = AssetAttention(tokens + AGE_NUMBERS, width, HEADS, layers=1, expansion=2)
        self.register_buffer("ages", sinusoids(bars, AGE_NUMBERS))

    def forward(self, tokens: torch.Tensor, valid: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        present = valid > 0.5
        return self.attend.pool(self.attend(self._add_ages(tokens), present), present)

    @torch.no_grad()
    def weights(self, tokens: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """(row, bar) mean share that the transitions of an episode give to each of them; a row sums to 1, or to 0."""
        present = valid > 0.5
        shares = self.attend.weights(self._add_ages(tokens), present)[:, 0].mean(1)  # (row, bar, bar)
        return self.attend.pool(shares, present)

    def _add_ages(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.cat([tokens, self.ages.expand(tokens.shape[0], -1, -1)], dim=-1)


class GaussianContext(Context):
    """PEARL's posterior of a latent task: each transition is a Gaussian factor, in any order, beside a unit prior.

    The latent is the posterior's mean, or with `noise` (row, latent) standard normal a draw of it: one draw for an
    episode explores as one hypothesis about the task would (posterior sampling).
    """

    def __init__(self, tokens: int, bars: int, width: int, latent: int = 8) -> None:
        super().__init__()
        self.noise_size = latent
        self.factor = nn.Sequential(nn.Linear(tokens, width), nn.ReLU(), nn.Linear(width, 2 * latent))
        self.join = nn.Linear(latent, width, bias=False)

    def forward(self, tokens: torch.Tensor, valid: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        mean, variance = self.posterior(tokens, valid)
        return self.join(mean if noise is None else mean + variance.sqrt() * noise)  # type: ignore[no-any-return]

    def posterior(self, tokens: torch.Tensor, valid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and variance (row, latent) of the latent task; those of the prior before the first transition."""
        means, logs = self.factor(tokens).chunk(2, dim=-1)
        variances = logs.clamp(LEAST_LOG_VARIANCE, MOST_LOG_VARIANCE).exp()
        return product_of_gaussians(means, variances, valid)


class SumContext(Context):
    """A linear map of each transition, summed and divided by the root of their number (Deep Sets, Zaheer et al. 2017).

    Such a sum is a t-statistic: it has the same spread after one transition and after all of them, and a small mean
    that lasts grows out of it. A mean of transitions, which the others come to at first, shrinks by the same root.
    """

    def __init__(self, tokens: int, bars: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(tokens, width, bias=False)
        with torch.no_grad():
            # An order is mostly not 0 on average, so that its sum would drown the returns at first.
            self.embed.weight[:, -ORDER_FROM_END] = 0.0

    def forward(self, tokens: torch.Tensor, valid: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        count = valid.sum(1, keepdim=True).clamp(min=1)
        return self.embed((tokens * valid[..., None]).sum(1) / count.sqrt())  # type: ignore[no-any-return]


def product_of_gaussians(
    means: torch.Tensor, variances: torch.Tensor, valid: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of N(0, 1) · Π N(means, variances) over axis 1, (row, factor, …) to (row, …).

    1/v = 1 + Σ valid/v_i and m = v · Σ valid·m_i/v_i (Rakelly et al. 2019, eq. 4, with the prior as a factor).
    """
    precisions = valid[..., None] / variances
    variance = 1 / (1 + precisions.sum(1))
    return variance * (precisions * means).sum(1), variance


def kl_to_prior(mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    """(row,) KL(N(mean, variance) ‖ N(0, 1)), summed over the latent, in nats."""
    return 0.5 * (variance + mean**2 - 1 - variance.log()).sum(-1)


def make_context(kind: ContextKind, tokens: int, bars: int, width: int, latent: int) -> nn.Module:
    """The context encoder of that name for `bars` transitions of so many numbers."""
    if kind == "pearl":
        return GaussianContext(tokens, bars, width, latent)
    return {"gru": GruContext, "attention": AttentionContext, "sums": SumContext}[kind](tokens, bars, width)
