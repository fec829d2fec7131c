"""Executions of a stack: the same results, other memory."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.heads import AttentionReader
from regard.attention.span import Span
from regard.core.randomness import seeded_generator
from regard.core.task import find_task
from regard.engine.obstacles import layer_obstacle
from regard.errors import ConfigError
from regard.models import execution
from regard.models.build import build
from regard.models.classifier import build_classifier, token_input
from regard.models.classifier_config import ClassifierModelConfig
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.execution import EXECUTIONS, Execution, Reversible, Step
from regard.models.reversible import BranchRun, run_reversibly
from regard.models.transformer.feed_forward import feed_forward, in_chunks
from regard.runs.config import load_config
from regard.share import ctranslate2

SIZES: dict[str, Any] = {"layers": 3, "width": 16, "heads": 2, "feed_forward": 24}
SOURCE, TARGET = torch.tensor([[4, 5, 6, 3]]), torch.tensor([[2, 7, 8]])


def model(kind: str, **more: Any) -> EncoderDecoder:
    torch.manual_seed(1)
    config = ModelConfig(**SIZES, **more, execution=kind)
    return build(config, source_types=12, target_types=12).double().train()


def gradients(of: EncoderDecoder, *, seed: int = 5) -> list[Tensor]:
    with seeded_generator(seed, torch.device("cpu")):
        spans = [Span.without_padding(tokens) for tokens in (SOURCE, TARGET)]
        loss = of(SOURCE, spans[0], TARGET, spans[1]).square().sum()
        return list(torch.autograd.grad(loss, list(of.parameters()), allow_unused=True))


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(a is b is None or torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("kind", [each for each in EXECUTIONS if each not in ("plain", "reversible")])
def test_without_dropout_gradients_are_those_of_the_plain_order(kind: str, norm: str) -> None:
    assert same(gradients(model(kind, dropout=0.0, norm=norm)), gradients(model("plain", dropout=0.0, norm=norm)))


def test_what_is_recomputed_draws_the_same_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the same forks entered once: nothing is recomputed, and gradients are those of what was computed."""
    made = model("checkpointed", dropout=0.5)
    found = gradients(made)

    def once(layer: Any, x: Tensor, *, context_fn: Any, **options: Any) -> Any:
        with context_fn()[0]:
            return layer(x)

    with monkeypatch.context() as patched:
        patched.setattr(execution, "checkpoint", once)
        assert same(found, gradients(made))
    monkeypatch.setattr(execution, "fork", lambda: nullcontext)  # as torch's checkpointing alone would do
    assert not same(found, gradients(made))


