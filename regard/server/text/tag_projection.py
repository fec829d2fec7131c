"""Projection of tags from a source text to its translation: each tag once, with the same nesting."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from regard.server.text.word_spans import WordSpan


@dataclass
class TagNode:
    """Pair of tags around the source words ``first`` to ``end`` (exclusive), or one token before the word ``first``.

    Attributes:
        opening: the opening tag.
        closing: the closing tag; None for one token.
        first: the first source word.
        end: the end of the source words.
        touches: whether white space is missing before and after it.
        children: the nodes inside the pair.
        output_start: the first output word inside the pair.
        output_end: the end of the output words; equal to ``output_start`` if the pair contains no words.
    """

    opening: str
    closing: str | None
    first: int
    end: int
    touches: tuple[bool, bool] = (True, True)
    children: list[TagNode] = field(default_factory=list)
    output_start: int = 0
    output_end: int = 0


def project_tags(
    nodes: Sequence[TagNode],
    source_count: int,
    alignment: Sequence[int],
    text: str,
    words: Sequence[WordSpan],
    escape: Callable[[str], str] = str,
) -> str:
    """Return the output ``text`` with the tags of the source.

    A pair is placed around the output words that are aligned with its source words, from the first to the last; if
    words of another pair are between them, around the longest run. A tag without words stays next to its neighbor.

    Args:
        nodes: the tags of the source.
        source_count: the number of source words.
        alignment: the source word of each output word.
        text: the output text.
        words: the words of ``text``.
        escape: escapes all text between tags.
    """
    positions = _NeighborPositions(source_count, alignment)
    _assign_positions(nodes, (0, source_count), (0, len(words)), alignment, positions)
    after_word = [""] * (len(words) + 1)  # tags that touch the end of the previous word
    before_word = [""] * (len(words) + 1)  # tags that touch the start of the word, after the white space before it
    _write_tags(nodes, None, after_word, before_word)
    parts, end = [], 0
    for number, word in enumerate(words):
        parts += [after_word[number], escape(text[end : word.start])]
        parts += [before_word[number], escape(text[word.start : word.end])]
        end = word.end
    return "".join([*parts, after_word[-1], escape(text[end:]), before_word[-1]])


class _NeighborPositions:
    """Output positions for a tag between two source words."""

    def __init__(self, source_count: int, alignment: Sequence[int]) -> None:
        firsts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for position, source_word in enumerate(alignment):
            firsts.setdefault(source_word, position)
            ends[source_word] = position + 1
        self._next, self._previous = [len(alignment)] * (source_count + 1), [0] * (source_count + 1)
        for word in range(source_count - 1, -1, -1):
            self._next[word] = firsts.get(word, self._next[word + 1])
        for word in range(source_count):
            self._previous[word + 1] = ends.get(word, self._previous[word])
        self._aligned = firsts

    def position(self, word: int, touches: tuple[bool, bool]) -> int:
        """Return the output word before which to place a tag that was before the source word ``word``.

        The tag moves with the next word, unless that has no output word or the tag only touched the previous word.
        """
        if word in self._aligned and touches != (True, False):
            return self._next[word]
        return self._previous[word] if word else 0


def _assign_positions(
    nodes: Sequence[TagNode],
    source: tuple[int, int],
    target: tuple[int, int],
    alignment: Sequence[int],
    positions: _NeighborPositions,
) -> None:
    """Set ``output_start`` and ``output_end`` of sibling nodes and their children; siblings do not share words.

    ``source`` and ``target`` are the source and output words (start, end) of the parent.
    """
    pairs = [node for node in nodes if node.closing is not None and node.first < node.end]
    placed = []
    for pair, (first, last) in _longest_runs(pairs, target, alignment):
        pair.output_start, pair.output_end = first, last + 1
        placed.append(pair)
    placed.sort(key=lambda pair: pair.output_start)
    starts, placed_ids = [pair.output_start for pair in placed], {id(pair) for pair in placed}
    for node in nodes:
        if id(node) not in placed_ids:
            position = _empty_position(node, source, target, positions)
            number = bisect_right(starts, position) - 1
            position = _move_outside(position, node, placed[number]) if number >= 0 else position
            node.output_start = node.output_end = position
    for node in nodes:
        if node.children:
            inner = (node.output_start, node.output_end)
            _assign_positions(node.children, (node.first, node.end), inner, alignment, positions)


def _longest_runs(
    pairs: Sequence[TagNode], target: tuple[int, int], alignment: Sequence[int]
) -> list[tuple[TagNode, tuple[int, int]]]:
    """Return the pairs with output words, each with its longest run (first, last) without words of other pairs."""
    firsts = [pair.first for pair in pairs]
    runs: list[tuple[int, int, int]] = []  # index of the pair, first word, last word
    for word in range(*target):
        number = bisect_right(firsts, alignment[word]) - 1
        if number >= 0 and alignment[word] < pairs[number].end:
            if runs and runs[-1][0] == number:
                runs[-1] = (number, runs[-1][1], word)
            else:
                runs.append((number, word, word))
    longest: dict[int, tuple[int, int]] = {}
    for number, first, last in runs:
        if number not in longest or last - first > longest[number][1] - longest[number][0]:
            longest[number] = first, last
    return [(pairs[number], run) for number, run in longest.items()]


def _empty_position(
    node: TagNode, source: tuple[int, int], target: tuple[int, int], positions: _NeighborPositions
) -> int:
    """Return the output position of a node without words; it stays first or last in its parent."""
    if node.first <= source[0]:
        return target[0]
    if node.first >= source[1]:
        return target[1]
    return min(max(positions.position(node.first, node.touches), target[0]), target[1])


def _move_outside(position: int, node: TagNode, pair: TagNode) -> int:
    """Return ``position`` moved out of ``pair``, a sibling of ``node``, to the side where ``node`` was."""
    if not pair.output_start < position < pair.output_end:
        return position
    return pair.output_start if node.first <= pair.first else pair.output_end


def _write_tags(
    nodes: Sequence[TagNode], parent_end: int | None, after_word: list[str], before_word: list[str]
) -> None:
    """Append the tags of ``nodes`` to the strings around each word; the parent ends at the word ``parent_end``."""
    for node in sorted(nodes, key=lambda node: (node.output_start, node.output_end)):
        position, (left, right) = node.output_start, node.touches
        if position < node.output_end:
            before_word[position] += node.opening
            _write_tags(node.children, node.output_end, after_word, before_word)
            after_word[node.output_end] += node.closing or ""
        elif position == parent_end:
            after_word[position] += ("" if left else " ") + _serialize(node)
        elif left and not right and not before_word[position]:
            after_word[position] += _serialize(node)
        else:
            before_word[position] += _serialize(node) + (
                "" if left or right or position == len(before_word) - 1 else " "
            )


def _serialize(node: TagNode) -> str:
    """Return the tags of a node without words and of its children."""
    return node.opening + "".join(map(_serialize, node.children)) + (node.closing or "")
