"""Settings of search that a request may have. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Self, cast

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["ChoiceRequest", "GenerateRequest", "SearchRequest"]

StopText = Annotated[str, Field(min_length=1, max_length=200)]
Penalty = Annotated[float, Field(ge=-2, le=2)]


class ChoiceRequest(BaseModel):
    """Settings that translation and language models share; those left out are those of the model's config."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    beam: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Hypotheses that the search keeps; 1: one, token by token."
    )
    length_penalty: Annotated[float, Field(ge=0, le=10)] | None = Field(
        None, description="Exponent of the divisor of log P by length, of a beam."
    )
    length_offset: Annotated[float, Field(ge=0, le=1000)] | None = Field(None, description="Offset of that length.")
    early_stopping: bool | None = Field(None, description="A beam is done when `beam` hypotheses have ended.")
    temperature: Annotated[float, Field(ge=0.01, le=100)] | None = Field(
        None, description="Logits are divided by this before a draw."
    )
    top_k: Annotated[int, Field(ge=1, lt=2**31)] | None = Field(
        None, description="Draw among the k most probable tokens."
    )
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Draw among the fewest tokens whose probability reaches p."
    )
    min_p: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Draw among the tokens with at least this share of the most probable one's probability."
    )
    stop: Annotated[list[StopText], Field(max_length=16)] | None = Field(
        None, description="Strings that end the output, which does not include them."
    )
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] | None = Field(
        None, description="Factor of the log-probability of each token in prompt and output so far."
    )
    frequency_penalty: Penalty | None = Field(
        None, description="Subtracted from the logit of a token for each time that it was generated."
    )
    presence_penalty: Penalty | None = Field(
        None, description="Subtracted from the logit of a token that was generated."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        None, description="Seed of the draws; another output each time if left out."
    )

    @classmethod
    def of(cls, settings: BaseModel) -> Self:
        """Return the settings of a model as a request, of which none counts as set."""
        own = settings.model_dump(mode="json", include=set(cls.model_fields))
        return cast(Self, cls.model_construct(_fields_set=set(), **own))


class SearchRequest(ChoiceRequest):
    """Settings of a translation."""

    nbest: Annotated[int, Field(ge=1)] | None = Field(None, description="Number of outputs of a sentence.")
    coverage_penalty: Annotated[float, Field(ge=0, le=10)] | None = Field(
        None, description="Weight of the coverage penalty of a beam."
    )
    no_repeat_ngram: Annotated[int, Field(ge=0, le=100)] | None = Field(
        None, description="No output has n pieces in a row twice; not where a glossary requires words."
    )
    max_length: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None, description="Maximum of pieces of an output."
    )


class GenerateRequest(ChoiceRequest):
    """Settings of a generated text."""

    length: Annotated[int, Field(ge=1)] | None = Field(None, description="Maximum of tokens.")
    no_repeat_ngram: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, description="No sequence of n tokens occurs twice in prompt and text."
    )
    greedy: bool = Field(False, description="Always take the most probable token.")
