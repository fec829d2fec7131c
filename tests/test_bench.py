"""The measurements themselves are made by hand; here only that their parts work."""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from regard.attention.span import Span
from regard.data.wav_files import read_wav
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.training.setup import set_up

BENCH = Path(__file__).parents[1] / "bench"
pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="bench/ is not in this distribution")


def test_regards_worker_trains_in_the_format_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from alternate import Worker
    from train_speed import _planned

    draw = random.Random(1)
    lines = ["".join(f"{' '.join(draw.choices('abcd', k=4))}\n" for _ in range(50)) for _ in "xy"]
    for name, text in zip(("source", "target"), lines, strict=True):
        (tmp_path / name).write_text(text)
    corpus = {"source": str(tmp_path / "source"), "target": str(tmp_path / "target")}
    config = {
        "model": {"layers": 1, "width": 8, "feed_forward": 8, "heads": 2},
        "data": {"train": [corpus], "tokenizer": {"kind": "word"}},
        "train": {"batch_tokens": 64, "precision": "float32", "threads": 1},
    }
    run = RunFolder.create(tmp_path / "auto", load_config(config))
    set_up(run, log=lambda message: None)
    folder = _planned(run, "bfloat16", 2)
    copy = RunFolder.open(folder)
    assert copy.read_plan() == run.read_plan().model_copy(update={"precision": "bfloat16"})
    assert (copy.config.train.workers, run.config.train.workers) == (2, 1)
    shutil.rmtree(run.path)  # the copy stands by itself
    with Worker("regard", [sys.executable, BENCH / "ours_train.py", folder], threads=1) as worker:
        answers = [worker.turn().answer for _ in range(2)]
    assert worker.hello["threads"] == 2 and worker.hello["parameters"] > 0
    assert all(0 < answer["tokens"] <= 64 and 0 < answer["loss"] < 5 for answer in answers)
    assert worker.process.returncode == 0


def test_regards_worker_decodes_what_the_model_itself_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from alternate import Worker
    from decode_speed import _arguments, _of_preset

    monkeypatch.setattr(sys, "argv", ["decode_speed.py", "--preset", "tiny", "--types", "40", "--sentences", "5"])
    job = _of_preset(tmp_path, _arguments())
    job |= {"beam": 2, "rows": 3, "length_penalty": 1.0, "begin": 2, "end": 3, "pad": 0}
    (tmp_path / "job.json").write_text(json.dumps(job))
    for kind in ("reference", "float32"):
        with Worker(kind, [sys.executable, BENCH / "ours_decode.py", tmp_path, kind, "1"], threads=1) as worker:
            assert worker.turn().answer["tokens"] == 5 * 16
            worker.turn()  # what the first turn decoded is written by then
    plain, quick = (json.loads((tmp_path / f"outputs-regard-{k}.json").read_text()) for k in ("reference", "float32"))
    assert plain == quick and {len(each) for each in plain} == {16}


def test_growth_finds_the_exponents_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of times well below a second, too: 2 ms · n^1.5, and 3 MB · n."""
    monkeypatch.syspath_prepend(str(BENCH))
    from growth import Point, _exponents

    found = _exponents([Point(n, 2e-3 * n**1.5, 3_000_000 * n) for n in (1, 2, 4, 8, 16)])
    assert found == pytest.approx({"time": 1.5, "memory": 1.0, "steepest": 1.5})


@pytest.mark.parametrize("work", ["window", "causal window", "dense"])
def test_growth_attends_within_the_window_it_names(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of the input and of four matrices, by the path that the mask asks for."""
    monkeypatch.syspath_prepend(str(BENCH))
    from growth import _prepared

    from regard.attention import kernel

    choose, chosen = kernel.choose, []
    monkeypatch.setattr(kernel, "choose", lambda **asked: chosen.append(choose(**asked)) or chosen[-1])
    gradients = _prepared({"work": work, "attended": 512, "radius": 8})()
    assert [tuple(each.shape) for each in gradients] == [(1, 512, 128)] + [(128, 128)] * 4
    assert chosen == ["sdpa" if work == "dense" else "window"]


