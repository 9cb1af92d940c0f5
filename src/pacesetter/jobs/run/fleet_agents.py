"""The agents of a fleet one by one: what each did on the validation set, why it struggles, and a second try for it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch

from pacesetter.agents.fleet import Fleet
from pacesetter.evaluation.fleet.agents import BETTER, STRUGGLER
from pacesetter.learning.experience.conditioned import SymbolMarket
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import FleetPlay, play
from pacesetter.learning.learner import Between, Watcher
from pacesetter.market.orders import Discrete

__all__ = ["agent_table", "retrain", "struggling_symbols"]

OK, NOT_BETTER = "ok", "not better"
COLLAPSE, COST, NO_SIGNAL = "collapse", "cost", "no signal"
SELLS = (Discrete.SELL_PART, Discrete.SELL_ALL)


def agent_table(played: FleetPlay, bar_sharpe: float, max_share: float) -> pd.DataFrame:
    """A row for each agent in the order of the fleet, as in `fleet.csv`.

    score        mean reward per bar            sharpe       annualised, after costs
    drawdown     largest, as a share            trades       bars with a fill
    entropy      mean, in nats                  main_share   of the most used action
    sell, hold, buy   shares of the orders
    state        ok, or struggler: not above `bar_sharpe`
    reason       cost: above the bar before costs; collapse: one action takes more than `max_share`; no signal
    """
    columns = {
        "score": played.rewards.nanmean(1),
        "sharpe": played.sharpe,
        "drawdown": played.drawdown,
        "trades": played.trades.nansum(1).int(),
        "entropy": played.entropy.nanmean(1),
        "main_share": played.mix.amax(1),
    }
    columns |= dict(zip(("sell", "hold", "buy"), _orders(played.mix).T, strict=True))
    table = pd.DataFrame({"symbol": played.symbols} | {name: values.numpy() for name, values in columns.items()})
    is_weak = table["sharpe"] <= bar_sharpe
    reason = pd.Series(NO_SIGNAL, table.index)
    # Later reasons overwrite earlier ones: an agent that would earn without costs does not lack a signal.
    reason[table["main_share"] > max_share] = COLLAPSE
    reason[played.gross_sharpe.numpy() > bar_sharpe] = COST
    state = is_weak.map({True: STRUGGLER, False: OK})
    return table.assign(state=state, reason=reason.where(is_weak, ""), retrained="")


def _orders(mix: torch.Tensor) -> torch.Tensor:
    """(symbol, 3) shares of sell, hold and buy of (symbol, action) shares."""
    if mix.shape[1] != len(Discrete):
        return mix  # of continuous orders they are these three
    sell, hold = mix[:, SELLS].sum(1), mix[:, Discrete.HOLD]
    return torch.stack([sell, hold, 1 - sell - hold], dim=1)


def struggling_symbols(table: pd.DataFrame) -> list[str]:
    """The symbols whose agents struggle."""
    return list(table.loc[table["state"] == STRUGGLER, "symbol"])


def retrain(
    learner: FleetTrainer,
    validation: SymbolMarket,
    weak: Sequence[str],
    steps: int,
    watcher: Watcher,
) -> dict[str, str]:
    """Let the heads of `weak` learn again from the start behind the encoder as it is; says of each if it is better.

    One that is not, by its Sharpe ratio on the validation set, has its old head back.
    """
    # Another seed: the same draws would lead to the same head.
    fleet, seed = learner.fleet, learner.config.seed + 1
    before = _sharpe_by_symbol(fleet, validation)
    old = [fleet.take(symbol) for symbol in weak]
    was_learning = learner.is_encoder_learning
    torch.manual_seed(seed)
    fleet.reinitialise(weak)
    # Shared by all: only heads may change, or the agents that do well would be moved too.
    fleet.freeze_encoder()
    _learn_again(learner.retrainer(list(weak), seed), steps, watcher, learner.step)
    fleet.freeze_encoder(not was_learning)
    after = _sharpe_by_symbol(fleet, validation)
    # By name: the validation set may have the symbols in another order than the fleet.
    is_better = {symbol: after[symbol] > before[symbol] for symbol in weak}
    for symbol, row, agent in zip(weak, fleet.places(weak), old, strict=True):
        if not is_better[symbol]:
            # A second try may only help: the old head comes back where it was better.
            fleet.actor.write(row, agent.actor.layers)
            fleet.critic.write(row, agent.critic.layers)
    return {symbol: BETTER if is_better[symbol] else NOT_BETTER for symbol in weak}


def _learn_again(trainer: FleetTrainer, steps: int, watcher: Watcher, first_step: int) -> None:
    """Let some agents learn; a run that keeps its episodes keeps these too, as those behind its `first_step`."""
    log = trainer.replay_log

    def between() -> None:
        watcher.between_rounds()
        if log is not None and log.is_long:
            log.flush(first_step + trainer.step, policy=trainer.weights_hash())

    trainer.learn(steps, Between(between))
    if log is not None:
        log.flush(first_step + trainer.step, is_last=True, policy=trainer.weights_hash())


def _sharpe_by_symbol(fleet: Fleet, validation: SymbolMarket) -> dict[str, float]:
    played = play(fleet, validation)
    return dict(zip(played.symbols, played.sharpe.tolist(), strict=True))
