"""LibreTranslate's interface: fields by JSON, form or query, errors as {"error": …}."""

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
    """Return an error as LibreTranslate's clients expect it."""
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
        asked = await off_loop(_read_request, request, await RawRequest.receive(request))
        results = await unless_disconnected(request, service.translate(asked.translation))
        return await off_loop(_translation_response, results, asked)


def _add_files(routes: APIRouter, service: Service) -> None:
    """Add the routes that translate a file and return the translation."""
    files = service.clients.files

    @routes.post("/translate_file")
    async def translate_file(request: Request, response: Response) -> dict[str, str]:
        """Translate a file. The address in `translatedFileUrl` is valid for ten minutes.

        Fields of the form: `file` (UTF-8), `source`, `target`, and, beyond LibreTranslate, `model`: its name.
        """
        given, file = await read_form(request)
        source, target = _source_code(given), _language_code(given, "target")
        translation = TranslationRequest(
            [file.text],
            source,
            target,
            _credentials(request, given),
            given.get("model") or None,
            markup=MARKUP_BY_SUFFIX.get(file.suffix),
        )
        (result,) = await unless_disconnected(request, service.translate(translation))
        response.headers.update(await off_loop(notice_headers, [result]))
        name = await asyncio.to_thread(files.add, file.suffix, result.text)
        server = f"{service.settings.public_url or _local_address(request)}".rstrip("/")
        return {"translatedFileUrl": server + DOWNLOADS + name}

    @routes.get(DOWNLOADS + "{name}", response_class=Response)
    async def download_file(name: str) -> Response:
        """Return a translated file, to be saved: a browser must not show a stranger's text as a page."""
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
            given = raw.fields()
            service.admit(_credentials(request, given))
            text = " ".join(validate_texts(given.get("q"), "q"))
            return [_detected_language(language) for language in service.detect(text)]

        return await off_loop(identify)


def _add_information(routes: APIRouter, service: Service) -> None:
    """Add the routes that describe the server."""

    @routes.get("/languages")
    def languages() -> list[dict[str, Any]]:
        """List the source languages, each with the languages into which it is translated."""
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
        """Return limits and abilities of the server."""
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
        """Tell that the server responds."""
        return {"status": "ok"}


def _language(code: str) -> dict[str, str]:
    """Return a language with its name."""
    return {"code": code, "name": language_name(code)}


def _local_address(request: Request) -> str:
    """Return the address at which this connection arrived; the header Host is the client's choice."""
    host, port = request.scope["server"]
    return f"http://{f'[{host}]' if ':' in host else host}" + (f":{port}" if port else "")


def _credentials(request: Request, given: dict[str, Any]) -> Credentials:
    """Return the client's credentials: the field `api_key`, or the header Authorization."""
    return credentials(request, "Bearer", given.get("api_key") or None)


class _TranslateFields(NamedTuple):
    """Translation that a request asks for, and its response: of a list (``many``), with ``alternatives``."""

    translation: TranslationRequest
    many: bool
    alternatives: bool


def _read_request(request: Request, raw: RawRequest) -> _TranslateFields:
    """Return the translation that a request asks for."""
    given = raw.fields()
    texts = validate_texts(given.get("q"), "q")
    source, target = _source_code(given), _language_code(given, "target")
    format = given.get("format") or "text"
    if format not in ("text", "html"):
        raise ApiError(400, f"{str(format)[:40]} format is not supported")
    alternatives = _count(given, "alternatives")
    translation = TranslationRequest(
        texts,
        source,
        target,
        _credentials(request, given),
        search={"nbest": alternatives + 1} if alternatives else {},
        markup=Markup.create("html") if format == "html" else None,
    )
    return _TranslateFields(translation, isinstance(given["q"], list), bool(alternatives))


def _translation_response(results: list[TranslationResult], asked: _TranslateFields) -> Response:
    """Return the response."""
    found: dict[str, Any] = {"translatedText": [result.text for result in results]}
    if results[0].detected is not None:
        found["detectedLanguage"] = [_detected_language(result.detected) for result in results if result.detected]
    if asked.alternatives:
        found["alternatives"] = [[text for text, _ in result.candidates[1:]] for result in results]
    content = found if asked.many else {key: value[0] for key, value in found.items()}
    return JSONResponse(content, headers=notice_headers(results))


def _detected_language(language: Language) -> dict[str, Any]:
    """Return an identified language; the field `uncertain`, beyond LibreTranslate, is there only if true."""
    found = {"confidence": round(100 * language.confidence), "language": language.code}
    return found | ({"uncertain": True} if language.uncertain else {})


def _source_code(given: dict[str, Any]) -> str | None:
    """Return the code of the source language; None for `auto`."""
    code = _language_code(given, "source")
    return None if code == "auto" else code


def _language_code(given: dict[str, Any], key: str) -> str:
    """Return the language code of a field. ApiError if it is missing."""
    code = given.get(key)
    if not isinstance(code, str) or not code:
        raise ApiError(400, f"Invalid request: missing {key} parameter")
    return ALIASES.get(code.lower(), code)


def _count(given: dict[str, Any], key: str) -> int:
    """Return the number of a field, 0 if missing. ApiError if it is negative or not a number."""
    try:
        number = int(given.get(key) or 0)
    except (TypeError, ValueError, OverflowError) as error:
        raise ApiError(400, f"Invalid request: {key} is not a number") from error
    if number < 0:
        raise ApiError(400, f"Invalid request: {key} is negative")
    return number
