"""Fields that OpenAI's requests for completions and for chat completions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from regard.config.search_requests import GenerateRequest
from regard.config.search_settings import GenerationSettings
from regard.config.setting_models import request_model
from regard.server.api.json_route import FIRST_ERROR
from regard.server.api_error import ApiError

EQUAL = ("top_p", "presence_penalty", "frequency_penalty", "seed")  # same names and bounds as in GenerateRequest
Stop = Annotated[str, Field(min_length=1, max_length=200)]

if TYPE_CHECKING:
    EqualSettings = BaseModel
else:
    EqualSettings = request_model(GenerationSettings, only=EQUAL, base=BaseModel)


def as_list(value: Any) -> Any:
    """Return a text as a list of one text, and any other value unchanged."""
    return [value] if isinstance(value, str) else value


class StreamOptions(BaseModel):
    """Options of a stream."""

    include_usage: bool | None = Field(None, description="Send the numbers of tokens at the end.")


class SamplingRequest(EqualSettings):
    """Model, number of texts, and settings of sampling."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    model: str | None = Field(None, description="Name of the model; left out: the first language model.")
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        None, description="Temperature of sampling; 0 always chooses the most probable token."
    )
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    stop: Annotated[list[Stop], Field(max_length=4), FIRST_ERROR, BeforeValidator(as_list)] | None = Field(
        None, description="String that ends a text, or a list of at most 4; not included in the text."
    )
    stream: bool | None = Field(None, description="Send the texts while they are generated, as server-sent events.")
    stream_options: StreamOptions | None = None
    user: str | None = Field(None, description="Not used.")

    @property
    def usage_at_end(self) -> bool:
        """True if a stream ends with the numbers of tokens."""
        return bool(self.stream and self.stream_options and self.stream_options.include_usage)

    def refuse_unknown(self) -> None:
        """Raise ApiError for a field that is neither OpenAI's nor a setting of ``GenerateRequest``."""
        foreign = (self.model_extra or {}).keys() - (GenerateRequest.model_fields.keys() - {"length"})
        if foreign:
            raise ApiError(400, f"Invalid request: Unrecognized request argument supplied: {min(foreign)[:40]}")

    def sampling(self) -> dict[str, Any]:
        """Return the settings of generation without the length, by the names of ``GenerateRequest``."""
        settings = {name: getattr(self, name) for name in ("temperature", *EQUAL)} | (self.model_extra or {})
        if self.temperature == 0:
            settings |= {"temperature": None, "greedy": True}
        return settings | {"stop": self.stop}
