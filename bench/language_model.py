"""What a language model's bits are compared with: character n-grams, and a second count of the model's own.

    python bench/language_model.py TEXT [--run RUN] [--held-out 0.1] [--threads 1]

TEXT is plain or ``.gz``; its last part is held out. Prints nats a character of a unigram and a bigram (add-one) and
of an interpolated trigram; with RUN, the bits a byte of ``Generator.score``, and those of torch's cross-entropy over
plain logits and the bytes of the raw text.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import math
from collections import Counter
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from regard.attention.span import Span
from regard.data.tokenizers.tokenizer import BEGIN
from regard.tasks.language_model.generator import Generator
from regard.tasks.load import load

SHARE = 0.9  # of the trigram's own counts; the rest is the bigram's


def n_grams(train: str, held_out: str) -> dict[str, float]:
    """Nats a character of the held-out text by counts of the other."""
    types, one, two = len(set(train + held_out)), Counter(train), Counter(itertools.pairwise(train))
    three = Counter(zip(train, train[1:], train[2:], strict=False))

    def bigram(before: str, after: str) -> float:
        return (two[before, after] + 1) / (one[before] + types)

    def trigram(first: str, before: str, after: str) -> float:
        pairs, other = two[first, before], bigram(before, after)
        return SHARE * (three[first, before, after] / pairs if pairs else other) + (1 - SHARE) * other

    def mean(probabilities: list[float]) -> float:
        return -math.fsum(map(math.log, probabilities)) / len(probabilities)

    return {
        "unigram": mean([(one[each] + 1) / (len(train) + types) for each in held_out]),
        "bigram": mean([bigram(*each) for each in itertools.pairwise(held_out)]),
        "trigram": mean([trigram(*each) for each in zip(held_out, held_out[1:], held_out[2:], strict=False)]),
    }


@torch.no_grad()
def counted(generator: Generator, text: str) -> float:
    """Bits a byte, by torch's cross-entropy in float64."""
    tokens, context, total = [BEGIN, *generator.tokenizer.encode(text)], generator.context, 0.0
    for at in range(0, len(tokens) - 1, context):
        window = torch.tensor([tokens[at : at + context + 1]])
        inputs = window[:, :-1]
        features = generator.model(inputs, Span.without_padding(inputs)).features
        logits = generator.model.head(features)[0].double()
        total += float(cross_entropy(logits, window[0, 1:], reduction="sum"))
    return total / math.log(2) / len(text.encode())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--held-out", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    raw = arguments.text.read_bytes()
    text = (gzip.decompress(raw) if arguments.text.suffix == ".gz" else raw).decode()
    cut = round((1 - arguments.held_out) * len(text))
    for name, nats in n_grams(text[:cut], text[cut:]).items():
        print(f"{name:8} {nats:.4f} nats a character")
    if arguments.run is not None:
        generator = load(arguments.run, checkpoint="last", device="cpu")
        score = generator.score(text[cut:])
        print(f"model    {score.nll / score.tokens:.4f} nats a token, {score.bits_per_byte:.8f} bits a byte")
        print(f"counted again: {counted(generator, text[cut:]):.8f} bits a byte")


if __name__ == "__main__":
    main()
