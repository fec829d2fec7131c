"""A config for a corpus nobody wrote a recipe for: sizes that suit it and the time given, each with its reason."""

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
from regard.tasks.found_files import describe_columns, found_corpus, held_out_parts
from regard.tasks.translation.edge_signs import EdgeSigns


class _Size(NamedTuple):
    """Up to so many pairs: this preset, vocabulary, learning rate, warm-up and epochs."""

    pairs: float
    preset: str
    vocabulary: int
    learning_rate: float
    warmup: int
    epochs: int


# Small corpora want small models and strong dropout (Multi30k: bigger is worse); large ones the paper's.
SIZES = (
    _Size(5_000, "tiny", 8_000, 3e-3, 400, 100),
    _Size(100_000, "tiny", 8_000, 3e-3, 1_000, 60),
    _Size(500_000, "small", 16_000, 1.5e-3, 2_000, 40),
    _Size(5_000_000, "base", 32_000, 7e-4, 4_000, 20),
    _Size(float("inf"), "big", 32_000, 5e-4, 4_000, 10),
)
COMPUTED = 10_000_000  # pairs, above which the order of an epoch is computed rather than listed
HELD_OUT_SHARE, HELD_OUT_PAIRS = 0.02, 2_000  # for validation where no data is given: whichever is fewer
FEWEST_PAIRS = 200  # with fewer than these, a held out share could be nothing at all
CHARACTERS_A_SIDE = 30  # below this mean length a side is words rather than sentences
LAYOUT_SHARE = 0.01  # of the lines; with more that are indented or have runs of spaces, white space is kept
SYMBOLS, USES = 200, 20  # so few different words, each used so often on average, are symbols such as phonemes
BATCH, FEWEST_TOKENS = 4_096, 512  # tokens
UPDATES_AN_EPOCH = 50  # at least, where batches of FEWEST_TOKENS allow
PIECES_A_WORD = 1.3  # of 8,000 BPE pieces, about

# A short budget wants many updates of a small model rather than good ones of a large. Up to so many minutes.
SHORT_MINUTES, SHORT_BATCH = 15, 1_024
LARGEST = ((30, 1), (300, 2))  # up to so many minutes, the sizes up to this row of SIZES
TOKENS_A_MINUTE = 200_000  # that the preset tiny learns from on two cores, about
PASSES_WITHOUT_DROPOUT, PASSES_WITH_LITTLE = 5, 15  # over data seen less often than this, dropout only slows learning
LITTLE_DROPOUT = 0.1

# From the letters of a few words to symbols, an early end and much dropout cost whole words (docs/results.md).
FEW_PAIRS, PASSES, SHORT_WARMUP = 5_000, 60, 200


class _Side:
    """One side of a corpus, counted line by line."""

    def __init__(self) -> None:
        self.lines = self.characters = self.words = self.with_layout = 0
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
        """Return whether its lines differ by white space, such as indentation, which other merges drop."""
        return self.with_layout > LAYOUT_SHARE * self.lines

    @property
    def kind(self) -> str:
        """The kind of its tokenizer."""
        if self.has_layout and self.characters >= CHARACTERS_A_SIDE * self.lines:
            return "byte-bpe"
        if not self.has_layout and len(self.seen) <= SYMBOLS and self.words >= USES * len(self.seen) > 0:
            return "word"
        return "character" if self.characters < CHARACTERS_A_SIDE * self.lines else "bpe"

    @property
    def pieces(self) -> float:
        """About how many, with the end symbols."""
        merged = PIECES_A_WORD * self.words
        count = {"word": self.words, "character": self.characters, "bpe": merged, "byte-bpe": merged}[self.kind]
        return count + self.lines


