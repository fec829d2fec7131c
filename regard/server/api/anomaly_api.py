"""Anomalies over HTTP: the rows of a table that a forecaster did not expect, within a budget of false alarms."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from regard.errors import ConfigError, DataError
from regard.server.api.api_v1 import ERROR_RESPONSES
from regard.server.api.forecast_api import TableRequest
from regard.server.api.json_route import JsonRoute
from regard.server.api.requests import credentials, unless_disconnected
from regard.server.api_error import ApiError, public_message
from regard.server.off_loop import off_loop
from regard.server.service import Service

MAX_ROWS = 20_000  # each row is a pass of the network, in the thread that serves all clients


class AnomalyRequest(TableRequest):
    """A table with a column of dates, as CSV text or as one object for each row, and the budget of its alarms."""

    false_alarms: str = Field(
        "1/week", max_length=40, description="Maximum number of alarms, such as `1/week`, `2/day` or `1/1000 rows`."
    )
    over: int = Field(1, ge=1, le=MAX_ROWS, description="Number of rows over which scores are averaged.")
    level: bool = Field(False, description="Whether scores contain the distance from the usual level of the series.")


def router(service: Service) -> APIRouter:
    """Return the route that finds anomalies."""
    routes = APIRouter(tags=["Regard"], route_class=JsonRoute)

    @routes.post("/v1/anomalies", responses=ERROR_RESPONSES)
    async def anomalies(body: AnomalyRequest, request: Request) -> dict[str, Any]:
        """Return the alarms of a table: rows whose values are far from the forecast of the row before."""
        began = time.monotonic()
        client, key = service.admit(credentials(request, "Bearer"))
        text = await off_loop(lambda: body.csv_text)
        service.check_size([text], files=True)
        model = service.models.get(body.model)
        if "forecast" not in model.serves:
            raise ApiError(400, f"Invalid request: the model {model.name} does not forecast; its task is {model.task}")
        with service.charge(len(text), client, key):
            left = max(service.settings.seconds - (time.monotonic() - began), 0.0)
            predictor, _ = await model.wait_until_loaded(left)
            work = partial(_alarms, predictor, text, body, MAX_ROWS)
            (result,) = await unless_disconnected(request, model.compute([work], client=client, seconds=left))
        return {**result, "model": model.name}

    return routes


def _alarms(
    predictor: Any, text: str, body: AnomalyRequest, limit: int, interrupted: Callable[[], bool]
) -> dict[str, Any]:
    """Return the alarms of a table of up to ``limit`` rows, and the score from which they are raised."""
    from regard.data.series_input import series_in_text
    from regard.tasks.forecasting.anomalies import alarms_for, score_series

    try:
        series = series_in_text(text, "the table", predictor.config.data.columns)
        if len(series) > limit:
            raise ApiError(413, f"Too long: the table has {len(series):,} rows; the limit is {limit:,}.")
        scored = score_series(predictor, series, interrupted, over=body.over, level=body.level)
        result = alarms_for(scored, body.false_alarms)
    except (ConfigError, DataError) as error:
        raise ApiError(400, f"Invalid request: {public_message(error)}") from error
    threshold = result.threshold if result.alarms else None
    rows = len(series) - scored.first
    return {"alarms": [alarm._asdict() for alarm in result.alarms], "threshold": threshold, "scored_rows": rows}
