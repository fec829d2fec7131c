"""Automatic choice of a translation config for a corpus and a time budget, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.config.settings import TRAINING_ENDS
from regard.core.wording import pluralize
from regard.data.lint.languages import is_swapped
from regard.data.pair_languages import pair_languages
from regard.data.reading import CorpusConfig, read_pairs
from regard.data.tokenizers.white_space import has_layout
from regard.runs.run_config import Proposal
from regard.tasks.automatic_training import is_short, newer_parts, optimizer_settings, training_settings, two_workers
from regard.tasks.detect_files import describe_columns, detect_corpus, held_out_parts
from regard.tasks.translation.edge_signs import EdgeSigns


class _Size(NamedTuple):
    """Settings for corpora of up to ``pairs`` pairs."""

    pairs: float
    preset: str
    width: int
    vocabulary: int
    epochs: int


# Small corpora need small models and strong dropout (on Multi30k, larger models are worse); large corpora need the
# sizes of the paper.
SIZES = (
    _Size(5_000, "tiny", 128, 8_000, 60),
    _Size(100_000, "tiny", 128, 8_000, 40),
    _Size(500_000, "small", 256, 16_000, 30),
    _Size(5_000_000, "base", 512, 32_000, 15),
    _Size(float("inf"), "big", 1024, 32_000, 8),
)
COMPUTED = 10_000_000  # pairs above which the order of an epoch is computed instead of stored as a list
HELD_OUT_SHARE, HELD_OUT_PAIRS = 0.02, 2_000  # held out without validation data: the smaller of both
MIN_PAIRS = 200  # with fewer pairs, the held-out share could be empty
SENTENCE_CHARACTERS = 30  # below this mean length, a side consists of words rather than sentences
LAYOUT_SHARE = 0.01  # if more lines are indented or have several consecutive spaces, white space is kept
SYMBOLS, USES = 200, 20  # up to 200 different words, each used 20 times on average, are symbols such as phonemes
PIECES_PER_WORD = 1.3  # approximately, with 8,000 BPE pieces
# With a short time budget, many updates of a small model are better than few updates of a large one.
LARGEST = ((30, 1), (300, 2))  # (minutes, row of SIZES): the largest size for a time budget of up to these minutes
TOKENS_PER_MINUTE = 200_000  # approximate training speed of the preset tiny on two cores
PASSES_WITHOUT_DROPOUT, PASSES_WITH_LITTLE = 5, 15  # with fewer passes over the data, dropout only slows learning
LITTLE_DROPOUT = 0.1
COPIED_SHARE = 0.25  # of the words of a target that are in its source: 0.05 in Multi30k, 0.51 in AESLC (summaries)
SUBWORDS = ("bpe", "byte-bpe")
SHORT_TARGETS = ("bpe", "character"), ("byte-bpe", "character")  # tokenizers of sources and of short summaries
CHOICE = "model: the network, or the baseline alone if the network's outputs are not better (train.choose)"
FEW_PAIRS = 5_000  # up to this size, a dictionary from letters to symbols is small: the lowest PER and loss differ


class _Side:
    """Counts of one side of a corpus."""

    def __init__(self) -> None:
        self.lines = self.characters = self.words = self.with_layout = 0
        self.joint_with: str | None = None  # the type of the other side's tokenizer, if both need one vocabulary
        self.seen: set[str] = set()

    def add(self, line: str) -> None:
        words = line.split()
        self.lines, self.characters, self.words = (
            self.lines + 1, self.characters + len(line), self.words + len(words),
        )  # fmt: skip
        self.with_layout += has_layout(line)
        if len(self.seen) <= SYMBOLS:
            self.seen.update(words)

    @property
    def has_layout(self) -> bool:
        """True if the lines have significant white space, such as indentation, which other tokenizers drop."""
        return self.with_layout > LAYOUT_SHARE * self.lines

    @property
    def kind(self) -> str:
        """Type of the tokenizer."""
        if self.joint_with is not None:
            return self.joint_with
        if self.has_layout and self.characters >= SENTENCE_CHARACTERS * self.lines:
            return "byte-bpe"
        if not self.has_layout and len(self.seen) <= SYMBOLS and self.words >= USES * len(self.seen) > 0:
            return "word"
        return "character" if self.characters < SENTENCE_CHARACTERS * self.lines else "bpe"

    @property
    def pieces(self) -> float:
        """Approximate number of pieces, with the end tokens."""
        merged = PIECES_PER_WORD * self.words
        count = {"word": self.words, "character": self.characters, "bpe": merged, "byte-bpe": merged}[self.kind]
        return count + self.lines


class _Counts(NamedTuple):
    """Counts of both sides of a corpus, and the number of target words that are in their source."""

    source: _Side
    target: _Side
    edges: EdgeSigns
    copied: int


def choose(train: CorpusConfig, valid: CorpusConfig | None, overrides: Mapping[str, Any] | None = None) -> Proposal:
    """Read the corpus once and return a config; without ``valid``, a share of ``train`` is held out.

    ``overrides`` are the keys of ``train`` that the user sets. Raises DataError if the corpus cannot be read.
    """
    overrides = {key: value for key, value in (overrides or {}).items() if value is not None}
    source, target, edges, copied = _count(train)
    newer = newer_parts(overrides)
    if newer and _copies(copied, target, overrides) and (source.kind, target.kind) in SHORT_TARGETS:
        target.joint_with = source.kind  # a pointer needs one vocabulary
    pairs = source.lines
    size = _size(pairs, overrides.get("minutes"))
    parts, reason = _parts(train, valid, pairs)
    pieces = max(source.pieces, target.pieces)
    short = is_short(overrides, tokens=pieces, epochs=size.epochs)
    optimizer = optimizer_settings(newer, size.width, short=short)
    settings = training_settings(overrides, tokens=pieces, epochs=size.epochs, optimizer=optimizer)
    settings |= two_workers(overrides)
    model: dict[str, Any] = {"preset": size.preset, "norm": "pre", **newer}
    ends = [key for key in TRAINING_ENDS if key in overrides]
    if ends:
        reason += f"; training is limited by train.{' and train.'.join(ends)}"
        model |= _dropout(pieces, settings["batch_tokens"], overrides)
    elif _is_spelling(source, target):
        model["dropout"] = LITTLE_DROPOUT
        if "valid" in parts:
            settings["best_by"] = "per"
            reason += "; the best checkpoint has the lowest PER"
    if "valid" in parts and overrides.get("baseline") is not False:
        settings["choose"] = "validation"
    words = (source.words + target.words) / max(2 * pairs, 1)
    data, tokenizer = _pieces(size, source.kind, target.kind)
    if not data["joint"]:
        model["share"] = "target"
    copying = _copying_reason(copied, target, data, overrides) if newer else []
    model |= {"copying": True} if copying else {}
    limit = "" if ends else f", {pluralize(settings['epochs'], 'epoch')}"
    order = {"order": "feistel"} if pairs > COMPUTED else {}
    corpus = f"{pluralize(pairs, 'pair')} ({pluralize(round(words), 'word')} per side)"
    reasons = [f"{corpus} → preset `{size.preset}`, {tokenizer}{limit}", reason]
    reasons += ["white space in the targets is significant → byte-bpe"] if target.kind == "byte-bpe" else []
    reasons += copying
    reasons += [CHOICE] if "choose" in settings else []
    reasons += ["large corpus → the order of an epoch is computed per batch (data.order = feistel)"] if order else []
    reasons += [edges.advice] if edges.advice and train.target is None else []
    languages, language_reasons = _languages(train, valid)
    reasons += language_reasons
    tables = {"data": {**parts, **data, **order, **languages}, "model": model, "train": settings}
    return Proposal(tables, reasons)


def _count(corpus: CorpusConfig) -> _Counts:
    source, target, edges, copied = _Side(), _Side(), EdgeSigns(), 0
    for _, left, right in read_pairs(corpus):
        source.add(left)
        target.add(right)
        edges.add(left, right)
        copied += _copied_words(left, right)
    return _Counts(source, target, edges, copied)


def _copied_words(source: str, target: str) -> int:
    """Return the number of words of a target that are in its source, ignoring case."""
    words = set(source.lower().split())
    return sum(word in words for word in target.lower().split())


def _copies(copied: int, target: _Side, overrides: Mapping[str, Any]) -> bool:
    """Return whether many words of the targets are in their sources, and the user does not set ``model.copying``."""
    return copied >= COPIED_SHARE * max(target.words, 1) and "copying" not in overrides.get("model", {})


def _copying_reason(
    copied: int, target: _Side, data: Mapping[str, Any], overrides: Mapping[str, Any]
) -> list[str]:  # fmt: skip
    """Return the reason to copy from the source; [] if few words are copied, or the user's settings decide.

    Args:
        copied: the number of words of the targets that are in their sources.
        target: the counts of the targets.
        data: the keys of the tokenizers.
        overrides: the keys of ``train`` that the user sets, and the tables ``data`` and ``model``.
    """
    requested = overrides.get("data", {})
    tokenizer = requested.get("tokenizer", {})
    own_kind = tokenizer.get("kind") if isinstance(tokenizer, Mapping) else None
    subwords = (own_kind or data.get("tokenizer", {}).get("kind")) in SUBWORDS
    if not (subwords and requested.get("joint", data["joint"]) is True and _copies(copied, target, overrides)):
        return []
    share = copied / max(target.words, 1)
    return [f"{share:.0%} of the words of the targets are in their sources → copying"]


def _languages(train: CorpusConfig, valid: CorpusConfig | None) -> tuple[dict[str, str], list[str]]:
    """Return the language keys by the names of files or columns, and the reasons to report."""
    languages = pair_languages(train)
    if languages is None:
        return {}, []
    reasons = [f"names of files or columns → languages {languages[0]} to {languages[1]}"]
    if valid is not None and (pair_languages(valid) == languages[::-1] or is_swapped(_sides(valid), languages)):
        reasons.append(
            f"warning: the validation data looks like {languages[1]} to {languages[0]}; check the order of its files"
        )
    return {"source_language": languages[0], "target_language": languages[1]}, reasons


def _sides(corpus: CorpusConfig) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a corpus."""
    return ((source, target) for _, source, target in read_pairs(corpus))


