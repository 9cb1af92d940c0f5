"""What requests and answers look like: unknown fields, NaN, infinities and numbers beyond reason are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, create_model

from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import PRICE_FIELDS
from pacesetter.policies.conditions import PARAMETERS
from pacesetter.policies.spec import PolicySpec
from pacesetter.serving.api.runtime import LEAST_MONEY, Line
from pacesetter.serving.bundle.bundle import FeatureSpec

__all__ = ["AccountIn", "HaltIn", "Problem", "ResumeIn", "StateOut", "bar_model", "decision_models"]

MOST_BARS, MOST_SYMBOLS = 5_000, 5_000
ACCOUNT_ENTRIES = ("position", "portfolio", "action_mask")  # of an observation: written from the account

# Letters of any script and inner blanks, as files have them; nothing that a terminal or a log would obey.
CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028-\u202e"
SYMBOL = rf"^[^\s{CONTROLS}](?:[^{CONTROLS}]*[^\s{CONTROLS}])?$"
Symbol = Annotated[str, Field(min_length=1, max_length=64, pattern=SYMBOL)]
# Bounds keep every product of price, quantity and money finite.
Price = Annotated[float, Field(strict=True, ge=1e-9, lt=1e9)]
Amount = Annotated[float, Field(strict=True, ge=0, lt=1e15)]
Money = Annotated[float, Field(strict=True, gt=-1e15, lt=1e15)]
Number = Annotated[float, Field(strict=True, gt=-1e30, lt=1e30)]
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x20-\x7e]*[\x21-\x7e][\x20-\x7e]*$")]


class Strict(BaseModel):
    """Refuses what it does not know."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class PositionIn(Strict):
    """A holding: signed quantity, its mean entry price, the best price since, and for how many bars it is held."""

    symbol: Symbol
    quantity: Annotated[float, Field(strict=True, gt=-1e12, lt=1e12)]
    entry_price: Price
    best_price: Price | None = None
    bars_held: Annotated[int, Field(strict=True, ge=0, lt=10**6)] = 0


class AccountIn(Strict):
    """The account as the caller has it after the last bar; `stop_outs` positions were stopped out in it."""

    cash: Money = MarketParameters().initial_cash
    positions: Annotated[list[PositionIn], Field(max_length=MOST_SYMBOLS)] = []
    peak_equity: Annotated[float, Field(strict=True, ge=LEAST_MONEY, lt=1e24)] | None = None
    stop_outs: Annotated[int, Field(strict=True, ge=0, le=MOST_SYMBOLS)] = 0


class HaltIn(Strict):
    """Why trading must stop."""

    reason: Text


class ResumeIn(Strict):
    """Who allows trading again."""

    by: Text


class DecideOut(BaseModel):
    """Decisions at the close of the bar that is known at `time`, and who made them."""

    request: str
    time: str
    run: str
    bundle: str
    model: str
    state: Literal["active", "reducing", "halted"]
    value: float | None
    decisions: list[Line]


class StateOut(BaseModel):
    """Where the guard and the data stand."""

    state: Literal["active", "reducing", "halted"]
    reason: str
    denials: dict[str, int]
    disabled: list[str]
    run: str
    bundle: str
    model: str
    last_bar: str | None
    missing_bars: int


class StoredOut(BaseModel):
    """Bars were taken, and so many more are needed before the first decision."""

    stored: bool
    missing_bars: int


class Problem(BaseModel):
    """Why a request was refused, in fixed words; `problems` are places in the request and kinds of mistakes."""

    error: str
    problems: list[dict[str, object]] | None = None


def bar_model(features: FeatureSpec) -> type[Strict]:
    """A bar of one symbol with the bundle's fields."""
    kinds: dict[str, Any] = {name: (Price if name in PRICE_FIELDS else Number, ...) for name in features.fields}
    if "volume" in kinds:
        kinds["volume"] = (Amount, ...)
    return create_model("BarIn", __base__=Strict, symbol=(Symbol, ...), time=(AwareDatetime, ...), **kinds)


def decision_models(features: FeatureSpec, policy: PolicySpec) -> type[Strict]:
    """The request of /v1/decide for a bundle: its bars have the bundle's fields, its features the policy's entries.

    A policy that can be asked for a goal or a preference has a field for it.
    """
    bar = bar_model(features)
    entries: dict[str, Any] = {
        name: (_nested_lists(shape[-2:] if name == "window" else shape[-1:]), ...)
        for name, shape in policy.inputs.items()
        if name not in (*ACCOUNT_ENTRIES, *policy.remembered, *policy.conditions)
    }
    row = create_model("FeatureRowIn", __base__=Strict, symbol=(Symbol, ...), close=(Price, ...), **entries)
    rows = Annotated[list[row], Field(min_length=1, max_length=MOST_SYMBOLS)]  # type: ignore[valid-type]
    given = create_model("FeaturesIn", __base__=Strict, time=(AwareDatetime, ...), rows=(rows, ...))
    fields: dict[str, Any] = {
        "bars": (Annotated[list[bar], Field(max_length=MOST_BARS)], []),  # type: ignore[valid-type]
        "features": (given | None, None),
        "account": (AccountIn, AccountIn()),
    }
    fields |= {PARAMETERS[name]: (_request_field(policy, name) | None, None) for name in policy.conditions}
    return create_model("DecideIn", __base__=Strict, **fields)


def _request_field(policy: PolicySpec, name: str) -> Any:
    """What a request may ask for: one number, or as many as the input has, within its limits."""
    low, high = policy.limits[name]
    number = Annotated[float, Field(strict=True, ge=low, le=high)]
    (count,) = policy.inputs[name]
    return number if count == 1 else Annotated[list[number], Field(min_length=count, max_length=count)]


def _nested_lists(shape: tuple[int, ...]) -> Any:
    """Lists of exactly these lengths, of numbers."""
    inner: Any = Number if len(shape) == 1 else _nested_lists(shape[1:])
    return Annotated[list[inner], Field(min_length=shape[0], max_length=shape[0])]
