"""Our own interface: scores, n-best lists, alignments and attention, the models and how they do."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from regard.errors import DataError
from regard.inference.results import Translation
from regard.server.api.notices import unknown_of
from regard.server.api.requests import sender, texts_of, unless_gone
from regard.server.api_error import ApiError
from regard.server.service import Service
from regard.server.text.languages import Language
from regard.server.text.markup_tokenizer import Markup
from regard.server.translation_request import TranslationRequest, TranslationResult

__all__ = ["PROBLEMS", "router", "shaped"]

Weights = dict[str, list[list[list[float]]]]  # of each layer, by its name: heads, target, source
LONGEST_SHOWN = 256


class TranslateRequest(BaseModel):
    """What is left out is as the model's own config has it."""

    model_config = ConfigDict(extra="forbid")

    text: str | list[str]
    source: str | None = None
    target: str | None = None
    model: str | None = Field(None, description="By its name; else the first for the languages.")
    beam: Annotated[int, Field(ge=1)] | None = None
    nbest: Annotated[int, Field(ge=1)] | None = None
    length_penalty: Annotated[float, Field(ge=0, le=10)] | None = None
    coverage_penalty: Annotated[float, Field(ge=0, le=10)] | None = None
    max_length: Annotated[int, Field(ge=1, le=10_000)] | None = None
    attention: bool = Field(False, description="The weights of every head, of one sentence that is not long.")
    glossary: dict[str, str] | None = Field(None, description="Source phrases and what they are to be called.")
    keep: bool = Field(True, description="Placeholders, addresses and numbers come out as they went in.")
    format: Literal["text", "html", "xml", "markdown"] = Field(
        "text", description="In the others, marks are carried over."
    )


class CandidateResponse(BaseModel):
    text: str
    score: float


class Sentence(BaseModel):
    """`pieces` of the best output, their log probabilities (the end symbol's last; none where terms were put into an
    output too long for one pass), and `attention` by name.
    """

    source: str
    text: str
    pieces: list[str]
    log_probabilities: list[float]
    attention: Weights | None = None


class Detected(BaseModel):
    """The language that a text was taken for, where none was given; `confidence` from 0 to 1, low where `uncertain`."""

    language: str
    confidence: float
    uncertain: bool


class TranslatedText(BaseModel):
    """`unknown`: characters (words, where the model reads words) that it has no piece for, and how often."""

    text: str
    score: float
    candidates: list[CandidateResponse]
    model: str
    source: str | None
    target: str | None
    detected: Detected | None
    unknown: dict[str, int]
    sentences: list[Sentence]


class TranslateResponse(BaseModel):
    translations: list[TranslatedText]


class ModelDescription(BaseModel):
    name: str
    source: str | None
    target: str | None
    ready: bool
    waiting: int
    running: int


class ScoreRequest(BaseModel):
    """As many `targets` as `sources`."""

    model_config = ConfigDict(extra="forbid")

    sources: list[str]
    targets: list[str]
    model: str | None = None


class ScoredPair(BaseModel):
    """Nats; `pieces` is that of each piece of the target, the end symbol's last."""

    log_probability: float
    pieces: list[float]


class ScoreResponse(BaseModel):
    scores: list[ScoredPair]


class Problem(BaseModel):
    error: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 413, 422, 429, 503)
}


