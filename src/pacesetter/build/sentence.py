"""A configuration in words: what is trained on what, beside whom it is judged, at which risk and cost."""

from __future__ import annotations

from pacesetter.build.plan import Plan
from pacesetter.build.trading import Trading
from pacesetter.market.risk import describe_risk

__all__ = ["describe_plan"]

BESIDE = {"account": "hold and the other baselines", "windows": "fixed windows and rules"}


def describe_plan(config: Plan, tests: int = 1) -> str:
    """What will be trained, on which bars, and how it is judged; of a task that trades also risk, limits and costs.

    tests   in a row at most, with a refit before each
    """
    task, (first, second) = config.problem, config.train.shares
    beside, part = BESIDE.get(task.judged_as, "baselines"), f"{1 - first - second:.0%} of its bars"
    judged = f"the last {part}" if tests == 1 else f"up to {tests} tests of {part}, refitted before each,"
    sentence = (
        f"Plan: agent={config.agent.algorithm} learns {task.learns} on {config.data.name}, judged "
        f"on {judged} beside {beside}."
    )
    if not isinstance(config.task, Trading):
        return sentence
    limits, costs = config.market.limits, config.market.costs
    held = [f"at most {limits.position_cap_fraction:.0%} of equity in a symbol"]
    held.append(f"leverage {limits.gross_leverage:g}, {'short positions allowed' if limits.shorting else 'long only'}")
    if config.market.margin.mode != "none":
        held.append(f"{config.market.margin.mode} margin")
    held.append(f"costs {costs.side_bps:g} bps a side")
    if config.data.loading.currency:
        held.append(f"money in {config.data.loading.currency}")
    return f"{sentence} Risk: {describe_risk(config.risk)}; {', '.join(held)} (risk.*, market.*)."
