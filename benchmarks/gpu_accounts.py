"""Accounts with risk steps, margin, funding, lots and impact on one GPU: the numbers of the CPU, account by account.

Runs from the repository root where only torch, numba, numba-cuda, numpy and pandas are installed:

    python benchmarks/gpu_accounts.py [--quick] [--record]

Without a GPU, in numba's simulator: NUMBA_ENABLE_CUDASIM=1 … --quick.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from gpu_kernel import SAME, difference  # first: it finds the package where it is not installed
from record import publish, table

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.cuda import DeviceBatch
from pacesetter.features.table import feature_table
from pacesetter.market.cuda import SIMULATED
from pacesetter.market.ledger import Column, Fill, Flag
from pacesetter.market.parameters import Costs, Limits, Margin, MarketParameters, Orders
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel
from pacesetter.rewards import TRADING, RewardConfig

SYMBOLS, EPISODE, STEPS = 5, 20, 60
LEVERED = Limits(position_cap_fraction=1.5, gross_leverage=2.0, shorting=True)
PERPETUAL = {"limits": Limits(position_cap_fraction=8, gross_leverage=8, shorting=True), "funding": 2.0}
PERPETUAL |= {"lot": 0.5, "tick": 0.01, "orders": Orders(buy_fraction=1.0)}
CAPPED = Limits(position_cap_fraction=1.0, volume_cap_fraction=0.5)
AROUND = RiskOptions(0.4, "inverse_volatility", 0.3, half_life_days=5, scale=1.0)


@dataclass(frozen=True)
class Case:
    """Accounts of one kind, which are stepped side by side."""

    name: str
    options: dict[str, Any]
    is_whole: bool = False


CASES = (
    Case(
        "risk step around a base",
        {"action": "target", "market": MarketParameters(limits=LEVERED), "risk": AROUND},
        True,
    ),
    Case("risk step, base of cash", {"action": "target", "risk": RiskOptions(0.1)}),
    Case(
        "margin, cross; funding, lots, ticks",
        {"action": "target", "market": MarketParameters(**PERPETUAL, margin=Margin("cross"))},
        True,
    ),
    Case(
        "margin, isolated; funding, lots, ticks",
        {"action": "discrete", "market": MarketParameters(**PERPETUAL, margin=Margin("isolated"))},
    ),
    *(
        Case(
            f"impact, {model}, {left:.0%} left",
            {
                "action": "target",
                "market": MarketParameters(
                    costs=Costs(impact_bps=50.0, impact_model=model, impact_left=left), limits=CAPPED
                ),
            },
        )
        for model, left in (("linear", 0.0), ("linear", 0.8), ("square_root", 0.8), ("almgren_chriss", 0.8))
    ),
    Case("orders, seven components", {"action": "discrete", "reward": RewardConfig(TRADING)}),
)


def parity(case: Case, panel: Panel, count: int, steps: int) -> list[Any]:
    """Step CPU and GPU side by side through ends and restarts: differences, what diverged, and what happened.

    An account counts as diverged from the first step at which it differs by more than 1e-9 of its equity.
    """
    bank = Bank.from_panels(panel, feature_table(panel, ["return_1"]), is_whole=case.is_whole)
    cpu = Batch(bank, count, window_bars=3, episode_bars=EPISODE, has_windows=False, **case.options)
    gpu = DeviceBatch(cpu)
    cpu.reset()
    gpu.reset()
    rng, has_diverged = np.random.default_rng(7), np.zeros(count, bool)
    worst, seen, liquidated, filled = 0.0, 0.0, 0, 0
    low, high = cpu.action_range
    for _ in range(steps):
        is_discrete = case.options["action"] == "discrete"
        drawn = rng.integers(0, 7, cpu.inputs.shape) if is_discrete else rng.uniform(low, high, cpu.inputs.shape)
        # Rounded now and then: a view of exactly 0 or of the limit takes its own branch.
        actions = drawn.astype(float) if is_discrete or rng.random() < 0.7 else np.clip(drawn.round(), low, high)
        one, other = cpu.step(actions), gpu.step(actions if SIMULATED else to_device(actions))
        gaps = np.nan_to_num(difference(one.ledger, to_host(other.ledger)), nan=np.inf)
        shown = np.zeros(count)
        for name, entry in one.observation.items():
            ours, theirs = (
                np.asarray(each, np.float64).reshape(count, -1) for each in (entry, to_host(other.observation[name]))
            )
            shown = np.maximum(shown, (np.abs(ours - theirs) / np.maximum(1.0, np.abs(ours))).max(1, initial=0.0))
        has_diverged |= (gaps > SAME) | (shown > 1e-5)  # what is shown is float32
        worst = max(worst, float(np.max(gaps, where=~has_diverged, initial=0.0)))
        seen = max(seen, float(np.max(shown, where=~has_diverged, initial=0.0)))
        liquidated += int((one.ledger[:, Column.FLAGS].astype(int) & int(Flag.LIQUIDATED) != 0).sum())
        filled += int((cpu.fills[..., Fill.QUANTITY] != 0).sum())
    return [case.name, count * steps, filled, liquidated, worst, seen, int(has_diverged.sum())]


def to_device(array: np.ndarray) -> Any:
    import torch

    return torch.as_tensor(array).cuda()


def to_host(array: Any) -> np.ndarray:
    """The values as a NumPy array."""
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


def device_name() -> str:
    if SIMULATED:
        return "numba's simulator"
    import torch

    return str(torch.cuda.get_device_name())


def main() -> None:
    warnings.simplefilter("ignore", RuntimeWarning)  # whole numbers wrap round, as they must in a random stream
    bars, count, steps = (
        (80, 4, 12) if SIMULATED else (600, 2_000, STEPS) if "--quick" in sys.argv else (600, 20_000, STEPS)
    )
    panel = Synthetic(symbols=SYMBOLS, bars=bars, volatility=0.8, seed=1).read()
    rows = []
    for case in CASES:
        rows.append(parity(case, panel, count, steps))
        print(*rows[-1], flush=True)
    header = [
        "accounts",
        "account-steps",
        "fills",
        "liquidations",
        "largest difference of ledgers",
        "of what is seen",
        "diverged",
    ]
    body = f"{device_name()}, float64 accounts, {SYMBOLS} symbols of {bars} bars, episodes of {EPISODE} bars\n\n"
    body += table(header, rows) + "\n\nMoney relative to equity; what is seen is float32.\n"
    publish("gpu_accounts", body, "Accounts on a GPU: risk steps, margin, funding, lots, impact")


if __name__ == "__main__":
    main()
