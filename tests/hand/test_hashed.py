"""Hashed attention against Eq. 11 to 16 of Kitaev et al. 2020, term by term over a table of all pairs."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from regard.attention import hashing
from regard.attention.hashing import SortedChunks, attend_chunks, draw_rotations, fixed_rotations, hash_positions
from regard.attention.span import Span
from regard.core.randomness import seeded_generator
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.transformer.hashed import HashedAttention

GROUPS, LENGTH, WIDTH = 2, 23, 4
CAUSAL = pytest.mark.parametrize("causal", [True, False])


def columns(seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    query, value = (torch.randn(GROUPS, LENGTH, WIDTH, generator=draw, dtype=torch.float64) for _ in range(2))
    return query.requires_grad_(), value.requires_grad_()


def buckets(query: Tensor, *, rounds: int, factors: tuple[int, ...], seed: int = 0) -> Tensor:
    drawn = draw_rotations(1, WIDTH, rounds, factors, torch.Generator().manual_seed(seed))
    return hash_positions(query[:, None], drawn, factors)[:, 0]


def in_chunks(
    query: Tensor, value: Tensor, bucket: Tensor, *, chunk: int, valid: Tensor | None = None, **how: Any
) -> Tensor:
    valid = torch.ones(query.shape[:2], dtype=torch.bool) if valid is None else valid
    chunks = SortedChunks.of(bucket, valid, chunk=chunk, **{"nearest": False, **how})
    return attend_chunks(query, normalize(query, dim=-1), value, chunks, scale=0.7)


def reached(bucket: Tensor, *, chunk: int, causal: bool, nearest: bool = False, across: bool = False) -> Tensor:
    """Which pairs a round has, (round, query, key) of one group, from each column's place in the sorted order."""
    rounds, length = bucket.shape
    found = torch.zeros(rounds, length, length, dtype=torch.bool)
    for number in range(rounds):
        order = sorted(range(length), key=lambda column, number=number: (int(bucket[number, column]), column))
        place = {column: at for at, column in enumerate(order)}
        for i in range(length):
            for j in range(length):
                near = 0 <= place[i] - place[j] <= chunk if nearest else place[i] // chunk - place[j] // chunk in (0, 1)
                together = across or bool(bucket[number, i] == bucket[number, j])
                found[number, i, j] = near and together and (j <= i or not causal)
    return found


def textbook(query: Tensor, value: Tensor, bucket: Tensor, **how: Any) -> Tensor:
    """Eq. 11 to 16 as they stand: o_i = Σ_r exp(z_r − z) Σ_j exp(q·k − m_r − z_r) v_j, m_r with log N and 10⁵."""
    outputs = []
    for q, v, group in zip(query, value, bucket, strict=True):
        seen = reached(group, **how)
        times = seen.sum(0)  # N
        energy = 0.7 * q @ normalize(q, dim=-1).T
        taken = torch.where(torch.eye(len(q), dtype=torch.bool), 1e5, times.double().clamp_min(1).log())
        per_round = (energy - taken).masked_fill(~seen, -math.inf)
        z = per_round.logsumexp(-1, keepdim=True)
        rounds = (per_round - z).exp().nan_to_num(0.0) @ v
        outputs.append(((z - z.logsumexp(0)).exp() * rounds).sum(0))
    return torch.stack(outputs)


def close(one: Tensor, other: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def disagreement(**how: Any) -> float:
    query, value = columns()
    bucket = buckets(query, rounds=3, factors=(4,))
    return float((in_chunks(query, value, bucket, **how) - textbook(query, value, bucket, **how)).detach().abs().max())


HOW = [
    {"chunk": 4, "causal": True}, {"chunk": 4, "causal": False}, {"chunk": 5, "causal": True, "nearest": True},
    {"chunk": 4, "causal": False, "across": True}, {"chunk": 3, "causal": True, "across": True},
    {"chunk": 40, "causal": True},
]  # fmt: skip


@pytest.mark.parametrize("how", HOW, ids=str)
def test_it_is_what_the_paper_writes(how: dict[str, Any]) -> None:
    """Σ of N copies of exp(e − log N) is exp(e) once: ours counts a pair where it is first met."""
    assert disagreement(**how) < 1e-9


@pytest.mark.parametrize("how", HOW[:3], ids=str)
def test_its_gradients_are_those_of_the_table(how: dict[str, Any]) -> None:
    query, value = columns()
    bucket = buckets(query, rounds=3, factors=(4,))
    upstream = torch.randn(query.shape, dtype=torch.float64)
    mine, theirs = (
        torch.autograd.grad(attend(query, value, bucket, **how), [query, value], upstream)
        for attend in (in_chunks, textbook)
    )
    for one, other in zip(mine, theirs, strict=True):
        close(one, other)


@CAUSAL
@pytest.mark.parametrize("factors, chunk, across", [((1,), LENGTH, False), ((4,), 64, True)])
def test_one_bucket_or_one_chunk_is_dense_attention_with_shared_queries(
    causal: bool, factors: tuple[int, ...], chunk: int, across: bool
) -> None:
    query, value = columns()
    bucket = buckets(query, rounds=2, factors=factors)
    energy = 0.7 * query @ normalize(query, dim=-1).transpose(1, 2)
    after = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1) if causal else torch.zeros(1, 1, dtype=torch.bool)
    itself = torch.eye(LENGTH, dtype=torch.bool)
    dense = energy.masked_fill(after, -math.inf).masked_fill(itself, -1e5).softmax(-1) @ value
    close(in_chunks(query, value, bucket, chunk=chunk, causal=causal, across=across), dense)


