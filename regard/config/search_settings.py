"""Settings of search and of text generation, each declared once: see ``setting``. Imports no pydantic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from regard.config.setting import Bounds, setting

if TYPE_CHECKING:
    from pydantic import BaseModel  # base of the classes derived from these
else:
    BaseModel = object

ROWS = Bounds(1, 1 << 16)  # rows in memory; bounded, because a config may be untrusted
UNLIMITED = Bounds(1)  # of a request whose limit the server sets
TOKENS = 1 << 20
PENALTY = Bounds(-2, 2)

INSPECTED = ("beam", "nbest", "length_penalty", "coverage_penalty")  # settings of an inspection


class ChoiceSettings(BaseModel):
    """Settings of search that translation and language models share."""

    beam: int = setting(
        1, bounds=ROWS, request=UNLIMITED, unit="hypotheses", metavar="N", example=5,
        help="Search with a beam of this width; 1 decodes one token at a time",
    )  # fmt: skip
    nbest: int = setting(
        1, bounds=ROWS, request=UNLIMITED, unit="outputs", metavar="N", example=3,
        help="Return this number of outputs for each input: the best of the beam, or samples",
    )  # fmt: skip
    length_penalty: float = setting(
        0.6, bounds=Bounds(0, 10), metavar="A", example=1.0,
        help="Rank hypotheses by log P / ((k + length) / (k + 1))^A with this A and k = length_offset; 0 ranks by "
        "log P",
    )  # fmt: skip
    length_offset: float = setting(
        5.0, bounds=Bounds(0), request=Bounds(0, 1000), unit="tokens", metavar="K", example=0.0,
        help="Use this k in the length penalty: 5 is GNMT's, 0 divides by length^A as fairseq does",
    )  # fmt: skip
    early_stopping: bool = setting(
        True, example=False,
        help="End a search once as many hypotheses have ended as the beam is wide: half the steps for the same BLEU; "
        "otherwise when no longer hypothesis can be better",
    )  # fmt: skip
    top_k: int | None = setting(
        None, bounds=Bounds(1, 1 << 24), group="Sampling", unit="tokens", metavar="K", example=40,
        help="Sample among this number of most probable tokens",
    )  # fmt: skip
    top_p: float | None = setting(
        None, bounds=Bounds(above=0, high=1), group="Sampling", metavar="P", example=0.9,
        help="Sample among the fewest tokens whose probabilities sum to at least this (Holtzman et al. 2020)",
    )  # fmt: skip
    min_p: float | None = setting(
        None, bounds=Bounds(0, 1), group="Sampling", metavar="P", example=0.1,
        help="Sample among the tokens with at least this share of the highest probability (Nguyen et al. 2024)",
    )  # fmt: skip
    stop: tuple[str, ...] = setting(
        (), bounds=Bounds(characters=1000), request=Bounds(texts=16, characters=200), group="Sampling",
        metavar="TEXT", example=["\n"],
        help="End an output before this string, which it does not include; not with a beam",
    )  # fmt: skip
    repetition_penalty: float | None = setting(
        None, bounds=Bounds(above=0, high=100), group="Sampling", metavar="X", example=1.2,
        help="Multiply the log-probability of tokens that prompt or output already contain by this factor (Keskar et "
        "al. 2019); not with a beam",
    )  # fmt: skip
    frequency_penalty: float | None = setting(
        None, bounds=PENALTY, group="Sampling", metavar="X", example=0.5,
        help="Subtract this from a token's logit for each time that it was generated; not with a beam",
    )  # fmt: skip
    presence_penalty: float | None = setting(
        None, bounds=PENALTY, group="Sampling", metavar="X", example=0.5,
        help="Subtract this from the logit of each token that was generated; not with a beam",
    )  # fmt: skip
    seed: int | None = setting(
        None, bounds=Bounds(-(1 << 63), (1 << 64) - 1), request=Bounds(0, (1 << 63) - 1), group="Sampling",
        metavar="N", example=1,
        help="Sample with this seed: an output depends on its input and the seed alone; unset: another seed each time",
    )  # fmt: skip


class SearchSettings(ChoiceSettings):
    """Settings of the search for a translation."""

    beam: int = setting(5)
    coverage_penalty: float = setting(
        0.0, bounds=Bounds(0, 10), metavar="B", example=0.2,
        help="Add to a beam's scores this weight times the summed log attention to the source tokens (0.2 in GNMT)",
    )  # fmt: skip
    no_repeat_ngram: int | None = setting(
        None, bounds=Bounds(0, TOKENS), request=Bounds(0, 100), unit="tokens", metavar="N", example=3,
        help="Forbid an output to repeat this number of tokens in a row: 3 for summaries (Paulus et al. 2018), 0 "
        "allows all; not where a glossary requires words",
    )  # fmt: skip
    max_extra: int = setting(
        50, bounds=Bounds(0, TOKENS), config_only=True, unit="tokens", example=50,
        help="Limit an output to the source's length plus this number of tokens",
    )  # fmt: skip
    max_length: int | None = setting(
        None, bounds=Bounds(1, TOKENS), request=Bounds(1, 10_000), unit="tokens", metavar="N", example=100,
        help="Limit an output to this number of tokens",
    )  # fmt: skip
    temperature: float | None = setting(
        None, bounds=Bounds(above=0), request=Bounds(0.01, 100), group="Sampling", metavar="T", example=0.8,
        help="Sample from p^(1/T) with this T instead of searching: below 1 favors probable tokens, above 1 evens out "
        "the draws",
    )  # fmt: skip
    batch_sentences: int = setting(
        64, bounds=ROWS, config_only=True, unit="inputs", example=64,
        help="Decode this number of inputs together; as one finishes, the next takes its place",
    )  # fmt: skip


class GenerationSettings(ChoiceSettings):
    """Settings of text generation by a language model."""

    nbest: Literal[1] = setting(
        1, config_only=True, bounds=Bounds(), example=None,
        help="Always 1; the number of texts of a prompt is an option of generation",
    )  # fmt: skip
    length: int = setting(
        500, bounds=Bounds(1, TOKENS), request=UNLIMITED, unit="tokens", metavar="N", example=200,
        help="Limit a text to this number of tokens",
    )  # fmt: skip
    temperature: float | None = setting(
        None, bounds=Bounds(0), request=Bounds(0.01, 100), group="Sampling", metavar="T", example=0.8,
        help="Sample from p^(1/T) with this T, 1.0 if unset: below 1 favors probable tokens, above 1 evens out the "
        "draws, 0 takes the most probable token; not with a beam",
    )  # fmt: skip
    no_repeat_ngram: int | None = setting(
        None, bounds=Bounds(1, 100), unit="tokens", metavar="N", example=3,
        help="Forbid this number of tokens in a row to occur twice in prompt and text",
    )  # fmt: skip


class RecognitionSettings(SearchSettings):
    """Settings of the search for the text of a recording."""

    beam: int = setting(8)
    length_penalty: float = setting(0.0)
    ctc_weight: float = setting(
        0.3, bounds=Bounds(0, 1), metavar="W", example=0.5,
        help="Weight the scores of CTC by this, and those of the decoder by the rest",
    )  # fmt: skip
    lm_weight: float = setting(
        0.3, bounds=Bounds(0, 10), metavar="W", example=0.5,
        help="Add the log-probabilities of the language model of search.lm times this weight",
    )  # fmt: skip


RECOGNIZED = ("beam", "length_penalty", "ctc_weight", "lm_weight", "max_length")  # settings of a recognition
