"""Server settings: limits, all of which are active by default."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]


class ServerSettings(BaseModel):
    """Limits of a server. ``public_url`` is the URL of the server for clients, for responses that contain URLs."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    body_bytes: Positive = 128 * 1024  # of a request
    file_bytes: Positive = 16 << 20  # of a request, if a served model reads files such as sounds
    texts: Positive = 50  # of a request
    characters: Positive = 5_000  # of all texts of a request together
    beam: Positive = 10  # of a search
    nbest: Positive = 10  # outputs of a text
    length: Positive = 1_000  # tokens of an output of a model with a length setting
    seconds: Seconds = 30.0  # from the arrival of a request to its response
    requests_per_minute: Positive = 120  # of a client
    head_seconds: Seconds = 10.0  # from a connection or the previous response to the end of the head of a request
    connections: Positive = 128  # open at once from one address
    public_url: Annotated[str, Field(pattern=r"^https?://[^/?#\s]+(/[^?#\s]*)?$")] | None = None
    root_path: str = ""  # below which a proxy serves the server; the proxy may remove it from a request or not
    waiting: Positive = 256  # sentences of a client in the queue of a model
    rows: Positive = 256  # hypotheses of a model that run together
    glossaries: Positive = 100  # stored for a client
    entries: Positive = 5_000  # of a glossary
    hosts: tuple[str, ...] | None = (
        None  # accepted names in the header Host; None: local names on a loopback address, else any
    )
    numbers: Positive = 1 << 24  # values that one layer of a model may hold for an input
