"""Forecasts over HTTP: a table as CSV text or rows, and the bands of several levels."""

from __future__ import annotations

import csv
import io
import json
import time
from typing import Annotated, Any, Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.server.api.api_v1 import ERROR_RESPONSES
from regard.server.api.json_route import FIRST_ERROR, JsonRoute
from regard.server.api.requests import credentials, unless_disconnected
from regard.server.api_error import ApiError
from regard.server.batching.predictions import JsonLine
from regard.server.off_loop import off_loop
from regard.server.service import Service

Cell = float | str | None
MAX_LEVELS = 20


class TableRequest(BaseModel):
    """A table with a column of dates, as CSV text or as one object for each row."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    table: str | None = Field(None, description="Text of a CSV.", examples=["date,load\n2016-07-01,5.8\n…"])
    rows: Annotated[list[dict[str, Cell]] | None, FIRST_ERROR] = Field(
        None, description="Rows, instead of a CSV; a value of null is missing."
    )
    model: str | None = Field(None, description="Name of the model; left out: the first one.")

    @model_validator(mode="after")
    def _one_table(self) -> Self:
        if (self.table is None) == (self.rows is None):
            raise ValueError("expected either `table` or `rows`")
        return self

    @property
    def csv_text(self) -> str:
        """The table as a CSV."""
        if self.rows is None:
            return self.table or ""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        out = io.StringIO()
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()


class ForecastRequest(TableRequest):
    """A table, the horizon, and the levels of the bands."""

    horizon: int | None = Field(None, ge=1, description="Time steps to predict; left out: those of the model.")
    levels: list[Annotated[float, Field(gt=0, lt=100)]] = Field(
        [],
        max_length=MAX_LEVELS,
        description="Bands, each by the percentage of values in it; left out: 80.",
    )


class ForecastResponse(BaseModel):
    """The dates, and by column the forecast and the ends of its bands (``OT``, ``OT-lo-80``, ``OT-hi-80``)."""

    forecast: dict[str, list[Any]]
    model: str


def router(service: Service) -> APIRouter:
    """Return the route that forecasts."""
    routes = APIRouter(tags=["Regard"], route_class=JsonRoute)

    @routes.post("/v1/forecast", responses=ERROR_RESPONSES)
    async def forecast(body: ForecastRequest, request: Request) -> ForecastResponse:
        """Return the next values of the series of a table."""
        began = time.monotonic()
        client, key = service.admit(credentials(request, "Bearer"))
        text = await off_loop(lambda: body.csv_text)
        service.check_size([text], files=True)
        model = service.models.get(body.model)
        if "forecast" not in model.serves:
            raise ApiError(400, f"Invalid request: the model {model.name} does not forecast; its task is {model.task}")
        line, columns = JsonLine(json.dumps({"table": text}, ensure_ascii=False)), dict[str, list[Any]]()
        with service.charge(len(text), client, key):
            horizon: dict[str, Any] = {} if body.horizon is None else {"horizon": body.horizon}
            for settings in [horizon | {"level": level} for level in body.levels] or [horizon]:
                left = max(service.settings.seconds - (time.monotonic() - began), 0.0)
                work = model.predict([line], settings, client=client, seconds=left, limits=service.settings)
                (output,) = await unless_disconnected(request, work)
                columns |= output
        return ForecastResponse(forecast=columns, model=model.name)

    return routes
