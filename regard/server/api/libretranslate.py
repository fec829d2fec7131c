"""LibreTranslate's interface: fields in JSON, a form or the query; errors are {"error": …}."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from regard.server.api.file_translation import FILE_SUFFIXES, read_form
from regard.server.api.notices import notice_headers
from regard.server.api.requests import Credentials, RawRequest, credentials, unless_disconnected, validate_texts
from regard.server.api_error import ApiError
from regard.server.off_loop import off_loop
from regard.server.service import Service
from regard.server.text.languages import UNDETERMINED, Language, language_name
from regard.server.text.markup_tokenizer import Markup
from regard.server.translation_request import TranslationRequest, TranslationResult

PATHS = ("/translate", "/translate_file", "/detect", "/languages", "/frontend/settings", "/health")
DOWNLOADS = "/download_file/"
JSON_OBJECT: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {"schema": {"type": "object"}}}}}
MARKUP_BY_SUFFIX = {".md": Markup.create("markdown"), ".html": Markup.create("html"), ".htm": Markup.create("html")}
ALIASES = {"pb": "pt-BR", "zh": "zh-Hans", "zt": "zh-Hant"}


def error_response(error: ApiError) -> JSONResponse:
    """Return an error in LibreTranslate's format."""
    status = 400 if error.reason == "no key" else error.status
    return JSONResponse({"error": error.message}, status, headers=error.headers)


def handles(path: str) -> bool:
    """Return whether a path belongs to this interface."""
    return path in PATHS or path.startswith(DOWNLOADS)


def router(service: Service) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["LibreTranslate"])
    _add_translation(routes, service)
    _add_files(routes, service)
    _add_detection(routes, service)
    _add_information(routes, service)
    return routes


def _add_translation(routes: APIRouter, service: Service) -> None:
    """Add the route that translates texts."""

    @routes.post("/translate", response_class=JSONResponse, responses=JSON_OBJECT)
    async def translate(request: Request) -> Response:
        """Translate texts.

        Fields: `q` (a text or a list), `source` (a code or `auto`), `target`, `format` (`text`, `html`),
        `alternatives`.
        """
        parsed = await off_loop(_read_request, request, await RawRequest.receive(request))
        results = await unless_disconnected(request, service.translate(parsed.translation))
        return await off_loop(_translation_response, results, parsed)


def _add_files(routes: APIRouter, service: Service) -> None:
    """Add the routes that translate a file and return the translation."""
    files = service.clients.files

    @routes.post("/translate_file")
    async def translate_file(request: Request, response: Response) -> dict[str, str]:
        """Translate a file. The URL in `translatedFileUrl` is valid for ten minutes.

        Fields of the form: `file` (UTF-8), `source`, `target`, and `model` (an extension of LibreTranslate).
        """
        fields, file = await read_form(request)
        source, target = _source_code(fields), _language_code(fields, "target")
        translation = TranslationRequest(
            [file.text],
            source,
            target,
            _credentials(request, fields),
            fields.get("model") or None,
            markup=MARKUP_BY_SUFFIX.get(file.suffix),
        )
        (result,) = await unless_disconnected(request, service.translate(translation))
        response.headers.update(await off_loop(notice_headers, [result]))
        name = await asyncio.to_thread(files.add, file.suffix, result.text)
        server = f"{service.settings.public_url or _local_address(request)}".rstrip("/")
        return {"translatedFileUrl": server + DOWNLOADS + name}

    @routes.get(DOWNLOADS + "{name}", response_class=Response)
    async def download_file(name: str) -> Response:
        """Return a translated file as a download: a browser must not show foreign text as a page of this server."""
        content = await asyncio.to_thread(files.find, name)
        headers = {"content-disposition": f'attachment; filename="translated.{name.rpartition(".")[2]}"'}
        return Response(content, media_type="application/octet-stream", headers=headers)


def _add_detection(routes: APIRouter, service: Service) -> None:
    """Add the route that identifies languages."""

    @routes.post("/detect")
    async def detect(request: Request) -> list[dict[str, Any]]:
        """Identify the language of a text. Field: `q`."""
        raw = await RawRequest.receive(request)

        def identify() -> list[dict[str, Any]]:
            """Return the languages."""
            fields = raw.fields()
            service.admit(_credentials(request, fields))
            text = " ".join(validate_texts(fields.get("q"), "q"))
            return [_detected_language(language) for language in service.detect(text)]

        return await off_loop(identify)


