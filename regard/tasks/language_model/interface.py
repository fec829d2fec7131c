"""Interface of a language model for requests: the settings of one text, and generation that can be interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from regard.core.predictor_interface import PredictionInterrupted, PredictorInterface

if TYPE_CHECKING:
    from regard.tasks.language_model.generator import Generated, Generator

__all__ = ["GenerateRequest", "generator_interface"]

StopText = Annotated[str, Field(min_length=1, max_length=200)]
Penalty = Annotated[float, Field(ge=-2, le=2)]


class GenerateRequest(BaseModel):
    """Settings of generation that a request may have."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    length: Annotated[int, Field(ge=1)] | None = Field(None, description="Tokens at most.")
    temperature: Annotated[float, Field(ge=0.01, le=100)] | None = Field(
        None, description="Logits are divided by this before drawing; 1 unless given."
    )
    top_k: Annotated[int, Field(ge=1, lt=2**31)] | None = Field(
        None, description="Draw among the k most probable tokens."
    )
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Draw among the fewest tokens whose probability reaches p."
    )
    min_p: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Draw among the tokens that have this share of the likeliest one's probability, or more."
    )
    stop: Annotated[list[StopText], Field(max_length=16)] | None = Field(
        None, description="Strings that end the text, which they are no part of."
    )
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] | None = Field(
        None, description="Factor of the log-probability of each token in prompt and text so far."
    )
    frequency_penalty: Penalty | None = Field(
        None, description="Taken from the logit of a token for each time that it was generated."
    )
    presence_penalty: Penalty | None = Field(None, description="Taken from the logit of a token that was generated.")
    no_repeat_ngram: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, description="No sequence of so many tokens occurs twice in prompt and text."
    )
    greedy: bool = Field(False, description="Always take the likeliest token.")
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        None, description="Seed of the draws; another text each time unless given."
    )


def generator_interface(generator: Generator) -> PredictorInterface:
    """The interface of a generator, with its own settings where a request has none."""
    own = generator.settings.model_dump(mode="json")
    settings = GenerateRequest.model_construct(**own, greedy=False, seed=None)

    def predict(prompt: str, asked: GenerateRequest, interrupted: Callable[[], bool]) -> Generated:
        chosen = generator.adjusted(asked.model_dump(include=set(own), exclude_none=True))
        parts = []
        for part in generator.stream(prompt, chosen, seed=asked.seed, greedy=asked.greedy):
            if interrupted():
                raise PredictionInterrupted
            parts.append(part)
        return parts[-1]._replace(text="".join(each.text for each in parts))

    return PredictorInterface("a text to go on from", "text that goes on from it", settings, predict)
