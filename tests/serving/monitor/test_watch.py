"""Alerts: each vital sign fires beyond its threshold, cools down, and reaches every sink; the drill makes all act."""

from __future__ import annotations

import json
import logging
import math
import smtplib
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from pacesetter.cli import app
from pacesetter.data.loading import load
from pacesetter.errors import ConfigError, DataError
from pacesetter.features.table import feature_table
from pacesetter.serving.monitor.alerts import (
    CRITICAL,
    Alert,
    AlertOptions,
    Alerts,
    EmailSink,
    FileSink,
    LogSink,
    WebhookSink,
    make_sinks,
)
from pacesetter.serving.monitor.watch import (
    FeatureReference,
    Thresholds,
    Vitals,
    Watch,
    action_entropy,
    feature_moments,
)
from pacesetter.serving.risk.drill import BEYOND, drill
from pacesetter.serving.risk.refusals import CONTROLS


class Kept:
    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    def send(self, alert: Alert) -> None:
        self.alerts.append(alert)


@pytest.mark.parametrize("kind", Vitals._fields)
def test_each_vital_sign_fires_its_own_alert_and_only_beyond_the_threshold(kind: str) -> None:
    thresholds = Thresholds()
    limit = getattr(thresholds, kind)
    step = -1e-6 if kind == "entropy" else 1e-6
    assert [alert.kind for alert in thresholds.find_alerts(Vitals(**{kind: limit + step}), 0.0)] == [kind]
    assert thresholds.find_alerts(Vitals(**{kind: limit}), 0.0) == []
    assert thresholds.find_alerts(Vitals(**{kind: math.nan}), 0.0) == []


def test_a_kind_is_silent_while_it_cools_down_and_others_are_not() -> None:
    kept = Kept()
    alerts = Alerts([kept], 60.0)
    times = [("drift", 0.0), ("drift", 59.0), ("latency", 59.0), ("drift", 60.0)]
    assert [alerts.send(Alert(kind, "", 1.0, at)) for kind, at in times] == [True, False, True, True]
    alerts.close()
    assert [alert.kind for alert in kept.alerts] == ["drift", "latency", "drift"]


def test_repeated_alerts_are_folded_into_the_next_and_a_worse_one_does_not_wait() -> None:
    kept = Kept()
    alerts = Alerts([kept], Thresholds().cooldown_seconds)
    sent = [alerts.send(Alert("drift", "far", 1.0, at)) for at in (0.0, 100.0, 299.0, 300.0)]
    assert sent == [True, False, False, True]  # five minutes
    assert alerts.send(Alert("drift", "very far", 9.0, 301.0, CRITICAL))
    assert not alerts.send(Alert("drift", "very far", 9.0, 302.0, CRITICAL))
    alerts.close()
    assert [(each.level, each.repeats) for each in kept.alerts] == [("WARNING", 0), ("WARNING", 2), ("CRITICAL", 0)]
    assert kept.alerts[1].message == "far (2 more since the last alert)"


@pytest.mark.parametrize("kind", Vitals._fields)
def test_each_vital_sign_has_a_bound_of_its_own_for_each_level(kind: str) -> None:
    thresholds = Thresholds()
    step = -1e-6 if kind == "entropy" else 1e-6
    warned, worse = getattr(thresholds, kind), getattr(thresholds.critical, kind)
    levels = [thresholds.find_alerts(Vitals(**{kind: limit + step}), 0.0)[0].level for limit in (warned, worse)]
    assert levels == ["WARNING", "CRITICAL"]
    mild = replace(thresholds, **{kind: worse + 10 * step})  # a warning beyond the critical bound: nothing before it
    assert mild.find_alerts(Vitals(**{kind: worse + step}), 0.0) == []