def choose_rows(
    files: Sequence[Path], corpus: CorpusConfig, valid: CorpusConfig | None, overrides: Mapping[str, Any]
) -> Proposal:
    """Return a config for files with both sides in each row, using a column of parts if there is one.

    The reasons list the columns that are read and those that are not.
    """
    detected = detect_corpus(files)
    if detected is None or not detected.head.names:
        return choose(corpus, valid, overrides)
    split_reason: list[str] = []
    if detected.split is not None:
        parts, reason = held_out_parts(detected, [], examples="pairs", hashed="")
        train: dict[str, Any] = parts["train"][0]
        corpus = corpus.model_copy(update={"part": tuple(train["part"])})
        if valid is None and detected.parts.get("valid"):
            valid = corpus.model_copy(update={"part": (detected.split, "valid")})
        split_reason = [reason if detected.parts.get("valid") else reason.rpartition("; ")[0]]
    proposal = choose(corpus, valid, overrides)
    columns = describe_columns(detected, {"source": [corpus.source_key], "target": [corpus.target_key]})
    return proposal._replace(reasons=[*proposal.reasons, *split_reason, *columns])


def _is_spelling(source: _Side, target: _Side) -> bool:
    """Return whether the corpus is a small dictionary from letters to symbols, such as phonemes."""
    return source.lines <= FEW_PAIRS and source.kind == "character" and target.kind == "word"


