"""LoRA: ``model.lora`` trains low-rank updates of frozen weights, and checkpoints have the merged weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import regard
from regard.commands.info import _lines, _run
from regard.errors import ConfigError
from regard.models.lora import LowRankLinear
from regard.models.lora_config import LoraConfig
from regard.runs.run_folder import RunFolder
from regard.training.adapted_names import AdaptedNames
from regard.training.optim import Optimizer
from regard.training.progress import NullReporter, TrainingProgress
from regard.training.setup import set_up
from regard.training.shards import Shards, Workers
from regard.training.strategy import Trainable
from tests.test_ranks import trained
from tests.test_reading_part import LABELED, LINES, SMALL, tables, weights

LORA = {"rank": 4, "alpha": 6.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model, and the same one trained further with adapters, with checkpoints of every update."""
    folder = tmp_path_factory.mktemp("lora")
    (folder / "text.txt").write_text("\n".join(LINES) + "\n")
    (folder / "labeled.tsv").write_text(LABELED)
    regard.train(tables(folder, "language-model", dict(SMALL), baseline=False), folder / "base")
    regard.train(tuned(folder), folder / "tuned")
    return folder


def tuned(folder: Path, *, steps: int = 4, lora: Any = LORA, **train: Any) -> dict[str, Any]:
    model = {"from": str(folder / "base"), "lora": lora}
    settings = {"save_every": 2, "baseline": False} | train
    return tables(folder, "language-model", model, steps=steps, **settings)


def state(run: Path, step: int) -> dict[str, Tensor]:
    return safetensors.torch.load_file(run / "checkpoints" / f"step-{step:06}" / "optimizer.safetensors")


def test_the_layer_is_the_formula_and_only_adapters_have_gradients() -> None:
    torch.manual_seed(0)
    base, x = nn.Linear(5, 3).double(), torch.randn(7, 5, dtype=torch.float64)
    w, b = base.weight.detach().clone(), base.bias.detach().clone()
    layer = LowRankLinear(base, rank=2, scale=1.5)
    assert torch.equal(layer(x), x @ w.T + b) and torch.equal(layer.weight, w)
    nn.init.normal_(layer.lora_b)
    a, up = (p.detach().clone().requires_grad_() for p in (layer.lora_a, layer.lora_b))
    expected = x @ (w + 1.5 * up @ a).T + b
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(x @ layer.weight.T + b, expected)
    layer(x).square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(layer.lora_a.grad, a.grad)
    torch.testing.assert_close(layer.lora_b.grad, up.grad)
    assert layer.base.weight.grad is None and layer.base.bias.grad is None


def test_a_product_by_hand() -> None:
    layer = LowRankLinear(nn.Linear(2, 2, bias=False), rank=1, scale=0.5)
    values = {"base.weight": [[1.0, 0.0], [0.0, 1.0]], "lora_a": [[2.0, 4.0]], "lora_b": [[1.0], [3.0]]}
    layer.load_state_dict({name: torch.tensor(value) for name, value in values.items()})
    assert layer.weight.tolist() == [[2.0, 2.0], [3.0, 7.0]]  # I + 0.5 · (1, 3)ᵀ (2, 4)
    assert layer(torch.tensor([[1.0, -1.0]])).tolist() == [[0.0, -4.0]]


def test_the_start_has_the_bits_of_the_base_and_training_changes_targets_only(folder: Path) -> None:
    base, start, end = weights(folder / "base"), weights(folder / "tuned", "0"), weights(folder / "tuned", "4")
    assert base.keys() == start.keys() == end.keys()
    assert all(torch.equal(base[name], start[name]) for name in base)
    changed = {name for name in base if not torch.equal(base[name], end[name])}
    assert changed == {name for name in base if ".mixer." in name or (".feed_forward." in name and "weight" in name)}


def test_frozen_weights_keep_their_bits_and_no_state(folder: Path) -> None:
    base, end, saved = weights(folder / "base"), weights(folder / "tuned", "4"), state(folder / "tuned", 4)
    adapted = {name for name in saved if name.endswith(".base.weight")}
    assert len(adapted) == 12
    for name in adapted:
        prefix = name.removeprefix("adapter.").removesuffix(".base.weight")
        w, a, b = saved[name], saved[f"adapter.{prefix}.lora_a"], saved[f"adapter.{prefix}.lora_b"]
        assert torch.equal(w, base[f"{prefix}.weight"])
        assert torch.linalg.matrix_rank(end[f"{prefix}.weight"].double() - w.double(), rtol=1e-3) <= 4
        torch.testing.assert_close(end[f"{prefix}.weight"], w + 1.5 * b @ a, rtol=0, atol=1e-6)
    moments = [name.removeprefix("exp_avg.") for name in saved if name.startswith("exp_avg.")]
    assert moments and all(name.endswith((".lora_a", ".lora_b")) for name in moments)


