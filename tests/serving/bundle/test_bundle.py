"""Bundles: whole or refused by name, signed or not, numbered on a shelf with a way back; `lab.versions` lists them."""

from __future__ import annotations

import json
import logging
import random
import shutil
import tracemalloc
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnx
import pytest
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import Served
from torch import nn
from typer.testing import CliRunner

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.build import Plan, build_table
from pacesetter.cli.serve import register
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.errors import ConfigError, PacesetterError, RunError
from pacesetter.locks import hold
from pacesetter.policies.modules import serve_agent
from pacesetter.runs import Run, sha256
from pacesetter.serving.api.runtime import ReportedAccount, Runtime
from pacesetter.serving.bundle import model
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.card import model_card
from pacesetter.serving.bundle.hashed_files import CHUNK_BYTES, MOST_FILES, NEEDED, pack
from pacesetter.serving.bundle.packaging import bundle_policy, bundle_run
from pacesetter.serving.bundle.parity import random_observations
from pacesetter.serving.bundle.signature import SIGNING_KEY, SigningKey, check_secret
from pacesetter.serving.bundle.store import Store, find_bundle
from pacesetter.serving.risk.limits import GuardLimits

SECRET = "0f" * 32


@pytest.fixture
def copy(made, tmp_path) -> Path:
    """A bundle that a test may spoil."""
    return Path(shutil.copytree(made.folder, tmp_path / "bundle"))


def test_a_bundle_tells_how_it_was_made(made):
    bundle = made.bundle
    assert set(bundle.files) == set(NEEDED)
    assert bundle.config == replace(made.config, runs=Plan.runs)
    # The portfolio's are the plan's: one position may have 15 %, all together 100 %, clusters no less than that.
    assert bundle.limits == GuardLimits(symbol_fraction=0.15, cluster_fraction=1.0)
    assert bundle.features.names[0] == "return_1"
    assert bundle.features.memory_bars == 379
    assert bundle.manifest["training"]["weights_hash"] == made.run.manifest["weights_hash"]
    assert bundle.manifest["parity"]["count"] >= 400
    assert bundle.manifest["parity"]["max_difference"] <= 1e-5
    assert "regime_trend_fit" in bundle.files["README.md"].decode()


def test_a_run_whose_file_has_grown_since_keeps_the_end_of_its_training(made, tmp_path):
    run = Run.open(shutil.copytree(made.run.folder, tmp_path / "run"))
    end = made.panel.index[200]  # as recorded when the file was shorter; its shares of today's bars end at 431
    run.write_json("manifest.json", run.manifest | {"fitted_until": str(end), "update": {"number": 1}})
    _, bundle = bundle_run(run.folder, tmp_path / "bundles", observations=4)
    assert bundle.manifest["training"]["update"] == {"number": 1}
    assert bundle.manifest["fitted_until"] == end.isoformat()


def test_threads_share_the_rows_of_symbols_and_the_operators_of_a_fleet(made, fleet):
    models = [replace(each.bundle, threads=2).model for each in (made, fleet)]
    assert [model.threads for model in models] == [2, 1]
    assert [model.session.get_session_options().intra_op_num_threads for model in models] == [1, 2]


@pytest.mark.parametrize("rows", [1, 2, 48, 97, 143])
def test_an_answer_is_the_same_on_any_number_of_threads(made, rows):
    one, three = (replace(made.bundle, threads=count).model for count in (1, 3))
    (batch,) = random_observations(one.spec, rows)
    for name, answer in one(batch).items():
        np.testing.assert_allclose(three(batch)[name], answer, rtol=0, atol=1e-6)


def test_no_path_of_this_machine_is_inside(made):
    here = [str(folder).encode() for folder in (Path(__file__).resolve().parents[3], made.run.folder.parent)]
    assert not {name for name, data in made.bundle.files.items() for folder in here if folder in data}


def test_the_request_that_the_readme_shows_is_answered(made, tmp_path):
    told = made.bundle.files["README.md"].decode()
    request = told[told.index('{"bars"') : told.index("The server keeps")]
    served = Served(made, tmp_path)
    served.runtime.clock = datetime(2026, 1, 3, tzinfo=UTC).timestamp
    answer = served.call("/v1/decide", "trade", json=json.loads(request))
    assert answer.status_code == 200, answer.text


