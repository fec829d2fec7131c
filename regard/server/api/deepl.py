"""DeepL's interface, version 2: errors are {"message": …}, language codes are upper-case with regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from regard.server.api.deepl_glossaries import deepl_credentials, find_glossary
from regard.server.api.notices import notice_headers
from regard.server.api.requests import Credentials, RawRequest, unless_disconnected, validate_texts
from regard.server.api_error import ApiError
from regard.server.off_loop import off_loop
from regard.server.service import Service
from regard.server.text.glossary import Glossary
from regard.server.text.languages import UNDETERMINED, base_language, language_name
from regard.server.text.markup_tokenizer import Markup
from regard.server.translation_request import TranslationRequest, TranslationResult

JSON_OBJECT: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {"schema": {"type": "object"}}}}}
UNLIMITED = 10**12  # characters: clients require a number
# DeepL's client rejects these target codes without a region.
REGIONS = {"EN": ("EN-GB", "EN-US"), "PT": ("PT-BR", "PT-PT")}


def error_response(error: ApiError) -> JSONResponse:
    """Return an error in DeepL's format."""
    status = {"no key": 403, "wrong key": 403, "quota": 456}.get(error.reason, error.status)
    return JSONResponse({"message": error.message}, status, headers=error.headers)


def router(service: Service) -> APIRouter:
    """Return the routes, except those for glossaries."""
    routes = APIRouter(prefix="/v2", tags=["DeepL"])
    _add_translation(routes, service)
    _add_information(routes, service)
    return routes


def _add_translation(routes: APIRouter, service: Service) -> None:
    """Add the route that translates texts."""

    @routes.post("/translate", response_class=JSONResponse, responses=JSON_OBJECT)
    async def translate(request: Request) -> Response:
        """Translate texts.

        Fields: `text` (a list), `target_lang`, `source_lang`, `glossary_id`, `tag_handling`, `ignore_tags`,
        `splitting_tags`, `non_splitting_tags`, `outline_detection`.
        """
        raw = await RawRequest.receive(request)
        translation = await off_loop(_translation_request, service, raw, deepl_credentials(request))
        results = await unless_disconnected(request, service.translate(translation))
        return await off_loop(_translation_response, translation, results)


def _add_information(routes: APIRouter, service: Service) -> None:
    """Add the routes that describe the server and the client's usage."""

    @routes.post("/languages", include_in_schema=False)
    @routes.get("/languages")
    async def languages(request: Request) -> list[dict[str, Any]]:
        """List the languages of one side.

        Field: `type`: `source`, or `target`, where some languages have regions.
        """
        kind = (await off_loop((await RawRequest.receive(request)).fields)).get("type", "source")
        if kind not in ("source", "target"):
            raise ApiError(400, "Value for 'type' not supported.")
        models = service.models.translators
        codes = {(model.source if kind == "source" else model.target) or UNDETERMINED for model in models}
        regional = [region for code in sorted(codes) for region in _regional_codes(code.upper(), kind == "target")]
        extra = {"supports_formality": False} if kind == "target" else {}
        return [{"language": code, "name": language_name(code)} | extra for code in regional]

    @routes.post("/usage", include_in_schema=False)
    @routes.get("/usage")
    async def usage(request: Request) -> dict[str, int]:
        """Return the characters of this key or address since the start of the server, and the quota."""
        used, quota = service.usage(deepl_credentials(request))
        return {"character_count": used, "character_limit": UNLIMITED if quota is None else quota}


def _translation_request(service: Service, raw: RawRequest, client: Credentials) -> TranslationRequest:
    """Parse a request."""
    fields = raw.fields()
    texts = validate_texts(fields.get("text"), "text")
    source, target = fields.get("source_lang"), fields.get("target_lang")
    if not isinstance(target, str) or not target or not isinstance(source, str | None):
        raise ApiError(400, "Value for 'target_lang' not supported.")
    markup, glossary = _markup(fields), _glossary(service, client, fields, source, target)
    return TranslationRequest(texts, source or None, target, client, glossary=glossary, markup=markup)


def _translation_response(translation: TranslationRequest, results: Sequence[TranslationResult]) -> Response:
    """Return the response."""
    translations = [
        {
            "detected_source_language": base_language(result.source or UNDETERMINED).upper(),
            "text": result.text,
            "billed_characters": len(text),
        }
        for text, result in zip(translation.texts, results, strict=True)
    ]
    return JSONResponse({"translations": translations}, headers=notice_headers(results))


def _glossary(
    service: Service, client: Credentials, fields: dict[str, Any], source: str | None, target: str
) -> Glossary | None:
    """Return the glossary that a request names, if any; raise ApiError if it is missing or has other languages."""
    if fields.get("glossary_ids"):
        raise ApiError(400, "Value for 'glossary_ids' not supported.")
    if not fields.get("glossary_id"):
        return None
    owner, _ = service.identify(client)
    return find_glossary(service.clients.glossaries, owner, fields["glossary_id"], source, target).glossary


def _markup(fields: dict[str, Any]) -> Markup | None:
    """Return the format of the texts; None for plain text."""
    kind = fields.get("tag_handling")
    if not kind:
        return None
    if kind not in ("html", "xml"):
        raise ApiError(400, "Value for 'tag_handling' not supported.")
    outline = str(fields.get("outline_detection", True)).lower()
    if outline not in ("0", "1", "true", "false"):
        raise ApiError(400, "Value for 'outline_detection' not supported.")
    elements = (_element_names(fields, key) for key in ("ignore_tags", "splitting_tags", "non_splitting_tags"))
    return Markup.create(kind, *elements, outline=outline in ("1", "true"))


def _element_names(fields: dict[str, Any], key: str) -> list[str]:
    """Return the element names of a field: a list, or a text separated by commas."""
    values = fields.get(key) or []
    values = [values] if isinstance(values, str) else values
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ApiError(400, f"Value for '{key}' not supported.")
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def _regional_codes(code: str, target: bool) -> tuple[str, ...]:
    """Return the listed codes of a language: with regions for some targets, without regions for sources."""
    return REGIONS.get(code, (code,)) if target else (code.partition("-")[0],)