def test_merged_equals_unmerged(folder: Path, tmp_path: Path) -> None:
    """The network in training, with adapters, and the loaded one assign the same probabilities."""
    regard.train(tuned(folder, steps=3), tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    ready = set_up(run, log=lambda message: None)
    optimizer = Optimizer(ready.net)
    optimizer.load(run.weights("3").groups["model"], state(run.path, 3))
    plain = run.task.build(run.config, run.read_plan().spec)  # type: ignore[union-attr]
    plain.load_state_dict(run.weights("3").groups["model"], strict=False)
    batch = ready.data.train.collate(ready.data.train.batches(0)[0])
    losses = [run.task.objective(run.config)(net.eval(), batch, ()).minimized for net in (ready.net, plain)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=0)
    fresh = set_up(run, log=lambda message: None).net.eval()  # its adapters start at zero: this test can fail
    with torch.no_grad():
        assert abs(run.task.objective(run.config)(fresh, batch, ()).minimized - losses[1]) > 1e-3


class StopAt(NullReporter):
    def __init__(self, step: int) -> None:
        self.step = step

    def updated(self, progress: TrainingProgress, *_: Any) -> bool:
        return progress.step == self.step


@pytest.mark.parametrize("more", [{}, {"ema": 0.5}, {"precision": "bfloat16"}], ids=["plain", "ema", "bfloat16"])
def test_a_resumed_training_has_equal_bits(folder: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    config = tuned(folder, **more)
    regard.train(config, tmp_path / "whole")
    regard.train(config, tmp_path / "parts", reporter=StopAt(3))
    regard.train(config, tmp_path / "parts")
    for whole, parts in ((weights(tmp_path / "whole", "4"), weights(tmp_path / "parts", "4")),
                         (state(tmp_path / "whole", 4), state(tmp_path / "parts", 4))):  # fmt: skip
        assert whole.keys() == parts.keys()
        assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_two_ranks_have_the_bits_of_one(folder: Path, tmp_path: Path) -> None:
    config = tuned(folder)
    regard.train(config, tmp_path / "whole")
    regard.train(config, tmp_path / "parts", reporter=StopAt(1))
    trained(None, RunFolder.open(tmp_path / "parts"), 2)  # type: ignore[arg-type]
    whole, parts = weights(tmp_path / "whole", "4"), weights(tmp_path / "parts", "4")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_a_tuned_run_is_ordinary_and_starts_others(folder: Path, tmp_path: Path) -> None:
    """It predicts, and another run starts from its merged weights, without inheriting the adapters."""
    assert regard.load(folder / "tuned", checkpoint="4")("the c", seed=1, length=3).tokens
    model = {"from": {"run": str(folder / "tuned"), "checkpoint": "4"}}
    regard.train(tables(folder, "language-model", model, steps=1, baseline=False), tmp_path / "next")
    start, source = weights(tmp_path / "next", "0"), weights(folder / "tuned", "4")
    assert all(torch.equal(start[name], source[name]) for name in source)
    assert RunFolder.open(tmp_path / "next").config.lora is None
    regard.export(folder / "tuned", tmp_path / "shared", to="hub", checkpoint="4")
    assert RunFolder.open(tmp_path / "shared").config.lora is None
    shared = weights(tmp_path / "shared")
    assert all(torch.equal(shared[name], source[name]) for name in source)


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_new_parts_train_in_full(folder: Path, tmp_path: Path, task: str) -> None:
    if task == "tagging":
        (folder / "tagged.jsonl").write_text('{"tokens": ["the", "cat"], "tags": ["D", "N"]}\n' * 8)
    model = {"encoder": {"from": str(folder / "base")}, "lora": {"rank": 2, "targets": ["query", "value"]}}
    config = tables(folder, task, model, steps=2, baseline=False)
    regard.train(config, tmp_path / "run")
    start, end = weights(tmp_path / "run", "0"), weights(tmp_path / "run", "2")
    changed = {name for name in start if not torch.equal(start[name], end[name])}
    assert {name for name in changed if name.startswith("encoder.")} == {
        f"encoder.layers.{layer}.mixer.attention.{part}.weight" for layer in (0, 1) for part in ("query", "value")
    }
    assert changed >= {"output.weight", "output.bias"}


def test_the_targets_attention_leave_out_the_feed_forward(folder: Path, tmp_path: Path) -> None:
    lora = {"rank": 2, "targets": ["attention"]}
    regard.train(tuned(folder, lora=lora, steps=2, save_every=1), tmp_path / "run")
    start, end = weights(folder / "base"), weights(tmp_path / "run", "2")
    changed = {name for name in start if not torch.equal(start[name], end[name])}
    assert len(changed) == 2 * 4 and all(".mixer." in name for name in changed)


def test_the_numbers_of_weights_are_reported(folder: Path, tmp_path: Path) -> None:
    messages: list[str] = []

    class Log(NullReporter):
        def log(self, message: str) -> None:
            messages.append(message)

    regard.train(tuned(folder, steps=1), tmp_path / "run", reporter=Log())
    total = sum(tensor.numel() for tensor in {id(one): one for one in weights(folder / "base").values()}.values())
    trained = 2 * 4 * (4 * (16 + 16) + 2 * (16 + 16))  # two layers of four and two matrices, all 16 × 16
    assert f"LoRA of rank 4 in 12 matrices: {trained:,} weights trainable, {total:,} frozen" in messages
    card = (tmp_path / "run" / "README.md").read_text()
    assert f"| Parameters | {total:,} |" in card and f"| Trained weights | {trained:,} |" in card
    lines = list(_lines(_run(RunFolder.open(tmp_path / "run"))))
    assert f"parameters  {total:,}" in lines and f"trained     {trained:,} weights, LoRA of rank 4" in lines


def test_gradients_and_moments_are_those_of_adapters_only(folder: Path) -> None:
    run = RunFolder.open(folder / "tuned")
    ready = set_up(run, log=lambda message: None)
    trainable, optimizer = Trainable(ready.net, run.task.objective(run.config)), Optimizer(ready.net)
    examples = ready.data.train
    gradient = Shards(2, Workers(1, 1)).gradient(trainable, examples, [examples.batches(0)[0]], {}, seed=(0,))
    optimizer.step(0.1, gradient.values)
    moments = sum(t.numel() for name, t in optimizer.tensors().items() if name.startswith("exp_avg."))
    trained = AdaptedNames(ready.net).additional
    assert sum(value.numel() for value in gradient.values) == moments == trained
    assert trained < sum(p.numel() for p in ready.net.parameters()) / 2


@pytest.mark.parametrize(("model", "why"), [
    ({"lora": {"rank": 2}}, "only weights of another run"),
    ({"encoder": {"from": "RUN", "frozen": "all"}, "lora": {}}, "freezes all weights"),
    ({"encoder": {"from": "RUN"}, "lora": {"rank": 17}}, r"rank cannot be 17(.|\n)*16 × 16"),
    ({"encoder": {"from": "RUN"}, "lora": {"targets": ["queri"]}}, r"called queri(.|\n)*query"),
    ({"encoder": {"from": "RUN"}, "lora": {"rank": 0}}, "it should be at least 1"),
    ({"encoder": {"from": "RUN"}, "lora": {"targets": []}}, "targets cannot be"),
])  # fmt: skip
def test_impossible_adapters_are_errors(folder: Path, tmp_path: Path, model: dict[str, Any], why: str) -> None:
    if "encoder" in model:
        model = model | {"encoder": model["encoder"] | {"from": str(folder / "base")}}
    with pytest.raises(ConfigError, match=why):
        regard.train(tables(folder, "classification", model), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_new_embedding_cannot_be_frozen(folder: Path, tmp_path: Path) -> None:
    model = {"encoder": {"from": str(folder / "base")}, "lora": {"rank": 2}}
    with pytest.raises(ConfigError, match="no mask symbol"):
        regard.train(tables(folder, "masked", model, baseline=False), tmp_path / "run")


def test_the_default_scale_is_two() -> None:
    assert LoraConfig(rank=4).scale == 2 and LoraConfig(rank=4, alpha=6).scale == 1.5
