"""Where contract tests find the fakes of the serving tests and the example plugin."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in ("tests/serving", "examples/plugin/src"):
    sys.path.insert(0, str(Path(__file__).parents[2] / folder))
