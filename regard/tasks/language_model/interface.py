"""Interface of a language model for requests: the settings of one text, and generation that can be interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from regard.core.predictor_interface import PredictionInterrupted, PredictorInterface

if TYPE_CHECKING:
    from regard.tasks.language_model.generator import Generated, Generator

__all__ = ["GenerateRequest", "generator_interface"]


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
    greedy: bool = Field(False, description="Always take the likeliest token.")
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        None, description="Seed of the draws; another text each time unless given."
    )


def generator_interface(generator: Generator) -> PredictorInterface:
    """The interface of a generator, with its own settings where a request has none."""
    own = generator.settings
    settings = GenerateRequest.model_construct(
        length=own.length, temperature=own.temperature, top_k=own.top_k, top_p=own.top_p, greedy=False, seed=None
    )

    def predict(prompt: str, asked: GenerateRequest, interrupted: Callable[[], bool]) -> Generated:
        chosen = generator.adjusted(asked.model_dump(include={"length", "temperature", "top_k", "top_p"}))
        parts = []
        for part in generator.stream(prompt, chosen, seed=asked.seed, greedy=asked.greedy):
            if interrupted():
                raise PredictionInterrupted
            parts.append(part)
        return parts[-1]._replace(text="".join(each.text for each in parts))

    return PredictorInterface("a text to go on from", "text that goes on from it", settings, predict)
