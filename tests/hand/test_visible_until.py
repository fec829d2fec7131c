"""``Span.visible_until``, with numbers that a pencil can check."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.contract import Encoded, RowMap
from regard.attention.heads import AttentionReader, MultiHead, SelfAttention
from regard.attention.mask import Causal, Mask, Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.engine.native_reading import NativeEncoder
from regard.inference.decoding import fast_form
from regard.models.build import build
from regard.models.causal_config import CausalStackConfig
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.head import Head
from regard.models.input import TokenInput, embedding_matrix
from regard.models.transformer.build import language_model
from regard.native.library import find, library

SIZES: dict[str, Any] = {"layers": 2, "width": 8, "heads": 2, "feed_forward": 8, "dropout": 0.0}
SOURCE, TARGET = torch.tensor([[4, 5, 6, 7]]), torch.tensor([[2, 8, 4, 6]])
LATER = torch.tensor([[4, 5, 8, 3]])  # other tokens from column 2 on


def one_head() -> MultiHead:
    """Attention to values as they are. Queries are 0 where the features are, so that visible keys weigh equally."""
    attention = MultiHead(1, heads=1, mechanism=Dot(), project=("query",))
    nn.init.zeros_(attention.query.weight)
    return attention


def limit(*positions: int) -> Tensor:
    return torch.tensor([positions])


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        # Columns 1, 3, 8 and 4; the first two see two of them, the others all but the last.
        (Padding(), [(1 + 3) / 2, (1 + 3) / 2, (1 + 3 + 8) / 3, (1 + 3 + 8) / 3]),
        # The second sees what is before it, too; the last does not see itself.
        (Padding() & Causal(), [1, (1 + 3) / 2, (1 + 3 + 8) / 3, (1 + 3 + 8) / 3]),
    ],
    ids=["encoder", "language-model"],
)
def test_self_attention_averages_what_is_visible(mask: Mask, expected: list[float]) -> None:
    mixer, x = SelfAttention(one_head(), mask=mask), torch.tensor([[[1.0], [3.0], [8.0], [4.0]]])
    span = Span.without_padding(x)._replace(visible_until=limit(2, 2, 3, 3))
    torch.testing.assert_close(mixer(x, span, mixer.start(1)).output[0, :, 0], torch.tensor(expected))


def test_encoder_decoder_attention_averages_what_is_visible() -> None:
    """Two rows of one sentence 1, 3, 8, of which the second is ahead; a token that sees nothing reads 0."""
    states = torch.tensor([[[1.0], [3.0], [8.0]]])
    reader = AttentionReader(one_head())
    memory = reader.prepare(Encoded(states, states, states[:, 0], Span.without_padding(states)))
    rows, query = RowMap.of(torch.tensor([0, 0]), 1), torch.zeros(2, 2, 1)
    span = Span.without_padding(query)._replace(visible_until=torch.tensor([[0, 1], [2, 3]]))
    read = reader(query, span, memory, rows, reader.start(memory, rows)).output[..., 0]
    torch.testing.assert_close(read, torch.tensor([[0, 1], [(1 + 3) / 2, (1 + 3 + 8) / 3]]))


def model(**more: Any) -> EncoderDecoder:
    torch.manual_seed(3)
    return build(ModelConfig.model_validate(SIZES | more), source_types=9, target_types=9).double().eval()


@torch.no_grad()
@pytest.mark.parametrize("copying", [False, True])
def test_wait_k_translates_before_the_source_has_ended(copying: bool) -> None:
    """Wait-1 with a source in blocks of two columns: the first two tokens see no column of the second block."""
    made = model(copying=copying)
    blocks, wait = limit(2, 2, 4, 4), limit(1, 2, 3, 4)
    source, target = Span.without_padding(SOURCE), Span.without_padding(TARGET)
    spans = source._replace(visible_until=blocks), target._replace(visible_until=wait)
    whole = made.log_probabilities(SOURCE, spans[0], TARGET, spans[1])
    later = made.log_probabilities(LATER, spans[0], TARGET, spans[1])
    assert torch.equal(later[:, :2], whole[:, :2]) and not torch.allclose(later[:, 2:], whole[:, 2:])
    free = made.log_probabilities(LATER, source, TARGET, target)
    assert not torch.allclose(free[:, :2], made.log_probabilities(SOURCE, source, TARGET, target)[:, :2])
    session, steps = made.session(SOURCE, spans[0]), []
    for column in range(4):
        log_p, session = made.step(TARGET[:, column : column + 1], session, spans[1].columns(column, column + 1))
        steps.append(log_p)
    torch.testing.assert_close(torch.cat(steps, 1), whole)


@torch.no_grad()
def test_a_language_model_obeys_it() -> None:
    torch.manual_seed(3)
    table = embedding_matrix(9, 8)
    net = language_model(CausalStackConfig.model_validate(SIZES), TokenInput(table), Head(table, None)).double().eval()
    span = Span.without_padding(SOURCE)
    blind = span._replace(visible_until=limit(1, 2, 2, 2))
    other = SOURCE.clone()
    other[:, 2] = 8
    assert torch.equal(net(other, blind).features[:, 3], net(SOURCE, blind).features[:, 3])
    assert not torch.allclose(net(other, span).features[:, 3], net(SOURCE, span).features[:, 3])


@pytest.mark.parametrize(
    "config",
    [
        {"encoder": {"kind": "recurrent"}},
        {"encoder": {"kind": "convolutional", "blocks": [[8, 3, 1]]}},
        {"encoder": {"mixer": "linear"}},
    ],
    ids=["recurrent", "convolutional", "mixer"],
)
def test_an_encoder_that_cannot_obey_it_refuses_it(config: dict[str, Any]) -> None:
    span = Span.without_padding(SOURCE)._replace(visible_until=limit(2, 2, 4, 4))
    with pytest.raises(ValueError, match=r"cannot obey Span\.visible_until"):
        model(**config).session(SOURCE, span)


@pytest.mark.parametrize("order", ["luong", "bahdanau", "none"])
def test_a_recurrent_decoder_refuses_it(order: str) -> None:
    """Its first state is made from the whole source."""
    more = {"decoder": {"kind": "recurrent", "order": order}}
    target = Span.without_padding(TARGET)._replace(visible_until=limit(1, 2, 3, 4))
    with pytest.raises(ValueError, match=r"cannot obey Span\.visible_until"):
        model(**more).log_probabilities(SOURCE, Span.without_padding(SOURCE), TARGET, target)


@pytest.mark.parametrize("engine", ["torch", "float32", "encoder"])
def test_fast_forms_refuse_it(engine: Any) -> None:
    """They compute whole sentences: to ignore it would be to show what was not heard."""
    if engine != "torch" and library() is None:
        pytest.skip(f"needs the kernels: {find().reason}")
    made = model().float()
    span = Span.without_padding(SOURCE)._replace(visible_until=limit(2, 2, 4, 4))
    read = NativeEncoder(made.encoder) if engine == "encoder" else fast_form(made, engine).session
    with pytest.raises(ValueError, match=r"cannot obey Span\.visible_until"):
        read(SOURCE, span)