def choose(train: CorpusConfig, valid: CorpusConfig | None, given: Mapping[str, Any] | None = None) -> Proposal:
    """Read the corpus once and choose. ``given``: keys of train that the user sets. Raises the reader's DataErrors."""
    given = {key: value for key, value in (given or {}).items() if value is not None}
    source, target, edges = _Side(), _Side(), EdgeSigns()
    for _, left, right in read_pairs(train):
        source.add(left)
        target.add(right)
        edges.add(left, right)
    pairs = source.lines
    size = _size(pairs, given.get("minutes"))
    parts, reason = _parts(train, valid, pairs)
    batch = _batch_tokens(max(source.pieces, target.pieces), given)
    settings: dict[str, Any] = {"batch_tokens": batch}
    # Of another optimizer, or as a factor, the rate is another number: its usual one.
    if given.get("optimizer", "adam") in ("adam", "adamw") and given.get("schedule") != "noam":
        settings["learning_rate"] = size.learning_rate
    model: dict[str, Any] = {"preset": size.preset, "norm": "pre"}
    ends = [key for key in TRAINING_ENDS if key in given]
    spelled = not ends and "valid" in parts and _is_spelling(source, target)
    if spelled:
        reason = reason.replace(EARLY, f"{PASSES} passes at a rate that falls to zero; the lowest PER is kept")
        model["dropout"] = LITTLE_DROPOUT
        settings |= _few_words(max(source.pieces, target.pieces), given.get("batch_tokens") or batch)
    elif ends:
        told = f"training ends by train.{' and train.'.join(ends)}"
        reason = reason.replace(EARLY, told)
        model |= _dropout(max(source.pieces, target.pieces), batch, given)
        if not set(ends) <= {"epochs", "early_stopping"}:
            settings |= {"schedule": "linear", "clip_norm": 1.0}
    else:
        every = 250 if pairs < 100_000 else 1_000
        settings |= {"warmup": size.warmup, "epochs": size.epochs, "validate_every": every, "save_every": every}
        if "valid" in parts:
            settings["early_stopping"] = 10
    words = (source.words + target.words) / max(2 * pairs, 1)
    data, pieces = _pieces(size, source.kind, target.kind)
    if not data["joint"]:
        model["share"] = "target"
    most = "" if ends or spelled else f", at most {pluralize(size.epochs, 'epoch')}"
    order = {"order": "feistel"} if pairs > COMPUTED else {}
    reasons = [
        f"{pluralize(pairs, 'pair')}, {pluralize(round(words), 'word')} a side: preset {size.preset}, {pieces}{most}",
        reason,
    ]
    reasons += ["targets differ by white space: byte-bpe keeps it"] if target.kind == "byte-bpe" else []
    reasons += ["the order of an epoch is computed batch by batch: data.order = feistel"] if order else []
    reasons += [edges.advice] if edges.advice and train.target is None else []
    languages, told_languages = _languages(train, valid)
    reasons += told_languages
    return Proposal({"data": {**parts, **data, **order, **languages}, "model": model, "train": settings}, reasons)


def _languages(train: CorpusConfig, valid: CorpusConfig | None) -> tuple[dict[str, str], list[str]]:
    """Return the keys of the languages that names of files or columns give, and what to report of them."""
    languages = pair_languages(train)
    if languages is None:
        return {}, []
    reasons = [f"languages {languages[0]} to {languages[1]}, by the names of files or columns"]
    if valid is not None and (pair_languages(valid) == languages[::-1] or is_swapped(_sides(valid), languages)):
        reasons.append(
            f"warning: the validation data look like {languages[1]} to {languages[0]}: are its files swapped?"
        )
    return {"source_language": languages[0], "target_language": languages[1]}, reasons