def _add_information(routes: APIRouter, service: Service) -> None:
    """Add the routes that describe the server."""

    @routes.get("/languages")
    def languages() -> list[dict[str, Any]]:
        """List the source languages, each with its target languages."""
        by_source: dict[str, list[str]] = {}
        for model in service.models.translators:
            by_source.setdefault(model.source or UNDETERMINED, []).append(model.target or UNDETERMINED)
        return [
            {"code": code, "name": language_name(code), "targets": sorted(set(targets))}
            for code, targets in sorted(by_source.items())
        ]

    @routes.post("/frontend/settings", include_in_schema=False)
    @routes.get("/frontend/settings")
    def settings() -> dict[str, Any]:
        """Return the limits and features of the server."""
        first = next(iter(service.models.translators), None)
        sides = (("source", first and first.source), ("target", first and first.target))
        return {
            "charLimit": service.settings.characters,
            "frontendTimeout": 500,
            "apiKeys": service.keys is not None,
            "keyRequired": service.keys is not None,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": list(FILE_SUFFIXES),
            "language": {side: _language(code or UNDETERMINED) for side, code in sides},
        }

    @routes.get("/health")
    def health() -> dict[str, str]:
        """Report that the server responds."""
        return {"status": "ok"}


def _language(code: str) -> dict[str, str]:
    """Return a language with its name."""
    return {"code": code, "name": language_name(code)}


def _local_address(request: Request) -> str:
    """Return the address of the server in this connection; the client chooses the header Host, so it is not used."""
    host, port = request.scope["server"]
    host = host if port else "localhost"  # without a port: a Unix socket
    address = f"{request.scope['scheme']}://{f'[{host}]' if ':' in host else host}" + (f":{port}" if port else "")
    return address + str(request.scope.get("root_path", ""))


def _credentials(request: Request, fields: dict[str, Any]) -> Credentials:
    """Return the client's credentials: the field `api_key`, or the header Authorization."""
    return credentials(request, "Bearer", fields.get("api_key") or None)


class _TranslateFields(NamedTuple):
    """Parsed request, and the form of its response: for a list of texts (``many``), with ``alternatives``."""

    translation: TranslationRequest
    many: bool
    alternatives: bool


def _read_request(request: Request, raw: RawRequest) -> _TranslateFields:
    """Parse a request."""
    fields = raw.fields()
    texts = validate_texts(fields.get("q"), "q")
    source, target = _source_code(fields), _language_code(fields, "target")
    format = fields.get("format") or "text"
    if format not in ("text", "html"):
        raise ApiError(400, f"{str(format)[:40]} format is not supported")
    alternatives = _count(fields, "alternatives")
    translation = TranslationRequest(
        texts,
        source,
        target,
        _credentials(request, fields),
        search={"nbest": alternatives + 1} if alternatives else {},
        markup=Markup.create("html") if format == "html" else None,
    )
    return _TranslateFields(translation, isinstance(fields["q"], list), bool(alternatives))


def _translation_response(results: list[TranslationResult], request: _TranslateFields) -> Response:
    """Return the response."""
    content: dict[str, Any] = {"translatedText": [result.text for result in results]}
    if results[0].detected is not None:
        content["detectedLanguage"] = [_detected_language(result.detected) for result in results if result.detected]
    if request.alternatives:
        content["alternatives"] = [[text for text, _ in result.candidates[1:]] for result in results]
    body = content if request.many else {key: value[0] for key, value in content.items()}
    return JSONResponse(body, headers=notice_headers(results))


def _detected_language(language: Language) -> dict[str, Any]:
    """Return an identified language; the field `uncertain`, an extension of LibreTranslate, only if true."""
    content = {"confidence": round(100 * language.confidence), "language": language.code}
    return content | ({"uncertain": True} if language.uncertain else {})


def _source_code(fields: dict[str, Any]) -> str | None:
    """Return the code of the source language; None for `auto`."""
    code = _language_code(fields, "source")
    return None if code == "auto" else code


def _language_code(fields: dict[str, Any], key: str) -> str:
    """Return the language code in a field; raise ApiError if it is missing."""
    code = fields.get(key)
    if not isinstance(code, str) or not code:
        raise ApiError(400, f"Invalid request: missing {key} parameter")
    return ALIASES.get(code.lower(), code)


def _count(fields: dict[str, Any], key: str) -> int:
    """Return the number in a field, 0 if missing; raise ApiError if it is negative or not a number."""
    try:
        number = int(fields.get(key) or 0)
    except (TypeError, ValueError, OverflowError) as error:
        raise ApiError(400, f"Invalid request: {key} is not a number") from error
    if number < 0:
        raise ApiError(400, f"Invalid request: {key} is negative")
    return number
