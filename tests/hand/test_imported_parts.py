"""What other toolkits' language models have: GELU by tanh, epsilons of their own, embeddings as they stand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.models.transformer.feed_forward import FeedForward, feed_forward
from regard.models.transformer.norms import normalization
from regard.runs.config import load_config
from regard.tasks.language_model.task import TASK


def language_model(**model: object) -> nn.Module:
    sizes = {"layers": 1, "width": 8, "feed_forward": 8, "heads": 2}
    config = load_config({"task": "language-model", "data": {"train": []}, "model": {**sizes, **model}})
    torch.manual_seed(1)
    return TASK.build(config, {"types": 6})


def test_gelu_by_tanh() -> None:
    layer = feed_forward("gelu-tanh", 1, 1)
    assert isinstance(layer, FeedForward)
    x = torch.tensor([-2.0, -0.5, 0.0, 1.0, 3.0])
    expected = [v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) / 2 for v in x.tolist()]
    torch.testing.assert_close(layer.activation(x), torch.tensor(expected))
    assert not torch.equal(layer.activation(x), feed_forward("gelu", 1, 1).activation(x))


@pytest.mark.parametrize(("kind", "usual"), [("layer", 1e-5), ("rms", 1e-6), ("batch", 1e-5)])
def test_an_epsilon_of_its_own(kind: str, usual: float) -> None:
    assert (normalization(kind, 4).eps, normalization(kind, 4, epsilon=0.25).eps) == (usual, 0.25)
    norms = [each for each in language_model(normalization="rms", normalization_epsilon=0.25).modules()
             if isinstance(each, nn.RMSNorm)]  # fmt: skip
    assert [norm.eps for norm in norms] == [0.25] * 3, "both of the layer, and the last"


def test_embeddings_are_scaled_as_the_config_says() -> None:
    assert language_model().embedding.scale == math.sqrt(8)
    assert language_model(embedding_scale=1.0).embedding.scale == 1.0


def test_types_that_are_never_predicted_have_no_probability_and_no_weight() -> None:
    plain, net = language_model(), language_model(never_predicted=[1, 2])
    assert net.state_dict().keys() == plain.state_dict().keys()
    assert sum(1 for _ in net.parameters()) == sum(1 for _ in plain.parameters())
    features = torch.randn(5, 8)
    found, whole = net.head.log_probabilities(features), plain.head(features)
    assert (found[:, [1, 2]].exp() == 0).all()
    kept = [0, 3, 4, 5]
    torch.testing.assert_close(found[:, kept], whole[:, kept].log_softmax(-1))
    loss = net.head.loss(features, torch.tensor([3, 4, 5, 0, 3]), smoothing=0.0)
    torch.testing.assert_close(loss.nll, -found[range(5), [3, 4, 5, 0, 3]].sum())
    loss.smoothed.backward()
    assert net.head.weight.grad is not None and (net.head.weight.grad[[1, 2]] == 0).all()


def test_a_type_that_is_not_there_and_two_biases_are_refused() -> None:
    with pytest.raises(Exception, match="there is no type 6"):
        language_model(never_predicted=[6])
    with pytest.raises(Exception, match="remove one of them"):
        language_model(never_predicted=[1], output_bias=True)
