"""DeepL's interface for glossaries, version 2: each client creates, lists, shows and deletes its own."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.server.api.requests import Credentials, RawRequest, credentials
from regard.server.api_error import ApiError
from regard.server.glossaries import GlossaryStore, StoredGlossary
from regard.server.service import Service
from regard.server.text.glossary import format_tsv, parse_entries
from regard.server.text.languages import base_language

MAX_NAME = 1024  # characters of a glossary's name


def router(service: Service) -> APIRouter:
    """Return the routes for glossaries."""
    routes = APIRouter(prefix="/v2", tags=["DeepL"])
    _add_creation(routes, service)
    _add_access(routes, service)
    return routes


def _add_creation(routes: APIRouter, service: Service) -> None:
    """Add the routes that list possible languages and create a glossary."""

    @routes.get("/glossary-language-pairs")
    async def pairs() -> dict[str, list[dict[str, str]]]:
        """List the language pairs of the models with known languages."""
        models = service.models.translators
        named = sorted({(model.source, model.target) for model in models if model.source and model.target})
        return {
            "supported_languages": [
                {"source_lang": _language_code(source).lower(), "target_lang": _language_code(target).lower()}
                for source, target in named
            ]
        }

    @routes.post("/glossaries", status_code=201)
    async def create(request: Request) -> dict[str, Any]:
        """Create a glossary.

        Fields: `name`, `source_lang`, `target_lang`, `entries`, and `entries_format`: `tsv` or `csv`.
        """
        client, raw = _client(service, request), await RawRequest.receive(request)

        def add() -> dict[str, Any]:
            """Store the glossary."""
            fields = raw.fields()
            names = ("name", "source_lang", "target_lang", "entries")
            name, source, target, entries = (_required_text(fields, key) for key in names)
            if len(name) > MAX_NAME:
                raise ApiError(400, "Value for 'name' is too long.")
            service.models.for_languages(source, target)
            parsed = parse_entries(entries, fields.get("entries_format", "tsv"))
            codes = _language_code(source), _language_code(target)
            return _description(service.clients.glossaries.add(client, name, *codes, parsed))

        return await asyncio.to_thread(add)


def _add_access(routes: APIRouter, service: Service) -> None:
    """Add the routes that list, show and delete glossaries."""
    glossaries = service.clients.glossaries

    @routes.get("/glossaries")
    async def list_glossaries(request: Request) -> dict[str, Any]:
        """List the glossaries of the client, oldest first."""
        owned = await asyncio.to_thread(glossaries.owned_by, _client(service, request))
        return {"glossaries": [_description(glossary) for glossary in owned]}

    @routes.get("/glossaries/{id}")
    async def show(id: str, request: Request) -> dict[str, Any]:
        """Describe a glossary."""
        return _description(await asyncio.to_thread(glossaries.find, _client(service, request), id))

    @routes.get("/glossaries/{id}/entries", response_class=Response)
    async def entries(id: str, request: Request) -> Response:
        """Return the entries of a glossary as TSV."""
        client = _client(service, request)
        text = await asyncio.to_thread(lambda: format_tsv(glossaries.find(client, id).entries))
        return Response(text, media_type="text/tab-separated-values; charset=utf-8")

    @routes.delete("/glossaries/{id}", status_code=204)
    async def remove(id: str, request: Request) -> None:
        """Delete a glossary."""
        await asyncio.to_thread(glossaries.remove, _client(service, request), id)


def deepl_credentials(request: Request) -> Credentials:
    """Return the client's credentials; DeepL's clients append ``:fx`` to keys of the free service."""
    parsed = credentials(request, "DeepL-Auth-Key")
    return parsed._replace(key=parsed.key.removesuffix(":fx")) if parsed.key else parsed


def _client(service: Service, request: Request) -> str:
    """Count a request and return the name of the client; see ``Service.admit`` for errors."""
    return service.admit(deepl_credentials(request))[0]


def find_glossary(glossaries: GlossaryStore, client: str, id: Any, source: Any, target: str) -> StoredGlossary:
    """Return the glossary that a translation requests; raise ApiError if it is missing or has other languages."""
    if not isinstance(id, str):
        raise ApiError(400, "Value for 'glossary_id' not supported.")
    if not isinstance(source, str) or not source:
        raise ApiError(400, "Value for 'source_lang' is required with a glossary.")
    glossary = glossaries.find(client, id)
    if (_language_code(source), _language_code(target)) != (glossary.source, glossary.target):
        raise ApiError(400, "The glossary is for other languages.")
    return glossary


def _language_code(code: str) -> str:
    """Return an upper-case code without region."""
    return base_language(code).upper()


def _required_text(fields: dict[str, Any], key: str) -> str:
    """Return the text of a field; raise ApiError if it is missing or blank."""
    if not isinstance(fields.get(key), str) or not fields[key].strip():
        raise ApiError(400, f"Value for '{key}' not supported.")
    return str(fields[key])


def _description(stored: StoredGlossary) -> dict[str, Any]:
    """Return DeepL's description of a glossary."""
    return {
        "glossary_id": str(stored.id),
        "name": stored.name,
        "ready": True,
        "source_lang": stored.source.lower(),
        "target_lang": stored.target.lower(),
        "creation_time": stored.created.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "entry_count": len(stored.entries),
    }