def test_a_sink_that_fails_is_logged_and_the_others_are_served(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def send(self, alert: Alert) -> None:
            raise ConnectionError("s3cret")

    kept = Kept()
    alerts = Alerts([Broken(), kept], 0.0)
    assert alerts.send(Alert("drift", "too far", 1.0, 0.0))
    alerts.close()
    assert len(kept.alerts) == 1
    assert "Broken did not accept the alert 'drift'" in caplog.text
    assert "s3cret" not in caplog.text


def test_log_file_webhook_and_mail_carry_the_alert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    posted: list[Any] = []
    mails: list[Any] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            pass

    class Mailbox:
        def __init__(self, *place: Any, timeout: float) -> None:
            self.place = place

        def __enter__(self) -> Mailbox:
            return self

        def __exit__(self, *problem: Any) -> None:
            pass

        def send_message(self, mail: Any) -> None:
            mails.append((self.place, mail["Subject"], mail["To"], mail.get_content().strip()))

    monkeypatch.setattr(smtplib, "SMTP", Mailbox)
    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = Thread(target=server.serve_forever)
    thread.start()
    hook, file = f"http://127.0.0.1:{server.server_port}", str(tmp_path / "alerts.jsonl")
    sinks = make_sinks(AlertOptions(file, hook, "desk@example.org", "mail.example.org:587"))
    assert [type(sink) for sink in sinks] == [LogSink, FileSink, WebhookSink, EmailSink]
    with caplog.at_level(logging.WARNING):
        for sink in sinks:
            sink.send(Alert("drift", "too far", 4.5, 1.0))
    server.shutdown()
    thread.join()
    server.server_close()
    expected = {"kind": "drift", "message": "too far", "value": 4.5, "at": 1.0, "level": "WARNING", "repeats": 0}
    assert json.loads((tmp_path / "alerts.jsonl").read_text()) == expected
    assert posted == [expected]
    assert mails == [(("mail.example.org", 587), "pacesetter WARNING: drift", "desk@example.org", "too far")]
    assert "drift: too far" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (AlertOptions(webhook="file:///etc/passwd"), "not a web address"),
        (AlertOptions(file="/proc/nowhere/alerts.jsonl"), "in no existing folder"),
        (AlertOptions(email="desk@example.org", smtp="localhost:smtp"), "not a mail server"),
    ],
)
def test_a_sink_that_can_never_take_an_alert_is_refused(options: AlertOptions, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_sinks(options)


def test_entropy_tells_a_collapsed_policy_from_a_lively_one() -> None:
    assert action_entropy([0] * 200, "discrete") == 0.0
    assert action_entropy(list(range(7)) * 20, "discrete") == pytest.approx(1.0)
    shares = np.random.default_rng(0).dirichlet(np.full(143, 5.0), size=4).ravel()  # of a master's many symbols
    assert action_entropy(shares, "target") > 0.5
    assert action_entropy(np.full(500, 1 / 143), "target") == action_entropy(np.zeros(500), "target") == 0.0
    assert action_entropy(np.linspace(-1, 1, 2000), "continuous") == pytest.approx(1.0, abs=1e-3)
    assert action_entropy([0.3] * 100, "continuous") == 0.0
    assert math.isnan(action_entropy([1] * 10, "discrete"))


def test_drift_is_the_largest_shift_of_a_mean_in_deviations_of_training() -> None:
    reference = FeatureReference(np.array([0.0, 10.0, 1.0]), np.array([1.0, 2.0, 0.0]))
    rows = np.tile([0.5, 16.0, 99.0], (20, 1))
    assert reference.drift(rows) == pytest.approx(3.0)
    assert math.isnan(reference.drift(rows[:5]))


def test_moments_of_training_are_the_reference_of_drift() -> None:
    panel = load("synthetic", symbols=2, bars=450)
    table = feature_table(panel)
    moments = feature_moments(table, panel.index[-10])
    names = table.names[::-1]
    reference = FeatureReference.of(json.loads(json.dumps(moments)), names)
    known = table.values[:, :-9][table.mask[:, :-9]][:, ::-1].astype(float)
    np.testing.assert_allclose(reference.mean, known.mean(axis=0), rtol=1e-9)
    assert reference.drift(known) == pytest.approx(0.0, abs=1e-9)
    assert reference.drift(known + 5.0 * reference.spread) == pytest.approx(5.0)
    with pytest.raises(DataError, match="has all features"):
        feature_moments(table, panel.index[10])


def test_the_watch_looks_back_and_goes_on_after_a_restart() -> None:
    reference = FeatureReference(np.zeros(2), np.ones(2))
    watch = Watch(Thresholds(cooldown_seconds=100.0), Alerts([], 100.0), reference)
    for _ in range(25):
        watch.record_decisions(np.array([0.0, math.nan, 0.0]), [True, False], {"window": np.full((3, 4, 2), 5.0)})
    vitals = watch.vitals("discrete", 0.01, 0.5, 0.1)
    assert vitals == Vitals(0.01, 0.5, 0.5, 0.1, 0.0, 5.0)
    assert [alert.kind for alert in watch.check(vitals, 0.0)] == ["entropy", "drift"]
    again = Watch(Thresholds(), Alerts([], 100.0))
    again.restore(json.loads(json.dumps(watch.to_dict(), allow_nan=False)))
    assert again.vitals("discrete", 0.01, 0.5, 0.1)._replace(drift=5.0) == vitals
    assert again.check(vitals, 50.0) == []


def test_the_drill_makes_every_control_and_every_alert_act(tmp_path: Path) -> None:
    kept = Kept()
    results = drill([kept])
    assert [result.name for result in results if not result.acted] == []
    assert {result.name for result in results} >= {f"control {name}" for name in CONTROLS} | {"kill switch"}
    assert [alert.kind for alert in kept.alerts] == ["drill", *BEYOND._fields]


def test_a_drill_sees_a_sink_that_fails_and_does_not_wait_for_it_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    results = drill([FileSink(tmp_path)])
    (failed,) = (result for result in results if not result.acted)
    assert failed == ("FileSink", "accepts an alert, not IsADirectoryError", False)
    assert "did not accept the alert" not in caplog.text


def test_the_command_line_drills_into_a_file(tmp_path: Path) -> None:
    file = tmp_path / "alerts.jsonl"
    done = CliRunner().invoke(app, ["lab", "drill", f"alerts.file={file}"])
    assert done.exit_code == 0
    assert "NO" not in done.output
    assert len(file.read_text().splitlines()) == len(BEYOND) + 1
    failed = CliRunner().invoke(app, ["lab", "drill", f"alerts.file={tmp_path}"])
    assert failed.exit_code == 1
    assert failed.stderr.startswith("error: FileSink did not act; fix it")
    typed_wrong = CliRunner().invoke(app, ["lab", "drill", f"alerts.fil={file}"])
    assert "did you mean 'file'" in str(typed_wrong.exception)
