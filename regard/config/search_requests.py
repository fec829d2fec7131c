"""Settings of search in a request. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from regard.config.search_settings import GenerationSettings, SearchSettings
from regard.config.setting_models import SettingsRequest, request_model

if TYPE_CHECKING:

    class SearchRequest(SettingsRequest):
        """Settings of a translation, all optional."""

    GenerationFields = SettingsRequest
else:
    SearchRequest = request_model(SearchSettings)
    GenerationFields = request_model(GenerationSettings)


class GenerateRequest(GenerationFields):
    """Settings of a generated text."""

    greedy: bool = Field(False, description="Always take the most probable token.")