def test_where_no_bucket_exceeds_a_chunk_a_causal_column_sees_all_of_its_own() -> None:
    """A bucket of m columns or fewer lies in two chunks that follow one another, and they are sorted by time."""
    query, value = columns()
    bucket = buckets(query, rounds=1, factors=(8,))
    largest = max(int(group.bincount().max()) for group in bucket[:, 0])
    may = (bucket[:, 0, :, None] == bucket[:, 0, None, :]).tril()
    energy = (0.7 * query @ normalize(query, dim=-1).transpose(1, 2)).masked_fill(~may, -math.inf)
    table = energy.masked_fill(torch.eye(LENGTH, dtype=torch.bool), -1e5).softmax(-1) @ value
    close(in_chunks(query, value, bucket, chunk=largest, causal=True), table)
    close(in_chunks(query, value, bucket, chunk=largest, causal=True, nearest=True), table)


MUTANTS = {
    "no self mask": ("SELF_ENERGY", 0.0),
    "no duplicate term": (
        "_hidden",
        lambda code, valid, order, number, *rest, **more: SEEN(code[:, [number]], valid, order, 0, *rest, **more),
    ),
    "no causal check": ("_hidden", lambda *given, **named: SEEN(*given, **{**named, "causal": False})),
}
SEEN = hashing._hidden


