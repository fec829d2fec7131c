"""Search settings of a request for translations: which fields there are, and the limits of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.config.settings import SearchConfig
from regard.core.wording import describe_validation_error
from regard.server.api_error import ApiError
from regard.server.settings import ServerSettings

__all__ = ["SearchFields", "search_settings"]


class SearchFields(BaseModel):
    """Settings of the search; those left out are those of the model's config."""

    model_config = ConfigDict(extra="forbid")

    beam: Annotated[int, Field(ge=1)] | None = Field(None, description="Hypotheses that the search keeps.")
    nbest: Annotated[int, Field(ge=1)] | None = Field(None, description="Number of outputs of a sentence.")
    length_penalty: Annotated[float, Field(ge=0, le=10)] | None = None
    early_stopping: bool | None = Field(None, description="A sentence is done when `beam` hypotheses have ended.")
    coverage_penalty: Annotated[float, Field(ge=0, le=10)] | None = None
    no_repeat_ngram: Annotated[int, Field(ge=0, le=100)] | None = Field(
        None, description="No output has so many pieces in a row twice; not where a glossary asks for words."
    )
    max_length: Annotated[int, Field(ge=1, le=10_000)] | None = Field(None, description="Pieces of an output.")


def search_settings(own: SearchConfig, given: Mapping[str, float | int | None], limits: ServerSettings) -> SearchConfig:
    """Return a model's ``own`` settings overridden by those ``given`` (None: not given). ApiError beyond a limit."""
    overrides = {key: value for key, value in given.items() if value is not None}
    if overrides.get("nbest", 1) > limits.nbest:
        raise ApiError(400, f"Invalid request: more than {limits.nbest} outputs of a text")
    if "beam" not in overrides and "nbest" in overrides:
        overrides["beam"] = max(own.beam, overrides["nbest"])
    if "beam" in overrides and "nbest" not in overrides:
        overrides["nbest"] = min(own.nbest, overrides["beam"])
    try:
        search = SearchConfig.model_validate(own.model_dump() | overrides)
    except ValidationError as error:
        raise ApiError(400, f"Invalid request: {describe_validation_error(error)}") from error
    if search.beam > limits.beam and "beam" in overrides:
        raise ApiError(400, f"Invalid request: a beam of {search.beam} is wider than {limits.beam}")
    return search
