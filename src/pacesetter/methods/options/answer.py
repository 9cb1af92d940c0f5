"""One bar of a policy with options: does the one in force end, which comes next, and which order does it give?

What is kept from bar to bar is one vector a row, `OptionMemory`; zeros are those of an account that has none yet. In
training an option ends and the next one is drawn at random. The deterministic policy ends an option once the
probability that it would have lasted so long falls below one half, the median of its duration, and takes the likeliest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from pacesetter.agents.heads import MaskedCategorical, TanhGaussian
from pacesetter.methods.options.config import WAIT, OptionRules
from pacesetter.methods.options.rule_options import Situation, endings, initiation, orders

__all__ = ["MEMORY", "OptionAnswer", "OptionBar", "OptionMemory", "OptionSet"]

MEMORY = "option_memory"  # entry of an observation: what was kept of the bar before
MEDIAN = 0.5
EDGE = 1 - 1e-6  # an order of ±1 has no finite pre-image under tanh
CERTAIN_DEVIATION = -5.0  # logarithm, of an order that a rule gives
LOG_DEVIATION = (-5.0, 1.0)


class OptionMemory(NamedTuple):
    """What is kept of the bar before; in a vector (row, 3 + option) the first is one more, so that 0 is none.

    option   (row,) in force, −1 where none is yet      steps   (row,) orders that it has given
    spent    (row,) probability that it would have ended by now       was_open   (row, option) which could begin then
    """

    option: torch.Tensor
    steps: torch.Tensor
    spent: torch.Tensor
    was_open: torch.Tensor

    @classmethod
    def of(cls, vector: torch.Tensor) -> OptionMemory:
        """Read a vector; whatever is in it, the option is one that there is."""
        count = vector.shape[-1] - 3
        # Clamped: a served request hands this vector in, and a number out of range would break every gather by option.
        option = (vector[..., 0].round() - 1).clamp(-1, count - 1)
        return cls(option.long(), vector[..., 1].clamp(min=0), vector[..., 2].clamp(0, 1), vector[..., 3:] > 0.5)

    def vector(self) -> torch.Tensor:
        kept = torch.stack([self.option.float() + 1, self.steps.float(), self.spent], dim=-1)
        return torch.cat([kept, self.was_open.float()], dim=-1)


@dataclass(frozen=True)
class OptionSet:
    """Which options there are and what they do; plain values, so that a stored policy can be built again.

    is_learned   their orders and endings come from the network; else from the rules
    """

    names: tuple[str, ...]
    rules: OptionRules
    timeout: int = 20
    is_learned: bool = False
    seen_bars: int | None = None

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> OptionSet:
        """The set that `FleetOptions.describe` describes."""
        return cls(
            **{**description, "names": tuple(description["names"]), "rules": OptionRules(**description["rules"])}
        )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def outputs(self) -> int:
        """Of the actor: a logit of each option, and of learned ones mean, log deviation and logit of the ending."""
        return len(self) * (4 if self.is_learned else 1)

    @property
    def memory_size(self) -> int:
        return 3 + len(self)


class OptionBar(NamedTuple):
    """What a bar came to, (row,) each: the order (row, 1), the option that gave it, whether that began here."""

    orders: torch.Tensor
    option: torch.Tensor
    began: torch.Tensor
    memory: torch.Tensor


class OptionAnswer(TanhGaussian):
    """The answer of a policy with options at one bar; a squashed Gaussian of the order of the likeliest option.

    outputs   (row, ·) of the actor, see `OptionSet.outputs`      values   (row, option) of beginning each here
    signals   (row, 3), see `read_market`   position   (row, ·)   memory   (row, ·), see `OptionMemory`

    `mode` and `sample` play the bar and leave what it came to in `played`.
    """

    played: OptionBar

    def __init__(
        self,
        options: OptionSet,
        outputs: torch.Tensor,
        values: torch.Tensor,
        signals: torch.Tensor,
        position: torch.Tensor,
        memory: torch.Tensor,
        temperature: float = 1.0,
    ) -> None:
        self.options, self.values, self.temperature = options, values, temperature
        self.outputs, self.signals, self.position = outputs, signals, position
        self.before = OptionMemory.of(memory)
        self.now = Situation.of(signals, position)
        count = len(options)
        self.logits = outputs[..., :count] / temperature
        if options.is_learned:
            # Learned options may begin anywhere: their initiation sets are the whole state space (Bacon et al. 2017).
            self.open = torch.ones_like(self.logits, dtype=torch.bool)
        else:
            self.open = initiation(options.names, self.now, options.rules)
        self.selector = MaskedCategorical(self.logits, self.open)

    @property
    def mean(self) -> torch.Tensor:  # type: ignore[override]
        return self._squash_orders()[0]

    @property
    def log_deviation(self) -> torch.Tensor:  # type: ignore[override]
        return self._squash_orders()[1]

    def _squash_orders(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the option that the deterministic policy has in force."""
        chosen = self.play(deterministic=True)
        return self.order_of(chosen.option, chosen.memory[..., 1] - 1)

    def with_temperature(self, temperature: float) -> OptionAnswer:
        """The same with a selector, and learned orders, that are spread wider."""
        memory = self.before.vector()
        parts = (self.options, self.outputs, self.values, self.signals, self.position, memory)
        return OptionAnswer(*parts, temperature=self.temperature * temperature)

    # ---- a bar ----------------------------------------------------------------------------------------------------

    def ending(self) -> torch.Tensor:
        """(row,) probability that the option in force ends here; 1 where none is or its time is up."""
        before, current = self.before, self.before.option.clamp(min=0)
        if self.options.is_learned:
            # The last block of the outputs: logits of endings, see `OptionSet.outputs`.
            chances = torch.sigmoid(self.outputs[..., -len(self.options) :])
        else:
            # Newly open: waiting ends when a chance appears, not at every bar at which one has been there all along.
            opens = self.open & ~before.was_open
            chances = endings(self.options.names, self.now, before.steps, opens, self.options.rules)
        chance = chances.gather(-1, current[..., None]).squeeze(-1)
        is_over = (before.option < 0) | (before.steps >= self.options.timeout)
        return torch.where(is_over, torch.ones_like(chance), chance)

    def play(self, deterministic: bool, epsilon: float = 0.0) -> OptionBar:
        """End the option in force or not, choose the next where it did, and let it give its order.

        epsilon   share of the choices that are drawn evenly from those that may begin
        """
        before, ending = self.before, self.ending()
        # 1 − Π(1 − β): the probability that the option would have ended by this bar.
        spent = 1 - (1 - before.spent) * (1 - ending)
        if deterministic:
            began, chosen = spent > MEDIAN, self.likeliest()
        else:
            # A draw below 1 always, so that a certain ending is one.
            began, chosen = torch.rand_like(ending) < ending, self.draw_option(epsilon)
        option = torch.where(began, chosen, before.option)
        steps = torch.where(began, torch.zeros_like(before.steps), before.steps)
        spent = torch.where(began, torch.zeros_like(spent), spent)
        memory = OptionMemory(option, steps + 1, spent, self.open).vector()
        return OptionBar(self._order(option, steps, deterministic), option, began, memory)

    def _order(self, option: torch.Tensor, steps: torch.Tensor, deterministic: bool) -> torch.Tensor:
        """(row, 1)."""
        if not self.options.is_learned:
            return self.rule(option, steps)[..., None]
        mean, log_deviation = self.order_of(option, steps)
        # A density to the power 1/T is a Gaussian of variance T·σ²: the deviation grows by √T.
        spread = TanhGaussian(mean, log_deviation + 0.5 * math.log(self.temperature))
        return spread.mode() if deterministic else spread.sample()

    def mode(self) -> torch.Tensor:
        self.played = self.play(deterministic=True)
        return self.played.orders

    def sample(self) -> torch.Tensor:
        self.played = self.play(deterministic=False)
        return self.played.orders

    def entropy(self) -> torch.Tensor:
        """(row,) of the selector, in nats."""
        return self.selector.entropy()

    @property
    def value(self) -> torch.Tensor:
        """(row,) of the option that is in force after this bar's choice."""
        option = self.play(deterministic=True).option
        return self.values.gather(-1, option[..., None]).squeeze(-1)

    @property
    def confidence(self) -> torch.Tensor:
        """(row,) probability that the selector gives to that option, if it had to choose here."""
        option = self.play(deterministic=True).option
        return self.selector.probabilities.gather(-1, option[..., None]).squeeze(-1)

    # ---- choosing -------------------------------------------------------------------------------------------------

    def likeliest(self) -> torch.Tensor:
        """(row,) the likeliest option that may begin; opening only where it is sure enough beside waiting."""
        names, chances = self.options.names, self.selector.probabilities
        if self.options.is_learned or "open_long" not in names:
            return chances.argmax(-1)
        entry, wait = chances[..., names.index("open_long")], chances[..., names.index(WAIT)]
        # Beside waiting alone: against all options its share would depend on how many others may begin.
        unsure = entry < self.options.rules.min_confidence * (entry + wait)
        barred = torch.tensor([name == "open_long" for name in names], device=chances.device)
        return torch.where(unsure[..., None] & barred, -1.0, chances).argmax(-1)

    def draw_option(self, epsilon: float = 0.0) -> torch.Tensor:
        """(row,) an option at random by the selector, or evenly with probability `epsilon`."""
        chances = self.selector.probabilities
        if epsilon:
            even = self.open.float() / self.open.sum(-1, keepdim=True)
            chances = (1 - epsilon) * chances + epsilon * even
        return torch.multinomial(chances, 1).squeeze(-1)

    # ---- orders ---------------------------------------------------------------------------------------------------

    def rule(self, option: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        """(row,) order of a written option at its bar."""
        given = orders(self.options.names, self.now, steps, self.options.rules)
        return given.gather(-1, option.clamp(min=0)[..., None]).squeeze(-1)

    def order_of(self, option: torch.Tensor, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and log deviation (row, 1) of an option's order before it is squashed."""
        if not self.options.is_learned:
            order = self.rule(option, steps)[..., None].clamp(-EDGE, EDGE)
            return torch.atanh(order), torch.full_like(order, CERTAIN_DEVIATION)
        count, place = len(self.options), option.clamp(min=0)[..., None]
        # Second and third block of the outputs, an entry for each option.
        mean, deviation = (self.outputs[..., start * count : (start + 1) * count] for start in (1, 2))
        return mean.gather(-1, place), deviation.gather(-1, place).clamp(*LOG_DEVIATION)
