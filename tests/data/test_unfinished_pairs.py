"""Training pairs whose sources have not ended: what is cut, and what each target position may see."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.attention.span import Span
from regard.core.task import ExampleIndices
from regard.data.corpus import Corpora, Corpus
from regard.data.masking import word_starts
from regard.data.pairs import PairBatch, PairExamples
from regard.data.preparation import prepare
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import END, PAD, TokenizerConfig
from regard.data.unfinished_pairs import UnfinishedPairs
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.task import TASK
from tests.streams import TEXT, TRANSFORMER

PIECES = train_tokenizer(TEXT, TokenizerConfig(kind="bpe", size=16))
STARTS = word_starts(PIECES), word_starts(PIECES)
PAIRS = [("ab cab b bca", "cab b ab abc c bca"), ("c", "ab c"), ("abba cab c c ba", "c ba"), ("b c b", "abba")]


def numbers(text: str) -> Any:
    return np.array(PIECES.encode(text), np.int64)


def changes(share: float, waits: tuple[int, int] | None = None, seed: int = 5) -> UnfinishedPairs:
    return UnfinishedPairs(share, waits, seed, STARTS)


def test_cut_pairs_are_whole_words_in_the_ratio_of_their_lengths() -> None:
    seen = set()
    for (source, target), visit in product(PAIRS, range(1, 60)):
        pair = changes(1.0).draw(numbers(source), numbers(target), 3, visit)
        read, written = (PIECES.decode(side).split() for side in pair[:2])
        assert source.split()[: len(read)] == read and target.split()[: len(written)] == written
        if not pair.ended:
            assert len(written) == len(read) * len(target.split()) // len(source.split()) and written
            assert 0 < len(read) < len(source.split())
            seen.add((source, len(read)))
        else:
            assert (read, written) == (source.split(), target.split())
    assert {length for source, length in seen if source == PAIRS[0][0]} == {1, 2, 3}  # every beginning is drawn
    assert {length for source, length in seen if source == PAIRS[2][0]} == {3, 4}  # a beginning needs a target word
    assert not {source for source, _ in seen} & {"c", "b c b"}


def test_the_share_of_cut_pairs_is_that_of_the_config() -> None:
    drawn = [changes(0.3).draw(numbers(PAIRS[0][0]), numbers(PAIRS[0][1]), index, 1).ended for index in range(2000)]
    assert abs(drawn.count(False) / 2000 - 0.3) < 4 * (0.21 / 2000) ** 0.5


def test_draws_depend_on_seed_index_and_visit_and_evaluation_has_none() -> None:
    source, target = map(numbers, PAIRS[0])

    def lengths(seed: int, index: int) -> list[int]:
        return [len(changes(1.0, seed=seed).draw(source, target, index, visit).source) for visit in range(1, 30)]

    assert lengths(5, 3) == lengths(5, 3)
    assert lengths(5, 3) != lengths(6, 3) and lengths(5, 3) != lengths(5, 4)
    pair = changes(1.0, (1, 1)).draw(source, target, 3, 0)
    assert pair.ended and pair.visible is None and len(pair.source) == len(source)


def test_visible_positions_on_paper() -> None:
    source, target = numbers("ab cab b"), numbers("c bca")  # three words, and two
    ends = [len(numbers(text)) for text in ("ab", "ab cab")]
    whole, first = len(source) + 1, len(numbers("c"))
    for k, words in ((1, [ends[0], ends[1], whole]), (2, [ends[1], whole, whole]), (3, [whole] * 3)):
        visible = changes(0.0, (k, k)).draw(source, target, 0, 1).visible
        assert visible is not None
        assert visible.tolist() == [words[0]] * first + [words[1]] * (len(target) - first) + [words[2]]  # END last


def test_every_k_is_drawn() -> None:
    source, target = numbers(TEXT[0]), numbers(TEXT[1])
    first = {int(changes(0.0, (1, 4)).draw(source, target, n, 1).visible[0]) for n in range(200)}  # type: ignore[index]
    words = TEXT[0].split()
    assert first == {len(numbers(" ".join(words[:k]))) for k in range(1, 5)}


def batch(tmp_path: Any, unfinished: UnfinishedPairs | None, visit: int) -> PairBatch:
    if not (tmp_path / "p").exists():
        prepare([(n, *pair) for n, pair in enumerate(PAIRS, 1)], PIECES, PIECES, tmp_path / "p", max_length=50)
    examples = PairExamples(Corpora([Corpus.open(tmp_path / "p")]), [1.0], tokens=500, seed=1, unfinished=unfinished)
    index = np.arange(len(PAIRS))
    return examples.collate(ExampleIndices(index, np.full_like(index, visit)))


def test_a_batch_of_cut_pairs_lacks_the_end_of_the_source_only(tmp_path: Any) -> None:
    plain, cut = batch(tmp_path, None, 4), batch(tmp_path, changes(1.0, (2, 2)), 4)
    assert any((row == END).sum() == 0 for row in cut.source) and all((row == END).sum() == 1 for row in plain.source)
    for row in range(len(PAIRS)):
        length = int(cut.target_valid[row].sum())
        assert cut.target_output[row, length - 1] == END and (cut.target_output[row, length:] == PAD).all()
        assert (cut.target_input[row, 1:length] == cut.target_output[row, : length - 1]).all()
        assert (cut.source[row][~cut.source_valid[row]] == PAD).all() and (
            cut.source[row][cut.source_valid[row]] > 0
        ).all()
        assert int(cut.visible_until[row].max()) <= int(cut.source_valid[row].sum())  # type: ignore[union-attr]
    assert cut.weight == cut.target_valid.sum()
    assert batch(tmp_path, changes(1.0), 4).visible_until == ()
    for one, other in zip(batch(tmp_path, changes(1.0, (1, 9)), 0), plain, strict=True):
        assert one == other if not isinstance(one, torch.Tensor) else torch.equal(one, other)


def model(**settings: Any) -> EncoderDecoder:
    torch.manual_seed(1)
    config = ModelConfig.model_validate(TRANSFORMER | settings)
    return build(config, source_types=len(PIECES), target_types=len(PIECES)).double().eval()


def test_what_wait_k_hides_has_no_influence(tmp_path: Any) -> None:
    """Other source words after the visible ones change nothing at a target position: no state of the source leaks."""
    net = model(encoder={"causal": True})
    rows = batch(tmp_path, changes(0.0, (1, 2)), 1)
    spans = Span.of(rows.source_valid), Span.of(rows.target_valid)._replace(visible_until=rows.visible_until)

    def predicted(source: torch.Tensor) -> torch.Tensor:
        return net.log_probabilities(source, spans[0], rows.target_input, spans[1])

    expected = predicted(rows.source)
    assert isinstance(rows.visible_until, torch.Tensor)
    moved = 0
    for position in range(1, rows.source.shape[1]):
        other = rows.source.clone()
        other[:, position:] = (other[:, position:] + 3) % len(PIECES)
        hidden = rows.visible_until <= position
        changed = (predicted(other) - expected).abs().amax(-1) > 1e-9
        assert not (changed & hidden & rows.target_valid).any()
        moved += int((changed & ~hidden).sum())
    assert moved > 0


def test_states_of_a_causal_encoder_stay_when_words_are_added() -> None:
    mixers = "linear", "hashed", "global-local", "average", "ssru"
    positions = {"position": "rotary"}, {"norm": "pre", "position": "alibi"}
    for settings in ({}, *positions, *({"mixer": mixer} for mixer in mixers)):
        net = model(encoder={"causal": True, **settings})
        tokens = torch.tensor([PIECES.encode(TEXT[0])])
        whole = net.encoder(tokens, Span.without_padding(tokens)).states
        for end in range(1, tokens.shape[1]):
            part = net.encoder(tokens[:, :end], Span.without_padding(tokens[:, :end])).states
            torch.testing.assert_close(part, whole[:, :end], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"train": {"wait": "3"}}, "model.encoder.causal"),
        ({"train": {"wait": "5..2"}, "model": {"encoder": {"causal": True}}}, "descends"),
        ({"train": {"wait": "0"}, "model": {"encoder": {"causal": True}}}, "write a number of words"),
        ({"train": {"wait": "1..9"}, "model": {"encoder": {"causal": True}, "copying": True}}, "copying"),
        ({"train": {"prefixes": 1.5}}, "train.prefixes"),
    ],
)
def test_configs_that_contradict_themselves(tmp_path: Any, keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_config({"data": {"train": [{"source": "a.en", "target": "a.de"}]}} | keys)


def test_waits_of_a_config() -> None:
    data = {"train": [{"source": "a.en", "target": "a.de"}]}
    for wait, waits in (("3", (3, 3)), ("1..9", (1, 9))):
        config = load_config({"data": data, "train": {"wait": wait}, "model": {"encoder": {"causal": True}}})
        assert isinstance(config, TranslationConfig) and config.train.waits == waits and config.train.changes_pairs
    plain = load_config({"data": data})
    assert isinstance(plain, TranslationConfig) and not plain.train.changes_pairs and plain.train.waits is None


@pytest.mark.parametrize(
    ("train", "model"), [({"prefixes": 1.0}, {}), ({"wait": "1..2"}, {"encoder": {"causal": True}}), ({}, {})]
)
def test_a_run_is_trained_on_what_its_config_says(
    tmp_path: Any, train: dict[str, Any], model: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task changes training pairs only, passes the visible positions to the loss, and the predictor knows it."""
    (tmp_path / "a.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    corpus = [{"source": str(tmp_path / "a.tsv")}]
    tables = {
        "data": {"train": corpus, "valid": corpus, "tokenizer": {"kind": "word"}},
        "model": {"layers": 1, "width": 16, "heads": 2, "feed_forward": 16, **model},
        "train": {"steps": 2, "shards": 1, "baseline": False, **train},
    }
    limited: list[bool] = []
    loss = EncoderDecoder.loss

    def watched(self: Any, source: Any, source_span: Any, target: Any, span: Span, *rest: Any, **options: Any) -> Any:
        limited.append(isinstance(span.visible_until, torch.Tensor))
        return loss(self, source, source_span, target, span, *rest, **options)

    monkeypatch.setattr(EncoderDecoder, "loss", watched)
    run = regard.train(tables, tmp_path / "run")
    assert any(limited) == ("wait" in train) and not all(limited)  # the validation sees whole sources
    assert regard.load(run).reads_unfinished == bool(train)
    index = np.arange(len(PAIRS))
    data = TASK.prepare(RunFolder.open(run), lambda line: None)
    for part, cuts in ((data.train, "prefixes" in train), (data.valid, False)):
        drawn = [part.collate(ExampleIndices(index, np.full_like(index, visit))).source for visit in (1, 2, 3)]
        assert any((row == END).sum() == 0 for rows in drawn for row in rows) == cuts
