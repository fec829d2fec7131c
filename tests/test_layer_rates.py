"""Rates by layer and gradual unfreezing: their formulas, on a network with layers and in a whole training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regard
from regard.config.settings import TrainConfig
from regard.errors import ConfigError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.training.optim import Optimizer, make_optimizer
from regard.training.progress import NullReporter, TrainingProgress
from regard.training.setup import require_trainable
from tests.test_reading_part import LABELED, SMALL, tables, weights

# Layers above each parameter; None: of the output.
ABOVE = {
    "encoder.embedding.weight": 2,
    "encoder.layers.0.weight": 1,
    "encoder.layers.1.weight": 0,
    "output.weight": None,
}


class Net(nn.Module):
    """One weight in each layer, of the names that networks have."""

    def __init__(self) -> None:
        super().__init__()
        one = nn.Linear(2, 2, bias=False)
        self.encoder = nn.ModuleDict(
            {"embedding": one, "layers": nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in "12")}
        )
        self.output = nn.Linear(2, 2, bias=False)
        for parameter in self.parameters():
            nn.init.ones_(parameter)


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw", "muon", "adadelta"])
@pytest.mark.parametrize(("decay", "every"), [(0.5, None), (1.0, 2), (0.5, 1)])
def test_a_layer_moves_by_its_rate_from_its_first_update_on(kind: str, decay: float, every: int | None) -> None:
    """Each weight moves as it would alone, with the rate times decay^k, and from update N (k + 1) + 1 on."""
    net = Net()
    optimizer = Optimizer(net, kind=kind, weight_decay=0.1, layer_decay=decay, unfreeze_every=every)
    alone = {name: nn.Linear(2, 2, bias=False) for name in ABOVE}
    apart = {}
    for name, layer in alone.items():
        nn.init.ones_(layer.weight)
        apart[name] = Optimizer(layer, kind=kind, weight_decay=0.1)
    for number in range(1, 6):
        gradient = torch.tensor([[1.0, -2.0], [0.5, 3.0]]) * number
        optimizer.step(0.1, [gradient.clone() for _ in ABOVE], number=number)
        for name, above in ABOVE.items():
            if number > (0 if above is None else (every or 0) * (above + 1)):
                apart[name].step(0.1 * decay ** (above or 0), [gradient.clone()])
            torch.testing.assert_close(dict(net.named_parameters())[name], alone[name].weight)


def test_frozen_layers_do_not_count_in_the_norm() -> None:
    net = Net()
    optimizer = Optimizer(net, kind="sgd", clip_norm=1.0, unfreeze_every=3)
    gradients = [torch.full((2, 2), 1e6) for _ in ABOVE]
    gradients[-1] = torch.full((2, 2), 0.25)  # of the output, with a norm of 1/2
    assert optimizer.step(1.0, gradients, number=1) == pytest.approx(0.5)
    torch.testing.assert_close(net.output.weight, torch.full((2, 2), 0.75))


def test_a_training_unfreezes_from_the_top_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "labeled.tsv").write_text(LABELED)
    settings: dict[str, Any] = {"layer_decay": 0.5, "unfreeze_every": 2, "save_every": 1, "keep": 20}
    config = load_config(tables(tmp_path, "classification", dict(SMALL), steps=8, **settings))
    regard.train(config, tmp_path / "run")
    begun, later = weights(tmp_path / "run", "1"), [weights(tmp_path / "run", str(step)) for step in range(1, 9)]
    first = {"output.weight": 2, "encoder.layers.1.": 3, "encoder.layers.0.": 5, "encoder.embedding.weight": 7}
    for prefix, number in first.items():
        for name in [name for name in begun if name.startswith(prefix)]:
            changed = [not torch.equal(step[name], begun[name]) for step in later]
            assert changed == [step >= number for step in range(1, 9)], name
    with pytest.raises(KeyboardInterrupt):
        regard.train(config, tmp_path / "again", reporter=Stops())
    regard.train(RunFolder.open(tmp_path / "again").config, tmp_path / "again")
    assert all(torch.equal(tensor, later[-1][name]) for name, tensor in weights(tmp_path / "again", "8").items())


def test_the_settings_of_a_training_reach_the_optimizer() -> None:
    net = Net()
    optimizer = make_optimizer(net, TrainConfig.model_validate({"optimizer": "sgd", "layer_decay": 0.5}))
    optimizer.step(1.0, [torch.ones(2, 2) for _ in ABOVE])
    moved = {name: 1 - float(parameter.detach().max()) for name, parameter in net.named_parameters()}
    assert moved == {
        "output.weight": 1, "encoder.layers.1.weight": 1, "encoder.layers.0.weight": 0.5,
        "encoder.embedding.weight": 0.25,
    }  # fmt: skip


class Stops(NullReporter):
    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None:
        if progress.step == 4:  # only the output and the last layer have a state of the optimizer
            raise KeyboardInterrupt


@pytest.mark.parametrize("setting", ["layer_decay=0.5", "unfreeze_every=3"])
def test_a_network_without_layers_is_refused(tmp_path: Path, setting: str) -> None:
    model = {"encoder": {"kind": "context-mean", "width": 8}}
    config = load_config(tables(tmp_path, "masked", model), [f"train.{setting}"])
    with pytest.raises(ConfigError, match=r"the network has no layers[^$]*remove train\.(layer_decay|unfreeze_every)"):
        require_trainable(config)