def _sides(corpus: CorpusConfig) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a corpus."""
    return ((source, target) for _, source, target in read_pairs(corpus))


def choose_rows(
    files: Sequence[Path], corpus: CorpusConfig, valid: CorpusConfig | None, given: Mapping[str, Any]
) -> Proposal:
    """Choose for files with both sides in a row: a column of parts is used, and columns that are not read are named."""
    found = found_corpus(files)
    if found is None or not found.head.names:
        return choose(corpus, valid, given)
    marked: list[str] = []
    if found.split is not None:
        parts, reason = held_out_parts(found, [], examples="pairs", hashed="")
        train: dict[str, Any] = parts["train"][0]
        corpus = corpus.model_copy(update={"part": tuple(train["part"])})
        if valid is None and found.parts.get("valid"):
            valid = corpus.model_copy(update={"part": (found.split, "valid")})
        marked = [reason if found.parts.get("valid") else reason.rpartition("; ")[0]]
    proposal = choose(corpus, valid, given)
    columns = describe_columns(found, {"source": [corpus.source_key], "target": [corpus.target_key]})
    return proposal._replace(reasons=[*proposal.reasons, *marked, *columns])


def _is_spelling(source: _Side, target: _Side) -> bool:
    """Return whether letters of a few words become symbols, such as phonemes."""
    return source.lines <= FEW_PAIRS and source.kind == "character" and target.kind == "word"


def _few_words(pieces: float, batch: int) -> dict[str, Any]:
    """Settings for a small dictionary: a planned end, and a choice by what is right of the sounds."""
    every = {"validate_every": SHORT_WARMUP, "save_every": SHORT_WARMUP}
    steps = max(round(PASSES * pieces / batch), 1)
    return {"steps": steps, "schedule": "linear", "warmup": SHORT_WARMUP, "best_by": "per", **every}


def _size(pairs: int, minutes: Any) -> _Size:
    """The size that suits so many pairs, and that learns something in the minutes, where they are given."""
    number = next(number for number, size in enumerate(SIZES) if pairs <= size.pairs)
    for most, largest in LARGEST:
        if isinstance(minutes, int | float) and minutes <= most:
            number = min(number, largest)
    return SIZES[number]


def _batch_tokens(pieces: float, given: Mapping[str, Any]) -> int:
    """Small enough for an epoch of many updates, and for many updates in a short time."""
    minutes = given.get("minutes")
    short = isinstance(minutes, int | float) and minutes <= SHORT_MINUTES
    wanted = int(pieces / UPDATES_AN_EPOCH) // 64 * 64
    return min(SHORT_BATCH if short else BATCH, max(wanted, FEWEST_TOKENS))


def _dropout(pieces: float, batch: int, given: Mapping[str, Any]) -> dict[str, float]:
    """Less than the preset's where the data are passed over a few times only."""
    if isinstance(given.get("batch_tokens"), int):
        batch = given["batch_tokens"]
    seen = [
        given[key] * each
        for key, each in (("minutes", TOKENS_A_MINUTE), ("steps", batch), ("tokens", 1), ("epochs", pieces))
        if isinstance(given.get(key), int | float)
    ]
    passes = min(seen, default=float("inf")) / max(pieces, 1)
    if passes < PASSES_WITHOUT_DROPOUT:
        return {"dropout": 0.0}
    return {"dropout": LITTLE_DROPOUT} if passes < PASSES_WITH_LITTLE else {}


EARLY = "training ends early after 10 validations without a better one"


def _parts(train: CorpusConfig, valid: CorpusConfig | None, pairs: int) -> tuple[dict[str, Any], str]:
    """The tables ``train`` and ``valid``, and why they are so."""
    reason = EARLY
    if valid is None:
        if pairs < FEWEST_PAIRS:
            return {"train": [_table(train)]}, (
                f"fewer than {FEWEST_PAIRS} pairs: none are held out, so there is no validation and no early stopping; "
                "--valid names data for it"
            )
        share = min(HELD_OUT_SHARE, HELD_OUT_PAIRS / pairs)
        valid = train.model_copy(update={"share": (0.0, share)})
        train = train.model_copy(update={"share": (share, 1.0)})
        reason = f"no validation data given: about {share * pairs:,.0f} pairs are held out; {reason}"
    return {"train": [_table(train)], "valid": [_table(valid)]}, reason


def _table(corpus: CorpusConfig) -> dict[str, Any]:
    return corpus.model_dump(mode="json", exclude_none=True)


def _pieces(size: _Size, source: str, target: str) -> tuple[dict[str, Any], str]:
    """The tokenizers, one for both sides where they are of one kind; and how to call them."""
    if target == "byte-bpe" and source == "bpe":
        source = target  # one vocabulary for both
    kinds: Collection[str] = {source, target}
    if len(kinds) == 1:
        return {"joint": True, "tokenizer": _tokenizer(size, source)}, f"{_name(size, source)} for both sides"
    tables = {"source_tokenizer": _tokenizer(size, source), "target_tokenizer": _tokenizer(size, target)}
    return {"joint": False, **tables}, f"{_name(size, source)} to {_name(size, target)}"


def _tokenizer(size: _Size, kind: str) -> dict[str, Any]:
    # A size is exact; without one the vocabulary has 8,000 pieces, or as many as a small corpus allows.
    sized = kind in ("bpe", "byte-bpe") and size.vocabulary != 8_000
    return {"kind": kind, "size": size.vocabulary} if sized else {"kind": kind}


def _name(size: _Size, kind: str) -> str:
    if kind in ("bpe", "byte-bpe"):
        return f"up to 8,000 {kind} pieces" if size.vocabulary == 8_000 else f"{size.vocabulary:,} {kind} pieces"
    return {"word": "words", "character": "characters"}[kind]
