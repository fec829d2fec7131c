"""White space that a tokenizer drops: ``decode(encode(line))`` compared with the line, over a sample."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice

from regard.data.tokenizers.tokenizer import Tokenizer

SAMPLE = 10_000  # lines
WARNED = 0.01  # share of lines at which a loss becomes a warning
NORMALIZING = {"bpe", "unigram", "word", "pretokenized"}  # kinds that may drop white space


def has_layout(line: str) -> bool:
    """Return whether a line has tabs or spaces other than single ones between words; trailing space is ignored."""
    text = line.rstrip(" \t")
    return text.startswith(" ") or "  " in text or "\t" in text


def report_lost_space(tokenizer: Tokenizer, lines: Iterable[str], noun: str, key: str) -> str | None:
    """Return a message about the lines whose white space is lost; None if no line is affected.

    Args:
        tokenizer: the tokenizer that the run uses for these lines.
        lines: the lines; a fixed number is read. Trailing white space is ignored.
        noun: plural name of the lines, such as "targets".
        key: key of the tokenizer's table in the config, for the hint.
    """
    config = tokenizer.config
    if config.kind not in NORMALIZING:
        return None
    sample = list(islice(lines, SAMPLE))
    expected = [line.lower().rstrip() if config.lowercase else line.rstrip() for line in sample]
    decoded = [tokenizer.decode(ids) for ids in tokenizer.encode_lines(sample)]
    lost = [pair for pair in zip(expected, decoded, strict=True) if _drops_space(*pair)]
    if not lost:
        return None
    line, text = (json.dumps(side, ensure_ascii=False) for side in min(lost, key=lambda pair: len(pair[0])))
    share = len(lost) / len(sample)
    counts = f"{share:.1%} of the {noun} ({len(lost):,} of {len(sample):,}) lose white space"
    warning = "warning: " if share >= WARNED else ""
    return f"{warning}{counts}: decode(encode({line})) is {text}; --set {key}.kind=byte-bpe keeps it"


def _drops_space(line: str, decoded: str) -> bool:
    """Return whether only white space differs; unknown pieces are reported elsewhere."""
    return line != decoded.rstrip() and "".join(line.split()) == "".join(decoded.split())
