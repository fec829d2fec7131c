"""DeepL's glossaries, version 2: made, listed, shown and removed, each client's own."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.server.api.requests import Sender, fields, sender
from regard.server.api_error import ApiError
from regard.server.glossaries import Glossaries, StoredGlossary
from regard.server.service import Service
from regard.server.text.glossary import entries_of, tsv
from regard.server.text.languages import base

__all__ = ["chosen", "key_sender", "router"]

LONGEST = 1024  # letters of a name


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v2", tags=["DeepL"])
    glossaries = service.glossaries

    @routes.get("/glossary-language-pairs")
    async def pairs() -> dict[str, list[dict[str, str]]]:
        """The languages of the models that name theirs."""
        found = sorted({(each.source, each.target) for each in service.models.all if each.source and each.target})
        shown = [
            {"source_lang": _plain(source).lower(), "target_lang": _plain(target).lower()} for source, target in found
        ]
        return {"supported_languages": shown}

    @routes.post("/glossaries", status_code=201)
    async def create(request: Request) -> dict[str, Any]:
        """`name`, `source_lang`, `target_lang`, `entries`, and `entries_format`: `tsv` or `csv`."""
        client, given = _owner(service, request), await fields(request)
        name, source, target, entries = (_text(given, key) for key in ("name", "source_lang", "target_lang", "entries"))
        if len(name) > LONGEST:
            raise ApiError(400, "Value for 'name' is too long.")
        service.models.between(source, target)
        found = await asyncio.to_thread(entries_of, entries, given.get("entries_format", "tsv"))
        kept = await asyncio.to_thread(glossaries.add, client, name, _plain(source), _plain(target), found)
        return _shown(kept)

    @routes.get("/glossaries")
    async def every(request: Request) -> dict[str, Any]:
        return {"glossaries": [_shown(each) for each in glossaries.of(_owner(service, request))]}

    @routes.get("/glossaries/{id}")
    async def one(id: str, request: Request) -> dict[str, Any]:
        return _shown(glossaries.find(_owner(service, request), id))

    @routes.get("/glossaries/{id}/entries", response_class=Response)
    async def entries(id: str, request: Request) -> Response:
        """As TSV."""
        found = glossaries.find(_owner(service, request), id)
        return Response(tsv(found.entries), media_type="text/tab-separated-values; charset=utf-8")

    @routes.delete("/glossaries/{id}", status_code=204)
    async def remove(id: str, request: Request) -> None:
        await asyncio.to_thread(glossaries.remove, _owner(service, request), id)

    return routes


def key_sender(request: Request) -> Sender:
    """The client adds ``:fx`` to keys of the free service."""
    found = sender(request, "DeepL-Auth-Key")
    return found._replace(key=found.key.removesuffix(":fx")) if found.key else found


def _owner(service: Service, request: Request) -> str:
    """Whose glossaries are meant. ApiError as any request may be."""
    return service.admit(key_sender(request))[0]


def chosen(glossaries: Glossaries, client: str, id: Any, source: Any, target: str) -> StoredGlossary:
    """The glossary that a translation asks for. ApiError where it is for other languages."""
    if not isinstance(id, str):
        raise ApiError(400, "Value for 'glossary_id' not supported.")
    if not isinstance(source, str) or not source:
        raise ApiError(400, "Value for 'source_lang' is required with a glossary.")
    found = glossaries.find(client, id)
    if (_plain(source), _plain(target)) != (found.source, found.target):
        raise ApiError(400, "The glossary is for other languages.")
    return found


def _plain(code: str) -> str:
    return base(code).upper()


def _text(given: dict[str, Any], key: str) -> str:
    if not isinstance(given.get(key), str) or not given[key].strip():
        raise ApiError(400, f"Value for '{key}' not supported.")
    return str(given[key])


def _shown(kept: StoredGlossary) -> dict[str, Any]:
    return {
        "glossary_id": str(kept.id),
        "name": kept.name,
        "ready": True,
        "source_lang": kept.source.lower(),
        "target_lang": kept.target.lower(),
        "creation_time": kept.created.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "entry_count": len(kept.entries),
    }