def _size(pairs: int, minutes: Any) -> _Size:
    """Return the size for a number of pairs, limited by the time budget in minutes if it is set."""
    number = next(number for number, size in enumerate(SIZES) if pairs <= size.pairs)
    for limit, largest in LARGEST:
        if isinstance(minutes, int | float) and minutes <= limit:
            number = min(number, largest)
    return SIZES[number]


def _dropout(pieces: float, batch: int, overrides: Mapping[str, Any]) -> dict[str, float]:
    """Return a lower dropout than the preset's if training makes only a few passes over the data."""
    if isinstance(overrides.get("batch_tokens"), int):
        batch = overrides["batch_tokens"]
    seen = [
        overrides[key] * tokens
        for key, tokens in (("minutes", TOKENS_PER_MINUTE), ("steps", batch), ("tokens", 1), ("epochs", pieces))
        if isinstance(overrides.get(key), int | float)
    ]
    passes = min(seen, default=float("inf")) / max(pieces, 1)
    if passes < PASSES_WITHOUT_DROPOUT:
        return {"dropout": 0.0}
    return {"dropout": LITTLE_DROPOUT} if passes < PASSES_WITH_LITTLE else {}


def _parts(train: CorpusConfig, valid: CorpusConfig | None, pairs: int) -> tuple[dict[str, Any], str]:
    """Return the keys ``train`` and ``valid`` of the section ``data``, and the reason."""
    reason = "validation: the given files"
    if valid is None:
        if pairs < MIN_PAIRS:
            return {
                "train": [_table(train)]
            }, f"no validation: fewer than {MIN_PAIRS} pairs (--valid adds validation data)"
        share = min(HELD_OUT_SHARE, HELD_OUT_PAIRS / pairs)
        valid = train.model_copy(update={"share": (0.0, share)})
        train = train.model_copy(update={"share": (share, 1.0)})
        reason = f"validation: about {share * pairs:,.0f} held-out pairs"
    return {"train": [_table(train)], "valid": [_table(valid)]}, reason


def _table(corpus: CorpusConfig) -> dict[str, Any]:
    return corpus.model_dump(mode="json", exclude_none=True)


def _pieces(size: _Size, source: str, target: str) -> tuple[dict[str, Any], str]:
    """Return the tokenizers, a joint one for sides with equal types, and their description."""
    if target == "byte-bpe" and source == "bpe":
        source = target  # a joint vocabulary
    kinds: Collection[str] = {source, target}
    if len(kinds) == 1:
        return {"joint": True, "tokenizer": _tokenizer(size, source)}, f"{_name(size, source)} tokenizer"
    tables = {"source_tokenizer": _tokenizer(size, source), "target_tokenizer": _tokenizer(size, target)}
    return {"joint": False, **tables}, f"{_name(size, source)} and {_name(size, target)} tokenizers"


def _tokenizer(size: _Size, kind: str) -> dict[str, Any]:
    # A configured size must be reached exactly. The default is 8,000 pieces, or fewer if a small corpus has fewer.
    sized = kind in ("bpe", "byte-bpe") and size.vocabulary != 8_000
    return {"kind": kind, "size": size.vocabulary} if sized else {"kind": kind}


def _name(size: _Size, kind: str) -> str:
    if kind in ("bpe", "byte-bpe"):
        return (
            f"{kind} (up to 8,000 pieces)"
            if size.vocabulary == 8_000
            else f"{kind} ({pluralize(size.vocabulary, 'piece')})"
        )
    return kind