def test_a_card_shows_the_test_results_or_that_there_are_none(made):
    card = made.bundle.files["CARD.md"].decode()
    assert "| verdict | No evidence of skill. |" in card
    assert "| gates passed | 1 of 2 |" in card
    assert "| sharpe | -0.31 |" in card
    bare, odd = (
        model_card(made.config, made.bundle.features, made.bundle.manifest, results)
        for results in (None, {"lot_win_rate": float("nan")})
    )
    assert "| lot_win_rate | – |" in odd
    assert "was not evaluated on its test set" in bare


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"gates": [1]}'])
def test_damaged_test_results_are_refused(made, tmp_path, text):
    (tmp_path / "evaluation.json").write_text(text)
    with pytest.raises(RunError, match=r"evaluation\.json is damaged .*: pacesetter evaluate RUN"):
        bundle_run(made.run.folder, tmp_path / "bundles", judged=tmp_path, observations=2)


def test_a_run_without_a_policy_is_refused(made, tmp_path):
    cut = Run.create(tmp_path, "cut", made.config.to_dict())
    with pytest.raises(RunError, match="holds no agent to bundle; give the run of a pacesetter train"):
        bundle_run(cut.folder, tmp_path / "bundles")
    (cut.folder / "checkpoints").mkdir()
    with pytest.raises(RunError, match=r"not a finished training run; run pacesetter train --resume"):
        bundle_run(cut.folder, tmp_path / "bundles")
    lookback = Run.create(tmp_path, "lookback", Plan(task=LookbackConfig()).to_dict())
    with pytest.raises(RunError, match="holds no agent to bundle"):
        bundle_run(lookback.folder, tmp_path / "bundles")


def test_a_policy_that_reads_a_classifier_is_refused_without_one(made, tmp_path):
    spec = replace(made.bundle.model.spec, inputs={**made.bundle.model.spec.inputs, "supervised": (3,)})
    given = {"table": build_table(made.config, made.panel), "training": {"run": "x"}}
    with pytest.raises(ConfigError, match=r"features\.supervised names no classifier"):
        bundle_policy(nn.Identity(), spec, made.config, made.panel, tmp_path, **given)


def test_a_fleet_is_bundled_like_a_run(made, tmp_path):
    shapes = {name: shape for name, shape in made.bundle.model.spec.inputs.items() if name != "action_mask"}
    fleet = Fleet(network("mlp", width=16, layers=1), shapes, made.panel.symbols)
    policy = serve_agent(fleet, made.bundle.features.entries)
    given = {"table": build_table(made.config, made.panel), "training": {"run": "fleet"}, "observations": 300}
    _, bundle = bundle_policy(*policy, made.config, made.panel, tmp_path, has_torchscript=True, **given)
    assert bundle.model.spec.symbols == made.panel.symbols
    assert bundle.files["model.pt"][:2] == b"PK"
    runtime = Runtime(bundle, clock=lambda: made.panel.index[-1].timestamp())
    runtime.feed(made.panel)
    assert len(runtime.decide(ReportedAccount(1e5)).lines) == 3
    with pytest.raises(ConfigError, match="exactly its 3 symbols"):
        Runtime(bundle, symbols=("S0",))


