"""OpenAI's interface for embeddings, for models of any task; errors are {"error": {"message": …}}."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from regard.core.deadline import Deadline
from regard.errors import ModelError, RegardError
from regard.inference.states import Pooling
from regard.server.api.json_route import FIRST_ERROR, JsonRoute, json_response
from regard.server.api.openai import EMBEDDINGS, RESPONSES
from regard.server.api.prediction_api import Line
from regard.server.api.requests import credentials, unless_disconnected
from regard.server.api_error import ApiError
from regard.server.batching.predictions import Work, read_inputs
from regard.server.batching.served import ServedModel
from regard.server.off_loop import off_loop
from regard.server.service import Service

Vector = npt.NDArray[np.float32]


def _as_list(value: Any) -> Any:
    if isinstance(value, list) and any(isinstance(entry, int) for entry in value):
        raise ValueError("token ids are not supported: send texts")
    return [value] if isinstance(value, str | dict) else value


class EmbeddingRequest(BaseModel):
    """Inputs, the format of the vectors, and their layer and pooling."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input: Annotated[list[Line], FIRST_ERROR, BeforeValidator(_as_list)] = Field(
        description="One text or JSON object, or a list of texts, JSON lists and objects; as `inputs` of /v1/predict."
    )
    model: str | None = Field(None, description="Name of the model; left out: the first one.")
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="`float` (the default), or `base64` of 32-bit floats, lowest byte first."
    )
    dimensions: Annotated[int, Field(ge=1)] | None = Field(None, description="Must equal the width of the model.")
    user: str | None = Field(None, description="Not used.")
    layer: int | None = Field(None, description="States after this number of layers; left out: the last output.")
    pooling: Pooling = Field("mean", description="Pooling over the positions of an input.")


class Embedding(BaseModel):
    """Vector of an input."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """Numbers of tokens; always 0, because not every model reads tokens."""

    prompt_tokens: int = 0
    total_tokens: int = 0


class EmbeddingResponse(BaseModel):
    """Vectors in the order of the inputs."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage = EmbeddingUsage()


def router(service: Service) -> APIRouter:
    """Return the route that embeds inputs."""
    routes = APIRouter(tags=["OpenAI"], route_class=JsonRoute)

    @routes.post(EMBEDDINGS, response_model=EmbeddingResponse, responses=RESPONSES)
    async def embeddings(body: EmbeddingRequest, request: Request) -> Any:
        """Return a vector for each input, for clients of OpenAI's embeddings."""
        began = time.monotonic()
        client, key = service.admit(credentials(request, "Bearer"))
        model = service.models.get(body.model)
        service.check_size(body.input, files=model.reads_files)
        characters = 0 if model.reads_files else sum(map(len, body.input))
        with service.charge(characters, client, key):
            left = max(service.settings.seconds - (time.monotonic() - began), 0.0)
            work = _embed(model, body, client, left, service.settings.numbers)
            try:
                async with asyncio.timeout(left + 1):  # the queue fails earlier, with a better message
                    vectors = await unless_disconnected(request, work)
            except TimeoutError as error:
                raise service.timed_out() from error
            return await off_loop(lambda: json_response(_response(body, vectors, model.name)))

    return routes


async def _embed(model: ServedModel, body: EmbeddingRequest, client: str, seconds: float, limit: int) -> list[Vector]:
    """Return the vector of each input. Each input waits in the queue of the model like a prediction."""
    deadline = Deadline(seconds)
    predictor, _ = await model.wait_until_loaded(seconds)
    works = await off_loop(_works, predictor, body, limit, deadline)
    return await model.compute(works, client=client, seconds=deadline.left)


def _works(predictor: Any, body: EmbeddingRequest, limit: int, deadline: Deadline) -> list[Work]:
    """Return a work for each input; raise ApiError for invalid inputs and for a model without embeddings."""
    if not hasattr(predictor, "embeddings"):
        raise ApiError(400, "Invalid request: this model has no embeddings")
    inputs = read_inputs(predictor, body.input, limit, deadline, field="input", embedding=True)
    return [
        partial(_vector, predictor.embeddings, input, number, body.layer, body.pooling)
        for number, input in enumerate(inputs, start=1)
    ]


def _vector(
    embeddings: Callable[[Sequence[Any], int | None, str], Vector], input: Any, number: int, layer: int | None,
    pooling: str, interrupted: Callable[[], bool],
) -> Vector:  # fmt: skip
    """Return the vector of one input; errors have its number in the request."""
    try:
        (vector,) = embeddings([input], layer, pooling)
    except RegardError as error:
        if error.where == "input 1":
            error.where = f"input {number}"
        raise
    if not np.isfinite(vector).all():
        raise ModelError("the embedding is not finite", where=f"input {number}")
    return vector


def _response(body: EmbeddingRequest, vectors: Sequence[Vector], name: str) -> EmbeddingResponse:
    """Return the response. Raises ApiError for another number of dimensions."""
    width = max(map(len, vectors))
    if width == 0:
        raise ApiError(400, "Invalid request: the inputs are empty")
    if body.dimensions not in (None, width):
        what = f"dimensions must be {width}, the width of the model {name}, or left out"
        raise ApiError(400, f"Invalid request: {what}")
    if any(len(vector) != width for vector in vectors):  # of inputs without positions
        vectors = [vector if len(vector) else np.zeros(width, np.float32) for vector in vectors]
    in_base64 = body.encoding_format == "base64"
    data = [
        Embedding(index=index, embedding=_base64(vector) if in_base64 else vector.tolist())
        for index, vector in enumerate(vectors)
    ]
    return EmbeddingResponse(data=data, model=name)


def _base64(vector: Vector) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
