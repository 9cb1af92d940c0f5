"""`data export --minari`: Minari reads back what was recorded, episode by episode; without Minari it is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from pacesetter.cli import app
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.dataset import read_dataset
from pacesetter.methods.offline.export import export_episodes
from pacesetter.methods.offline.minari_format import minari_folder


@pytest.mark.parametrize("action", ["discrete", "continuous"])
def test_minari_reads_what_was_recorded(action, toy, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    out = tmp_path / "e.x.h5"
    more = [f"task.action={action}", "train.envs=2"]
    exported = export_episodes("random", [*toy, *more], out=out, episodes=4, minari=True)
    assert exported.minari == tmp_path / "e_x-v0"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    manifest, tables, episodes = read_dataset(out)
    loaded = minari.load_dataset("e_x-v0")
    assert (loaded.total_episodes, loaded.total_steps) == (len(episodes), episodes.row_count)
    for place, episode in enumerate(loaded.iterate_episodes()):
        first, length = int(episodes.lengths[:place].sum()), int(episodes.lengths[place])
        rows = slice(first, first + length)
        np.testing.assert_array_equal(episode.rewards, episodes.rows["rewards"][rows])
        np.testing.assert_array_equal(episode.actions, episodes.rows["actions"][rows])
        np.testing.assert_array_equal(episode.truncations, episodes.rows["truncated"][rows])
        windows = episode.observations["window"]
        assert len(windows) == length + 1  # the final observation too
        block, bar = episodes.observation["index"][first]
        wanted = tables.windows[block, 0, bar + 1 - manifest["window_bars"] : bar + 1]
        np.testing.assert_array_equal(windows[0], wanted)
        assert loaded.observation_space.contains({name: entry[0] for name, entry in episode.observations.items()})
        assert loaded.action_space.contains(episode.actions[0])
    with pytest.raises(ConfigError, match="Minari replaces no dataset"):
        export_episodes("random", [*toy, *more], out=out, episodes=4, minari=True)


def test_without_minari_nothing_is_written(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    command = ["data", "export", "random", *toy, "--minari", "--out", str(tmp_path / "e.h5")]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code != 0
    assert "export --minari needs minari; install it with: pip install 'pacesetter[minari]'" in str(answer.exception)
    assert list(tmp_path.iterdir()) == []
    assert minari_folder("data/episodes.h5").as_posix() == "data/episodes-v0"