def shaped(refused: ApiError) -> JSONResponse:
    return JSONResponse({"error": refused.message}, refused.status, headers=refused.headers)


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["Regard"])

    @routes.post("/v1/translate", responses=PROBLEMS)
    async def translate(asked: TranslateRequest, request: Request) -> TranslateResponse:
        search = asked.model_dump(include={"beam", "nbest", "length_penalty", "coverage_penalty", "max_length"})
        texts = texts_of(asked.text, "text")
        source = None if asked.source == "auto" else asked.source
        markup = None if asked.format == "text" else Markup.of(asked.format)
        options: dict[str, Any] = {"glossary": service.glossary(asked.glossary), "keep": asked.keep, "markup": markup}
        wanted = TranslationRequest(
            texts, source, asked.target, sender(request, "Bearer"), asked.model, search, **options
        )
        answers = await unless_gone(request, service.translate(wanted))
        if not asked.attention:
            return TranslateResponse(translations=[_translated(answer) for answer in answers])
        weights = await unless_gone(request, answers[0].model.beside(lambda: _attention(answers)))
        return TranslateResponse(translations=[_translated(answers[0], weights)])

    @routes.post("/v1/score", responses=PROBLEMS)
    async def score(asked: ScoreRequest, request: Request) -> ScoreResponse:
        """The log probability of every piece of each target, given its source and the pieces before it."""
        client, key = service.admit(sender(request, "Bearer"))
        sources, targets = texts_of(asked.sources, "sources"), texts_of(asked.targets, "targets")
        if len(sources) != len(targets):
            raise ApiError(400, f"Invalid request: {len(sources)} sources for {len(targets)} targets")
        service.check([*sources, *targets], texts=2 * service.settings.texts)
        model = service.models.named(asked.model) if asked.model else service.models.all[0]
        try:
            with service.spending(sum(map(len, [*sources, *targets])), client, key):
                found = await unless_gone(request, service.aside(lambda: model.score(sources, targets)))
        except DataError as error:
            raise ApiError(413, f"Too long: {error.what}.") from error
        return ScoreResponse(scores=[ScoredPair(log_probability=sum(each), pieces=each) for each in found])

    @routes.get("/v1/models")
    def models() -> list[ModelDescription]:
        return [
            ModelDescription(name=model.name, source=model.source, target=model.target, ready=model.ready,
                             waiting=model.load[0], running=model.load[1])
            for model in service.models.all
        ]  # fmt: skip

    @routes.get("/healthz")
    def healthz() -> dict[str, str]:
        """The server answers."""
        return {"status": "ok"}

    @routes.get("/readyz", responses={503: {"model": Problem}})
    def readyz() -> dict[str, str]:
        """A model is loaded, and the server is not stopping."""
        if not any(model.ready for model in service.models.all):
            raise ApiError(503, "No model is loaded yet.", retry_after=1)
        return {"status": "ready"}

    @routes.get("/metrics", response_class=Response, responses={401: {"model": Problem}, 403: {"model": Problem}})
    def metrics(request: Request) -> Response:
        """Counts for Prometheus; with keys it needs one too, which counts no request of it."""
        service.client(sender(request, "Bearer"))
        service.metrics.loads({model.name: model.load for model in service.models.all})
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes


def _attention(answers: list[TranslationResult]) -> Weights:
    """Every head of the one sentence. ApiError where it is several, or so long that its weights are millions."""
    sentences = [sentence for answer in answers for sentence in answer.sentences]
    if len(answers) != 1 or len(sentences) != 1:
        raise ApiError(400, "Invalid request: attention is given of one sentence at a time")
    best = sentences[0].candidates[0]
    if max(len(best.pieces), len(sentences[0].source)) > LONGEST_SHOWN:
        raise ApiError(400, f"Invalid request: attention is given of at most {LONGEST_SHOWN} letters and pieces")
    return {name: weights.tolist() for name, weights in sentences[0].attention.items()}


def _translated(answer: TranslationResult, weights: Weights | None = None) -> TranslatedText:
    text, score = answer.candidates[0]
    return TranslatedText(
        text=text,
        score=score,
        candidates=[CandidateResponse(text=each, score=value) for each, value in answer.candidates],
        model=answer.model.name,
        source=answer.source,
        target=answer.model.target,
        detected=_detected(answer.detected),
        unknown=unknown_of(answer),
        sentences=[_sentence(each, weights) for each in answer.sentences],
    )


def _detected(found: Language | None) -> Detected | None:
    return found and Detected(language=found.code, confidence=found.confidence, uncertain=found.uncertain)


def _sentence(translation: Translation, weights: Weights | None) -> Sentence:
    best = translation.candidates[0]
    return Sentence(
        source=translation.source,
        text=best.text,
        pieces=best.pieces,
        log_probabilities=best.piece_log_probabilities,
        attention=weights,
    )
