"""Search for texts that continue prompts, by independent rows or by beam search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from regard.data.tokenizers.tokenizer import END, Tokenizer
from regard.errors import ConfigError
from regard.inference.chat import NO_MORE, ReplyEnd
from regard.inference.run_search import run_search
from regard.inference.search_model import SearchInput, SearchModel
from regard.search.contract import Hypothesis
from regard.search.draws import Draws
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.text_listener import GeneratedPiece, TextListener, TextStep

ROWS = 64  # maximum number of texts in one search


class TextSearch:
    """Search with one model, settings and a seed; texts are numbered by prompt, then by sample.

    Args:
        decoding: the model.
        tokenizer: its tokenizer.
        settings: settings of generation.
        seed: seed of sampling.
        end: see ``TextListener``; for a search by rows.
    """

    def __init__(
        self, decoding: SearchModel, tokenizer: Tokenizer, settings: GenerateConfig, seed: int,
        end: ReplyEnd = NO_MORE,
    ) -> None:  # fmt: skip
        self.decoding, self.tokenizer, self.settings, self.seed, self.end = decoding, tokenizer, settings, seed, end

    def rows(self, prompts: Sequence[list[int]], samples: int) -> Iterator[GeneratedPiece]:
        """Yield pieces of all texts while their tokens are selected."""
        pieces: list[GeneratedPiece] = []
        inputs = (
            (number, self.input(tokens, sample, number, lambda step: pieces.append(step.piece)))
            for number, (tokens, sample) in enumerate(product(prompts, range(samples)))
        )
        for _ in run_search(self.decoding, inputs, self.settings.model_copy(update={"nbest": 1}), rows=ROWS):
            yield from pieces
            pieces.clear()

    def beams(self, prompts: Sequence[list[int]], samples: int) -> Iterator[GeneratedPiece]:
        """Yield the best texts of each prompt, one piece per text; ConfigError for more texts than the beam width."""
        beam = self.settings.beam
        if samples > beam:
            raise ConfigError(
                f"a beam of {beam} cannot return {samples} texts", where="samples", help=f"beam={samples}"
            )
        settings = self.settings.model_copy(update={"nbest": samples})
        inputs = enumerate(map(SearchInput, prompts))
        for finished in run_search(self.decoding, inputs, settings, rows=max(ROWS // beam, 1)):
            for number, hypotheses in finished:
                for sample, hypothesis in enumerate(hypotheses):
                    yield self.whole(number * samples + sample, hypothesis)

    def whole(self, number: int, hypothesis: Hypothesis) -> GeneratedPiece:
        """Return text ``number``, a complete hypothesis, in one piece."""
        steps = self.steps_of(number, hypothesis)
        return steps[-1].piece._replace(text="".join(step.piece.text for step in steps))

    def steps_of(self, number: int, hypothesis: Hypothesis) -> list[TextStep]:
        """Return the steps of text ``number``, a complete hypothesis."""
        steps: list[TextStep] = []
        listener = TextListener(number, self.tokenizer, self.settings, steps.append)
        ends = [END] * (len(hypothesis.token_log_probabilities) - len(hypothesis.tokens))
        for token, log_p in zip([*hypothesis.tokens, *ends], hypothesis.token_log_probabilities, strict=True):
            listener.count += 1
            listener.add(token, log_p)
        return steps

    def input(
        self,
        tokens: list[int],
        sample: int,
        number: int,
        on_step: Callable[[TextStep], None] = lambda step: None,
        alternatives: int = 0,
    ) -> SearchInput:
        """Return the search input of one text by rows.

        Args:
            tokens: tokens of the prompt.
            sample: number of the text among the texts of its prompt; each has its own random numbers.
            number: number of the text in its pieces.
            on_step: called with each token of the text.
            alternatives: number of most probable tokens that are reported for each token.
        """
        listener = TextListener(number, self.tokenizer, self.settings, on_step, alternatives, self.end)
        draws = [Draws(self.seed, sample, tokens)] if self.settings.draw_temperature is not None else []
        return SearchInput(tokens, draws=draws, listeners=[listener])
