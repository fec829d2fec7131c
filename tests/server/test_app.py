"""The server over HTTP: its own interface, its limits, and what it does when clients misbehave or leave."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from .conftest import Running, serving
from .copying import capitals

Serve = Callable[..., Running]


def ask(server: Running, **fields: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/translate", json={"text": "a dog.", **fields}, timeout=30)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_texts_come_back_sentence_by_sentence_with_all_that_is_between(serve: Serve) -> None:
    answer = ask(serve(), text=["A dog runs.  A cat sleeps.\n\n- one\n", "", " \n"])
    assert answer.status_code == 200
    first, second, third = answer.json()["translations"]
    assert first["text"] == "A DOG RUNS.  A CAT SLEEPS.\n\n- ONE\n"
    assert [each["source"] for each in first["sentences"]] == ["A dog runs.", "A cat sleeps.", "one"]
    assert (first["model"], first["source"], first["target"]) == ("capitals", "en", "de")
    assert first["score"] == pytest.approx(-1.5)
    assert first["unknown"] == {} and first["detected"] == {"language": "en", "confidence": 1.0, "uncertain": False}
    assert (second["text"], third["text"]) == ("", " \n")


def test_long_texts_are_never_cut(serve: Serve) -> None:
    text = "abc " * 1200
    assert ask(serve(), text=text).json()["translations"][0]["text"] == text.upper()


def test_nbest_and_attention_are_given_when_asked_for(serve: Serve) -> None:
    server = serve()
    found = ask(server, nbest=2, attention=True).json()["translations"][0]
    assert [each["text"] for each in found["candidates"]] == ["A DOG.", "a dog."]
    assert found["sentences"][0]["attention"] == {"decoder.0.source": [[[0.25] * 4] * 3] * 2}
    assert ask(server).json()["translations"][0]["sentences"][0]["attention"] is None


def test_who_asks_for_a_model_or_a_language_gets_that_one_or_a_reason() -> None:
    first, _ = capitals("first", "en", "de")
    second, _ = capitals("second", "de", "fr")
    with serving([first, second]) as (port, _):

        def asked(**fields: Any) -> httpx.Response:
            return httpx.post(f"http://127.0.0.1:{port}/v1/translate", json={"text": "a"} | fields)

        assert asked(source="de-AT", target="FR").json()["translations"][0]["model"] == "second"
        assert asked(model="second").json()["translations"][0]["source"] == "de"
        assert asked(text="Der Hund läuft über die Wiese.").json()["translations"][0]["model"] == "second"
        unknown, unsupported = asked(model="../../etc"), asked(source="fr", target="en")
        assert (unknown.status_code, unsupported.status_code) == (404, 400)
        assert "fr to en is not supported" in unsupported.json()["error"]
        models = httpx.get(f"http://127.0.0.1:{port}/v1/models").json()["data"]
        assert [(each["name"], each["ready"]) for each in models] == [("first", True), ("second", True)]


@pytest.mark.parametrize(
    ("settings", "fields", "status", "told"),
    [
        ({"characters": 5}, {"text": "abcdef"}, 400, "request (6) exceeds text limit (5)"),
        ({"texts": 2}, {"text": ["a", "b", "c"]}, 400, "3 texts exceed the limit of 2"),
        ({"body_bytes": 200}, {"text": "a" * 300}, 413, ""),
        ({"beam": 4}, {"beam": 5}, 400, "beam 5 exceeds the limit of 4"),
        ({"nbest": 3}, {"nbest": 4}, 400, "nbest exceeds the limit of 3"),
        ({}, {"beam": 2, "nbest": 3}, 400, "nbest = 3 must be at most beam = 2"),
        ({}, {"beam": 0}, 422, "beam"),
        ({}, {"text": 5}, 422, "text"),
        ({}, {"color": "red"}, 422, "Invalid request: color: unknown field"),
        ({}, {"text": []}, 400, "contains no text"),
        ({}, {"text": "\ud800"}, 400, "not Unicode"),
    ],
)
def test_what_is_too_much_or_makes_no_sense_is_refused(
    serve: Serve, settings: dict[str, Any], fields: dict[str, Any], status: int, told: str
) -> None:
    server = serve(**settings)
    body = json.dumps({"text": "a", **fields}).encode()
    answer = httpx.post(f"{server.url}/v1/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert told in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "field", "meant"),
    [
        ("/v1/translate", "beem", "beam"),
        ("/v1/translate", "Sources", "source"),
        ("/v1/score", "target", "targets"),
        ("/v1/inspect", "candidates", "candidate"),
    ],
)
def test_an_unknown_field_is_told_with_the_one_that_was_probably_meant(
    serve: Serve, path: str, field: str, meant: str
) -> None:
    known = {"sources": ["a"], "targets": ["a"]} if path == "/v1/score" else {"text": "a"}
    answer = httpx.post(f"{serve().url}{path}", json=known | {field: 1})
    assert answer.status_code == 422
    assert answer.json() == {"error": f"Invalid request: {field}: unknown field; did you mean {meant}?"}


@pytest.mark.parametrize("path", ["/v1/translate", "/translate", "/v2/translate"])
def test_a_body_of_undeclared_length_has_its_limit_too(serve: Serve, path: str) -> None:
    answer = httpx.post(f"{serve(body_bytes=2000).url}{path}", content=(b"x" * 500 for _ in range(10)))
    assert answer.status_code == 413, answer.text
    assert answer.json().keys() <= {"error", "message"}


def test_a_number_of_thousands_of_digits_is_named(serve: Serve) -> None:
    body = b'{"text": "a", "beam": ' + b"9" * 5000 + b"}"
    answer = httpx.post(f"{serve().url}/v1/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "too many digits" in answer.json()["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b'{"text": "\xff"}', b"null", b'{"text": "a"', b"\x00"])
@pytest.mark.parametrize("path", ["/v1/translate", "/translate", "/v2/translate", "/detect"])
@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", "text/plain"])
def test_bodies_that_are_none_are_told_apart_from_defects(serve: Serve, body: bytes, path: str, kind: str) -> None:
    answer = httpx.post(f"{shared(serve).url}{path}", content=body, headers={"content-type": kind})
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json().keys() <= {"error", "message"}


def shared(serve: Serve) -> Running:
    return serve()


def test_who_asks_too_often_is_told_when_to_return(serve: Serve) -> None:
    server = serve(requests_per_minute=3)
    answers = [ask(server) for _ in range(4)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert "Slowdown" in answers[-1].json()["error"]


def test_overload_is_told_at_once_and_what_was_accepted_is_answered(serve: Serve) -> None:
    server = serve({"waiting": 3, "rows": 1})
    server.copying.pause = 0.02
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: ask(server, text="a dog runs"), range(12)))
    codes = [each.status_code for each in answers]
    assert set(codes) == {200, 429} and codes.count(200) >= 3
    assert all(int(each.headers["retry-after"]) >= 1 for each in answers if each.status_code == 429)
    assert all(each.json()["translations"][0]["text"] == "A DOG RUNS" for each in answers if each.status_code == 200)


def test_many_at_once_share_the_batch_and_none_gets_anothers(serve: Serve) -> None:
    server = serve({"rows": 16})
    texts = [f"text number {number} " + "x" * (number % 17) for number in range(60)]
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda text: ask(server, text=text).json()["translations"][0]["text"], texts))
    assert answers == [text.upper().rstrip() + " " * (text.endswith(" ")) for text in texts]
    alone = sum(len(text.strip()) + 1 for text in texts)
    assert server.copying.steps < alone / 2, "steps are shared"


def test_a_model_computes_in_two_threads_whatever_is_asked(serve: Serve) -> None:
    """Each that computes keeps buffers of its own, so that memory would grow with their number."""
    server = serve()
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda number: ask(server, text=f"Dear {{name}}, {number}."), range(24)))
    assert all("{name}" in each.json()["translations"][0]["text"] for each in answers)
    assert len(server.copying.threads) == 2


def test_who_takes_too_long_is_told(serve: Serve) -> None:
    server = serve(seconds=0.3)
    ask(server)
    server.copying.pause = 0.05
    answer = ask(server, text="a sentence of many letters, which takes a while")
    assert answer.status_code == 503 and "more than" in answer.json()["error"]
    until(lambda: server.model.load == (0, 0))


@pytest.mark.parametrize("path", ["/v1/translate", "/translate", "/v2/translate"])
def test_a_body_that_does_not_arrive_is_not_waited_for(serve: Serve, path: str) -> None:
    server = serve(seconds=0.3)
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head.encode() + b'{"text": "a')
        said = ""
        while not said.endswith("}") and (more := connection.recv(10_000)):
            said += more.decode()
    assert said.startswith("HTTP/1.1 408") and "did not arrive" in said


def test_who_hangs_up_is_searched_no_more(serve: Serve) -> None:
    server = serve()
    ask(server)
    server.copying.pause = 0.02
    body = json.dumps({"text": "x" * 190}).encode()
    head = (
        f"POST /v1/translate HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    )
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        until(lambda: server.model.load[1] == 1)
    until(lambda: server.model.load == (0, 0))
    assert server.copying.steps < 150


def test_a_broken_model_is_a_failure_that_says_nothing_of_texts(serve: Serve) -> None:
    server = serve()
    server.copying.broken = True
    answer = ask(server)
    assert answer.status_code == 500 and answer.json() == {"error": "The model failed."}
    server.copying.broken = False
    assert ask(server).status_code == 200


def test_loading_a_model_is_told_before_and_after(caplog: pytest.LogCaptureFixture) -> None:
    model, _ = capitals("en-de")
    with caplog.at_level("INFO", "regard.server"):
        model.start()
        model.start()
    model.stop()
    first, second = (record.getMessage() for record in caplog.records)
    assert first == "loading the model en-de"
    assert re.fullmatch(r"loaded the model en-de in \d+\.\d s", second)


def test_health_readiness_and_metrics(serve: Serve) -> None:
    server = serve()
    assert httpx.get(f"{server.url}/healthz").json() == {"status": "ok"}
    until(lambda: httpx.get(f"{server.url}/readyz").status_code == 200)
    ask(server, text="A dog runs. A cat sleeps.")
    httpx.get(f"{server.url}/no/such/{'x' * 50}")
    text = httpx.get(f"{server.url}/metrics").text
    assert "regard_sentences_total 2.0" in text and "regard_characters_total 25.0" in text
    assert 'regard_requests_total{route="/v1/translate",status="200"} 1.0' in text
    assert 'route="other",status="404"' in text and "no/such" not in text
    assert "xxxx" not in text


def test_answers_carry_headers_that_keep_browsers_safe(serve: Serve) -> None:
    headers = httpx.get(f"{serve().url}/healthz").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers and "server" not in headers


def test_the_interface_describes_itself(serve: Serve) -> None:
    found = httpx.get(f"{serve().url}/openapi.json").json()
    assert {"/v1/translate", "/translate", "/v2/translate", "/metrics"} <= found["paths"].keys()


def test_a_model_that_names_no_languages_does_for_any() -> None:
    model, _ = capitals(source=None, target=None)
    with serving([model]) as (port, _):
        url = f"http://127.0.0.1:{port}"
        assert httpx.post(f"{url}/v1/translate", json={"text": "a"}).json()["translations"][0]["text"] == "A"
        found = httpx.post(f"{url}/translate", json={"q": "a", "source": "auto", "target": "fr"}).json()
        assert found == {"translatedText": "A"}
        assert httpx.post(f"{url}/detect", json={"q": "a"}).status_code == 400
        assert httpx.get(f"{url}/languages").json() == [{"code": "und", "name": "und", "targets": ["und"]}]
