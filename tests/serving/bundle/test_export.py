"""Exports: a module that decides as its algorithm, a graph that answers as its module, and nothing else that runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import SparseTensorProto, TensorProto, helper

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet, FleetAgent
from pacesetter.agents.symbol_agent import SymbolAgent
from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.sb3.algorithms import AlgorithmAgent, EncoderExtractor
from pacesetter.policies.modules import serve_agent
from pacesetter.policies.modules import serve_algorithm as as_module
from pacesetter.policies.spec import PolicySpec
from pacesetter.serving.bundle import export
from pacesetter.serving.bundle.export import export_onnx, export_torchscript, quantise
from pacesetter.serving.bundle.model import SPEC, Model, check_graph
from pacesetter.serving.bundle.parity import check_parity, random_observations

KINDS = {
    "ppo": ("ppo",),
    "a2c": ("a2c", "task.action=continuous"),
    "sac": ("sac",),
    "td3": ("td3",),
    "maskable_ppo": ("maskable_ppo",),
    "target": ("ppo", "task=portfolio"),
    "masked portfolio": ("maskable_ppo", "task=portfolio", "task.action=discrete"),
}
NETWORKS = {"transformer": "transformer_small", "lstm": "lstm", "gru": "gru"}
SHAPES = {"window": (5, 4), "regime": (3,), "position": (7,), "portfolio": (7,)}
NAMES = {entry: tuple(f"{entry}{k}" for k in range(shape[-1])) for entry, shape in SHAPES.items()}


def built(config: Any) -> tuple[Any, Any, Any, PolicySpec]:
    """Algorithm, training environments, module and spec of a configuration; nothing is trained."""
    parts = build_parts(config, build_panel(config))
    algorithm = build_learner(config, parts).algorithm
    bank = parts.validation.batch.bank
    return algorithm, parts.train, *as_module(algorithm, bank.names, config.trading.action, bank.symbols[0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_module_decides_as_the_algorithm(small, kind):
    algorithm, env, module, spec = built(small(*KINDS[kind]))
    extractor = next(part for part in algorithm.policy.modules() if isinstance(part, EncoderExtractor))
    observation, _ = env.reset(seed=0)
    masks = {ACTION_MASK: env.action_masks()} if ACTION_MASK in spec.inputs else {}
    full = extractor.tables({name: torch.as_tensor(entry) for name, entry in observation.items()})
    seen = {name: full[name].float() for name in full} | {k: torch.as_tensor(v).float() for k, v in masks.items()}
    with torch.no_grad():
        answer, confidence, *_ = module(seen)
    ours = answer.argmax(-1) if spec.action == "discrete" else answer
    theirs = AlgorithmAgent(algorithm).act({**observation, **masks})
    np.testing.assert_allclose(ours.numpy(), theirs.reshape(ours.shape), atol=1e-6)
    assert ((confidence >= 0) & (confidence <= 1)).all()
    if masks:
        assert (answer.reshape(len(answer), -1).numpy()[~masks[ACTION_MASK]] == 0).all()


def check_graph_of(module: torch.nn.Module, spec: PolicySpec, count: int, data: bytes | None = None) -> Model:
    model = Model(data or export_onnx(module, spec))
    parity = check_parity(module, model, random_observations(spec, count))
    assert parity.count == count
    assert parity.max_difference <= 1e-5
    return model


@pytest.mark.parametrize("kind", ["sac", "masked portfolio"])
def test_the_graph_answers_as_the_module(small, kind):
    *_, module, spec = built(small(*KINDS[kind]))
    model = check_graph_of(module, spec, 1_000)
    model.probe()
    assert model.spec == spec
    assert ("value" in spec.outputs) == (kind != "sac")


@pytest.mark.proof
@pytest.mark.parametrize("kind", [*KINDS, *NETWORKS])
def test_every_kind_and_network_is_equal_on_10_000_observations(small, kind):
    words = KINDS.get(kind) or ("ppo", f"agent.network={NETWORKS[kind]}", "agent.network_options={width:32}")
    *_, module, spec = built(small(*words))
    check_graph_of(module, spec, 10_000)


def test_a_transformer_that_answers_for_its_newest_bar_alone_is_the_same(tmp_path):
    torch.manual_seed(0)
    agent = SymbolAgent(network("transformer_small", width=16, layers=2, heads=2), SHAPES)
    for parameter in agent.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)  # biases of 0 would hide that one was lost
    module, spec = serve_agent(agent, NAMES)
    data = export_onnx(module, spec)
    model = check_graph_of(module, spec, 1_000, data)
    (batch,) = random_observations(spec, 8, seed=3)
    probabilities = model(batch)["probabilities"]
    assert (probabilities.argmax(-1) == agent.act(batch)).all()
    products = 2 + 1 + 6 + 4 + 4  # context, window, a whole block, the newest bar's block, heads
    kinds, quantised = _operators(data), quantise(data)
    assert kinds.count("Gemm") == products  # with the bias in it
    assert not {"Shape", "Slice", "IsInf"} & set(kinds)
    # The blocks; inputs and heads, and the newest bar's keys and values, stay float32.
    assert _operators(quantised).count("MatMulInteger") == 6 + 4
    small = Model(quantised)
    assert 0 < np.abs(small(batch)["probabilities"] - probabilities).max() < 0.05
    traced = torch.jit.load(_file(tmp_path, export_torchscript(module, spec)))
    again = traced(observation={name: torch.as_tensor(entry) for name, entry in batch.items()})[0]
    np.testing.assert_allclose(again.detach().numpy(), probabilities, atol=1e-5)


def test_int8_moves_answers_less_where_inputs_and_heads_stay_float32(monkeypatch):
    torch.manual_seed(0)
    data = export_onnx(*serve_agent(SymbolAgent(network("transformer_small"), SHAPES), NAMES))
    draw = np.random.default_rng(0)
    batch = {name: draw.standard_normal((400, *shape)).astype(np.float32) for name, shape in SHAPES.items()}
    batch["position"] *= np.where(np.arange(400) % 2, 1e-2, 10.0)[:, None].astype(np.float32)  # small beside large
    batch["action_mask"] = np.ones((400, 7), np.float32)
    exact, chosen = (Model(each)(batch)["probabilities"] for each in (data, quantise(data)))
    monkeypatch.setattr(export, "_exact_products", lambda graph: [n.name for n in graph.node if n.op_type == "MatMul"])
    coarse = Model(quantise(data))(batch)["probabilities"]
    assert 0 < np.abs(chosen - exact).max() < 0.5 * np.abs(coarse - exact).max()
    assert (chosen.argmax(-1) == exact.argmax(-1)).mean() > (coarse.argmax(-1) == exact.argmax(-1)).mean()


def test_a_perceptron_is_quantised_as_a_whole():
    torch.manual_seed(0)
    data = export_onnx(*serve_agent(SymbolAgent(network("mlp_tiny"), SHAPES), NAMES))
    assert _operators(quantise(data)).count("MatMulInteger") == _operators(data).count("Gemm")


def _operators(data: bytes) -> list[str]:
    return [node.op_type for node in onnx.load_model_from_string(data).graph.node]


def _file(folder: Any, data: bytes) -> str:
    path = folder / "model.pt"
    path.write_bytes(data)
    return str(path)


def test_a_critic_that_did_not_learn_is_not_exported():
    fleet = Fleet(network("mlp", width=16, layers=1), SHAPES, ("A", "B"), actions=None)
    assert serve_agent(fleet, NAMES)[1].outputs == ("orders", "confidence", "value")
    fleet.has_state_value = False
    for agent in (fleet, fleet.take("A")):
        module, spec = serve_agent(agent, NAMES)
        assert spec.outputs == ("orders", "confidence")
        assert len(module({name: torch.ones(2, *shape) for name, shape in spec.inputs.items()})) == 2


def test_a_fleet_is_one_graph_with_a_row_for_each_symbol():
    torch.manual_seed(0)
    fleet = Fleet(network("mlp", width=16, layers=1), SHAPES, ("A", "B", "C"), actions=None)
    module, spec = serve_agent(fleet, NAMES)
    model = Model(export_onnx(module, spec))
    assert (spec.rows, spec.symbols, spec.action) == ("fleet", ("A", "B", "C"), "continuous")
    (batch,) = random_observations(spec, 3)
    np.testing.assert_allclose(model(batch)["orders"][:, 0], FleetAgent(fleet).act(batch), atol=1e-5)
    model.probe()


@pytest.mark.parametrize("kind", ["recurrent_ppo", "gru_ppo"])
def test_a_recurrent_policy_is_a_graph_of_one_step(small, kind):
    algorithm, env, module, spec = built(small(kind, "task.action=discrete"))
    assert spec.remembered == ("memory_hidden", "memory_cell")
    model, agent = check_graph_of(module, spec, 500), AlgorithmAgent(algorithm)
    extractor = next(part for part in algorithm.policy.modules() if isinstance(part, EncoderExtractor))
    memory = {name: np.zeros((env.num_envs, *spec.inputs[name]), np.float32) for name in spec.remembered}
    observation, _ = env.reset(seed=0)
    for _ in range(4):
        own = agent.act(observation)
        full = extractor.tables({name: torch.as_tensor(entry) for name, entry in observation.items()})
        answer = model({name: entry.numpy() for name, entry in full.items()} | memory)
        np.testing.assert_array_equal(answer["probabilities"].argmax(-1), own)
        memory = {name: answer[f"{name}_after"] for name in memory}
        observation, *_ = env.step(own)
    assert np.abs(memory["memory_hidden"]).max() > 0


def test_a_graph_that_differs_is_refused(made):
    model = made.bundle.model

    class Other(torch.nn.Module):
        def __init__(self, turn: int) -> None:
            super().__init__()
            self.turn = turn

        def forward(self, observation: Any) -> Any:
            answer = model({name: entry.numpy() for name, entry in observation.items()})
            parts = [torch.as_tensor(answer[name]) for name in model.spec.outputs]
            return (parts[0].roll(self.turn, -1), *(part + 1e-3 for part in parts[1:]))

    with pytest.raises(RunError, match="prefers another order"):
        check_parity(Other(1), model, random_observations(model.spec, 50))
    with pytest.raises(RunError, match=r"differs from the policy by 0\.001"):
        check_parity(Other(0), model, random_observations(model.spec, 50))


# ---- graphs of others -----------------------------------------------------------------------------------------------


def graph(domain: str = "", is_outside: bool = False, spec: PolicySpec | None = None, inner: bool = False) -> bytes:
    """Identity of one number, with what a hostile file may hold."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 1])
    answer = helper.make_tensor_value_info("orders", TensorProto.FLOAT, ["rows", 1])
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    if is_outside:
        weight.ClearField("float_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="/etc/passwd")
    node = helper.make_node("Mul", ["x", "w"], ["orders"], domain="" if inner else domain)
    nodes = [node]
    if inner:
        branch = helper.make_graph([helper.make_node("Evil", [], ["y"], domain=domain)], "b", [], [answer])
        nodes.append(helper.make_node("If", ["x"], ["z"], then_branch=branch, else_branch=branch))
    imports = [
        helper.make_opsetid(name, 20 if name == "" else 1) for name in dict.fromkeys(("", *([] if inner else [domain])))
    ]
    model = helper.make_model(helper.make_graph(nodes, "g", [value], [answer], [weight]), opset_imports=imports)
    model.ir_version = 10
    if spec is not None:
        model.metadata_props.add(key=SPEC, value=spec.to_json())
    return model.SerializeToString()


def test_a_spec_of_an_old_bundle_says_weights_and_means_target() -> None:
    old = PolicySpec({"x": (1,)}, {"x": ("a",)}, "target", outputs=("orders",)).to_json().replace("target", "weights")
    assert PolicySpec.from_json(old).action == "target"


PLAIN = PolicySpec({"x": (1,)}, {"x": ("a",)}, "continuous", outputs=("orders",))


def test_a_plain_graph_runs_and_checks_what_goes_in():
    model = Model(graph(spec=PLAIN))
    assert model({"x": np.ones((100, 1))})["orders"].shape == (100, 1)
    with pytest.raises(ConfigError, match="'x' has rows of"):
        model({"x": np.ones((1, 2))})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (graph(), "is not a policy"),
        (b"\x80\x04.", "is not a policy"),
        (graph("com.evil", spec=PLAIN), "operators of com.evil"),
        (graph("com.evil", spec=PLAIN, inner=True), "operators of com.evil"),
        (graph(is_outside=True, spec=PLAIN), "weights in another file"),
        (graph(spec=PolicySpec({"y": (1,)}, {"y": ("a",)}, "continuous", outputs=("orders",))), "inputs and outputs"),
    ],
)
def test_other_graphs_are_refused_before_they_run(data, why):
    with pytest.raises(RunError, match=why):
        check_graph(data)


