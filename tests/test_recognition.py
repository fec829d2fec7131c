"""Recognition of speech: from sounds to texts with seconds, in Python, at the command line and over HTTP."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.config.settings import SearchConfig
from regard.core.task import find_task
from regard.data.wav_files import write_wav
from regard.errors import ConfigError, DataError
from regard.server.batching.served import ServedModel
from regard.tasks.find_config import find_config
from regard.tasks.recognition.long_sounds import cuts
from regard.tasks.recognition.subtitles import segments, srt, tsv, vtt
from regard.tasks.recognition.transcript import Transcript, Word, words_at
from regard.testing import TaskCase

from .server.conftest import serving
from .speech import RATE, drawn_texts, spoken, tables, trained, write_list

TEXTS = ["abc", "b a", "cab", "a bc ca"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("speech")).path


@pytest.fixture(scope="module")
def model(run: Path) -> Any:
    return regard.load(run)


def sound(text: str, seed: int = 9) -> bytes:
    return write_wav(spoken(text, np.random.default_rng(seed)), RATE)


def test_sounds_become_texts(model: Any) -> None:
    outputs = model([sound(text) for text in TEXTS])
    assert [output.text for output in outputs] == TEXTS
    assert [output.text for output in model([sound(text) for text in TEXTS], beam=1, ctc_weight=0.5)] == TEXTS
    assert [output.text for output in model([sound(text) for text in TEXTS], ctc_weight=1.0)] == TEXTS


def test_words_are_where_they_are_spoken(model: Any) -> None:
    (output,) = model([sound("ab cab")])
    assert [word.word for word in output.words] == ["ab", "cab"]
    first, second = output.words
    assert first.start < 0.3 and 0.2 < first.end <= 0.45  # two letters of 0.2 s, then a space
    assert 0.5 < second.start < 0.8 and second.end <= output.seconds


def test_silence_has_no_words(model: Any) -> None:
    noise = np.random.default_rng(3).standard_normal(RATE).astype(np.float32)
    tone = 0.3 * np.sin(2 * np.pi * 650 * np.arange(RATE) / RATE).astype(np.float32)
    quiet = [np.zeros(RATE, np.float32), 0.003 * noise, tone]
    assert [output.text for output in model(quiet)] == ["", "", ""]


def test_inputs_of_python_are_never_paths(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(sound("abc"))
    for value in (str(path), path):
        with pytest.raises(DataError, match="does not open files"):
            model([value])
    for line in (str(path), json.dumps(str(path)), json.dumps({"audio": str(path)}), json.dumps({"path": str(path)})):
        with pytest.raises(DataError, match="cannot parse a recording"):
            model.read(line)


def test_contents_are_read_in_every_form(model: Any) -> None:
    samples = spoken("cab", np.random.default_rng(1)).astype(np.float32) / 32768
    line = json.dumps({"audio": base64.b64encode(sound("cab")).decode()})
    outputs = model([sound("cab"), samples, model.read(line), model.read_file(sound("cab"), "x.wav")])
    assert {output.text for output in outputs} == {"cab"}


BAD: list[tuple[Any, str]] = [
    (b"RIFF", "cannot read the sound"),
    (b"", "cannot read the sound"),
    (write_wav(np.zeros(0, np.int16), RATE), "0 samples"),
    (np.zeros((4, 3)), "frames of 40 numbers"),
    (np.full((4, 40), np.nan), "not finite"),
    ([[1.0], [1.0, 2.0]], "differ in length"),
]


@pytest.mark.parametrize(("value", "message"), BAD)
def test_bad_inputs_are_refused(model: Any, value: Any, message: str) -> None:
    with pytest.raises(DataError) as error:
        model([value])
    assert message in str(error.value) + str(error.value.why)


def test_settings_are_checked(model: Any) -> None:
    with pytest.raises(ConfigError):
        model([sound("a")], ctc_weight=2.0)
    with pytest.raises(ConfigError, match="temperature"):
        model([sound("a")], temperature=1.0)


def test_long_recordings_are_cut_at_quiet_places() -> None:
    frames = np.ones((100, 2), np.float32)
    frames[35:39] = -5
    frames[80:84] = -5
    parts = cuts(frames, 60, 20.0)
    assert parts[0][0] == 0 and 34 <= parts[0][1] <= 39 and parts[-1][1] == 100
    assert all(end - start <= 60 for start, end in parts)
    assert [end for _, end in parts[:-1]] == [start for start, _ in parts[1:]]
    assert cuts(frames, 100, 20.0) == [(0, 100)]


def test_a_long_recording_keeps_its_times(run: Path) -> None:
    model = regard.load(run)
    model._parts = 130  # 1.3 seconds
    text = "abc" * 3
    whole = np.concatenate([spoken("abc", np.random.default_rng(4)), np.zeros(RATE // 2, np.int16)] * 3)
    (output,) = model([write_wav(whole, RATE)])
    assert output.text.replace(" ", "") == text
    assert len(output.words) >= 3 and output.words[-1].start > 2.0
    assert output.seconds == pytest.approx(len(whole) / RATE)


def transcript() -> Transcript:
    words = Word("the", 0.1, 0.3), Word("dog", 0.4, 0.9), Word("runs", 2.5, 3661.25)
    return Transcript("the dog runs", words, 3662.0)


def test_subtitles() -> None:
    assert [part.text for part in segments(transcript())] == ["the dog", "runs"]
    assert srt(transcript()) == (
        "1\n00:00:00,100 --> 00:00:00,900\nthe dog\n\n2\n00:00:02,500 --> 01:01:01,250\nruns\n"
    )
    assert vtt(transcript()).startswith("WEBVTT\n\n00:00:00.100 --> 00:00:00.900\nthe dog\n\n00:00:02.500 -->")
    assert tsv(transcript()) == "start\tend\ttext\n100\t900\tthe dog\n2500\t3661250\truns\n"
    assert srt(Transcript("")) == "" and segments(Transcript("a", (), 2.0)) == [(0.0, 2.0, "a")]


def test_words_of_pieces(model: Any) -> None:
    pieces = model.tokenizer.encode("ab c")
    assert [*words_at(pieces, [(0, 1), (1, 2), (2, 3), (3, 4)], model.tokenizer)] == [("ab", 0, 2), ("c", 3, 4)]


def test_the_limit_of_a_text_follows_from_the_seconds(model: Any) -> None:
    features = model.features
    rate = features.pieces_per_second
    assert 5 < rate < 15  # a letter lasts 0.2 s; END counts, too
    assert features.limit(200) == int(1.2 * rate * 2) + 8
    inputs = [np.zeros((200, 40), np.float32)]
    assert model.searching.sources.limits(inputs, SearchConfig()) == [features.limit(200)]


def test_the_verb_prints_lines_json_and_subtitles(run: Path, tmp_path: Path, regard_cli: Callable[..., Any]) -> None:
    paths = [tmp_path / name for name in ("one.wav", "two.wav")]
    for path, text in zip(paths, ["abc", "b a"], strict=True):
        path.write_bytes(sound(text))
    assert regard_cli("recognize", run, *paths) == "abc\nb a\n"
    lines = [json.loads(line) for line in regard_cli("recognize", run, *paths, "--json").splitlines()]
    assert [line["text"] for line in lines] == ["abc", "b a"] and lines[0]["file"] == str(paths[0])
    assert [word["word"] for word in lines[1]["words"]] == ["b", "a"]
    assert regard_cli("recognize", run, paths[0], "--format", "srt").startswith("1\n00:00:00,")
    assert "segments" in json.loads(regard_cli("recognize", run, paths[0], "--format", "json"))
    listed = write_list(tmp_path, ["cab", "c"], seed=5)
    assert regard_cli("recognize", run, listed, "--set", "beam=1") == "cab\nc\n"


@pytest.fixture
def regard_cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    from regard.cli import run as call

    def invoke(*arguments: Any) -> str:
        capsys.readouterr()
        code = call([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    return invoke


@pytest.fixture(scope="module")
def address(model: Any) -> Iterator[str]:
    served = ServedModel("speech", task="recognition", serves={"transcribe"}, load_predictor=lambda: model, threads=1)
    with serving([served], body_bytes=1 << 20, characters=1 << 20) as (port, _):
        yield f"http://127.0.0.1:{port}"


def test_the_language_model_adds_its_scores(run: Path, tmp_path: Path, regard_cli: Callable[..., Any]) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(text + "\n" for text in drawn_texts(200, 7)))
    tokenizer = '{kind="character"}'
    regard_cli(
        "train", texts, "--task", "language-model", "--name", "lm", "--runs", tmp_path, "--set", "train.steps=20",
        "--set", f"data.tokenizer={tokenizer}", "--set", "model.layers=1", "--set", "model.width=16",
        "--set", "train.baseline=false",
    )  # fmt: skip
    model = regard.load(run, lm=tmp_path / "lm")
    assert [output.text for output in model([sound(text) for text in TEXTS], lm_weight=0.1)] == TEXTS
    scores = [model([sound("abc")], lm_weight=weight)[0].score for weight in (0.0, 1.0)]
    assert scores[1] < scores[0] - 1
    (tmp_path / "a.wav").write_bytes(sound("abc"))
    shown = regard_cli("recognize", run, tmp_path / "a.wav", "--lm", tmp_path / "lm", "--set", "lm_weight=0.1")
    assert shown.strip() == "abc"
    with pytest.raises(ConfigError, match="is not a language model"):
        regard.load(run, lm=run)([sound("abc")])


def test_a_language_model_of_other_pieces_is_refused(model: Any) -> None:
    from regard.data.tokenizers.catalog import train_tokenizer
    from regard.data.tokenizers.tokenizer import TokenizerConfig
    from regard.tasks.recognition.speech_lm import matching_ids

    characters = TokenizerConfig(kind="character")
    fewer = matching_ids(model.tokenizer, train_tokenizer(["abx"], characters))
    assert isinstance(fewer, str) and fewer.startswith("it lacks ") and "c" in fewer
    more = train_tokenizer(["xyz abc b"], characters)
    ids = matching_ids(model.tokenizer, more)
    assert not isinstance(ids, str)
    assert more.pieces(ids.tolist()) == model.tokenizer.pieces(range(len(model.tokenizer)))
    other = matching_ids(model.tokenizer, train_tokenizer(["a b c"], TokenizerConfig(kind="word")))
    assert isinstance(other, str) and "tokenizer is word" in other


def test_preparation_reports_recordings_that_do_not_fit(tmp_path: Path) -> None:
    from regard.runs.config import load_config
    from regard.runs.run_folder import RunFolder
    from regard.training.setup import prepare

    config = tables(tmp_path)
    texts = ["a", "cab", "b"]
    extra = write_list(tmp_path, texts, seed=3)
    lines = [json.loads(line) for line in extra.read_text().splitlines()]
    lines[0]["text"] = "a" * 200  # more text than states
    extra.write_text("".join(json.dumps(line) + "\n" for line in lines))
    config["data"]["train"].append({"source": str(extra)})
    config["data"]["max_seconds"] = 0.9
    reports: list[str] = []
    data = prepare(RunFolder.create(tmp_path / "new", load_config(config)), log=reports.append)
    assert any("1 recording with more text than encoder states left out" in line for line in reports)
    assert any("longer than 0.9 s left out" in line for line in reports)
    assert all("200" not in data.train.where(index) for index in range(len(data.train)))


def test_arrays_of_frames_and_texts_are_recognized(tmp_path: Path) -> None:
    arrays = {"frames": np.ones((9, 4), np.float32), "offsets": [0, 5, 9], "text": ["a", "b"]}
    np.savez(tmp_path / "a.npz", **arrays)
    assert find_config([str(tmp_path / "a.npz")], [], []).task.kind == "recognition"
    np.savez(tmp_path / "b.npz", **arrays, label=["a", "b"])
    with pytest.raises(ConfigError, match="classification, recognition"):
        find_config([str(tmp_path / "b.npz")], [], [])


def test_recordings_that_a_model_of_frames_cannot_read_are_named(tmp_path: Path) -> None:
    case = TaskCase(find_task("recognition"), "recognition")
    run = regard.train(case.tables | {"train": case.tables["train"] | {"steps": 1, "shards": 1}}, tmp_path / "run")
    sounds = write_list(tmp_path, ["ab", "b a"], seed=1)
    wide = tmp_path / "wide.npz"
    np.savez(wide, frames=np.zeros((9, 4), np.float32), offsets=[0, 5, 9], text=["a", "b"])
    for path, message in ((sounds, "does not read sounds"), (wide, r"frames of shape \[5, 4\]")):
        with pytest.raises(DataError, match=message) as caught:
            regard.evaluate(run, path)
        assert str(path) in str(caught.value.where)


def test_unknown_characters_are_named_with_their_share(tmp_path: Path) -> None:
    from regard.runs.config import load_config
    from regard.runs.run_folder import RunFolder
    from regard.training.setup import prepare

    config = tables(tmp_path)
    valid = Path(config["data"]["valid"][0]["source"])
    lines = [json.loads(line) for line in valid.read_text().splitlines()]
    lines[0]["text"] = "é"
    valid.write_text("".join(json.dumps(line) + "\n" for line in lines))
    reports: list[str] = []
    prepare(RunFolder.create(tmp_path / "new", load_config(config)), log=reports.append)
    (line,) = [line for line in reports if "not in the vocabulary" in line]
    assert "1 transcript (8.3% of the transcripts)" in line and line.endswith("é")


def test_transcriptions_over_http(address: str) -> None:
    import openai

    client = openai.OpenAI(api_key="none", base_url=f"{address}/v1", max_retries=0)
    file = ("a.wav", io.BytesIO(sound("ab c")), "audio/wav")
    assert client.audio.transcriptions.create(file=file, model="speech").text == "ab c"
    verbose: Any = client.audio.transcriptions.create(
        file=("a.wav", sound("ab c")), model="speech", response_format="verbose_json",
        timestamp_granularities=["word"],
    )  # fmt: skip
    assert [word.word for word in verbose.words] == ["ab", "c"] and verbose.segments[0].text == "ab c"
    subtitles: Any = client.audio.transcriptions.create(
        file=("a.wav", sound("ab c")), model="speech", response_format="srt"
    )  # fmt: skip
    assert subtitles.startswith("1\n00:00:0")
    with pytest.raises(openai.BadRequestError, match="cannot read the sound"):
        client.audio.transcriptions.create(file=("/etc/passwd", b"root"), model="speech")
    with pytest.raises(openai.NotFoundError):
        client.audio.transcriptions.create(file=("a.wav", sound("a")), model="none")


def test_predictions_over_http(address: str) -> None:
    import httpx

    audio = base64.b64encode(sound("c")).decode()
    answer = httpx.post(f"{address}/v1/predict", json={"inputs": [{"audio": audio}]}, timeout=30)
    assert answer.json()["outputs"][0]["text"] == "c"
    assert httpx.post(f"{address}/v1/predict", json={"inputs": ["/etc/passwd"]}, timeout=30).status_code == 400


def test_an_inspection_has_frames_tokens_and_attention_over_seconds(model: Any) -> None:
    from regard.core.observation import require_observation

    heard = model.read_file(sound("ab c"), "a.wav")
    observation = require_observation(model.inspect(heard))
    frames, tokens = observation.surfaces
    assert frames.numbers is not None and frames.numbers.rate == 100 and len(frames.numbers.channels) == 40
    assert frames.numbers.values.shape == (len(frames.pieces), 40) and frames.pieces[50] == "0.50"
    assert [word["word"] for word in observation.facts["words"]] == ["ab", "c"]
    maps = observation.maps
    assert {"encoder.0.self", "decoder.0.self", "decoder.0.source"} <= maps.keys()
    source = maps["decoder.0.source"]
    assert len(source.query.labels) == len(tokens.pieces) + 1 and source.key.name == "second"
    assert len(source.key.labels) == -(-len(frames.pieces) // 2) and source.key.labels[0] == "0.00–0.01"
    assert [prediction.label for prediction in observation.predictions] == [*tokens.pieces, "</s>"]


def test_an_inspection_of_ctc_alone(tmp_path: Path) -> None:
    from regard.core.observation import require_observation

    model = regard.load(trained(tmp_path, decoder="none").path)
    heard = model.read_file(sound("abc"), "a.wav")
    observation = require_observation(model.inspect(heard))
    assert set(observation.maps) == {"encoder.0.self"}
    assert len(observation.predictions) == len(observation.surfaces[1].pieces)
    for beam in (1, 4):
        assert model([heard], beam=beam)[0].text == "abc" == observation.facts["text"]


def test_influence_is_the_change_without_a_range_of_frames(model: Any) -> None:
    heard = model.read_file(sound("ab c"), "a.wav")
    observation = model.inspect(heard)
    changes = model.influences(heard, observation)
    assert [change.prediction for change in changes] == list(range(len(observation.predictions)))
    whole = model.scores(heard, observation)
    assert whole == pytest.approx([prediction.log_probability for prediction in observation.predictions], abs=1e-4)
    hidden = heard.frames.copy()
    hidden[16:24] = model.features.scale.mean
    without = model.scores(heard._replace(frames=hidden), observation)
    for change, before, after in zip(changes, whole, without, strict=True):
        assert len(change.values) == len(heard.frames)
        assert change.values[16:24] == pytest.approx([before - after] * 8, abs=1e-3)
    assert max(max(change.values) for change in changes) > 0.01


def test_the_lens_keeps_the_text(model: Any) -> None:
    from regard.inspection.inspect_input import inspect_input

    line = json.dumps({"audio": base64.b64encode(sound("ab c")).decode()})
    document = inspect_input(model, line, {"name": "speech", "task": "recognition"}, ("lens", "ablation")).document
    rows = document["lens"]["rows"]
    assert {len(row) for row in rows} == {len(document["surfaces"][1]["pieces"]) + 1}
    assert rows[-1][-1]["label"] == "</s>"
    assert {"encoder.0.self", "decoder.0.self", "decoder.0.source"} <= document["ablation"].keys()


def test_recordings_without_words_are_sounds_as_a_recognizer_hears_them(model: Any) -> None:
    """A run that reads sounds computes their frames as those of any other sound, with their number as wanted."""
    from regard.tasks.recognition.silence import wordless_sound

    features, loud = model.features, []
    for seed in range(40):
        frames = features.wordless(7, np.random.default_rng(seed))
        length = features.recipe.samples(7)
        samples = wordless_sound(length, features.options.rate, np.random.default_rng(seed))
        assert features.recipe.count(length) == 7 > features.recipe.count(length - 1)
        assert np.isfinite(samples).all() and len(samples) == length
        expected = features.standardized(features.recipe.frames(samples))
        assert frames.shape == (7, features.channels) and np.array_equal(frames, expected)
        loud.append(float(np.abs(samples).max()))
    assert min(loud) < 1e-3 and 0.1 < max(loud) < 1


def test_the_small_changes_of_a_tone_stay_small(model: Any) -> None:
    """Divided by their own deviation they would look like speech; other channels are divided by theirs."""
    random = np.random.default_rng(1)
    still = 0.01 * random.standard_normal((50, 40)).astype(np.float32)
    loud = 3 * random.standard_normal((50, 40)).astype(np.float32)
    assert np.abs(model.features.scale_of([still]).standardized(still)).max() < 0.1
    assert model.features.scale_of([loud]).standardized(loud).std(0) == pytest.approx(np.ones(40), abs=1e-4)
