"""Transformer-XL's and the Compressive Transformer's memory, against references of a few lines."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Causal, Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.positions.rotary import Rotary
from regard.attention.span import Span
from regard.models.transformer.compressive import Compressive, Compressor
from regard.models.transformer.relative_attention import RelativeAttention, sinusoids
from regard.models.transformer.segment_memory import SegmentMemory, SegmentState
from regard.testing.law import ready

WIDTH = 8
SMALL = {"heads": 2, "memory": 4, "segment": 4}


def bold(mixer):
    torch.manual_seed(0)
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return ready(mixer)


def columns(length: int, rows: int = 2, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, length, WIDTH, dtype=torch.float64, generator=generator)


def span(x: Tensor, start: int = 0) -> Span:
    return Span(torch.full((len(x),), start), torch.ones(x.shape[:2], dtype=torch.bool))


def run(mixer, x: Tensor, state: SegmentState | None = None):
    return mixer(x, span(x), mixer.start(len(x)) if state is None else state)


def by_the_formula(attention: RelativeAttention, x: Tensor, h: Tensor, allowed: Tensor) -> Tensor:
    """§3.3 of Dai et al. 2019, energy by energy: the columns of x are the last of h."""
    size, beyond = attention.key_width, h.shape[1] - x.shape[1]
    table = sinusoids(h.shape[1], WIDTH).double()
    output = torch.zeros_like(x)
    for row in range(len(x)):
        contexts = []
        for head in range(attention.heads):
            part = slice(head * size, (head + 1) * size)
            wq, wk, wr, wv = (getattr(attention, name).weight[part] for name in ("query", "key", "place", "value"))
            u, v = attention.content_bias[head], attention.place_bias[head]
            context = torch.zeros(x.shape[1], size, dtype=torch.float64)
            for i in range(x.shape[1]):
                seen = [j for j in range(h.shape[1]) if allowed[i, j]]
                q = wq @ x[row, i]
                energy = torch.stack([
                    (q @ (wk @ h[row, j]) + q @ (wr @ table[beyond + i - j]) + u @ (wk @ h[row, j])
                     + v @ (wr @ table[beyond + i - j])) / math.sqrt(size)
                    for j in seen
                ])  # fmt: skip
                context[i] = sum(a * (wv @ h[row, j]) for a, j in zip(energy.softmax(0), seen, strict=True))
            contexts.append(context)
        output[row] = torch.cat(contexts, 1) @ attention.output.weight.T
    return output


def near(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-7, atol=1e-7)  # sinusoids are of 32 bits


@pytest.mark.parametrize("length", [2, 5])
def test_relative_attention_is_the_formula(length: int) -> None:
    """By projected keys, and for few queries by projected queries; where rows stand at other places, too."""
    attention = bold(RelativeAttention(WIDTH, heads=2, distances=7))
    x, h = columns(length), columns(7, seed=2)
    allowed = torch.ones(length, 7, dtype=torch.bool).tril(7 - length)
    first = torch.full((2,), 7 - length)
    found, _ = attention(x, h, first, allowed.expand(2, -1, -1))
    near(found, by_the_formula(attention, x, h, allowed))
    earlier = torch.tensor([7 - length, 6 - length])  # the second row's columns are one place earlier
    both = torch.stack([allowed, allowed.roll(-1, 1).logical_and(torch.arange(7) < 6)])
    found, weights = attention(x, h, earlier, both, need_weights=True)
    near(found[1], by_the_formula(attention, x, h[:, :6], both[1][:, :6])[1])
    near(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_two_segments_are_one_pass_under_a_banded_mask() -> None:
    """Columns 4 … 7 see the four columns before their segment, and no more: blocks of a band over all of them."""
    mixer = bold(SegmentMemory(WIDTH, **SMALL))
    x = columns(12)
    first = run(mixer, x[:, :4])
    second = run(mixer, x[:, 4:8], first.state)
    third = run(mixer, x[:, 8:], second.state)
    i, j = torch.arange(12)[:, None], torch.arange(12)
    band = (j <= i) & (j >= i // 4 * 4 - 4)
    expected = by_the_formula(mixer.attention, x, x, band)
    near(torch.cat([first.output, second.output, third.output], 1), expected)
    near(run(mixer, x).output, expected)


def test_with_rotary_positions_and_all_remembered_it_is_self_attention() -> None:
    """In segments of four, each with all before it in memory, and column by column."""
    mixer = bold(SegmentMemory(WIDTH, heads=2, rotary=Rotary(4), segment=4, memory=8))
    dense = SelfAttention(MultiHead(WIDTH, heads=2, mechanism=Dot()), mask=Causal() & Padding(), rotary=Rotary(4))
    dense = dense.double()
    for name in ("query", "key", "value", "output"):
        getattr(dense.attention, name).weight.data = getattr(mixer.attention, name).weight.data
    x = columns(12)
    expected = dense(x, span(x), dense.start(2)).output
    near(run(mixer, x).output, expected)
    state, outputs = mixer.start(2), []
    for at in range(12):
        mixed = run(mixer, x[:, at : at + 1], state)
        state = mixed.state
        outputs.append(mixed.output)
    near(torch.cat(outputs, 1), expected)


def test_no_gradient_reaches_what_is_remembered() -> None:
    """Neither over a cut nor within a pass; and within a segment gradients are those of finite differences."""
    mixer = bold(SegmentMemory(WIDTH, **SMALL))
    x = columns(8).requires_grad_()
    for pieces in ((8,), (4, 4), (3, 3, 2)):
        state, outputs = mixer.start(2), []
        for piece in torch.split(x, pieces, 1):
            mixed = run(mixer, piece, state)
            state = mixed.state
            outputs.append(mixed.output)
        (gradient,) = torch.autograd.grad(torch.cat(outputs, 1)[:, 4:].square().sum(), x)
        assert not gradient[:, :4].any(), pieces
        assert gradient[:, -2:].any()
        assert not any(leaf.requires_grad for leaf in state if isinstance(leaf, Tensor))
    before = run(mixer, columns(4)).state
    segment = columns(3, seed=5).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: run(mixer, x, before).output, (segment,))


def test_memory_is_first_in_first_out() -> None:
    """Numbered columns: the segment under way, the memory before it, and slots of means of two before that."""
    mixer = Compressive(WIDTH, heads=2, memory=4, segment=2, compressed=3, rate=2, compression="mean").double()
    x = torch.arange(15, dtype=torch.float64)[None, :, None].expand(1, -1, WIDTH)
    state = run(mixer, x).state
    assert state.read.tolist() == [15]
    assert state.block[0, :, 0].tolist() == [14, 0]
    assert state.memory[0, :, 0].tolist() == [10, 11, 12, 13]
    assert state.compressed[0, :, 0].tolist() == [4.5, 6.5, 8.5]  # 0.5 and 2.5 have left
    early = run(mixer, x[:, :7]).state
    assert early.compressed[0, :, 0].tolist() == [0, 0, 0.5], "slots fill from the end"
    near(state.compressed[..., 0], run(mixer, x[:, 7:], early).state.compressed[..., 0])


def test_the_most_used_columns_are_kept_in_their_order() -> None:
    compress = Compressor("most-used", WIDTH, segment=4, rate=2)
    old = columns(4, rows=1)
    kept = compress(old, torch.tensor([[0.1, 0.3, 0.2, 0.5]]))
    assert torch.equal(kept, old[:, [1, 3]])


def test_usage_is_the_attention_that_each_column_got() -> None:
    mixer = bold(Compressive(WIDTH, **SMALL, compressed=2, rate=2, compression="most-used"))
    x = columns(8, rows=1, seed=2)
    state = run(mixer, x).state
    causal, first = torch.ones(1, 8, 8).tril().bool(), torch.tensor([0])
    _, early = mixer.attention(x[:, :4], x[:, :4], first, causal[:, :4, :4], need_weights=True)
    _, late = mixer.attention(x[:, 4:], x, first + 4, causal[:, 4:], need_weights=True)
    got = late.mean(1).sum(1)
    near(state.usage, torch.nn.functional.pad(got[:, 4:], (0, 4)))
    # Column k of the first segment could be seen by the 8 − k columns from it on.
    mean = (got[0, :4] + early.mean(1).sum(1)[0]) / torch.tensor([8.0, 7.0, 6.0, 5.0])
    kept = mean.topk(2).indices.sort().values
    near(state.compressed[0], x[0, kept])
    assert kept.tolist() != (got[0, :4] + early.mean(1).sum(1)[0]).topk(2).indices.sort().values.tolist()


@pytest.mark.parametrize("kind", ["mean", "max", "conv", "dilated"])
def test_of_a_constant_memory_a_slot_is_the_constant(kind: str) -> None:
    """A convolution begins as the mean of what it reads."""
    compressor = Compressor(kind, WIDTH, segment=6, rate=3).double()
    compressor.initialize_as_mean()
    assert compressor.learns == (kind in ("conv", "dilated"))
    old = columns(1).expand(-1, 6, -1)
    near(compressor(old), old[:, :2])


def test_slots_are_of_the_columns_they_should_be() -> None:
    """Numbers 0 … 5 by three: neighbors, or columns two apart."""
    old = torch.arange(6.0)[None, :, None].expand(1, 6, WIDTH)
    for kind, expected in {"mean": [1, 4], "max": [2, 5], "conv": [1, 4], "dilated": [2, 3]}.items():
        compressor = Compressor(kind, WIDTH, segment=6, rate=3)
        compressor.initialize_as_mean()
        near(compressor(old)[0, :, 0], torch.tensor(expected, dtype=torch.float32))


def test_compression_by_one_is_a_longer_memory() -> None:
    """c = 1 and the identity: XL with a memory longer by the slots."""
    mixer = bold(Compressive(WIDTH, **SMALL, compressed=8, rate=1))
    longer = SegmentMemory(WIDTH, heads=2, memory=12, segment=4).double()
    longer.attention.load_state_dict(mixer.attention.state_dict())
    x = columns(27)
    assert (run(mixer, x).output - run(longer, x).output).abs().max() > 1e-3, "not of a convolution drawn at random"
    mixer.compressor.initialize_as_mean()
    near(run(mixer, x).output, run(longer, x).output)


@pytest.mark.parametrize("reconstruction", ["attention", "autoencoding"])
@pytest.mark.parametrize("compression", ["conv", "dilated"])
def test_reconstruction_teaches_the_compressor_alone(reconstruction: str, compression: str) -> None:
    """Without a memory, too, where the segment itself is what is compressed."""
    for memory in (4, 0):
        options = {"compression": compression, "reconstruction": reconstruction, "compressed": 4, "rate": 2}
        mixer = bold(Compressive(WIDTH, heads=2, segment=4, memory=memory, **options))
        x = columns(16).requires_grad_()
        mixed = run(mixer, x)
        names, parameters = zip(*mixer.named_parameters(), strict=True)
        lost = mixed.losses["reconstruction"]
        found = torch.autograd.grad(lost, (x, *parameters), allow_unused=True, retain_graph=True)
        learned = {name for name, each in zip(("x", *names), found, strict=True) if each is not None and each.any()}
        assert learned == {name for name in names if name.startswith("compressor.")}
        output = torch.autograd.grad(mixed.output.square().sum(), parameters, allow_unused=True)
        reached = {name for name, each in zip(names, output, strict=True) if each is not None}
        assert reached == {name for name in names if name.startswith("attention.")}


def test_the_attention_reconstruction_is_what_the_paper_says() -> None:
    """By hand: the segment that ends attends by content to the old columns, and to their slots."""
    mixer = bold(Compressive(WIDTH, **SMALL, compressed=4, rate=2))
    x = columns(12)
    found = run(mixer, x).losses["reconstruction"]
    expected = torch.zeros((), dtype=torch.float64)
    for h, old in ((x[:, 4:8], x[:, :4]), (x[:, 8:], x[:, 4:8])):
        new = mixer.compressor(old)
        contexts = [torch.cat([_attended(mixer, h, each, head) for head in range(2)], -1) for each in (old, new)]
        expected = expected + (contexts[0] - contexts[1]).square().mean(-1).sum()
    near(found, expected)


def _attended(mixer: Compressive, h: Tensor, memory: Tensor, head: int) -> Tensor:
    part, size = slice(head * 4, (head + 1) * 4), 4
    q, k, v = (x @ getattr(mixer.attention, name).weight[part].T
               for x, name in ((h, "query"), (memory, "key"), (memory, "value")))  # fmt: skip
    return (q @ k.mT / math.sqrt(size)).softmax(-1) @ v


def test_a_reconstruction_adds_up_over_rows_and_leaves_out_what_has_not_left() -> None:
    mixer = bold(Compressive(WIDTH, **SMALL, compressed=4, rate=2))
    x = columns(12, rows=3)
    whole = run(mixer, x).losses["reconstruction"]
    parts = [run(mixer, x[row : row + 1]).losses["reconstruction"] for row in range(3)]
    near(whole, sum(parts))
    assert run(mixer, x[:, :4]).losses is None
    with torch.no_grad():
        assert run(mixer, x).losses is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"causal": False}, "segment memory is causal"),
        ({"heads": 3}, "heads = 3 does not divide"),
        ({"memory": 6, "segment": 4}, "memory must be a multiple of segment = 4, got 6"),
        ({"rate": 3, "segment": 4, "memory": 4}, "rate must divide segment = 4, got 3"),
        ({"compression": "mean", "reconstruction": "attention"}, "has no parameters"),
        ({"compression": "conv", "reconstruction": "none"}, "trained by a reconstruction loss only"),
        ({"segment": 0}, "segment ≥ 1"),
        ({"compressed": -1}, "0 or more slots"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Compressive(WIDTH, **{"heads": 2, **options})


def test_without_slots_it_is_a_memory_of_segments() -> None:
    """The smallest sizes that are allowed: no slot, and segments of one column without a memory."""
    mixer, plain = Compressive(WIDTH, **SMALL, compressed=0, rate=2, compression="mean"), SegmentMemory(WIDTH, **SMALL)
    mixer.load_state_dict(plain.state_dict(), strict=False)
    x = columns(11, seed=2)
    near(run(mixer.double(), x).output, run(plain.double(), x).output)
    alone = SegmentMemory(WIDTH, heads=2, memory=0, segment=1).double()
    near(run(alone, x).output[:, 3:4], run(alone, x[:, 3:4]).output)


@pytest.mark.parametrize("lengths", [(1, 1), (3, 3), (5, 5), (0, 0), (1, 3), (6, 2)])
def test_padding_after_all_rows_changes_nothing(lengths: tuple[int, int]) -> None:
    """Trailing padding does not fit into the segments of rows that have ended: outputs and the next state stay."""
    mixer, x, longest = bold(SegmentMemory(WIDTH, **SMALL)), columns(11), max(lengths)
    valid = torch.arange(11) < torch.tensor(lengths)[:, None]
    output, state = mixer(x, Span(torch.zeros(2, dtype=torch.long), valid), mixer.start(2))[:2]
    short = Span(torch.zeros(2, dtype=torch.long), valid[:, :longest])
    expected, after = mixer(x[:, :longest], short, mixer.start(2))[:2]
    near(output[:, :longest][valid[:, :longest]], expected[valid[:, :longest]])
    for one, other in zip(state, after, strict=True):
        assert one is other or torch.equal(one, other)
    for row, length in enumerate(lengths):  # the next columns are read as if the row were alone
        alone = run(mixer, x[row : row + 1, :length])[1]
        next_one = run(mixer, columns(3)[row : row + 1], alone)[0]
        near(run(mixer, columns(3), state)[0][row : row + 1], next_one)
