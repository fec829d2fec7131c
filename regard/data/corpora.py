"""Corpora: one front door to reading parallel text, preparing it, and opening what was prepared."""

from regard.data.corpus import Corpora, Corpus, Report
from regard.data.preparation import fingerprint, open_or_prepare, prepare
from regard.data.reading import CorpusConfig, FileCorpus, PairReader, Sentences, given_corpus, read_lines, read_pairs

__all__ = [
    "Corpora",
    "Corpus",
    "CorpusConfig",
    "FileCorpus",
    "PairReader",
    "Report",
    "Sentences",
    "fingerprint",
    "given_corpus",
    "open_or_prepare",
    "prepare",
    "read_lines",
    "read_pairs",
]
