"""Codecs of a tag sequence other than its labels: the scheme of spans, and the most frequent tag of each word."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

from regard.answers.spans import SCHEMES, TagScheme, find_scheme, scheme_of_names, spans, transitions, write_iob
from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.task import RunFiles
from regard.core.untrusted_files import SMALL
from regard.data.labels import Labels
from regard.errors import ConfigError

WORDS_FILE, SCHEME_FILE = "words.json", "scheme.json"


class SpanScheme(NamedTuple):
    """The scheme of the span tags in files and predictions; None if the tags are not spans.

    For IOB1, the classes are the tags of IOB2: uniform beginnings of spans are easier to learn. ``converts`` is False
    in early runs, whose classes are the tags of IOB1 itself, some without their B-X.
    """

    scheme: TagScheme | None = None
    converts: bool = False

    @classmethod
    def learn(cls, sentences: Iterable[Sequence[str]]) -> Self:
        scheme = find_scheme(transitions(sentences))
        return cls(scheme, scheme == "iob1")

    @classmethod
    def open(cls, run: RunFiles, names: Sequence[str]) -> Self:
        """Open the saved scheme, or infer it from the class names in early runs. Raises ModelError."""
        path, named = run.tokenizers / SCHEME_FILE, scheme_of_names(names)
        scheme = open_codec_file(path, _parse_scheme, limit=SMALL) if path.exists() else named
        return cls(scheme, (scheme, named) == ("iob1", "iob2"))

    def save(self, run: RunFiles) -> None:
        save_codec_file(run.tokenizers / SCHEME_FILE, self.scheme)

    @property
    def class_scheme(self) -> TagScheme | None:
        """The scheme of the class names."""
        return "iob2" if self.converts else self.scheme

    def class_tags(self, tags: Sequence[str]) -> Sequence[str]:
        """Return the class names for the tags of a file."""
        return write_iob(spans(tags), len(tags), "iob2") if self.converts else tags

    def output_tags(self, tags: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tags, in the scheme of files, for these class names."""
        return write_iob(spans(tags), len(tags), "iob1") if self.converts else tags


def no_spans(names: Sequence[str]) -> ConfigError:
    """Return the error for training that requires span tags, but has tags with these names."""
    schemes = ", ".join(map(str.upper, SCHEMES))
    why = f"the tags are not span tags ({schemes}) such as B-X, I-X, O: {', '.join(names[:5])} …"
    return ConfigError("entity_f1 cannot be measured", where="train.best_by", why=why, help="use accuracy or macro_f1")


class MajorityTags(NamedTuple):
    """The most frequent class of each word in training, and the most frequent class overall: a baseline."""

    words: Mapping[str, int] = {}
    majority: int = 0

    @classmethod
    def learn(cls, run: RunFiles, tokens: Iterable[str], names: Iterable[str], labels: Labels) -> Self:
        """Learn from tokens and the names of their classes, and save. Ties go to the first name."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for token, name in zip(tokens, names, strict=True):
            counts[token][name] += 1
        numbers = labels.numbers
        words = {word: numbers[min(tags, key=lambda tag: (-tags[tag], tag))] for word, tags in counts.items()}
        save_codec_file(run.tokenizers / WORDS_FILE, words)
        return cls(words, _majority(labels))

    @classmethod
    def open(cls, run: RunFiles, labels: Labels) -> Self:
        """Open the saved words. Raises ModelError if they are damaged."""
        classes = range(len(labels.names))

        def parse(value: Any) -> dict[str, int]:
            if not isinstance(value, dict) or not all(type(tag) is int and tag in classes for tag in value.values()):
                raise ValueError("it must be a table of words and the numbers of their tags")
            return value

        return cls(open_codec_file(run.tokenizers / WORDS_FILE, parse), _majority(labels))

    def of(self, tokens: Iterable[str]) -> list[int]:
        """Return the most frequent class of each token; for unknown tokens, the overall one."""
        return [self.words.get(token, self.majority) for token in tokens]


def _majority(labels: Labels) -> int:
    return labels.counts.index(max(labels.counts))


def _parse_scheme(value: Any) -> TagScheme | None:
    if value is not None and value not in SCHEMES:
        raise ValueError(f"expected one of {', '.join(SCHEMES)}, or null")
    return cast("TagScheme | None", value)
