"""Train a fleet of agents, one for each symbol, and a master above them: python examples/06_fleet.py"""

from pacesetter.agents.fleet import fleet_card
from pacesetter.build import build_panel, load_fleet_agent
from pacesetter.evaluation.fleet.agents import read_agents
from pacesetter.evaluation.fleet.ensemble import Ensemble, unseen_returns
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs import resolve, train
from pacesetter.methods.master.page import read_allocations

# 1. A market where leaders predict followers, and a fleet of ten agents on it; steps are those of each agent.
few = ["data.symbols=10", "data.groups=2", "data.bars=2000", "train.steps=4096", "train.validate_every=2048"]
config = resolve(["+preset=planted_fleet", *few, "track.mlflow=off"])
run = train(config).run

# 2. A row for each agent on the validation set; those not above the bar have learned a second time.
print(read_agents(run.folder)[["symbol", "sharpe", "drawdown", "trades", "state", "reason", "retrained"]].to_string())

# 3. One encoder for all, a head for each; any agent can be taken out and answers as it did in the fleet.
panel = build_panel(config)
fleet = load_fleet_agent(run.folder, panel).fleet
print(fleet_card(fleet))
alone = fleet.take(panel.symbols[0])
print(f"{panel.symbols[0]} alone: {sum(parameter.numel() for parameter in alone.parameters()):,} parameters")

# 4. On bars that nothing has seen: how alike the agents are, and whom one might leave out.
stored = StoredRun(run.folder)
together = Ensemble(unseen_returns(stored), stored.panel.bars_per_year)
print(f"mean correlation {together.mean_correlation:+.2f}, diversification ratio {together.diversification:.2f}")
print(together.suggestion.to_string())

# 5. A master shares one account among the symbols, advised by the agents, and fixed allocations do it beside it.
options = ["train.steps=4096", "train.validate_every=2048", "task.episode_bars=50", "track.mlflow=off"]
master = train(resolve(["task=master", f"task.fleet={run.folder}", *options])).run
print(read_allocations(master.folder).round(2).to_string())
