"""Translation of a text that is still arriving: a policy decides which words of each hypothesis are committed.

All state is in the requests, so any process can answer the next one. Each hypothesis begins with the committed text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from torch import Tensor

from regard.config.settings import SearchConfig
from regard.core.task import not_interrupted
from regard.core.untrusted_files import shortened
from regard.data.sentence_split import split_sentences
from regard.data.tokenizers.tokenizer import END, UNKNOWN, Tokenizer
from regard.errors import ConfigError
from regard.inference.policies import Draft, Policy
from regard.inference.run_search import run_search
from regard.inference.search_model import SearchInput
from regard.inference.text_stream import (
    StreamInput,
    StreamOutput,
    complete_words,
    counts_of,
    cursor_of,
    read_cursor,
    text_from_word,
    text_of_words,
)
from regard.search.contract import Hypothesis
from regard.search.rows import TokenListener
from regard.tasks.translation.translator import Translator

SENTENCE_END = ".!?…。！？"


class Alignment(Protocol):
    """The head that AlignAtt follows: see ``inspection.aligner.Aligner``."""

    @property
    def attention(self) -> str:
        """The name of its attention, such as ``decoder.2.source``."""

    def weights(self, attention: dict[str, Tensor]) -> Tensor:
        """Return the weights (target, source) that align target pieces."""


class StreamWork(NamedTuple):
    """Work of one request.

    ``words``: source words that the hypothesis reads. ``closes``: whether the output is completed. ``rest``: the text
    after these words, if they were closed before the end of the text. ``input``: of the search, None if no hypothesis
    is due. ``search``: its settings.
    """

    request: StreamInput
    words: list[str]
    closes: bool
    rest: str
    input: SearchInput | None
    search: SearchConfig


class StreamingTranslator:
    """A translator of texts that are still arriving.

    Args:
        translator: the model.
        policy: decides which words are committed.
        search: of the hypotheses; None for the settings of the run.
        alignment: the head that AlignAtt follows.
        splits: whether a sentence is completed as soon as another one begins.

    Raises:
        ConfigError: if the model does not support the policy, or the search samples.
    """

    def __init__(
        self, translator: Translator, policy: Policy, *, search: SearchConfig | None = None,
        alignment: Alignment | None = None, splits: bool = True,
    ) -> None:  # fmt: skip
        self.translator, self.policy, self.splits = translator.without_memory, policy, splits
        self.alignment = alignment
        settings = search or translator.search
        if settings.draw_temperature is not None:
            raise ConfigError("a stream cannot be sampled", where="temperature", help="omit it")
        if settings.stop or settings.covers:
            where = "stop" if settings.stop else "coverage_penalty"
            raise ConfigError(f"`{where}` cannot be used for a stream", where=where, help="omit it")
        self.search = settings.model_copy(update={"nbest": 1})
        if self.translator.decoding is None:
            what = "a stream requires a network; this model is a simple baseline"
            raise ConfigError(what, where="model", help="use the network: --checkpoint best")
        if policy.needs_attention and alignment is None:
            raise ConfigError(
                f"{policy.name} requires attention from the decoder to the encoder, which this model lacks",
                where="policy", help="use local-agreement",
            )  # fmt: skip

    def advance(
        self, requests: Sequence[StreamInput], *, interrupted: Callable[[], bool] = not_interrupted
    ) -> list[StreamOutput]:
        """Return the output of each request; all hypotheses with equal settings are searched together.

        Raises:
            SourceChangedError: a request whose cursor is not that of the beginning of its text.
            ConfigError: a committed text that the vocabulary cannot represent.
            KeyboardInterrupt: if ``interrupted`` returns true.
        """
        plans = [self.plan(request) for request in requests]
        hypotheses: dict[int, Hypothesis] = {}
        for beam in sorted({plan.search.beam for plan in plans}):
            inputs = [(n, p.input) for n, p in enumerate(plans) if p.input is not None and p.search.beam == beam]
            search = self.search.model_copy(update={"beam": beam})
            for finished in run_search(
                self.translator.decoding, inputs, search, rows=search.batch_sentences, interrupted=interrupted
            ):
                hypotheses |= {number: best for number, (best, *_) in finished}
        return self.finish(plans, [hypotheses.get(number) for number in range(len(plans))])

    def plan(self, request: StreamInput) -> StreamWork:
        """Return the work of a request; the errors are those of ``advance``."""
        whole = complete_words(request.text, final=request.final)
        known = read_cursor(request.cursor, whole)
        count = self._closed(request.text, whole)
        closes = request.final or count < len(whole)
        rest = text_from_word(request.text, count) if count < len(whole) else ""
        read = count if closes else self.policy.reads(count)
        words = whole[:read]
        plan = StreamWork(request, words, closes, rest, None, self.search)
        committed = len(request.committed.split())
        allowed = None if closes else self.policy.may_write(read, committed)
        if not words or allowed == 0 or (known == read and not closes):
            return plan
        source, prefix = self._source(words), self._prefix(request.committed)
        input = SearchInput(source, prefix, ended=closes or self._ends_beginnings)
        if allowed is None:
            return plan._replace(input=input)
        listener = _WordLimit(self.translator.target, len(prefix), committed + allowed)
        greedy = self.search.model_copy(update={"beam": 1})
        return plan._replace(input=replace(input, listeners=[listener]), search=greedy)

    def finish(self, plans: Sequence[StreamWork], hypotheses: Sequence[Hypothesis | None]) -> list[StreamOutput]:
        """Return the output of each request from its hypothesis; None if it had no search."""
        attended: dict[int, list[int]] = {}
        if self.policy.needs_attention:
            due = [
                (number, (plan, best.tokens))
                for number, (plan, best) in enumerate(zip(plans, hypotheses, strict=True))
                if best is not None and best.tokens and not plan.closes
            ]
            attended = dict(zip([n for n, _ in due], self._attended([pair for _, pair in due]), strict=True))
        return [
            self._output(plan, best, attended.get(number, ()))
            for number, (plan, best) in enumerate(zip(plans, hypotheses, strict=True))
        ]

    def _output(self, plan: StreamWork, hypothesis: Hypothesis | None, attended: Sequence[int]) -> StreamOutput:
        request, committed = plan.request, plan.request.committed
        if hypothesis is None:
            if plan.closes:
                return StreamOutput(committed, final=True, rest=plan.rest)
            read = int(request.cursor.partition("-")[0] or 0)
            return StreamOutput(committed, unstable=request.unstable, read=read, cursor=request.cursor)
        text = self.translator.target.decode(hypothesis.tokens)
        if not text.startswith(committed):  # pieces that merge with the prefix: nothing is taken back
            text = committed
        read = len(plan.words)
        if plan.closes:
            cursor, new = cursor_of(plan.words), text[len(committed) :]
            return StreamOutput(text, new, final=True, rest=plan.rest, read=read, cursor=cursor)
        if hypothesis.finished:  # a sentence ends when its source does
            text = max(text.rstrip(SENTENCE_END), committed, key=len)
        words, previous = text.split(), (committed + request.unstable).split()
        known = (*attended, *[read + 1] * (len(words) - len(attended)))
        draft = Draft(
            words, len(committed.split()), hypothesis.finished, previous, known, counts_of(request.cursor)
        )  # fmt: skip
        cursor = cursor_of(plan.words, self.policy.agreed(draft))
        count = self._representable(text, self.policy.commit(draft, read), draft.committed)
        after = text_of_words(text, count) if count > draft.committed else committed
        return StreamOutput(after, after[len(committed) :], text[len(after) :], read=read, cursor=cursor)

    @property
    def _ends_beginnings(self) -> bool:
        """True if END follows a source that has not ended: for a model that has only seen whole sentences in training.

        Test-time wait-k (Ma et al. 2019, §4.2) hides END from any model.
        """
        return not self.translator.reads_unfinished and not self.policy.paces

    def _closed(self, text: str, words: list[str]) -> int:
        """Return the number of words of the present sentence: all, unless a next one begins or it is too long."""
        count = len(words)
        if self.splits and count > 1:
            sentences, between = split_sentences(" ".join(words), None)
            if len(sentences) > 1:  # list markers precede the first sentence, and quotation marks may follow it
                head = between[0] + sentences[0] + between[1].partition(" ")[0]
                count = len(head.split())
        limit = self.translator.max_length
        if len(self.translator.source.encode(" ".join(words[:count]))) <= limit:
            return count
        fits = bisect_right(range(count), limit, key=lambda n: len(self.translator.source.encode(" ".join(words[:n]))))
        return max(fits - 1, 1)

    def _source(self, words: Sequence[str]) -> list[int]:
        return self.translator.source.encode(" ".join(words))[: self.translator.max_length]

    def _prefix(self, committed: str) -> list[int]:
        is_text = not any("\ud800" <= letter <= "\udfff" for letter in committed)  # half a character
        pieces = self.translator.target.encode(committed) if committed and is_text else []
        if UNKNOWN in pieces or self.translator.target.decode(pieces) != committed:
            raise ConfigError(
                f"this model cannot continue {shortened(committed)!r}",
                where="committed",
                why="its vocabulary cannot represent this text",
                help="return `committed` of the last answer unchanged",
            )
        return pieces

    def _representable(self, text: str, count: int, least: int) -> int:
        """Return the largest number of words, at most ``count``, after which the output can be continued."""
        target = self.translator.target
        while count > least:
            committed = text_of_words(text, count)
            pieces = target.encode(committed)
            if UNKNOWN not in pieces and target.decode(pieces) == committed:
                return count
            count -= 1
        return count

    def _attended(self, pairs: Sequence[tuple[StreamWork, Sequence[int]]]) -> list[list[int]]:
        """Return for each word of each hypothesis the number of source words up to the last one that it attends to."""
        assert self.alignment is not None
        if not pairs:
            return []
        sources = [list(plan.input.tokens) for plan, _ in pairs if plan.input is not None]
        targets, name = [tokens for _, tokens in pairs], self.alignment.attention
        table = self.translator.decoding.source_attention(sources, targets, name, ended=self._ends_beginnings)
        if table is None:
            table = self.translator.attentions(sources, targets, ended=self._ends_beginnings)[name]
        result = []
        for row, ((plan, tokens), source) in enumerate(zip(pairs, sources, strict=True)):
            weights = self.alignment.weights({name: table[row]})
            aligned = weights[: len(tokens), : len(source)].argmax(-1).tolist()
            ends = [len(self._source(plan.words[:count])) for count in range(1, len(plan.words) + 1)]
            attended: list[int] = []
            for number, position in enumerate(aligned):
                words = len(self.translator.target.decode(tokens[: number + 1]).split())
                attended += [0] * (words - len(attended))
                if words:
                    attended[-1] = max(attended[-1], bisect_right(ends, position) + 1)
            result.append(attended)
        return result


class _WordLimit(TokenListener):
    """Receiver of the tokens of an output that ends it once the word after the last permitted one has begun."""

    def __init__(self, tokenizer: Tokenizer, prefix: int, words: int) -> None:
        self._tokenizer, self._prefix, self._words = tokenizer, prefix, words
        self._tokens: list[int] = []

    def add(self, token: int, log_probability: float, alternatives: Sequence[tuple[int, float]]) -> bool:
        """Receive the next token; return whether there are more words than permitted."""
        self._tokens.append(token)
        if token == END or len(self._tokens) <= self._prefix:
            return False
        return len(self._tokenizer.decode(self._tokens).split()) > self._words
