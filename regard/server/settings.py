"""What a server allows: every limit is on unless a larger one is given."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["ServerSettings"]

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]


class ServerSettings(BaseModel):
    """Per request, but for ``waiting`` and ``rows``, which are of a model, and ``requests_per_minute``, of a client.

    ``public_url`` is where clients reach the server, for answers that name an address of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    body_bytes: Positive = 128 * 1024
    texts: Positive = 50
    characters: Positive = 5_000  # all texts of a request together
    beam: Positive = 10
    nbest: Positive = 10
    seconds: Seconds = 30.0  # from its arrival to its answer
    requests_per_minute: Positive = 120
    head_seconds: Seconds = 10.0  # from a connection, or the answer before, to the end of a request's head
    connections: Positive = 128  # that an address holds open
    public_url: Annotated[str, Field(pattern=r"^https?://[^/?#\s]+(/[^?#\s]*)?$")] | None = None
    waiting: Positive = 256  # sentences
    rows: Positive = 256  # hypotheses that run together
    glossaries: Positive = 100  # that a client keeps here
    entries: Positive = 5_000  # of one of them
