"""LibreTranslate's interface, as its clients know it: fields by JSON, form or query, errors as {"error": …}."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from regard.server.api.file_translation import FORMATS, Files, read_form
from regard.server.api.notices import notices
from regard.server.api.requests import Sender, fields, sender, texts_of, unless_gone
from regard.server.api_error import ApiError
from regard.server.service import Service
from regard.server.text.languages import NAMELESS, Language, name
from regard.server.text.markup_tokenizer import Markup
from regard.server.translation_request import TranslationRequest, TranslationResult

__all__ = ["router", "shaped", "speaks"]

ROUTES = ("/translate", "/translate_file", "/detect", "/languages", "/frontend/settings", "/health")
DOWNLOADS = "/download_file/"
MARKUPS = {".md": Markup.of("markdown"), ".html": Markup.of("html"), ".htm": Markup.of("html")}
ALIASES = {"pb": "pt-BR", "zh": "zh-Hans", "zt": "zh-Hant"}


def shaped(refused: ApiError) -> JSONResponse:
    status = 400 if refused.reason == "no key" else refused.status
    return JSONResponse({"error": refused.message}, status, headers=refused.headers)


def speaks(path: str) -> bool:
    """Whether this interface has a route there."""
    return path in ROUTES or path.startswith(DOWNLOADS)


def router(service: Service) -> APIRouter:
    routes, files = APIRouter(tags=["LibreTranslate"]), Files()

    @routes.post("/translate")
    async def translate(request: Request, response: Response) -> dict[str, Any]:
        """`q` (a text or a list), `source` (a code or `auto`), `target`, `format` (`text`, `html`), `alternatives`."""
        given = await fields(request)
        texts = texts_of(given.get("q"), "q")
        source, target = (_code(given, key) for key in ("source", "target"))
        format = given.get("format") or "text"
        if format not in ("text", "html"):
            raise ApiError(400, f"{str(format)[:40]} format is not supported")
        alternatives = _number(given, "alternatives")
        search: dict[str, float | int | None] = {"nbest": alternatives + 1} if alternatives else {}
        options: dict[str, Any] = {"search": search, "markup": Markup.of("html") if format == "html" else None}
        asked = TranslationRequest(
            texts, None if source == "auto" else source, target, _sender(request, given), **options
        )
        answers = await unless_gone(request, service.translate(asked))
        response.headers.update(notices(answers))
        return _answer(answers, isinstance(given["q"], list), bool(alternatives))

    @routes.post("/translate_file")
    async def translate_file(request: Request, response: Response) -> dict[str, str]:
        """A form with `file` (UTF-8), `source` and `target`; `translatedFileUrl` holds for ten minutes.

        `model`, which is ours, asks for one by its name.
        """
        given, sent = await read_form(request)
        source, target = (_code(given, key) for key in ("source", "target"))
        markup = MARKUPS.get(sent.suffix)
        who = _sender(request, given)
        named = given.get("model") or None
        asked = TranslationRequest([sent.text], None if source == "auto" else source, target, who, named, markup=markup)
        (answer,) = await unless_gone(request, service.translate(asked))
        response.headers.update(notices([answer]))
        name = files.add(sent.suffix, answer.text)
        return {"translatedFileUrl": f"{service.settings.public_url or _bound(request)}".rstrip("/") + DOWNLOADS + name}

    @routes.get(DOWNLOADS + "{name}", response_class=Response)
    async def download_file(name: str) -> Response:
        """Never shown by a browser: it is somebody's text."""
        content = files.find(name)
        headers = {"content-disposition": f'attachment; filename="translated.{name.rpartition(".")[2]}"'}
        return Response(content, media_type="application/octet-stream", headers=headers)

    @routes.post("/detect")
    async def detect(request: Request) -> list[dict[str, Any]]:
        """`q`, a text."""
        given = await fields(request)
        service.admit(_sender(request, given))
        text = " ".join(texts_of(given.get("q"), "q"))
        return [_language(each) for each in service.detect(text)]

    @routes.get("/languages")
    def languages() -> list[dict[str, Any]]:
        targets: dict[str, list[str]] = {}
        for model in service.models.all:
            targets.setdefault(model.source or NAMELESS, []).append(model.target or NAMELESS)
        return [{"code": code, "name": name(code), "targets": sorted(set(of))} for code, of in sorted(targets.items())]

    @routes.post("/frontend/settings", include_in_schema=False)
    @routes.get("/frontend/settings")
    def settings() -> dict[str, Any]:
        first = service.models.all[0]
        return {
            "charLimit": service.settings.characters,
            "frontendTimeout": 500,
            "apiKeys": service.keys is not None,
            "keyRequired": service.keys is not None,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": list(FORMATS),
            "language": {side: {"code": code or NAMELESS, "name": name(code or NAMELESS)} for side, code in
                         (("source", first.source), ("target", first.target))},
        }  # fmt: skip

    @routes.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    return routes


def _bound(request: Request) -> str:
    """The address at which this connection arrived; the header Host says what its client likes."""
    host, port = request.scope["server"]
    return f"http://{f'[{host}]' if ':' in host else host}" + (f":{port}" if port else "")


def _sender(request: Request, given: dict[str, Any]) -> Sender:
    return sender(request, "Bearer", given.get("api_key") or None)


def _answer(answers: list[TranslationResult], many: bool, alternatives: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"translatedText": [answer.text for answer in answers]}
    if answers[0].detected is not None:
        found["detectedLanguage"] = [_language(answer.detected) for answer in answers if answer.detected]
    if alternatives:
        found["alternatives"] = [[text for text, _ in answer.candidates[1:]] for answer in answers]
    return found if many else {key: value[0] for key, value in found.items()}


def _language(language: Language) -> dict[str, Any]:
    """``uncertain`` is ours, and there only where it is true."""
    found = {"confidence": round(100 * language.confidence), "language": language.code}
    return found | ({"uncertain": True} if language.uncertain else {})


def _code(given: dict[str, Any], key: str) -> str:
    code = given.get(key)
    if not isinstance(code, str) or not code:
        raise ApiError(400, f"Invalid request: missing {key} parameter")
    return ALIASES.get(code.lower(), code)


def _number(given: dict[str, Any], key: str) -> int:
    try:
        number = int(given.get(key) or 0)
    except (TypeError, ValueError, OverflowError) as error:
        raise ApiError(400, f"Invalid request: {key} is not a number") from error
    if number < 0:
        raise ApiError(400, f"Invalid request: {key} is negative")
    return number