class Held:
    """A tensor that waits."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def kept(kind: str, **more: Any) -> int:
    """Numbers in tensors that wait for the backward pass, parameters aside."""
    waiting: weakref.WeakSet[Held] = weakref.WeakSet()

    def pack(tensor: Tensor) -> Held:
        held = Held(tensor.detach())  # a result that its own node keeps would otherwise hold itself
        waiting.add(held)
        return held

    made = model(kind, **{"dropout": 0.1, **more})
    spans = [Span.without_padding(tokens) for tokens in (SOURCE, TARGET)]
    owned = {parameter.untyped_storage().data_ptr() for parameter in made.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda held: held.tensor):
        loss = made(SOURCE, spans[0], TARGET, spans[1]).sum()
    assert loss.requires_grad
    sizes = {each.tensor.untyped_storage().data_ptr(): each.tensor.numel() for each in waiting}
    return sum(size for pointer, size in sizes.items() if pointer not in owned)


def test_only_one_layer_is_kept() -> None:
    """What waits in the plain order falls by far more than half."""
    assert kept("checkpointed") < 0.4 * kept("plain")


def test_what_reversible_layers_keep_does_not_grow_with_their_number() -> None:
    """But for what readers keep of the source: each prepares it once."""
    few, many = (kept("reversible", norm="pre", **sides) for sides in (
        {"encoder": {"layers": depth}, "decoder": {"layers": 1}} for depth in (2, 12)))  # fmt: skip
    assert few == many
    assert kept("plain", norm="pre", encoder={"layers": 12}) > 4 * many


class KeptStreams(Reversible):
    """The same streams, and autograd keeps all that lies between."""

    def run(self, steps: Any, x: Tensor) -> Any:
        streams = [x, x]
        branches = [branch for step in steps for branch in step.branches()]
        for number, branch in enumerate(branches):
            with execution.fork()():
                streams[number % 2] = (
                    streams[number % 2] + branch.difference(streams[1 - number % 2], *branch.inputs)[0]
                )
        return (streams[0] + streams[1]) / 2, [step.layer.result([()] * step.layer.branch_count) for step in steps]


REVERSIBLE: dict[str, dict[str, Any]] = {
    "dropout": {"dropout": 0.3, "attention_dropout": 0.2},
    "shared-table": {"position": "t5"},
    "hashed": {"mixer": {"kind": "hashed", "buckets": 2, "chunk": 2, "rounds": 2}, "attention_dropout": 0.2},
    "value-embedding": {"value_embedding": True},
    "chunks": {"feed_forward_chunks": 2, "feed_forward_dropout": 0.2},
}


@pytest.mark.parametrize("parts", REVERSIBLE.values(), ids=REVERSIBLE)
def test_reversible_gradients_are_those_of_autograd(parts: dict[str, Any]) -> None:
    """In both stacks, with readers; dropout and hashes are drawn again from the same forks."""
    made = model("reversible", norm="pre", **parts)
    found = gradients(made)
    made.encoder.execution = made.decoder.execution = KeptStreams()
    for one, other in zip(found, gradients(made), strict=True):
        assert one is other is None or torch.allclose(one, other, rtol=1e-10, atol=1e-10)


def test_replayed_draws_are_what_makes_them_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model("reversible", norm="pre", dropout=0.5)
    found = gradients(made)
    monkeypatch.setattr("regard.models.reversible.fork", lambda: nullcontext)
    assert not same(found, gradients(made))


def test_the_streams_by_hand() -> None:
    """x = 1; f_0 = 2x, f_1 = x²: y_1 = 1 + 2 = 3, y_2 = 1 + 9 = 10, their mean 6.5, its slope 11."""
    x = torch.tensor([1.0], requires_grad=True)
    branches = [BranchRun(lambda x: (2 * x, "a")), BranchRun(lambda x: (x * x, "b"))]
    y, states = run_reversibly(branches, x)
    assert (y.item(), states) == (6.5, ["a", "b"])
    assert torch.autograd.grad(y, x)[0].item() == 11
    with torch.no_grad():
        assert run_reversibly(branches, x)[0].item() == 6.5


@pytest.mark.parametrize("dtype, most", [(torch.float32, 1e-5), (torch.bfloat16, 1e-5)])
def test_the_way_back_ends_where_it_began(dtype: torch.dtype, most: float) -> None:
    """The first branch reads in the backward pass what it read at first, after 24 layers."""
    torch.manual_seed(3)
    read: list[Tensor] = []
    parts = [nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16)).to(dtype) for _ in range(48)]

    def first(x: Tensor) -> tuple[Tensor, None]:
        read.append(x.detach())
        return parts[0](x), None

    rest = [BranchRun(lambda x, part=part: (part(x), None), tuple(part.parameters())) for part in parts[1:]]
    x = torch.randn(2, 5, 16).to(dtype).requires_grad_()
    run_reversibly([BranchRun(first, tuple(parts[0].parameters())), *rest], x)[0].sum().backward()
    assert len(read) == 2
    assert float((read[0].float() - read[1].float()).abs().max()) < (most if dtype == torch.float32 else 1e-2)
    assert all(p.grad is not None for part in parts for p in part.parameters())


@torch.no_grad()
def test_reversible_models_decode_as_they_read() -> None:
    """Token by token through their states."""
    made = model("reversible", norm="pre").eval()
    span = Span.without_padding(SOURCE)
    state = made.session(SOURCE, span)
    steps = []
    for at in range(TARGET.shape[1]):
        found, state = made.step(TARGET[:, at : at + 1], state)
        steps.append(found)
    every = made.step(TARGET, made.session(SOURCE, span))[0]
    assert torch.allclose(torch.cat(steps, 1), every, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "parts, complaint",
    [
        ({"norm": "post"}, 'requires norm = "pre"'),
        ({"norm": "pre", "embedding_residual": True}, "cannot be combined with embedding_residual"),
        ({"norm": "pre", "normalization": "batch"}, "batch normalization"),
        ({"norm": "pre", "mixer": "compressive"}, "does not support the losses of mixers"),
    ],
)
def test_what_has_no_way_back_is_refused(parts: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        model("reversible", **parts)


def test_no_loss_of_a_mixer_is_dropped_in_silence() -> None:
    """A branch by itself returns columns and a state: a loss would be lost there."""
    layer, x = model("reversible", norm="pre").encoder.layers[0], torch.randn(1, 2, 16, dtype=torch.float64)
    whole = layer.mixer.forward
    span = Span.of(torch.ones(1, 2, dtype=torch.bool))
    layer(x, span, only=0)
    layer.mixer.forward = lambda *given: whole(*given)._replace(losses={"its own": x.sum()})
    with pytest.raises(ValueError, match="cannot run as a single branch"):
        layer(x, span, only=0)


def test_no_loss_of_a_mixer_is_dropped_by_an_encoder() -> None:
    """Nothing minimizes it there: a mixer that names one is refused as soon as it does."""
    encoder = model("plain").encoder
    tokens = torch.ones(2, 3, dtype=torch.int64)
    whole = encoder.layers[1].mixer.forward
    encoder.layers[1].mixer.forward = lambda *given: whole(*given)._replace(losses={"its own": torch.ones(())})
    with pytest.raises(ConfigError, match="its own") as refused:
        encoder(tokens, Span.of(tokens > 0))
    assert refused.value.where == "model.encoder.mixer" and refused.value.help is not None
    compressing = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 8, "mixer": "compressive"}
    with pytest.raises(ConfigError, match="compressive") as unfit:
        build_classifier(
            ClassifierModelConfig.model_validate(compressing),
            token_input(ClassifierModelConfig.model_validate(compressing), 9),
            classes=2,
        )
    assert unfit.value.where == "model.encoder.mixer" and "decoders and language models" in str(unfit.value.why)


def test_a_reversible_model_is_another_function_and_no_engine_or_format_takes_it_for_plain() -> None:
    plain, other = model("plain", norm="pre").eval(), model("reversible", norm="pre").eval()
    other.load_state_dict(plain.state_dict())
    valid = torch.ones_like(SOURCE, dtype=torch.bool)
    assert not torch.allclose(
        plain.encoder(SOURCE, Span.of(valid)).states, other.encoder(SOURCE, Span.of(valid)).states
    )
    assert layer_obstacle(plain.decoder.layers[0], AttentionReader) is None
    assert layer_obstacle(other.decoder.layers[0], AttentionReader) is not None
    config = ModelConfig(**SIZES, norm="pre", execution="reversible")
    assert ctranslate2.obstacles(config) == ["its layers are reversible"]


@pytest.mark.parametrize("chunks", [2, 3, 64])
def test_a_feed_forward_in_chunks_gives_the_same_bits(chunks: int) -> None:
    """In whole numbers, which sums of any order have exactly; others may be summed otherwise in a shorter product."""
    made = feed_forward("relu", 8, 12)
    draw = torch.Generator().manual_seed(1)
    for parameter in made.parameters():
        nn.init.normal_(parameter, generator=draw).data.round_()
    x = torch.randn(2, 7, 8, generator=draw).mul_(3).round_().requires_grad_()
    whole, parts = made(x), in_chunks(made, x, chunks)
    assert torch.equal(whole, parts)
    with torch.no_grad():
        assert torch.equal(whole, in_chunks(made, x, chunks))
    slopes = [torch.autograd.grad(y.square().sum(), [x, *made.parameters()]) for y in (whole, parts)]
    assert all(torch.equal(one, other) for one, other in zip(*slopes, strict=True))


def test_a_feed_forward_in_chunks_keeps_no_inner_units() -> None:
    sides = {side: {"feed_forward": 400} for side in ("encoder", "decoder")}
    assert kept("plain", **sides, feed_forward_chunks=2) < 0.5 * kept("plain", **sides)


@pytest.mark.parametrize("kind", EXECUTIONS)
def test_a_language_model_is_run_as_its_config_says(kind: str) -> None:
    sizes = {"layers": 1, "width": 8, "heads": 1, "feed_forward": 8, "execution": kind}
    config = load_config({"task": "language-model", "data": {"train": []}, "model": sizes})
    assert type(find_task("language-model").build(config, {"types": 5}).execution) is EXECUTIONS[kind]


class Twice(nn.Module):
    """2 x, as one branch: adds x."""

    branch_count = 1

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    def forward(self, x: Tensor, *, only: int | None = None) -> tuple[Tensor, int]:
        self.calls.append(1)
        return (x * 2 if only is None else x), len(self.calls)

    def result(self, states: list[int]) -> int:
        return states[0]


@pytest.mark.parametrize("kind", EXECUTIONS.values())
def test_nothing_is_recomputed_without_a_gradient(kind: type[Execution]) -> None:
    """x = (1, 1): 1 + 1 = 2 in stream 1, then 1 + 2 = 3 in stream 2, and their mean."""
    layer = Twice()
    with torch.no_grad():
        x, states = kind().run([Step(layer, {})] * 2, torch.ones(2))
    assert x.tolist() == ([2.5, 2.5] if kind is Reversible else [4, 4]) and states == (1, 2)
