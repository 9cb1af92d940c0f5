"""A bundle on disk: a policy with all that serves it, as a folder or a zip, every file by its hash.

```
model.onnx     the policy: normaliser, order of features and mask inside     README.md   how to run it
features.json  names, order and memory of its features, window              CARD.md     what it is and how it tested
config.yaml    the run's configuration                                      limits.json what the risk guard allows
manifest.json  run, data, seed, versions, hashes: how it was made           hashes.json SHA-256 of every file
signature.txt  of hashes.json, where a key was given                        model.pt    TorchScript, where asked for
lookback.onnx, lookback.json   the agent that chooses the windows of its lead–lag features, where one does
supervised.onnx   the classifier whose probabilities it reads, where it does
risk.bin   volatilities and correlations at the last bar of its training, where its account is sized by them
```

All bytes are read once and checked (`hashed_files.py`) before any of them is parsed. Nothing is pickled, `model.pt` is
never loaded.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import yaml

from pacesetter.build import Plan, parse_plan
from pacesetter.errors import DataError, PacesetterError, RunError
from pacesetter.leadlag.lookback.policy import ConstantLookback, LookbackPolicy
from pacesetter.registry import configure
from pacesetter.runs import write_atomic
from pacesetter.serving.bundle.hashed_files import HASHES, SIGNATURE, check_hashes, hash_list, read_files
from pacesetter.serving.bundle.model import Model, try_graph
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.trader.lookback import LookbackSpec, ServedLookback
from pacesetter.serving.trader.probabilities import SUPERVISED, ServedClassifier
from pacesetter.serving.trader.sizing import RISK_STATE, MarketTracker, ServedRisk

__all__ = ["Bundle", "FeatureSpec", "partial_folder"]

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FeatureSpec:
    """What the policy's features are made of.

    names        in the order of the training table        memory   name -> bars of history it needs
    fields       that a bar must have                      symbols  that it was trained on
    entries      entry of the observation -> names of its last axis
    """

    names: tuple[str, ...]
    memory: dict[str, int]
    fields: tuple[str, ...]
    symbols: tuple[str, ...]
    entries: dict[str, tuple[str, ...]]
    window_bars: int
    bars_per_year: float

    @property
    def memory_bars(self) -> int:
        """Bars of history that fix the newest row."""
        return max(self.memory.values())


@dataclass(frozen=True, eq=False)
class Bundle:
    """Checked files by name; make one with `Bundle.open` or `Bundle.write`.

    threads, device   what its policy runs on, see `Model`
    """

    files: Mapping[str, bytes]
    name: str
    is_signed: bool = False
    threads: int = 1
    device: str = "cpu"

    @classmethod
    def open(cls, path: str | Path, key: SigningKey | None = None, is_unverified: bool = False) -> Bundle:
        """The bundle in a folder or zip; refuses a file that is missing, extra or changed, by name.

        With a key its signature must be right. Without one a signed bundle is refused, because anyone who changed a
        file wrote new hashes too; `is_unverified` opens it with a warning.
        """
        path = Path(path)
        files = read_files(path)
        is_signed = SIGNATURE in files
        if key is not None:
            if not is_signed:
                raise RunError(f"{path} is not signed, but a signing key was given; sign it or leave the key out")
            # The signature first: a forger can write new hashes, but cannot sign them.
            key.check(files.get(HASHES, b""), files[SIGNATURE].decode(errors="replace"))
        elif is_signed and not is_unverified:
            raise RunError(
                f"{path} is signed, and there is no key to check it by; give --key FILE or PACESETTER_SIGNING_KEY, or "
                "--unverified to open it unchecked"
            )
        elif is_signed:
            log.warning("SIGNATURE NOT CHECKED: %s may have been changed by anybody who can write there", path)
        check_hashes(files, path)
        own = {name: data for name, data in files.items() if name not in (HASHES, SIGNATURE)}
        return cls(own, path.name.removesuffix(".zip"), is_signed)

    @classmethod
    def write(cls, folder: str | Path, files: Mapping[str, bytes], key: SigningKey | None = None) -> Bundle:
        """Write files, hashes and signature into a new folder, and open it."""
        folder = Path(folder)
        partial = partial_folder(folder)
        try:
            partial.mkdir(parents=True)
        except OSError as problem:
            raise RunError(f"{folder.parent} cannot store a bundle ({problem.strerror}); give another") from problem
        hashes = hash_list(files)
        signed = {} if key is None else {SIGNATURE: key.sign(hashes).encode() + b"\n"}
        try:
            for name, data in ({**files, HASHES: hashes} | signed).items():
                write_atomic(partial / name, data)
            # Only a whole bundle ever has its final name.
            partial.rename(folder)
        except BaseException:  # Ctrl-C too: what is left would be in the way of the next one
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return cls.open(folder, key)

    def check(self) -> None:
        """Parse every part and run each graph once, in a process with little memory and time; refuses by name."""
        for name, data in self.files.items():
            if name.endswith(".onnx"):
                try_graph(data, f"{self.name}/{name}")
            elif not name.endswith((".pt", ".bin")):
                self._parse(name, lambda name=name: self.files[name].decode())  # type: ignore[misc]
        self._parse("features.json", lambda: self.features)
        self._parse("limits.json", lambda: self.limits)
        self._parse("config.yaml", lambda: self.config)
        self._parse("manifest.json", lambda: self.warning)
        self._parse("lookback.json", lambda: self.lookback)
        self.model.probe()
        self._parse("supervised.onnx", lambda: self.classifier)
        self._parse(RISK_STATE, lambda: self.served_risk(self.features.symbols))

    # ---- what is inside -------------------------------------------------------------------------------------------

    @cached_property
    def model(self) -> Model:
        """The policy, ready to run."""
        return Model(self.files["model.onnx"], self.threads, self.device)

    @cached_property
    def features(self) -> FeatureSpec:
        return configure(FeatureSpec, self._json("features.json"), "features")

    @property
    def is_lookback(self) -> bool:
        """Whether it chooses windows and does not trade."""
        return self.manifest.get("kind") == "windows"

    @cached_property
    def lookback(self) -> LookbackPolicy | None:
        """What chooses the windows of the lead–lag features; None where there are none."""
        if self.is_lookback:
            return ServedLookback(configure(LookbackSpec, self._json("lookback.json"), "lookback"), self.model)
        leadlag = self.config.features.leadlag
        if leadlag.agent is None:
            return ConstantLookback(leadlag.lookback) if isinstance(leadlag.lookback, int) else None
        if "lookback.onnx" not in self.files:
            raise RunError(f"{self.name} lacks lookback.onnx, the agent of its lead–lag features; make it again")
        spec = configure(LookbackSpec, self._json("lookback.json"), "lookback")
        return ServedLookback(spec, Model(self.files["lookback.onnx"]))

    @cached_property
    def classifier(self) -> ServedClassifier | None:
        """What gives the class probabilities that the policy reads; None where it reads none."""
        if SUPERVISED not in self.model.spec.inputs:
            return None
        if "supervised.onnx" not in self.files:
            raise RunError(f"{self.name} lacks supervised.onnx, the classifier of its policy; make it again")
        return ServedClassifier(Model(self.files["supervised.onnx"]))

    def served_risk(self, symbols: tuple[str, ...]) -> ServedRisk | None:
        """A new risk step for an account of `symbols`; None where the run takes its targets as they are."""
        options, spec = self.config.risk, self.model.spec
        if not options.is_on or self.is_lookback:
            return None
        if not options.has_base and spec.action != "target" and spec.trades != "targets":
            return None  # orders that are not weights cannot be sized: the target was training's alone
        if RISK_STATE not in self.files:
            raise RunError(f"{self.name} lacks {RISK_STATE}, from which its account is sized; make it again")
        facts = self.manifest["risk"]
        each = int(facts["daily_bars"]), self.features.bars_per_year
        tracker = MarketTracker(symbols, options.half_life_days, *each)
        tracker.restore(self.files[RISK_STATE], self.features.symbols, pd.Timestamp(facts["at"]))
        return ServedRisk(options, tracker)

    @cached_property
    def limits(self) -> GuardLimits:
        return configure(GuardLimits, self._json("limits.json"), "limits")

    @cached_property
    def config(self) -> Plan:
        stored = self._parse("config.yaml", lambda: yaml.safe_load(self.files["config.yaml"]))
        return parse_plan(stored, f"{self.name}/config.yaml")

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return self._parse("manifest.json", lambda: dict(self._json("manifest.json")))

    @property
    def warning(self) -> str:
        """What must be said wherever the bundle is shown or served: that gates found its run to be a NO-GO."""
        decision = self.manifest.get("training", {}).get("decision") or {}
        return f"WARNING: {decision['sentence']}" if decision.get("decision") == "NO-GO" else ""

    def _json(self, name: str) -> Any:
        return self._parse(name, lambda: json.loads(self.files[name]))

    def _parse(self, name: str, read: Callable[[], T]) -> T:
        """What `read` gives; whatever a damaged or too deep part ends in is one sentence."""
        try:
            return read()
        except PacesetterError:
            raise
        except Exception as problem:  # a stranger's file ends in any of a dozen exceptions
            raise DataError(
                f"{self.name}/{name} cannot be read ({type(problem).__name__}); make the bundle again"
            ) from problem


def partial_folder(folder: Path) -> Path:
    """Where a new bundle is written until it is whole; refuses a folder that exists, or an interrupted one."""
    partial = folder.with_name(f".{folder.name}.partial")
    if folder.exists():
        raise RunError(f"{folder} exists already, and bundles are never overwritten; give another folder")
    if partial.exists():
        raise RunError(f"{partial} was left by an interrupted bundling; remove it")
    return partial
