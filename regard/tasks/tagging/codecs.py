"""The vocabulary, the tags and the most frequent tag of each word: learned from training files, kept in the run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from regard.core import atomic_files
from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.task import CodecsAndSpec, Report, RunFiles
from regard.core.untrusted_files import SMALL
from regard.core.wording import counted
from regard.data.labels import Labels
from regard.data.tokenizers.catalogue import Tokenizer, load_tokenizer
from regard.fields.text_tokenizer import make_text_tokenizer
from regard.tasks.tagging.spans import SCHEMES, TagScheme, find_scheme, scheme_of_names, spans, transitions, write_iob
from regard.tasks.tagging.tagged_text import read_tagged_part

__all__ = ["TagCodec", "make_codec", "open_codec", "open_run"]

TAGS, WORDS, SCHEME = "tags.json", "words.json", "scheme.json"


class TagCodec(NamedTuple):
    """The tokenizer, the tags, and the number of the tag that each training word has most often: a baseline.

    ``scheme``: in which the tags of files and outputs spell spans; None where they spell none. Of IOB1 the classes
    are the tags of IOB2: a network learns sooner where a span begins if each begins alike.
    """

    tokenizer: Tokenizer
    tags: Labels
    words: dict[str, int]
    scheme: TagScheme | None = None

    @property
    def spec(self) -> dict[str, int]:
        """The sizes of the network's tables."""
        return {"types": len(self.tokenizer), "classes": len(self.tags.names)}

    @property
    def class_scheme(self) -> TagScheme | None:
        """The scheme of the names of the classes. An early run has those of IOB1 itself, some without their B-X."""
        return scheme_of_names(self.tags.names) if self.scheme == "iob1" else self.scheme

    def class_tags(self, tags: Sequence[str]) -> Sequence[str]:
        """Return the names of the classes of these tags of a file."""
        if (self.scheme, self.class_scheme) == ("iob1", "iob2"):
            return write_iob(spans(tags), len(tags), "iob2")
        return tags

    def output_tags(self, tags: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tags, in the scheme of files, of the classes with these names."""
        if (self.scheme, self.class_scheme) == ("iob1", "iob2"):
            return write_iob(spans(tags), len(tags), "iob1")
        return tags

    @property
    def usual(self) -> int:
        """The tag that the training data have most often."""
        return max(range(len(self.tags.counts)), key=self.tags.counts.__getitem__)

    def most_frequent(self, tokens: Sequence[str]) -> list[int]:
        """The tag that each token had most often in training; for an unknown one the most frequent tag of all."""
        return [self.words.get(token, self.usual) for token in tokens]


def make_codec(run: RunFiles, say: Report) -> TagCodec:
    """Learn tags and vocabulary, and save both in the run. DataError where there are not two tags."""
    data = run.config.data
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    counts: Counter[str] = Counter()
    sentences = read_tagged_part(data, "train")
    scheme = find_scheme(transitions(each.tags for each in sentences))
    for sentence in sentences:
        names = write_iob(spans(sentence.tags), len(sentence.tags), "iob2") if scheme == "iob1" else sentence.tags
        counts.update(names)
        for token, tag in zip(sentence.tokens, names, strict=True):
            seen[token][tag] += 1
    tags = Labels.of(counts, where=data.train[0].name, help="--set data.tag=4 reads the tags from another column")
    tokenizer = make_text_tokenizer(run, (token for token, of in seen.items() for _ in range(of.total())), say)
    number = {tag: at for at, tag in enumerate(tags.names)}
    words = {word: number[min(of, key=lambda tag: (-of[tag], tag))] for word, of in seen.items()}
    say(f"words: {counted(len(words), 'different one')}")
    say(f"tags: {tags.told()}")
    if scheme is not None:
        say(f"tags spell spans in the scheme {scheme.upper()}")
    tags.save(run.tokenizers / TAGS)
    save_codec_file(run.tokenizers / WORDS, words)
    save_codec_file(run.tokenizers / SCHEME, scheme)
    atomic_files.fault_point("vocabulary")
    return TagCodec(tokenizer, tags, words, scheme)


def open_codec(run: RunFiles) -> TagCodec:
    """Return the saved tokenizer, tags and words; raises ModelError if they are missing or damaged."""
    tokenizer, tags = load_tokenizer(run.tokenizers, "text"), Labels.open(run.tokenizers / TAGS)
    classes = range(len(tags.names))

    def parse_words(value: Any) -> dict[str, int]:
        if not isinstance(value, dict) or not all(type(tag) is int and tag in classes for tag in value.values()):
            raise ValueError("it is a table of words and the numbers of their tags")
        return value

    words = open_codec_file(run.tokenizers / WORDS, parse_words)
    path = run.tokenizers / SCHEME  # runs of early versions saved none
    scheme = open_codec_file(path, _parse_scheme, limit=SMALL) if path.exists() else scheme_of_names(tags.names)
    return TagCodec(tokenizer, tags, words, scheme)


def _parse_scheme(value: Any) -> TagScheme | None:
    if value is not None and value not in SCHEMES:
        raise ValueError(f"expected one of {', '.join(SCHEMES)}, or null")
    return cast("TagScheme | None", value)


def open_run(run: RunFiles) -> CodecsAndSpec:
    """See ``core.task.Task.open``."""
    codec = open_codec(run)
    return CodecsAndSpec(codec, codec.spec)
