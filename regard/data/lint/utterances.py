"""Lint of recordings with transcripts: unreadable, silent or clipped sounds, unusual speech rates, shared speakers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from regard.core.wording import pluralize
from regard.data.lint.check import FindingList, LintReport
from regard.data.shared_files import hash_position
from regard.data.utterance import Utterance
from regard.errors import DataError

SILENT, CLIPPED, CLIPPED_SHARE = 1e-3, 0.999, 1e-3  # largest sample of silence; a clipped sample, and their share
UNUSUAL = 3.0  # times the median, or its inverse, of characters per second
SHORTEST = 0.3  # seconds, below which the rate of characters is not judged


class _Facts(NamedTuple):
    """A recording that could be read: its seconds, its characters per second, and its samples per second."""

    utterance: Utterance
    seconds: float
    characters: int
    rate: int


def lint_utterances(
    train: Iterable[Utterance], held_out: Mapping[str, Callable[[], Iterable[Utterance]]], *, frame_rate: float,
    max_findings: int = 20, progress: Callable[[int], None] | None = None,
) -> LintReport:  # fmt: skip
    """Check recordings, each of which is read once.

    Args:
        train: the training recordings.
        held_out: readers of held-out recordings, by the names of their files.
        frame_rate: frames per second of recordings in arrays.
        max_findings: maximum number of reported findings of each kind; all are counted.
        progress: called with the number of recordings read.
    """
    findings, facts, number = FindingList(max_findings), list[_Facts](), 0
    for number, utterance in enumerate(train, start=1):
        if (known := _read(utterance, frame_rate, findings)) is not None:
            facts.append(known)
        if progress is not None:
            progress(number)
    _check_rates(facts, findings)
    _check_repeats(facts, findings)
    speakers = {one.utterance.speaker for one in facts} - {""}
    texts = {one.utterance.text for one in facts}
    summary = _summary(facts, len(speakers))
    for name, read in held_out.items():
        recordings = list(read())
        shared = Counter(one.speaker for one in recordings if one.speaker in speakers)
        for speaker, count in shared.items():
            first = next(one for one in recordings if one.speaker == speaker)
            message = f"the speaker {speaker} of {pluralize(count, 'recording')} is in the training data, too"
            findings.add("speaker", *_place(first.where, message))
        known_texts = sum(one.text in texts for one in recordings)
        share = known_texts / max(len(recordings), 1)
        summary.append(
            f"{pluralize(len(recordings), 'recording')} in {name}, {share:.0%} with a text of the training data"
        )
    return findings.report(number, [], tuple(summary))


def _read(utterance: Utterance, frame_rate: float, findings: FindingList) -> _Facts | None:
    """Return the facts of a recording and add the defects of its sound; None if it cannot be read."""
    characters = len(utterance.text or "")
    if utterance.frames is not None:
        if len(utterance.frames) > 1 and not np.ptp(utterance.frames, 0).any():
            findings.add("silent", *_place(utterance.where, "all frames are equal"))
        return _Facts(utterance, len(utterance.frames) / frame_rate, characters, 0)
    try:
        sound = utterance.sound(None)
    except DataError as error:
        findings.add("format", *_place(utterance.where, f"{error.what}: {error.why}"))
        return None
    loudness = np.abs(sound.samples)
    if float(loudness.max(initial=0.0)) < SILENT:
        findings.add("silent", *_place(utterance.where, "no sample is above −60 dB"))
    elif (share := float((loudness >= CLIPPED).mean())) > CLIPPED_SHARE:
        findings.add("clipped", *_place(utterance.where, f"{share:.1%} of its samples are at the limit"))
    return _Facts(utterance, sound.seconds, characters, sound.rate)


def _check_rates(facts: Sequence[_Facts], findings: FindingList) -> None:
    rates = [one.characters / one.seconds for one in facts if one.characters]
    if not rates:
        return
    usual = median(rates)
    for one in facts:
        rate = one.characters / one.seconds
        judged = one.characters and one.seconds >= SHORTEST
        if judged and not usual / UNUSUAL <= rate <= usual * UNUSUAL:
            message = f"{rate:.1f} characters per second, the median is {usual:.1f}"
            findings.add("speed", *_place(one.utterance.where, message))


def _check_repeats(facts: Sequence[_Facts], findings: FindingList) -> None:
    first = dict[float, str]()
    for one in facts:
        key = hash_position(one.utterance.identity)
        known = first.setdefault(key, one.utterance.where)
        if known != one.utterance.where:
            findings.add("duplicate", *_place(one.utterance.where, f"the same recording is in {known}"))


def _summary(facts: Sequence[_Facts], speakers: int) -> list[str]:
    if not facts:
        return []
    seconds = sorted(one.seconds for one in facts)
    of = f" of {pluralize(speakers, 'speaker')}" if speakers else ""
    lines = [
        f"{sum(seconds) / 60:.1f} minutes{of}, {seconds[0]:.1f} to {seconds[-1]:.1f} s, median {median(seconds):.1f} s"
    ]
    rates = Counter(one.rate for one in facts if one.rate)
    lines += [", ".join(f"{pluralize(count, 'recording')} at {rate:,} Hz" for rate, count in rates.most_common())]
    return [line for line in lines if line]


def _place(where: str, message: str) -> tuple[int | None, str, str]:
    """Return the line, the message and the file of a finding."""
    file, _, line = where.rpartition(":")
    return (int(line), message, file) if line.isdecimal() else (None, message, where)
