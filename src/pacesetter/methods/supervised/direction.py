"""Direction classifiers: is the next fill-to-fill move up or down? A network over an observation's own entries.

What is decided at the close of t fills in bar t+1 and is closed in bar t+2, so a move is known `HORIZON_BARS` later and
a model that has seen the bars before `stop` has learned from the moves decided before `stop − HORIZON_BARS` only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.agents.agent import Observation
from pacesetter.agents.encoders import EncodedClasses, network
from pacesetter.agents.initialise import initialise_head
from pacesetter.agents.layout import Tensors
from pacesetter.arrays import Array
from pacesetter.envs.batch.tables import ObservationTables
from pacesetter.errors import ConfigError, DataError, check_range
from pacesetter.features.table import FeatureTable
from pacesetter.leadlag.strategy import fill_to_fill_returns
from pacesetter.learning.experience.gather import INDEX, Tables
from pacesetter.panel import Panel

__all__ = ["CLASSES", "HORIZON_BARS", "Classifier", "Direction", "Examples", "fit_classifier"]

Names = Mapping[str, tuple[str, ...]]
CLASSES = ("down", "up")
HORIZON_BARS = 2
FIRST_GAIN = 0.01  # the first answer is close to even, so that an early stop on noise keeps it
AT_ONCE = 4096  # windows gathered together where nothing is learned


@dataclass(frozen=True)
class Direction:
    """How a classifier is made and learned.

    network         with `width`; an agent of the same network and width takes all of its encoder
    window_bars     bars it sees
    epochs          most passes; one looks at no more than `epoch_examples` moves, drawn again each time
    patience        passes without a better loss on the held part before it stops; the best weights are kept
    held_share      latest share of the training bars, which decides when to stop
    """

    network: Literal["mlp", "lstm", "gru", "transformer", "transformer_small"] = "mlp"
    width: int = 32
    window_bars: int = 24
    epochs: int = 30
    epoch_examples: int = 20_000
    patience: int = 3
    batch: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    held_share: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = ("width", "window_bars", "epochs", "epoch_examples", "patience", "batch")
        check_range(1, owner="baseline", **{name: vars(self)[name] for name in sizes})
        if not 0 < self.held_share < 1:
            raise ConfigError(f"baseline.held_share={self.held_share} must be between 0 and 1")


class Classifier(EncodedClasses):
    """Probabilities of `CLASSES` from the entries of an observation; entries it was not made for are passed over.

    names  entry -> names of its last axis: the window's features, then those of each vector
    """

    def __init__(self, config: Direction, names: Names) -> None:
        super().__init__()
        self.config, self.names = config, dict(names)
        shapes = {entry: (len(known),) for entry, known in names.items()}
        self.shapes = shapes | {"window": (config.window_bars, len(names["window"]))}
        self.classes = len(CLASSES)
        self.encoder = network(config.network, width=config.width).build(self.shapes)
        self.head = nn.Sequential(nn.Linear(config.width, len(CLASSES)))
        initialise_head(self.head, FIRST_GAIN)

    def forward(self, observation: Tensors) -> torch.Tensor:
        """(batch, class) logits."""
        return self.head(self.encoder(observation))  # type: ignore[no-any-return]

    @torch.inference_mode()
    def predict(self, observation: Observation) -> Array:
        """(…, class) float32 probabilities of one observation or a batch of them; refuses one that lacks an entry."""
        lacking = [entry for entry in self.shapes if entry not in observation]
        if lacking:
            raise DataError(f"the observation has no entry '{lacking[0]}', which the classifier was trained with")
        is_single = np.ndim(observation["window"]) == 2
        tensors = {entry: torch.tensor(observation[entry]) for entry in self.shapes}
        logits = self({entry: values[None] for entry, values in tensors.items()} if is_single else tensors)
        probabilities: Array = logits.softmax(-1).numpy()
        return probabilities[0] if is_single else probabilities


@dataclass(frozen=True, eq=False)
class Examples:
    """Every window of a panel by its place, and the class of the move decided there.

    labels      (symbol, time) position in `CLASSES`; −1 where the price did not move or a fill has no price
    has_window  (symbol, time) True where all features of all bars of the window were known
    names       entry -> names of its last axis
    """

    tables: Tables
    labels: Array
    has_window: Array
    names: Names

    @classmethod
    def of(cls, panel: Panel, table: FeatureTable, window_bars: int) -> Examples:
        """The examples of a panel and its table; windows and context are those that environments show."""
        gathered = ObservationTables.from_table(table)
        # What an order would have earned, open of t+1 to open of t+2, not the close that it could not trade at.
        moves = fill_to_fill_returns(panel).T  # (symbol, time)
        tables = Tables(
            gathered.windows[:, None], gathered.context[:, :, None], gathered.places, window_bars, is_whole=False
        )
        names = {entry: gathered.names[entry] for entry in ("window", *gathered.places)}
        labels = np.select([moves > 0, moves < 0], [1, 0], -1)
        return cls(tables, labels, ~table.windows_missing(window_bars, limit=0.0), names)

    def places(self, start: int, stop: int) -> Array:
        """(example, 2) symbol and bar of whole windows that end at bars start … stop−1 and whose move is labelled."""
        usable = self.has_window[:, start:stop] & (self.labels[:, start:stop] >= 0)
        places: Array = np.argwhere(usable) + np.array([0, start])
        return places

    def batch(self, places: Array) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Observations and labels (example,) of some places."""
        labels = torch.as_tensor(self.labels[places[:, 0], places[:, 1]])
        return self.tables({INDEX: torch.as_tensor(places)}), labels

    @torch.inference_mode()
    def predict(self, model: Classifier, start: int, stop: int) -> Array:
        """(symbol, bar, class) float32 for bars start … stop−1; NaN before the first whole window of a symbol.

        After it a gap is filled as environments fill it, so that this is what a model says of what they show.
        """
        probabilities = np.full((len(self.labels), stop - start, len(CLASSES)), np.nan, dtype=np.float32)
        begun = np.argwhere(np.logical_or.accumulate(self.has_window, axis=1)[:, start:stop])
        for rows in np.array_split(begun, len(begun) // AT_ONCE + 1):
            observation, _ = self.batch(rows + np.array([0, start]))
            probabilities[rows[:, 0], rows[:, 1]] = model(observation).softmax(-1).numpy()
        return probabilities


def fit_classifier(config: Direction, examples: Examples, stop: int) -> Classifier:
    """A classifier that has seen bars 0 … stop−1 only; refuses bars that leave nothing to learn or to hold out."""
    # The latest bars are held out: those in the middle would be surrounded by what was learned.
    cut = stop - max(round(config.held_share * stop), 1)
    # Both spans end HORIZON_BARS early: the last moves of one would be known only from bars of the next.
    learned, held = (examples.places(*part) for part in ((0, cut - HORIZON_BARS), (cut, stop - HORIZON_BARS)))
    if min(len(learned), len(held)) == 0:
        raise DataError(
            f"{stop} bars leave {len(learned)} moves for training and {len(held)} to hold out once features are "
            "known; give more bars, fewer folds or a shorter window"
        )
    # A fit repeats by its own seed, whatever was drawn before, and leaves the stream as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = Classifier(config, examples.names)
        _fit_normaliser(model, examples, learned)
        _learn(model, examples, learned, held)
    return model.eval()


def _fit_normaliser(model: Classifier, examples: Examples, places: Array) -> None:
    for rows in np.array_split(places, len(places) // AT_ONCE + 1):
        model.encoder.normaliser.observe(examples.batch(rows)[0])
    model.encoder.normaliser.commit()


def _learn(model: Classifier, examples: Examples, learned: Array, held: Array) -> None:
    """Descend on the cross-entropy of the learned moves; keep the weights that were best on the held ones."""
    config = model.config
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    # The untrained model competes: on noise its even odds are the best answer, and stay.
    best, kept, waited = _loss(model, examples, held), _copy_weights(model), 0
    for _ in range(config.epochs):
        order = torch.randperm(len(learned)).numpy()[: config.epoch_examples]
        for rows in np.array_split(order, math.ceil(len(order) / config.batch)):
            observation, labels = examples.batch(learned[rows])
            optimiser.zero_grad()
            F.cross_entropy(model(observation), labels).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        loss = _loss(model, examples, held)
        if loss < best:
            best, kept, waited = loss, _copy_weights(model), 0
        elif (waited := waited + 1) == config.patience:
            break
    model.load_state_dict(kept)


@torch.no_grad()
def _loss(model: Classifier, examples: Examples, places: Array) -> float:
    """Mean cross-entropy in nats."""
    total = 0.0
    for rows in np.array_split(places, len(places) // AT_ONCE + 1):
        observation, labels = examples.batch(rows)
        total += float(F.cross_entropy(model(observation), labels, reduction="sum"))
    return total / len(places)


def _copy_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}
