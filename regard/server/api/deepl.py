"""DeepL's interface, version 2, as its clients know it: errors as {"message": …}, upper-case codes with regions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from regard.server.api.deepl_glossaries import chosen, key_sender
from regard.server.api.notices import notices
from regard.server.api.requests import fields, texts_of, unless_gone
from regard.server.api_error import ApiError
from regard.server.service import Service
from regard.server.text.languages import NAMELESS, base, name
from regard.server.text.markup_tokenizer import Markup
from regard.server.translation_request import TranslationRequest

__all__ = ["router", "shaped"]

UNLIMITED = 10**12  # characters: clients want a number
# The client refuses these as a target without a region.
REGIONS = {"EN": ("EN-GB", "EN-US"), "PT": ("PT-BR", "PT-PT")}


def shaped(refused: ApiError) -> JSONResponse:
    status = {"no key": 403, "wrong key": 403, "quota": 456}.get(refused.reason, refused.status)
    return JSONResponse({"message": refused.message}, status, headers=refused.headers)


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v2", tags=["DeepL"])

    @routes.post("/translate")
    async def translate(request: Request, response: Response) -> dict[str, Any]:
        """`text` (a list), `target_lang`, `source_lang`, `glossary_id`; `tag_handling` and what belongs to it."""
        given = await fields(request)
        texts = texts_of(given.get("text"), "text")
        source, target = given.get("source_lang"), given.get("target_lang")
        if not isinstance(target, str) or not target or not isinstance(source, str | None):
            raise ApiError(400, "Value for 'target_lang' not supported.")
        options: dict[str, Any] = {"markup": _markup(given)}
        who = key_sender(request)
        if given.get("glossary_ids"):
            raise ApiError(400, "Value for 'glossary_ids' not supported.")
        if given.get("glossary_id"):
            kept = chosen(service.glossaries, service.client(who)[0], given["glossary_id"], source, target)
            options["glossary"] = kept.glossary
        answers = await unless_gone(
            request, service.translate(TranslationRequest(texts, source or None, target, who, **options))
        )
        response.headers.update(notices(answers))
        return {
            "translations": [
                {
                    "detected_source_language": base(answer.source or NAMELESS).upper(),
                    "text": answer.text,
                    "billed_characters": len(text),
                }
                for text, answer in zip(texts, answers, strict=True)
            ]
        }

    @routes.post("/languages", include_in_schema=False)
    @routes.get("/languages")
    async def languages(request: Request) -> list[dict[str, Any]]:
        """`type`: `source`, or `target`, where some languages have regions."""
        kind = (await fields(request)).get("type", "source")
        if kind not in ("source", "target"):
            raise ApiError(400, "Value for 'type' not supported.")
        codes = {(model.source if kind == "source" else model.target) or NAMELESS for model in service.models.all}
        regional = [each for code in sorted(codes) for each in _regions(code.upper(), kind == "target")]
        extra = {"supports_formality": False} if kind == "target" else {}
        return [{"language": code, "name": name(code)} | extra for code in regional]

    @routes.post("/usage", include_in_schema=False)
    @routes.get("/usage")
    async def usage(request: Request) -> dict[str, int]:
        """Of this key, or of this address, since the server began."""
        used, most = service.usage(key_sender(request))
        return {"character_count": used, "character_limit": UNLIMITED if most is None else most}

    return routes


def _markup(given: dict[str, Any]) -> Markup | None:
    """What the texts are read as; None: as they are."""
    kind = given.get("tag_handling")
    if not kind:
        return None
    if kind not in ("html", "xml"):
        raise ApiError(400, "Value for 'tag_handling' not supported.")
    outline = str(given.get("outline_detection", True)).lower()
    if outline not in ("0", "1", "true", "false"):
        raise ApiError(400, "Value for 'outline_detection' not supported.")
    lists = (_names(given, key) for key in ("ignore_tags", "splitting_tags", "non_splitting_tags"))
    return Markup.of(kind, *lists, outline=outline in ("1", "true"))


def _names(given: dict[str, Any], key: str) -> list[str]:
    """A list, or one text with commas."""
    found = given.get(key) or []
    found = [found] if isinstance(found, str) else found
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ApiError(400, f"Value for '{key}' not supported.")
    return [name.strip() for each in found for name in each.split(",") if name.strip()]


def _regions(code: str, target: bool) -> tuple[str, ...]:
    return REGIONS.get(code, (code,)) if target else (code.partition("-")[0],)
