"""The picture of chosen windows is written, and refuses what could not be told apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import ConfigError
from pacesetter.evaluation.report.lookback_picture import lookback_picture

PANEL = Synthetic(symbols=4, bars=300, seed=1).read()
BARS = np.arange(100, 298)


def test_a_png_of_readable_size_is_written(tmp_path: Path) -> None:
    from matplotlib.image import imread

    chosen = {"agent": np.where(BARS < 200, 10, 120), "fixed": np.full(len(BARS), 60)}
    picture = imread(lookback_picture(PANEL, BARS, chosen, tmp_path / "lookback.png"))
    assert picture.shape[0] > 400
    assert picture.shape[1] > 800
    assert picture[..., :3].std() > 0.05  # not an empty page


def test_too_many_policies_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"1 … 4 policies, not 5"):
        lookback_picture(PANEL, BARS, dict.fromkeys("abcde", BARS), tmp_path / "lookback.png")
