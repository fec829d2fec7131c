"""Simultaneous search for many phrases in a text, in time O(words of phrases + words of text), not their product.

An automaton of Aho and Corasick (1975) reads the text from its end; the phrases that it reports at a word are those
that begin there.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from regard.core.deadline import NO_DEADLINE, Deadline

Phrase = tuple[str, ...]
ROOT = 0


class PhraseMatch(NamedTuple):
    """Occurrence of a phrase, ``words[first:end]``, and the value of the phrase."""

    first: int
    end: int
    value: str


class PhraseSearch:
    """Phrases with values, as an automaton over words.

    A node represents the last words of some phrases. ``_lengths`` has the length of the phrase that a node completes, 0
    without one. ``_shorter`` has the node of the longest shorter phrase that begins at the same word. ``_skips`` has
    nodes further along that chain, to find a phrase of a given length in logarithmic time.
    """

    def __init__(self, phrases: Mapping[Phrase, str], deadline: Deadline = NO_DEADLINE) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._lengths, self._values = [0], [""]
        for phrase, value in phrases.items():
            deadline.check()
            self._add(phrase, value)
        count = len(self._next)
        self._fall_back, self._shorter, self._skips, self._ranks = ([ROOT] * count for _ in range(4))
        self._link(deadline)

    def _add(self, phrase: Phrase, value: str) -> None:
        """Add a phrase, from its last word to its first."""
        node = ROOT
        for word in reversed(phrase):
            if word not in self._next[node]:
                self._next[node][word] = len(self._next)
                self._next.append({})
                self._lengths.append(0)
                self._values.append("")
            node = self._next[node][word]
        self._lengths[node], self._values[node] = len(phrase), value

    def _link(self, deadline: Deadline) -> None:
        """Set the links of all nodes, in order of their number of words."""
        queue = deque([ROOT])
        while queue:
            node = queue.popleft()
            deadline.check()
            for word, child in self._next[node].items():
                queue.append(child)
                back = ROOT if node == ROOT else self._step(self._fall_back[node], word)
                self._fall_back[child] = back
                longest = self._shorter[child] = back if self._lengths[back] else self._shorter[back]
                skip = self._skips[longest]
                even = self._ranks[longest] - self._ranks[skip] == self._ranks[skip] - self._ranks[self._skips[skip]]
                self._skips[child] = self._skips[skip] if even else longest
                self._ranks[child] = self._ranks[longest] + 1

    def _step(self, node: int, word: str) -> int:
        """Return the node after one more word."""
        while word not in self._next[node] and node != ROOT:
            node = self._fall_back[node]
        return self._next[node].get(word, ROOT)

    def _longest(self, node: int, limit: int) -> int:
        """Return the node of the longest phrase of at most ``limit`` words that begins where ``node`` was reached."""
        if not self._lengths[node]:
            node = self._shorter[node]
        while self._lengths[node] > limit:
            skip = self._skips[node]
            node = skip if self._lengths[skip] > limit else self._shorter[node]
        return node

    def find(self, words: Sequence[str], deadline: Deadline = NO_DEADLINE) -> list[PhraseMatch]:
        """Return the phrases in ``words``, in order. Of overlapping phrases, the longest is chosen, then the first.

        A word at which a phrase begins is examined at most twice: the second time for a shorter phrase that ends before
        the next chosen phrase.
        """
        nodes = [ROOT] * len(words)
        node = ROOT
        for first in range(len(words) - 1, -1, -1):
            nodes[first] = node = self._step(node, words[first])
        longest = ((self._longest(node, len(words)), first) for first, node in enumerate(nodes))
        waiting = [(-self._lengths[node], first) for node, first in longest if self._lengths[node]]
        heapq.heapify(waiting)
        starts: list[int] = []  # starts of the chosen phrases, in ascending order
        chosen: dict[int, PhraseMatch] = {}
        while waiting:
            deadline.check()
            negative, first = heapq.heappop(waiting)
            index = bisect_left(starts, first)
            if index and chosen[starts[index - 1]].end > first:
                continue
            room = (starts[index] if index < len(starts) else len(words)) - first
            node = self._longest(nodes[first], min(-negative, room))
            length = self._lengths[node]
            if length == -negative:
                insort(starts, first)
                chosen[first] = PhraseMatch(first, first + length, self._values[node])
            elif length:
                heapq.heappush(waiting, (-length, first))
        return [chosen[first] for first in starts]