def test_the_bytes_of_a_step_are_those_of_the_matrices_that_it_multiplies_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted by name; compared with what a step without packing calls."""
    monkeypatch.syspath_prepend(str(BENCH))
    import torch
    from limit import _step_bytes
    from torch.utils._python_dispatch import TorchDispatchMode
    from work import model

    from regard.engine.transformer import FastEncoderDecoder

    class Weights(TorchDispatchMode):
        """The elements of the second factor of each plain product of matrices."""

        total = 0

        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            if function.overloadpacket.__name__ in ("mm", "addmm"):
                self.total += arguments[-1].numel()
            return function(*arguments, **(options or {}))

    made = model("tiny", 300)
    engine = FastEncoderDecoder(
        made.encoder, made.decoder, made.head.weight, dtype=torch.float64
    )  # which is not packed
    source = torch.tensor([[5, 6, 7]])
    session = engine.session(source, Span.without_padding(source))
    with Weights() as weights:
        engine.step(torch.tensor([[2]]), session)
    assert _step_bytes(made, "int8") == weights.total
    assert _step_bytes(made, "float32") == 4 * weights.total


def test_a_row_alone_is_timed_in_both_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from one_row import NAMES, measure

    found = measure([1, 3], width=8, within=0.001)
    assert list(found) == [1, 3] and all(len(times) == len(NAMES) for times in found.values())
    assert all(0 < seconds < 0.1 for times in found.values() for seconds in times)


def test_memory_is_watched_until_a_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from translate_memory import _resident, watch

    before = _resident(os.getpid())
    held = mmap.mmap(-1, 64 << 20)  # new pages; the heap may have free ones from earlier tests
    held.write(b"x" * (64 << 20))
    assert 32 < _resident(os.getpid()) - before < 128, f"MiB, of which {len(held) >> 20} are held"
    assert all(0 < each < 1000 for each in watch([sys.executable, "-c", ""], every=0.01))
    with pytest.raises(SystemExit, match="exit code 3"):
        watch([sys.executable, "-c", "exit(3)"], every=0.01)


def test_the_time_to_a_score_lies_on_the_line_between_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from time_to_bleu import _time

    curve = [{"seconds": 10.0, "bleu": 20.0}, {"seconds": 30.0, "bleu": 40.0}]
    assert _time(curve, 32.0) == pytest.approx(22.0)
    assert _time(curve[:1], 10.0) == pytest.approx(5.0)
    assert _time(curve, 41.0) != _time(curve, 41.0), "never reached: not a number"


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
def test_captions_are_spoken_by_voices_that_parts_do_not_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import speak

    for name in ("train.en", "val.en", "test_2016_flickr.en"):
        (tmp_path / name).write_text("A dog runs.\n\nTwo men wait.\n")
    monkeypatch.setattr(sys, "argv", ["speak.py", str(tmp_path), str(tmp_path / "spoken")])
    speak.main()
    voices = {}
    for part in speak.PARTS:
        lines = [json.loads(line) for line in (tmp_path / "spoken" / f"{part}.jsonl").read_text().splitlines()]
        assert [line["text"] for line in lines] == ["A dog runs.", "Two men wait."]
        for line in lines:
            wave = read_wav((tmp_path / "spoken" / line["audio_filepath"]).read_bytes(), part)
            assert wave.rate == 16_000 and line["duration"] == pytest.approx(len(wave.samples) / wave.rate, abs=1e-3)
            assert 0.4 < line["duration"] < 3 and abs(wave.samples).max() > 0.1
        voices[part] = {line["speaker"] for line in lines}
    assert voices["train"] == voices["valid"] and not voices["train"] & voices["test"]
    assert not set(speak.VOICES) & set(speak.UNSEEN) and len(speak.VOICES) + len(speak.UNSEEN) == 12
