"""The tags of a stretch of text, carried over to its translation: the same, each once, nested as they were."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from regard.server.text.word_spans import Word

__all__ = ["TagNode", "placed"]


@dataclass
class TagNode:
    """A pair of tags around words ``first`` to ``end`` of the source; or, without ``closing``, what stands before word
    ``first``. ``glued``: whether it touches what is before it, and what is after.
    """

    opening: str
    closing: str | None
    first: int
    end: int
    glued: tuple[bool, bool] = (True, True)
    inside: list[TagNode] = field(default_factory=list)
    start: int = 0  # words of the output from here …
    stop: int = 0  # … to here


def placed(
    nodes: Sequence[TagNode], words: int, links: Sequence[int], text: str, said: Sequence[Word],
    escape: Callable[[str], str] = str,
) -> str:  # fmt: skip
    """The output ``text`` with the tags in it, and ``escape`` for all else. Its words are ``said``, linked to the
    ``words`` of the source.

    A pair goes around the words that stand for those that it had around it, first to last; where words of another
    pair stand between, around the longest run. What encloses nothing stands beside the word of its neighbour.
    """
    _settle(nodes, (0, words), (0, len(said)), links, _Beside(words, links))
    behind = [""] * (len(said) + 1)  # what touches the end of the word before
    before = [""] * (len(said) + 1)  # what stands in front of a word, after the blank before it
    _write(nodes, None, behind, before)
    parts, end = [], 0
    for number, word in enumerate(said):
        parts += [behind[number], escape(text[end : word.start]), before[number], escape(text[word.start : word.end])]
        end = word.end
    return "".join([*parts, behind[-1], escape(text[end:]), before[-1]])


class _Beside:
    """Where in the output that belongs which stands before a word of the source."""

    def __init__(self, words: int, links: Sequence[int]) -> None:
        firsts: dict[int, int] = {}
        lasts: dict[int, int] = {}
        for place, link in enumerate(links):
            firsts.setdefault(link, place)
            lasts[link] = place + 1
        self._next, self._previous = [len(links)] * (words + 1), [0] * (words + 1)
        for word in range(words - 1, -1, -1):
            self._next[word] = firsts.get(word, self._next[word + 1])
        for word in range(words):
            self._previous[word + 1] = lasts.get(word, self._previous[word])
        self._linked = firsts

    def place(self, word: int, glued: tuple[bool, bool]) -> int:
        """In front of the next word's, or behind the last one's where it touches that alone, or the next has none."""
        if word in self._linked and glued != (True, False):
            return self._next[word]
        return self._previous[word] if word else 0


def _settle(
    nodes: Sequence[TagNode], source: tuple[int, int], target: tuple[int, int], links: Sequence[int], beside: _Beside
) -> None:
    """The places of these and of those in them, all within ``target``; pairs side by side have no word in common."""
    pairs = [node for node in nodes if node.closing is not None and node.first < node.end]
    owners: list[list[int]] = [[] for _ in pairs]  # the words of the output that stand for theirs
    firsts = [pair.first for pair in pairs]
    runs: list[tuple[int, int, int]] = []  # pair, first word, last word
    for place in range(*target):
        number = bisect_right(firsts, links[place]) - 1
        if number >= 0 and links[place] < pairs[number].end:
            owners[number].append(place)
            if runs and runs[-1][0] == number:
                runs[-1] = (number, runs[-1][1], place)
            else:
                runs.append((number, place, place))
    longest: dict[int, tuple[int, int, int]] = {}
    for run in runs:
        if run[0] not in longest or run[2] - run[1] > longest[run[0]][2] - longest[run[0]][1]:
            longest[run[0]] = run
    for number, (_, first, last) in longest.items():
        pairs[number].start, pairs[number].stop = first, last + 1
    settled = sorted((pairs[number] for number in longest), key=lambda pair: pair.start)
    starts, done = [pair.start for pair in settled], {id(pair) for pair in settled}
    for node in nodes:
        if id(node) not in done:
            place = _bounded(node, source, target, beside)
            number = bisect_right(starts, place) - 1
            node.start = node.stop = _outside(place, node, settled[number]) if number >= 0 else place
    for node in nodes:
        if node.inside:
            _settle(node.inside, (node.first, node.end), (node.start, node.stop), links, beside)


def _bounded(node: TagNode, source: tuple[int, int], target: tuple[int, int], beside: _Beside) -> int:
    """Before all words of what is around it, or behind them, as it was; else beside its neighbour's."""
    if node.first <= source[0]:
        return target[0]
    if node.first >= source[1]:
        return target[1]
    return min(max(beside.place(node.first, node.glued), target[0]), target[1])


def _outside(place: int, node: TagNode, pair: TagNode) -> int:
    """Not in this pair, whose sibling it is, but on that side of it where it was."""
    if not pair.start < place < pair.stop:
        return place
    return pair.start if node.first <= pair.first else pair.stop


def _write(nodes: Sequence[TagNode], stop: int | None, behind: list[str], before: list[str]) -> None:
    """The tags in the order in which they stand. ``stop``: where what is around them closes."""
    for node in sorted(nodes, key=lambda node: (node.start, node.stop)):
        at, (left, right) = node.start, node.glued
        if at < node.stop:
            before[at] += node.opening
            _write(node.inside, node.stop, behind, before)
            behind[node.stop] += node.closing or ""
        elif at == stop:
            behind[at] += ("" if left else " ") + _whole(node)
        elif left and not right and not before[at]:
            behind[at] += _whole(node)
        else:
            before[at] += _whole(node) + ("" if left or right or at == len(before) - 1 else " ")


def _whole(node: TagNode) -> str:
    """With all that is in it, and no words."""
    return node.opening + "".join(map(_whole, node.inside)) + (node.closing or "")
