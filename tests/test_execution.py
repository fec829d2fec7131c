"""Executions of a stack: the same results, other memory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.randomness import seeded_generator
from regard.core.task import find_task
from regard.models import execution
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.execution import EXECUTIONS, Checkpointed, Plain
from regard.runs.config import load_config

SIZES: dict[str, Any] = {"layers": 3, "width": 16, "heads": 2, "feed_forward": 24}
SOURCE, TARGET = torch.tensor([[4, 5, 6, 3]]), torch.tensor([[2, 7, 8]])


def model(kind: str, **more: Any) -> EncoderDecoder:
    torch.manual_seed(1)
    config = ModelConfig(**SIZES, **more, execution=kind)
    return build(config, source_types=12, target_types=12).double().train()


def gradients(of: EncoderDecoder, *, seed: int = 5) -> list[Tensor]:
    with seeded_generator(seed, torch.device("cpu")):
        everything = [torch.ones_like(each, dtype=torch.bool) for each in (SOURCE, TARGET)]
        loss = of(SOURCE, everything[0], TARGET, everything[1]).square().sum()
        return list(torch.autograd.grad(loss, list(of.parameters()), allow_unused=True))


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(a is b is None or torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("kind", [each for each in EXECUTIONS if each != "plain"])
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


def test_only_one_layer_is_kept() -> None:
    """Tensors that wait for the backward pass: those of the plain order fall by far more than half."""

    def kept(kind: str) -> int:
        sizes: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.numel()
            return tensor

        made = model(kind, dropout=0.1)
        everything = [torch.ones_like(each, dtype=torch.bool) for each in (SOURCE, TARGET)]
        owned = {parameter.untyped_storage().data_ptr() for parameter in made.parameters()}
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = made(SOURCE, everything[0], TARGET, everything[1]).sum()
        assert loss.requires_grad
        return sum(size for pointer, size in sizes.items() if pointer not in owned)

    assert kept("checkpointed") < 0.4 * kept("plain")


@pytest.mark.parametrize("kind", EXECUTIONS)
def test_a_language_model_is_run_as_its_config_says(kind: str) -> None:
    sizes = {"layers": 1, "width": 8, "heads": 1, "feed_forward": 8, "execution": kind}
    config = load_config({"task": "language-model", "data": {"train": []}, "model": sizes})
    assert type(find_task("language-model").build(config, {"types": 5}).execution) is EXECUTIONS[kind]


def test_nothing_is_recomputed_without_a_gradient() -> None:
    def layer(x: Tensor) -> tuple[Tensor, int]:
        calls.append(1)
        return x * 2, len(calls)

    for ours in (Plain(), Checkpointed()):
        calls: list[int] = []
        with torch.no_grad():
            x, states = ours.run([layer, layer], torch.ones(2))
        assert x.tolist() == [4, 4] and states == (1, 2)