@pytest.mark.parametrize("mutant", MUTANTS)
def test_what_is_left_out_is_noticed(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = MUTANTS[mutant]
    monkeypatch.setattr(hashing, name, wrong)
    assert disagreement(chunk=4, causal=True) > 1e-3


def test_who_sees_nothing_else_sees_itself_exactly() -> None:
    """exp(−10⁵) cancels out, also in float32, where −10⁵ + log of the rounds is off by a hundredth."""
    query, value = (x.detach().float() for x in columns())
    alone = torch.arange(LENGTH).expand(GROUPS, 4, -1)  # a bucket each
    close(in_chunks(query, value, alone, chunk=4, causal=True), value, 1e-6)


def test_padding_changes_nothing() -> None:
    query, value = columns()
    bucket = buckets(query, rounds=2, factors=(4,))
    valid = torch.arange(LENGTH) < torch.tensor([[LENGTH], [17]])
    padded = in_chunks(query, value, bucket, chunk=4, causal=False, valid=valid)
    alone = in_chunks(query[1:, :17], value[1:, :17], bucket[1:, :, :17], chunk=4, causal=False)
    close(padded[1, :17], alone[0])


def test_the_nearer_two_vectors_the_more_often_they_collide() -> None:
    """At angle 0 always, at 180° never, and ever less between; orthogonal in a plane of 2 buckets: half the time."""
    angles = torch.tensor([0.0, 15, 30, 60, 90, 135, 180]).deg2rad()
    pairs = torch.zeros(1, 1, len(angles) + 1, 8)
    pairs[..., 0], pairs[..., 1] = torch.cat([angles.cos(), torch.ones(1)]), torch.cat([angles.sin(), torch.zeros(1)])

    def collisions(count: int) -> list[float]:
        drawn = draw_rotations(1, 8, 4000, (count,), torch.Generator().manual_seed(1))
        found = hash_positions(pairs, drawn, (count,))[0, 0]
        return (found[:, :-1] == found[:, -1:]).double().mean(0).tolist()

    many = collisions(8)
    assert many[0] == 1 and many[-1] == 0
    assert many == sorted(many, reverse=True) and min(a - b for a, b in pairwise(many)) > 0.005
    assert collisions(2)[4] == pytest.approx(0.5, abs=0.03)  # the sign of one product: 1 − angle / 180°


def test_factors_are_hashes_of_their_own() -> None:
    """Two factors of 4 are the pairs of what each part of R says."""
    x = torch.randn(1, 1, 50, WIDTH, generator=torch.Generator().manual_seed(2))
    drawn = draw_rotations(1, WIDTH, 1, (4, 6), torch.Generator().manual_seed(3))
    both, first, second = (
        hash_positions(x, part, factors)
        for part, factors in ((drawn, (4, 6)), (drawn[..., :2], (4,)), (drawn[..., 2:], (6,)))
    )
    assert torch.equal(both, first * 6 + second)
    assert int(both.max()) > 6


def test_evaluation_hashes_by_its_seed_and_training_anew() -> None:
    mixer = HashedAttention(8, heads=2, buckets=4, chunk=4, rounds=1)
    x, span = torch.randn(1, 30, 8), Span.of(torch.ones(1, 30, dtype=torch.bool))

    def output(seed: int) -> Tensor:
        with seeded_generator(seed, torch.device("cpu")):
            return mixer(x, span, mixer.start(1)).output

    assert not torch.equal(output(1), output(2))
    assert torch.equal(output(1), output(1))
    mixer.eval()
    assert torch.equal(output(1), output(2))
    other = HashedAttention(8, heads=2, buckets=4, chunk=4, rounds=1, seed=5).eval()
    other.load_state_dict(mixer.state_dict())
    assert not torch.equal(other(x, span, other.start(1)).output, output(1))
    assert torch.equal(fixed_rotations(1, 2, 3, (4,), 7), fixed_rotations(1, 2, 3, (4,), 7))


def test_dropout_of_weights_keeps_their_mean_and_has_its_gradient() -> None:
    query, value = columns()
    bucket = buckets(query, rounds=2, factors=(4,))
    chunks = SortedChunks.of(bucket, torch.ones(GROUPS, LENGTH, dtype=torch.bool), chunk=4, causal=True, nearest=False)
    key = normalize(query, dim=-1)

    def dropped(seed: int, value: Tensor = value, key: Tensor = key, query: Tensor = query) -> Tensor:
        draws = torch.randint(
            256, chunks.hidden.shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
        )
        return attend_chunks(query, key, value, chunks, scale=1.0, drops=hashing.Drops(draws, 64))

    mean = torch.stack([dropped(seed).detach() for seed in range(150)]).mean(0)
    close(mean, attend_chunks(query, key, value, chunks, scale=1.0), 0.5)
    given = [x.detach().requires_grad_() for x in (value, key, query)]
    assert torch.autograd.gradcheck(lambda *x: dropped(3, *x), given, fast_mode=True)


def test_pieces_in_training_are_refused() -> None:
    mixer = HashedAttention(8)
    x, span = torch.randn(1, 3, 8), Span.of(torch.ones(1, 3, dtype=torch.bool))
    state = mixer(x, span, mixer.start(1)).state
    with pytest.raises(ValueError, match="cannot continue a sequence in training"):
        mixer(x, span._replace(start=torch.tensor([3])), state)


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"buckets": [1 << 10, (1 << 10) + 2]}, "must be at most 1,048,576"),
        ({"buckets": 7}, "buckets must be even numbers"),
        ({"buckets": [4, 3]}, "buckets must be even numbers"),
        ({"buckets": []}, "buckets must be even numbers"),
        ({"buckets": [1024, 2048]}, "at most"),
        ({"chunk": 0}, "1 or more"),
        ({"evaluation_rounds": 0}, "1 or more"),
        ({"nearest": True, "across": True}, "requires nearest = false"),
        ({"bucket": 4}, "did you mean model.decoder.mixer.buckets"),
    ],
)
def test_what_cannot_be_hashed_is_a_config_error(options: dict[str, object], complaint: str) -> None:
    config = ModelConfig(preset="tiny", decoder={"mixer": {"kind": "hashed", **options}})
    with pytest.raises(ConfigError) as error:
        build(config, source_types=9, target_types=9)
    assert complaint in f"{error.value} {error.value.why} {error.value.help}"


def test_an_encoder_looks_at_chunks_both_ways() -> None:
    config = ModelConfig(preset="tiny", encoder={"mixer": {"kind": "hashed", "nearest": True}})
    with pytest.raises(ConfigError) as error:
        build(config, source_types=9, target_types=9)
    assert "requires causal attention" in str(error.value.why)
    made = build(ModelConfig(preset="tiny", mixer="hashed"), source_types=9, target_types=9)
    kinds = [part for part in made.modules() if isinstance(part, HashedAttention)]
    assert {(part.causal, part.nearest) for part in kinds} == {(True, True), (False, False)}


def test_as_many_buckets_as_are_allowed() -> None:
    assert HashedAttention(8, heads=2, buckets=(1 << 10, 1 << 10)).can().causal
