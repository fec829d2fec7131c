"""Every endpoint, asked by a machine that reads the description and means no good: no failure of ours, no hang."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from .conftest import serving
from .copying import capitals
from .predicting import book

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
EXAMPLES = int(os.environ.get("REGARD_FUZZ", "12"))  # an endpoint; a long session asks for thousands
CHECKS = [
    schemathesis.checks.not_a_server_error, schemathesis.checks.response_schema_conformance,
    schemathesis.checks.content_type_conformance,
]  # fmt: skip


@pytest.mark.filterwarnings("default")
def test_nothing_that_is_asked_breaks_the_server() -> None:
    model, _ = capitals()
    asked = []
    with serving([model, book()], requests_per_minute=10**6, seconds=20) as (port, _):
        schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
        for operation in (each.ok() for each in schema.get_all_operations()):
            asked.append(operation.path)
            _ask(operation)
    assert {
        "/v1/translate",
        "/v1/predict",
        "/v1/generate",
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/inspect",
        "/v1/score",
        "/translate",
        "/v2/translate",
    } <= set(asked)


def _ask(operation: Any) -> None:
    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def ask(case: Any) -> None:
        case.call_and_validate(checks=CHECKS, timeout=30)

    ask()
