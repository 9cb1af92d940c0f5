"""What keys mean is the text beside the type of their fields."""

from __future__ import annotations

import pytest

from pacesetter.errors import ConfigError
from pacesetter.jobs import resolve
from pacesetter.jobs.hydra.explain import explain_keys


def test_a_group_lists_its_keys_with_values_and_meaning() -> None:
    config = resolve(["data=synthetic", "task=fleet"])
    rows = {row.key: row for row in explain_keys(config, "task.market")}
    assert rows["task.market.costs.commission_bps"].value == 5.0
    train = {row.key: row.about for row in explain_keys(config, "train")}
    assert train["train.purge_bars"] == "left out before each boundary"
    assert [row.key for row in explain_keys(config, "train.patience")] == ["train.patience"]
    assert any(row.about for row in explain_keys(config, "agent"))
    assert any(row.about for row in explain_keys(config, "data"))


@pytest.mark.parametrize(
    "overrides",
    [
        ["task=trading", "agent=ppo"],
        ["task=fleet", "agent=ppo"],
        ["task=fleet", "agent=direct", "data=synthetic"],
        ["task=lookback", "agent=ppo"],
        ["task=trading", "agent=sac", "task.action=continuous"],
    ],
    ids=" ".join,
)
def test_every_key_has_a_line(overrides: list[str]) -> None:
    config = resolve(overrides)
    groups = [name for name, value in config.to_dict().items() if isinstance(value, dict)]
    assert [row.key for group in groups for row in explain_keys(config, group) if not row.about] == []


def test_an_unknown_key_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match=r"no key 'task\.markt'; did you mean 'task\.market'"):
        explain_keys(resolve([]), "task.markt")


def test_a_short_key_is_explained_as_what_it_sets():
    (explained,) = explain_keys(resolve(["market.leverage=3"]), "market.leverage")
    assert explained.key == "task.market.limits.gross_leverage"
    assert explained.value == 3