def _outside(name: str = "w") -> TensorProto:
    """A tensor of four bytes that lie in a file of the working folder."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "keys.json"), ("offset", "0"), ("length", "4")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def _hostile(place: str) -> bytes:
    """The plain graph with such a tensor in a place where nobody may look."""
    model = onnx.load_model_from_string(graph(spec=PLAIN))
    index = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    sparse = SparseTensorProto(values=_outside(), indices=index, dims=[1])
    if place == "sparse initializer":
        del model.graph.initializer[:]
        model.graph.sparse_initializer.append(sparse)
    elif place == "constant":
        del model.graph.initializer[:]
        model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse))
    elif place == "branch without nodes":
        answer = helper.make_tensor_value_info("w", TensorProto.FLOAT, [1])
        branch = helper.make_graph([], "b", [], [answer], [_outside()])
        model.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=branch, else_branch=branch))
    elif place == "training":
        model.training_info.add().initialization.initializer.append(_outside())
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("place", ["sparse initializer", "constant", "branch without nodes", "training"])
def test_weights_in_a_file_are_refused_wherever_the_graph_names_them(place):
    with pytest.raises(RunError, match="weights in another file"):
        check_graph(_hostile(place))


def test_operators_that_are_no_arithmetic_and_graphs_within_the_graph_are_refused():
    answer = helper.make_tensor_value_info("w", TensorProto.FLOAT, [1])
    inner = helper.make_graph([], "b", [], [answer], [helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])])
    for name, options, why in (
        ("If", {"then_branch": inner, "else_branch": inner}, "operator If"),
        ("StringConcat", {}, "operator StringConcat"),
        ("Abs", {"note": inner}, "has nested graphs"),
    ):
        model = onnx.load_model_from_string(graph(spec=PLAIN))
        model.graph.node.append(helper.make_node(name, ["x"], ["z"], **options))
        with pytest.raises(RunError, match=why):
            check_graph(model.SerializeToString())


def test_a_file_that_a_graph_asks_for_all_the_same_is_not_found(monkeypatch, tmp_path):
    (tmp_path / "keys.json").write_bytes(np.float32(7.0).tobytes())
    monkeypatch.chdir(tmp_path)
    model = onnx.load_model_from_string(graph(spec=PLAIN))
    model.graph.initializer[0].CopyFrom(_outside())
    data = bytes(model.SerializeToString())
    monkeypatch.setattr("pacesetter.serving.bundle.model.read_graph", lambda data: (PLAIN, data))
    with pytest.raises(Exception, match=r"keys\.json|[Ee]xternal"):
        Model(data)


def test_a_model_that_answers_nan_is_refused():
    holed = onnx.load_model_from_string(graph(spec=PLAIN))
    holed.graph.initializer[0].float_data[0] = float("nan")
    with pytest.raises(RunError, match="output is NaN"):
        Model(holed.SerializeToString()).probe()
