"""Regard's own interface: translations with scores, n-best lists and attention, scoring, models, health, metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from regard.config.search_requests import SearchRequest
from regard.errors import DataError
from regard.inference.results import Translation
from regard.server.api.event_stream import EVENT_STREAM
from regard.server.api.json_route import JsonRoute, Strings
from regard.server.api.notices import count_unknown
from regard.server.api.requests import Credentials, credentials, unless_disconnected, validate_texts
from regard.server.api.translation_events import translation_events
from regard.server.api_error import ApiError
from regard.server.off_loop import off_loop
from regard.server.service import Service
from regard.server.text.languages import Language
from regard.server.text.markup_tokenizer import Markup
from regard.server.translation_request import TranslationRequest, TranslationResult

HeadWeights = dict[str, list[list[list[float]]]]  # by layer name: heads, target pieces, source pieces
MAX_SHOWN = 256  # limit of source characters and output pieces for which attention is returned


class TranslateRequest(SearchRequest):
    """Texts to translate. The config of the model sets the defaults of settings."""

    text: str | Strings = Field(description="One text or a list of texts.")
    source: str | None = Field(None, description="Language code; left out or `auto`: identified from the text.")
    target: str | None = Field(None, description="Language code; left out: any language.")
    model: str | None = Field(None, description="Name of the model; left out: the first for the languages.")
    attention: bool = Field(
        False, description="Return the attention weights of every head; only for one short sentence."
    )
    glossary: dict[str, str] | None = Field(None, description="Target phrases by source phrase.")
    keep: bool = Field(True, description="Keep placeholders, addresses and numbers unchanged.")
    format: Literal["text", "html", "xml", "markdown"] = Field(
        "text", description="Format of the texts; tags and marks are transferred to the translation."
    )
    stream: bool = Field(
        False, description="Send each sentence when it is complete, as server-sent events; only for one plain text."
    )


class CandidateResponse(BaseModel):
    """Output of a text and its score."""

    text: str
    score: float


class SentenceTranslation(BaseModel):
    """Translation of one sentence."""

    source: str
    text: str
    pieces: list[str] = Field(description="Pieces of the best output.")
    log_probabilities: list[float] = Field(
        description="Log probability of each piece and the end token, in nats; empty if terms were inserted into an "
        "output that is too long for one pass."
    )
    attention: HeadWeights | None = Field(None, description="By layer name: heads, target pieces, source pieces.")


class DetectedLanguage(BaseModel):
    """Language identified for a text whose request names none."""

    language: str
    confidence: float = Field(description="From 0 to 1.")
    uncertain: bool = Field(description="Whether the confidence is low.")


class TranslatedText(BaseModel):
    """Translation of one text."""

    text: str
    score: float
    candidates: list[CandidateResponse] = Field(description="Best first; several only for a text of one sentence.")
    model: str
    source: str | None
    target: str | None
    detected: DetectedLanguage | None
    unknown: dict[str, int] = Field(
        description="Counts of the characters (words, for a word tokenizer) that are not in the vocabulary. In "
        "/v1/inspect, `unknown` is a list without counts."
    )
    unread: int = Field(
        description="Number of pieces at the end of the text that truncation drops, for models that truncate."
    )
    sentences: list[SentenceTranslation]


class TranslateResponse(BaseModel):
    """Translations in the order of the texts."""

    translations: list[TranslatedText]


class ModelDescription(BaseModel):
    """Served model and its load. Only translation models have languages.

    `id`, `object`, `created` and `owned_by` are for clients of OpenAI.
    """

    id: str
    object: Literal["model"] = "model"
    created: int = Field(description="Start of the server, in seconds since 1970.")
    owned_by: Literal["regard"] = "regard"
    name: str
    task: str = Field(description="Task: `translation`, `language-model`, …")
    source: str | None
    target: str | None
    ready: bool = Field(description="Whether the model is loaded.")
    waiting: int = Field(description="Number of inputs in the queue; for a translation model, sentences.")
    running: int = Field(description="Number of inputs in computation.")


class ModelList(BaseModel):
    """Served models, in the format of OpenAI."""

    object: Literal["list"] = "list"
    data: list[ModelDescription]


class ScoreRequest(BaseModel):
    """Texts to score: pairs for a translation model; texts, with or without prompts, for a language model."""

    model_config = ConfigDict(extra="forbid")

    sources: Strings | None = Field(
        None, description="One source per target. For a language model, prompts; left out: targets are whole texts."
    )
    targets: Strings
    model: str | None = Field(
        None, description="Name of the model; left out: the first translation model, else the first language model."
    )


class ScoredPair(BaseModel):
    """Log probability of a target given its source or prompt, in nats."""

    log_probability: float
    pieces: list[float] = Field(description="Log probability of each piece; for a translation, also of the end token.")


class ScoreResponse(BaseModel):
    """Scores in the order of the pairs."""

    scores: list[ScoredPair]


class ErrorBody(BaseModel):
    """Error message."""

    error: str


ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 401, 403, 404, 413, 415, 422, 429, 503)
}


def error_response(error: ApiError) -> JSONResponse:
    """Return an error in the format of this interface."""
    return JSONResponse({"error": error.message}, error.status, headers=error.headers)


def router(service: Service) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["Regard"], route_class=JsonRoute)
    _add_translation(routes, service)
    _add_scores(routes, service)
    _add_status(routes, service)
    return routes


def _add_translation(routes: APIRouter, service: Service) -> None:
    """Add the route that translates texts."""

    @routes.post("/v1/translate", response_model=TranslateResponse, responses=ERROR_RESPONSES | {200: EVENT_STREAM})
    async def translate(body: TranslateRequest, request: Request) -> Any:
        """Translate texts. With `stream`, each event is a sentence (`index`, `new`), and the last one the response.

        An error after the first event is sent as an event `error`.
        """
        translation = await off_loop(_translation_request, service, body, credentials(request, "Bearer"))
        if body.stream:
            return await translation_events(service, translation, request, lambda result: _translate_response([result]))
        results = await unless_disconnected(request, service.translate(translation))
        if not body.attention:
            return await off_loop(_translate_response, results)
        weights = await unless_disconnected(request, results[0].model.run_serial(lambda: _attention(results)))
        return await off_loop(_translate_response, results, weights)


def _add_scores(routes: APIRouter, service: Service) -> None:
    """Add the route that scores pairs of texts."""

    @routes.post("/v1/score", responses=ERROR_RESPONSES)
    async def score(body: ScoreRequest, request: Request) -> ScoreResponse:
        """Return the log probability of each piece of each target, given its source and the earlier pieces."""
        client, key = service.admit(credentials(request, "Bearer"))
        targets, sources = body.targets, body.sources
        model = service.models.scorer(body.model)
        if sources is None and model.needs_sources:
            raise ApiError(400, "Invalid request: sources: required for a translation model")
        if sources is not None and len(sources) != len(targets):
            raise ApiError(400, f"Invalid request: {len(sources)} sources for {len(targets)} targets")
        texts = [*(sources or ()), *targets]
        service.check_size(texts, max_texts=2 * service.settings.texts)
        try:
            with service.charge(sum(map(len, texts)), client, key):
                seconds, auxiliary = service.settings.seconds, service.run_auxiliary
                work = model.score(sources, targets, client=client, seconds=seconds, auxiliary=auxiliary)
                scores = await unless_disconnected(request, work)
        except DataError as error:
            raise ApiError(413, f"Too long: {error.what}.") from error
        return await off_loop(_score_response, scores)


def _translation_request(service: Service, body: TranslateRequest, client: Credentials) -> TranslationRequest:
    """Return the translation that a body requests; raise ApiError if it cannot be streamed but should be."""
    texts = validate_texts(body.text, "text")
    if body.stream:
        _require_streamable(body, texts)
    return TranslationRequest(
        texts,
        None if body.source == "auto" else body.source,
        body.target,
        client,
        body.model,
        body.model_dump(include=set(SearchRequest.model_fields)),
        glossary=service.request_glossary(body.glossary),
        protect=body.keep,
        markup=None if body.format == "text" else Markup.create(body.format),
    )


def _require_streamable(body: TranslateRequest, texts: Sequence[str]) -> None:
    """Raise ApiError for a request whose sentences cannot be sent one by one."""
    nbest = getattr(body, "nbest", None) or 1
    obstacles = {
        f"{len(texts)} texts": len(texts) > 1,
        "`attention`": body.attention,
        f"`format` {body.format}": body.format != "text",
        f"`nbest` {nbest}": nbest > 1,
    }
    for obstacle in (name for name, applies in obstacles.items() if applies):
        raise ApiError(400, f"Invalid request: `stream` cannot be combined with {obstacle}: send one plain text")


def _translate_response(results: Sequence[TranslationResult], weights: HeadWeights | None = None) -> TranslateResponse:
    """Return the response for texts; ``weights``: attention weights of the only sentence, None if not requested."""
    return TranslateResponse(translations=[_translated_text(result, weights) for result in results])


def _score_response(scores: Sequence[list[float]]) -> ScoreResponse:
    """Return the response for scored texts."""
    return ScoreResponse(scores=[ScoredPair(log_probability=sum(pieces), pieces=pieces) for pieces in scores])


def _add_status(routes: APIRouter, service: Service) -> None:
    """Add the routes that report the state of the server."""

    @routes.get("/v1/models", responses=ERROR_RESPONSES)
    def models(request: Request) -> ModelList:
        """List the models and their load."""
        service.admit(credentials(request, "Bearer"))
        return ModelList(data=[
            ModelDescription(id=model.name, created=model.created, name=model.name, task=model.task,
                             source=model.source, target=model.target, ready=model.ready, waiting=model.load[0],
                             running=model.load[1])
            for model in service.models.all
        ])  # fmt: skip

    @routes.get("/healthz")
    def healthz() -> dict[str, str]:
        """Report that the server responds."""
        return {"status": "ok"}

    @routes.get("/readyz", responses={503: {"model": ErrorBody}})
    def readyz() -> dict[str, str]:
        """Report whether the models to load at start are loaded and the server is not stopping.

        A full queue does not matter: the server already rejects the client that filled it, and a load balancer that
        removed every replica under load would have no replica left.
        """
        service.require_ready()
        return {"status": "ready"}

    @routes.get("/metrics", response_class=Response, responses={401: {"model": ErrorBody}, 403: {"model": ErrorBody}})
    def metrics(request: Request) -> Response:
        """Return metrics for Prometheus. Requires a key if the server has keys; does not count as a request."""
        service.identify(credentials(request, "Bearer"))
        service.report_loads()
        return Response(service.metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _attention(results: list[TranslationResult]) -> HeadWeights:
    """Return the attention weights of every head for one sentence.

    Raises:
        ApiError: for several sentences, or a sentence that is too long.
    """
    sentences = [sentence for result in results for sentence in result.sentences]
    if len(results) != 1 or len(sentences) != 1:
        raise ApiError(400, "Invalid request: attention is returned for one sentence at a time")
    best = sentences[0].candidates[0]
    if max(len(best.pieces), len(sentences[0].source)) > MAX_SHOWN:
        raise ApiError(400, f"Invalid request: attention is returned for at most {MAX_SHOWN} characters and pieces")
    return {name: weights.tolist() for name, weights in sentences[0].attention.items()}


def _translated_text(result: TranslationResult, weights: HeadWeights | None = None) -> TranslatedText:
    """Return the response for a text; ``weights``: attention weights of its only sentence, None if not requested."""
    text, score = result.candidates[0]
    return TranslatedText(
        text=text,
        score=score,
        candidates=[CandidateResponse(text=candidate, score=value) for candidate, value in result.candidates],
        model=result.model.name,
        source=result.source,
        target=result.model.target,
        detected=_detected_language(result.detected),
        unknown=count_unknown(result),
        unread=sum(sentence.unread for sentence in result.sentences),
        sentences=[_sentence(sentence, weights) for sentence in result.sentences],
    )


def _detected_language(language: Language | None) -> DetectedLanguage | None:
    """Return the response for an identified language."""
    return language and DetectedLanguage(
        language=language.code, confidence=language.confidence, uncertain=language.uncertain
    )


def _sentence(translation: Translation, weights: HeadWeights | None) -> SentenceTranslation:
    """Return the response for a sentence."""
    best = translation.candidates[0]
    return SentenceTranslation(
        source=translation.source,
        text=best.text,
        pieces=best.pieces,
        log_probabilities=best.piece_log_probabilities,
        attention=weights,
    )