# ---- whole or refused -----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_any_flipped_bit_is_refused_by_name(copy, seed):
    draw = random.Random(seed)
    path = draw.choice(sorted(copy.iterdir()))
    data = bytearray(whole := path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    try:
        with pytest.raises(RunError, match="bundle" if path.name == "hashes.json" else path.name):
            Bundle.open(copy)
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("name", [*NEEDED, "hashes.json"])
def test_a_missing_file_is_refused_by_name(copy, name):
    (copy / name).unlink()
    with pytest.raises(RunError, match=name):
        Bundle.open(copy)


def test_extra_files_links_and_folders_are_refused(copy):
    (copy / "weights.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(RunError, match=r"weights\.pkl does not belong"):
        Bundle.open(copy)
    (copy / "weights.pkl").unlink()
    (copy / "inner").mkdir()
    with pytest.raises(RunError, match="inner is not a plain file"):
        Bundle.open(copy)
    (copy / "inner").rmdir()
    (copy / "link").symlink_to("/etc/passwd")
    with pytest.raises(RunError, match="link is not a plain file"):
        Bundle.open(copy)


def test_a_file_left_out_of_the_hashes_is_refused(copy):
    told = json.loads((copy / "hashes.json").read_text())
    del told["files"]["limits.json"]
    (copy / "hashes.json").write_text(json.dumps(told))
    with pytest.raises(RunError, match=r"limits\.json is missing"):
        Bundle.open(copy)


def test_a_zip_is_the_same_bundle_and_checked_alike(made, copy, tmp_path):
    archive = pack(copy)
    assert dict(Bundle.open(archive).files) == dict(made.bundle.files)
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as evil:
        evil.writestr("../outside", b"")
    with pytest.raises(RunError, match="outside"):
        Bundle.open(tmp_path / "evil.zip")
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(RunError, match="is not a bundle"):
        Bundle.open(archive)
    with pytest.raises(RunError, match="there is no bundle"):
        Bundle.open(tmp_path / "absent")


def test_a_zip_with_a_false_size_or_very_many_entries_is_refused_at_once(tmp_path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.onnx", bytes(3 * CHUNK_BYTES))
    data = path.read_bytes()
    size, lie = (3 * CHUNK_BYTES).to_bytes(4, "little"), (10).to_bytes(4, "little")
    path.write_bytes(data.replace(size, lie))
    tracemalloc.start()
    with pytest.raises(RunError, match=r"false size|not a bundle"):
        Bundle.open(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 3 * CHUNK_BYTES
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for count in range(MOST_FILES + 1):
            archive.writestr(str(count), b"")
    with pytest.raises(RunError, match="more than a bundle can"):
        Bundle.open(tmp_path / "many.zip")


def test_every_flipped_bit_of_a_zip_is_refused_in_a_sentence(tmp_path):
    archive = tmp_path / "small.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as small:
        small.writestr("limits.json", b"limits " * 40)  # no whole bundle: what can be read is refused too
    whole = archive.read_bytes()
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        archive.write_bytes(flipped)
        with pytest.raises(RunError):
            Bundle.open(archive)


# ---- signatures -----------------------------------------------------------------------------------------------------


def pem_pair() -> tuple[str, str]:
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret.decode(), private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.mark.parametrize("kind", ["hmac", "ed25519"])
def test_a_signature_is_checked_by_its_key_alone(made, tmp_path, kind):
    secret, public = (SECRET, SECRET) if kind == "hmac" else pem_pair()
    Bundle.write(tmp_path / "signed", made.bundle.files, SigningKey(secret))
    assert Bundle.open(tmp_path / "signed", SigningKey(public)).is_signed
    for other in (SigningKey("e" * 64), SigningKey(pem_pair()[1])):
        with pytest.raises(RunError, match="does not match this key"):
            Bundle.open(tmp_path / "signed", other)
    with pytest.raises(RunError, match=r"is signed, and there is no key to check it by; give --key FILE"):
        Bundle.open(tmp_path / "signed")
    (tmp_path / "signed" / "signature.txt").unlink()
    with pytest.raises(RunError, match="is not signed"):
        Bundle.open(tmp_path / "signed", SigningKey(public))


def test_a_signed_bundle_whose_limits_were_changed_does_not_open_without_its_key(made, tmp_path, caplog):
    folder = tmp_path / "signed"
    Bundle.write(folder, made.bundle.files, SigningKey(SECRET))
    (folder / "limits.json").write_text(json.dumps({"order_fraction": 1.0}))
    told = json.loads((folder / "hashes.json").read_text())
    told["files"]["limits.json"] = sha256(folder / "limits.json")
    (folder / "hashes.json").write_text(json.dumps(told))
    with pytest.raises(RunError, match="does not match this key"):
        Bundle.open(folder, SigningKey(SECRET))
    with pytest.raises(RunError, match="there is no key to check it by"):
        find_bundle(folder)
    with caplog.at_level(logging.WARNING):
        assert find_bundle(folder, is_unverified=True).limits.order_fraction == 1.0
    assert "SIGNATURE NOT CHECKED" in caplog.text


def test_signing_keys_come_from_a_file_or_the_environment(tmp_path, monkeypatch):
    assert SigningKey.find() is None
    (tmp_path / "key").write_text(SECRET)
    monkeypatch.setenv(SIGNING_KEY, SECRET)
    by_environment = SigningKey.find()
    assert by_environment is not None
    found = SigningKey.find(tmp_path / "key")
    assert found is not None
    assert found.sign(b"x") == by_environment.sign(b"x")
    monkeypatch.setenv(SIGNING_KEY, 20 * SECRET)  # longer than any file's name
    assert SigningKey.find() is not None
    with pytest.raises(ConfigError, match="cannot be read"):
        SigningKey.find(tmp_path / "absent")
    with pytest.raises(ConfigError, match="public key cannot sign"):
        SigningKey(pem_pair()[1]).sign(b"x")
    with pytest.raises(ConfigError, match="not a readable PEM"):
        SigningKey("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")


@pytest.mark.parametrize("secret", ["", "short", "changeme-changeme-changeme", "secret_secret_secret_secret"])
def test_default_secrets_are_refused(secret):
    with pytest.raises(ConfigError, match="default or shorter"):
        check_secret(secret, "the secret")


# ---- the shelf ------------------------------------------------------------------------------------------------------


def test_a_store_numbers_bundles_and_rolls_back(made, tmp_path):
    store = Store(tmp_path / "bundles")
    with pytest.raises(RunError, match="has no bundle yet"):
        _ = store.current
    first, _ = store.add("policy", made.bundle.files)
    second, _ = store.add("policy", made.bundle.files)
    assert [row["bundle"] for row in store.versions] == ["0001-policy", "0002-policy"]
    assert store.versions[0]["versions"]["onnxruntime"]
    assert find_bundle(tmp_path / "bundles").name == "0002-policy"
    assert store.rollback() == (second, first)
    assert find_bundle(tmp_path / "bundles").name == "0001-policy"
    with pytest.raises(RunError, match="the first bundle"):
        store.rollback()
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="file cannot store a bundle"):
        Store(tmp_path / "file").add("policy", made.bundle.files)
    dotted, bundle = store.add("v1.5", made.bundle.files)
    assert bundle.name == Bundle.open(pack(dotted)).name == "0003-v1.5"


@pytest.mark.parametrize("message", ["File exists", "No such file", "by an interrupted bundling"])
def test_a_store_that_cannot_take_the_bundle_is_refused_before_any_work(made, tmp_path, monkeypatch, message):
    store, name = tmp_path / "bundles", f"0001-{made.config.name}"
    if message == "File exists":
        store.touch()
    elif message == "No such file":  # as of any file in a folder that cannot be written to
        monkeypatch.setattr(
            "pacesetter.serving.bundle.store.TemporaryFile", lambda dir: (dir / "absent" / "file").open("w")
        )
    else:
        (store / f".{name}.partial").mkdir(parents=True)
    for work in ("build_panel", "export_onnx"):
        monkeypatch.setattr(f"pacesetter.serving.bundle.packaging.{work}", lambda *_: pytest.fail("it went to work"))
    with pytest.raises(RunError, match=message):
        bundle_run(made.run.folder, store)
    with pytest.raises(RunError, match=message):
        bundle_policy(None, made.bundle.model.spec, made.config, made.panel, store, table=None, training={})


def test_a_folder_that_a_crash_left_before_the_index_is_passed_over(tmp_path):
    store = Store(tmp_path / "bundles")
    assert store.next_folder("policy").name == "0001-policy"
    Bundle.write(tmp_path / "bundles" / "0001-policy", dict.fromkeys(NEEDED, b"{}"))
    assert store.next_folder("policy").name == "0002-policy"
    assert store.next_folder("other").name == "0002-other"


@pytest.mark.parametrize("index", [{"current": "0009-x", "versions": []}, {"current": None, "versions": [{}]}, []])
def test_a_damaged_version_matrix_is_refused(index, tmp_path):
    (tmp_path / "versions.json").write_text(json.dumps(index))
    with pytest.raises(RunError, match=r"versions\.json cannot be read"):
        Store(tmp_path).rollback()


@pytest.mark.parametrize("name", ["../elsewhere", "/tmp", "..", "", "a/b", "link", 7])
def test_a_version_matrix_that_leads_out_of_the_store_is_refused(made, tmp_path, name):
    store = tmp_path / "bundles"
    Store(store).add("policy", made.bundle.files)
    shutil.copytree(made.folder, tmp_path / "elsewhere")
    (store / "link").symlink_to(tmp_path / "elsewhere")
    index = json.loads((store / "versions.json").read_text())
    index["versions"].append(index["versions"][0] | {"bundle": name})
    (store / "versions.json").write_text(json.dumps(index | {"current": name}))
    with pytest.raises(RunError, match="is not a folder of this store"):
        find_bundle(store)


def test_two_at_once_do_not_write_to_a_store(made, tmp_path):
    store = Store(tmp_path / "bundles")
    store.add("policy", made.bundle.files)
    with hold(store.folder):
        for work in (lambda: store.add("policy", made.bundle.files), store.rollback):
            with pytest.raises(RunError, match="is in use by process"):
                work()
    assert len(store.versions) == 1


def test_a_rollback_to_a_damaged_bundle_is_refused(made, tmp_path):
    store = Store(tmp_path / "bundles")
    first, _ = store.add("policy", made.bundle.files)
    store.add("policy", made.bundle.files)
    (first / "model.onnx").write_bytes(b"")
    with pytest.raises(RunError, match=r"model\.onnx was changed"):
        store.rollback()
    assert store.current.name == "0002-policy"


# ---- the command line -----------------------------------------------------------------------------------------------


def called(*words: str) -> tuple[int, str]:
    app = typer.Typer()
    register(app)
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, str(result.exception or result.output)


def test_the_command_line_checks_lists_and_rolls_back(made, tmp_path):
    store = Store(tmp_path / "bundles")
    for _ in range(2):
        store.add("policy", made.bundle.files, SigningKey(SECRET))
    (tmp_path / "key").write_text(SECRET)
    code, said = called("bundle", "check", str(tmp_path / "bundles"), "--key", str(tmp_path / "key"))
    assert (code, "is intact" in said, "signed by this key" in said) == (0, True, True)
    assert "0002-policy" in called("bundle", "list", "--store", str(tmp_path / "bundles"))[1]
    rollback = ("bundle", "rollback", "--store", str(tmp_path / "bundles"))
    assert "there is no key to check it by" in called(*rollback)[1]
    assert "0001-policy serves now" in called(*rollback, "--unverified")[1]
    matrix = tmp_path / "pages" / "matrix.html"
    assert str(matrix) in called("bundle", "list", "--store", str(tmp_path / "bundles"), "--matrix", str(matrix))[1]
    assert 'id="model-versions"' in matrix.read_text()
    lines = [line for line in matrix.with_suffix(".md").read_text().splitlines() if line.startswith("| ")]
    first, second = (line.split(" | ") for line in lines[2:4])
    assert "| library | 0001-policy | 0002-policy |" in lines
    numpy = made.bundle.manifest["versions"]["numpy"]
    assert f"| numpy | {numpy} | {numpy} |" in lines
    assert (first[0], first[1], second[0], second[1]) == ("| 0001-policy", "serves", "| 0002-policy", "rolled back")
    assert made.bundle.manifest["training"]["weights_hash"][:12] in first
    (tmp_path / "bundles" / "0001-policy" / "CARD.md").write_text("better results")
    code, said = called("bundle", "check", str(tmp_path / "bundles"), "--unverified")
    assert code == 1
    assert "CARD.md was changed" in said
    assert "is not a run folder" in called("bundle", str(tmp_path))[1]
    for folder in (tmp_path, made.run.folder):
        assert f"{folder} is not a bundle" in called("bundle", "check", str(folder))[1]
    assert called("bundle", str(made.run.folder), "--observations", "0")[0] == 2  # nothing would be compared
    assert "serve.rate=nan must be 0.001 or more" in called("serve", str(made.folder), "--rate", "nan")[1]
    assert "has no bundle yet" in called("bundle", "list", "--store", str(tmp_path))[1]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("features.json", b"{"),
        ("features.json", b"[]"),
        ("features.json", b"{}"),
        ("limits.json", b'{"no such limit": 1}'),
        ("limits.json", b"\xff"),
        ("config.yaml", b"a: b: c"),
        ("config.yaml", b"[" * 100_000),
        ("manifest.json", b"[" * 100_000),
        ("manifest.json", b"[1]"),
        ("manifest.json", b'{"training": []}'),
        ("CARD.md", b"\xff\xfe\x00"),
    ],
)
def test_a_part_that_cannot_be_parsed_is_not_intact(made, tmp_path, name, content):
    Bundle.write(tmp_path / "bundle", {**made.bundle.files, name: content})
    code, said = called("bundle", "check", str(tmp_path / "bundle"))
    assert (code, "intact" in said) == (1, False)
    with pytest.raises(PacesetterError, match=name.split(".")[0]):
        Bundle.open(tmp_path / "bundle").check()


def test_hashes_that_are_too_deep_are_refused(copy):
    (copy / "hashes.json").write_bytes(b"[" * 100_000)
    with pytest.raises(RunError, match=r"hashes.json is missing or damaged"):
        Bundle.open(copy)


def bomb(graph: bytes, *, side: int, products: int) -> bytes:
    """The graph whose first output also waits for a matrix of `side` × `side`, multiplied by itself."""
    model = onnx.load_model_from_string(graph)
    nodes, first = model.graph.node, model.graph.output[0].name
    for node in nodes:
        node.output[:] = ["own" if name == first else name for name in node.output]
    shape = onnx.helper.make_tensor("side", onnx.TensorProto.INT64, [2], [side, side])
    nodes.append(onnx.helper.make_node("Constant", [], ["side"], value=shape))
    nodes.append(onnx.helper.make_node("ConstantOfShape", ["side"], ["m0"]))
    for number in range(products):
        nodes.append(onnx.helper.make_node("MatMul", [f"m{number}"] * 2, [f"m{number + 1}"]))
    nodes.append(onnx.helper.make_node("ReduceMax", [f"m{products}"], ["most"], keepdims=0))
    nodes.append(onnx.helper.make_node("Add", ["own", "most"], [first]))
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(("side", "products"), [(200_000, 0), (2_000, 400)])
def test_a_graph_that_takes_much_memory_or_time_is_refused(made, tmp_path, monkeypatch, side, products):
    monkeypatch.setattr(model, "TRY_SECONDS", 3)
    graph = bomb(made.bundle.files["model.onnx"], side=side, products=products)
    Bundle.write(tmp_path / "bundle", {**made.bundle.files, "model.onnx": graph})
    with pytest.raises(RunError, match=r"bundle/model.onnx does not load and answer within 4 GiB and 3 s of one core"):
        Bundle.open(tmp_path / "bundle").check()
    small = bomb(made.bundle.files["model.onnx"], side=2, products=1)
    Bundle.write(tmp_path / "small", {**made.bundle.files, "model.onnx": small}).check()


def test_an_interrupted_bundling_leaves_nothing(made, tmp_path, monkeypatch):
    def interrupt(path: Path, data: bytes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pacesetter.serving.bundle.bundle.write_atomic", interrupt)
        with pytest.raises(KeyboardInterrupt):
            Bundle.write(tmp_path / "bundle", made.bundle.files)
    assert list(tmp_path.iterdir()) == []
    Bundle.write(tmp_path / "bundle", made.bundle.files)


def test_a_command_typed_wrong_is_no_run():
    app = typer.Typer()
    register(app)
    assert "No such command 'chekc'. Did you mean 'check'?" in CliRunner().invoke(app, ["bundle", "chekc", "x"]).stderr
