"""The league's picture: a line for each entrant, its points beside the strengths they belong to."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pacesetter.lab.league.picture import league_picture


def test_each_entrant_is_a_line_with_intervals_over_the_strengths() -> None:
    shares = {"oracle": (1.0, 1.0), "mine": (0.4, 0.8)}
    rows = [
        {"market": f"planted {strength}", "entrant": name, "share": share, "share_half_width": 0.1}
        for name, values in shares.items()
        for strength, share in zip((0.4, 0.2), values, strict=True)
    ]
    rows.append({"market": "noise", "entrant": "mine", "share": 9.0, "share_half_width": 0.0})
    figure = league_picture(pd.DataFrame(rows))
    assert [line.name for line in figure.data] == ["oracle", "mine"]
    assert list(figure.data[1].y) == [0.8, 0.4]  # from weak to strong; noise has no strength
    assert np.allclose(figure.data[1].x, (0.2, 0.4), rtol=0.1)
    assert list(figure.data[1].error_y.array) == [0.1, 0.1]
    assert list(figure.layout.xaxis.ticktext) == ["0.2", "0.4"]
