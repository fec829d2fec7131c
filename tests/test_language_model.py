"""Language models: text to windows and back, what a prediction sees, generation, bits per byte by a second count."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import regard
from regard import cli
from regard.attention.span import Span
from regard.core.state import join, repeat, select, truncate
from regard.data.stream import Stream, TextConfig, open_or_prepare_stream, read_text_lines
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, TokenizerConfig
from regard.data.windows import WindowExamples
from regard.engine.language_model import FastLanguageModel
from regard.errors import ConfigError, DataError
from regard.models.causal_config import CausalModelConfig, CausalStackConfig
from regard.models.language_model import LanguageModel
from regard.runs.config import load_config
from regard.tasks.language_model.automatic_config import choose
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.generator import Generator
from regard.tasks.language_model.task import TASK
from regard.training.progress import NullReporter
from tests.data.earlier_heads import write_earlier_head

TEXT = "the cat sat on the mat\nthe rat sat on the hat\n" * 12


def stream_of(folder: Path, text: str, **tokenizer: Any) -> tuple[Stream, Any]:
    (folder / "text.txt").write_text(text, encoding="utf-8", newline="")
    config = TextConfig(source=folder / "text.txt")
    made = train_tokenizer(read_text_lines(config), TokenizerConfig(**({"kind": "character"} | tokenizer)))
    return open_or_prepare_stream(config, made, folder / "prepared"), made


# Text to numbers and back


@pytest.mark.parametrize("kind", ["character", "byte", "byte-bpe"])
@pytest.mark.parametrize("text", ["a\nb", "\n\n x\t y \r\n", "Über straße … 𝄞\n", "  \n"])
def test_a_text_comes_back_as_it_was(tmp_path: Path, kind: str, text: str) -> None:
    stream, tokenizer = stream_of(tmp_path, text, kind=kind)
    assert (int(stream.tokens[0]), int(stream.tokens[-1])) == (BEGIN, END)
    assert tokenizer.decode(stream.tokens[1:-1].tolist()) == text
    assert (stream.bytes, stream.characters) == (len(text.encode()), len(text))
    tokenizer.save(tmp_path / "tokenizer", "text")
    assert load_tokenizer(tmp_path / "tokenizer", "text").encode(text) == tokenizer.encode(text)


def test_parts_of_a_text_are_the_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    parts = [
        "".join(read_text_lines(TextConfig(source=tmp_path / "a.txt.gz", share=share)))
        for share in ((0.0, 0.3), (0.3, 0.77), (0.77, 1.0))
    ]
    assert "".join(parts) == TEXT and all(parts)


@pytest.mark.parametrize("content", [b"\xff\xfe", b""])
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "text.txt").write_bytes(content)
    tokenizer = train_tokenizer([], TokenizerConfig(kind="byte"))
    with pytest.raises(DataError) as caught:
        open_or_prepare_stream(TextConfig(source=tmp_path / "text.txt"), tokenizer, tmp_path / "prepared")
    assert "text.txt" in str(caught.value.where) and not (tmp_path / "prepared").exists()


def test_prepared_text_is_opened_again_and_damage_is_seen(tmp_path: Path) -> None:
    stream, tokenizer = stream_of(tmp_path, TEXT)
    config, folder = TextConfig(source=tmp_path / "text.txt"), tmp_path / "prepared"
    before = (folder / "tokens").stat().st_mtime_ns
    assert len(open_or_prepare_stream(config, tokenizer, folder)) == len(stream)
    assert (folder / "tokens").stat().st_mtime_ns == before
    (folder / "tokens").write_bytes(b"\xff" * 2 * len(stream))
    assert open_or_prepare_stream(config, tokenizer, folder).tokens.max() < len(tokenizer), "made anew"
    (tmp_path / "text.txt").write_text(TEXT.upper())
    with pytest.raises(DataError, match="changed since this run started"):
        open_or_prepare_stream(config, tokenizer, folder, content=stream.content)


@pytest.mark.parametrize(
    "change", [{"dtype": "O"}, {"tokens": 1 << 59}, {"tokens": -1}, {"version": 2}, {"bytes": "x"}]
)
def test_a_received_head_is_not_trusted(tmp_path: Path, change: dict[str, Any]) -> None:
    stream_of(tmp_path, TEXT)
    path = tmp_path / "prepared" / "stream.json"
    write_earlier_head(path, **change)
    with pytest.raises(DataError):
        Stream.open(path.parent)


# Windows


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 3))
def test_every_token_is_predicted_once_from_those_before_it(length: int, context: int, epoch: int) -> None:
    class Numbers:
        tokens = np.arange(100, 100 + length + 1)
        name = "numbers"

        def __len__(self) -> int:
            return len(self.tokens)

    examples = WindowExamples([Numbers(), Numbers()], context=context, tokens=3 * context, seed=4)  # type: ignore[list-item]
    for each in (None, epoch):
        targets: list[int] = []
        for picks in examples.batches(each):
            batch = examples.collate(picks)
            assert batch.weight == float(batch.valid.sum()) and batch.input.shape[1] <= context
            assert torch.equal(batch.target[batch.valid], batch.input[batch.valid] + 1)
            targets += batch.target[batch.valid].tolist()
        assert sorted(targets) == sorted(2 * list(range(101, 101 + length)))


def test_windows_of_two_epochs_begin_elsewhere(tmp_path: Path) -> None:
    stream, _ = stream_of(tmp_path, TEXT)
    examples = WindowExamples([stream], context=16, tokens=64, seed=1)
    starts = [
        sorted(len(examples.collate(picks).valid[row].nonzero()) for picks in examples.batches(epoch)
               for row in range(len(picks.index)))
        for epoch in range(4)
    ]  # fmt: skip
    assert len({tuple(each) for each in starts}) > 1


# The model


@pytest.fixture
def model() -> LanguageModel:
    torch.manual_seed(2)
    config = load_config({"task": "language-model", "data": {"train": [], "context": 12}, "model": {
        "layers": 2, "width": 16, "heads": 2, "feed_forward": 16}})  # fmt: skip
    return TASK.build(config, {"types": 11}).double().eval()  # type: ignore[return-value]


def test_no_token_sees_a_later_one(model: LanguageModel) -> None:
    tokens = torch.randint(0, 11, (2, 9))
    other = tokens.clone()
    other[:, 5:] = (other[:, 5:] + 1) % 11
    one, two = (model.step(each, model.start(2))[0] for each in (tokens, other))
    assert torch.equal(one[:, :5], two[:, :5]) and not torch.equal(one[:, 5:], two[:, 5:])


def test_pieces_with_a_state_equal_one_pass(model: LanguageModel) -> None:
    tokens = torch.randint(0, 11, (3, 9))
    whole, _ = model.step(tokens, model.start(3))
    state, parts = model.start(3), []
    for piece in (tokens[:, :4], tokens[:, 4:5], tokens[:, 5:]):
        log_p, state = model.step(piece, state)
        parts.append(log_p)
    torch.testing.assert_close(torch.cat(parts, 1), whole)


def test_rows_can_be_reordered_repeated_joined_and_cut(model: LanguageModel) -> None:
    tokens = torch.randint(0, 11, (3, 6))
    _, state = model.step(tokens[:, :5], model.start(3))
    wanted, _ = model.step(tokens[:, 5:], state)
    rows = torch.tensor([2, 0])
    torch.testing.assert_close(model.step(tokens[rows, 5:], select(state, rows))[0], wanted[rows])
    twice, _ = model.step(tokens[:, 5:].repeat_interleave(2, 0), repeat(state, 2))
    torch.testing.assert_close(twice, wanted.repeat_interleave(2, 0))
    halves = [model.step(tokens[part, :5], model.start(len(tokens[part])))[1] for part in (slice(0, 1), slice(1, 3))]
    torch.testing.assert_close(model.step(tokens[:, 5:], join(halves))[0], wanted)
    _, ahead = model.step(tokens[:, 5:], state)
    torch.testing.assert_close(model.step(tokens[:, 5:], truncate(ahead, torch.full((3,), 5)))[0], wanted)


# Generating and scoring


@pytest.fixture
def generator(model: LanguageModel) -> Generator:
    tokenizer = train_tokenizer(["abcdefg"], TokenizerConfig(kind="character"))
    return Generator(model, tokenizer, GenerateConfig(length=30), context=12)


def test_generating_repeats_with_its_seed_and_goes_beyond_the_context(generator: Generator) -> None:
    one, again, other = (generator("ab", seed=seed) for seed in (3, 3, 4))
    assert one == again != other
    assert len(one.text) <= 30 and set(one.text) <= set("abcdefg")
    assert generator("ab", greedy=True, length=5) == generator("ab", greedy=True, seed=9, length=5)


def test_greedy_text_is_the_argmax_of_each_step(generator: Generator) -> None:
    tokens, text = [BEGIN, *generator.tokenizer.encode("ab")], ""
    for _ in range(5):
        log_p, _ = generator.model.step(torch.tensor([tokens]), generator.model.start(1))
        allowed = log_p[0, -1].clone()
        allowed[:3] = -torch.inf
        tokens.append(int(allowed.argmax()))
        if tokens[-1] == END:
            break
        text += generator.tokenizer.decode(tokens[-1:])
    assert generator("ab", greedy=True, length=5).text == text


def test_every_engine_of_the_models_numbers_gives_its_text(generator: Generator) -> None:
    """A context of 12 is passed on the way; by default the fast form generates."""
    assert isinstance(generator.decoding.model, FastLanguageModel)
    parts = generator.model, generator.tokenizer, generator.settings
    plain = Generator(*parts, context=12, engine="reference")
    assert plain.decoding.model is generator.model
    for seed in range(3):
        mine, wanted = (each("ab", seed=seed, length=20) for each in (generator, plain))
        assert mine.text == wanted.text and mine.log_probability == pytest.approx(wanted.log_probability)


def test_a_model_without_a_fast_form_generates_and_says_why_an_engine_is_refused(generator: Generator) -> None:
    generator.model.layers[0].mixer.attention.surprise = nn.Parameter(torch.ones(1))
    parts = generator.model, generator.tokenizer, generator.settings
    assert Generator(*parts, context=12).decoding.model is generator.model
    with pytest.raises(ConfigError, match="cannot decode in float32") as caught:
        Generator(*parts, context=12, engine="float32")
    assert "surprise" in str(caught.value.why)


@pytest.mark.parametrize("engine", ["reference", None])
def test_a_window_reads_on_beyond_the_context_without_reading_anew(engine: Any, generator: Generator) -> None:
    sizes = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 16, "init_std": 0.5}
    layers = sizes | {"mixer": {"kind": "dot", "neighborhood": 3}}
    config = load_config({"task": "language-model", "data": {"train": []}, "model": layers})
    model = TASK.build(config, {"types": 11}).double()
    windowed = Generator(model, generator.tokenizer, GenerateConfig(length=40), context=6, engine=engine)
    found = windowed("ab", greedy=True, length=40)
    tokens = [BEGIN, *generator.tokenizer.encode("ab" + found.text)]
    log_p, _ = model.step(torch.tensor([tokens]), model.start(1))
    log_p[..., :3] = -torch.inf
    assert log_p[0, 2:-1].argmax(-1).tolist() == tokens[3:] and len(tokens) > 12


def test_what_cannot_be_spelled_or_set_is_refused(generator: Generator) -> None:
    with pytest.raises(ConfigError, match="cannot encode the prompt") as caught:
        generator("xyz")
    assert "'x', 'y', 'z'" in (caught.value.why or "") and caught.value.help
    with pytest.raises(ConfigError):
        generator("a", top_p=2.0)


@pytest.mark.parametrize(
    "given", [{"seed": "x"}, {"seed": True}, {"seed": 1 << 70}, {"greedy": "no"}], ids=lambda given: repr(given)
)
def test_what_is_no_seed_or_choice_is_refused_before_the_first_piece(
    generator: Generator, given: dict[str, Any]
) -> None:
    (name,) = given
    with pytest.raises(ConfigError, match=f"{name} cannot be|invalid {name}") as caught:
        generator.stream("a", generator.settings, **given)
    assert caught.value.where == name


@pytest.mark.parametrize("given", [{"temperature": 1e-300}, {"top_p": 1e-300}], ids=lambda given: repr(given))
def test_draws_that_leave_no_choice_are_greedy(generator: Generator, given: dict[str, Any]) -> None:
    generator.model.float()
    assert generator("ab", length=5, seed=1, **given).text == generator("ab", length=5, greedy=True).text


def test_a_temperature_beyond_float32_draws_evenly(generator: Generator) -> None:
    generator.model.float()
    drawn = "".join(generator("ab", length=30, seed=seed, temperature=1e300).text for seed in range(8))
    assert set(drawn) == set("abcdefg")


def test_bits_per_byte_are_those_of_an_independent_count(generator: Generator) -> None:
    """Token by token, each window from its own beginning, over the bytes of the raw text."""
    text, nll = "abcdefgabcdefgabc", 0.0
    tokens = [BEGIN, *generator.tokenizer.encode(text)]
    for at in range(1, len(tokens)):
        start = (at - 1) // 12 * 12
        log_p, _ = generator.model.step(torch.tensor([tokens[start:at]]), generator.model.start(1))
        nll -= float(log_p[0, -1, tokens[at]].detach())
    score = generator.score(text)
    assert score.nll == pytest.approx(nll) and score.tokens == len(text)
    assert score.bits_per_byte == pytest.approx(nll / math.log(2) / len(text.encode()))
    assert score.perplexity == pytest.approx(math.exp(nll / len(text)))


# From the command line


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language-model")
    (folder / "book.txt").write_text(TEXT * 6)
    small = ["model.layers=1", "model.width=32", "model.heads=2", "train.steps=150", "data.context=32",
             "train.threads=1", "train.precision=float32", "model.dropout=0", "train.batch_tokens=4096",
             "train.learning_rate=1.5e-2"]  # fmt: skip
    given = [part for each in small for part in ("--set", each)]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert cli.run(["train", "book.txt", *given]) == 0
    return folder / "runs" / "book"


def test_one_text_alone_trains_a_language_model_that_goes_on_as_the_text_does(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["generate", str(trained), "--prompt", "the cat", "--temperature", "0", "--length", "40"]) == 0
    line = "the [cr]at sat on the [mh]at\n"
    assert re.match(f"the cat sat on the [mh]at\n{line}", capsys.readouterr().out)
    assert cli.run(["generate", str(trained), "--prompt", "the", "--seed", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["text"].startswith("the") and found["log_probability"] < 0
    assert "text-generation" in (trained / "README.md").read_text()


def test_info_describes_a_run_of_any_task(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["info", str(trained), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"]["all"] == sum(p.numel() for p in regard.load(trained).model.parameters())
    assert found["summary"].startswith("language model, 1 layer,") and found["parameters"]["self-attention"]
    assert cli.run(["info", str(trained)]) == 0
    assert "language model" in capsys.readouterr().out


def test_python(trained: Path) -> None:
    model = regard.load(trained)
    assert model("the cat", length=15, greedy=True).text in (" sat on the mat", " sat on the hat")
    assert model.score(TEXT).bits_per_byte < 1.0


@pytest.mark.parametrize(
    "arguments",
    [["translate", "RUN"], ["export", "RUN", "made", "--to", "onnx"]],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_verbs_of_translation_say_that_it_is_none(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tsv").write_text("a\tb\n")
    assert cli.run([str(trained) if each == "RUN" else each for each in arguments]) == 2
    told = capfd.readouterr().err
    needed = ("requires a translation run", "a network with a fixed forward pass; the task of this run is")
    assert any(each in told for each in needed) and "language-model" in told
    assert not list(tmp_path.glob("made*"))


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"data": {"tokenizer": {"kind": "word"}}}, "data.tokenizer"),
        ({"train": {"batch_tokens": 8}}, "train.batch_tokens"),
        ({"model": {"heads": 3}}, ""),
        ({"train": {"best_by": "bleu"}}, "train.best_by"),
    ],
)
def test_a_config_that_does_not_fit_is_told(given: dict[str, Any], where: str) -> None:
    tables = {"task": "language-model", "data": {"train": []}}
    with pytest.raises(ConfigError) as caught:
        load_config({**tables, **given, "data": {"train": [], **given.get("data", {})}})
    assert where in str(caught.value)


@pytest.mark.parametrize(("given", "smoothing"), [({}, 0.0), ({"label_smoothing": 0.2}, 0.2)])
def test_label_smoothing_is_off_unless_asked_for(given: dict[str, Any], smoothing: float) -> None:
    config = load_config({"task": "language-model", "data": {"train": []}, "train": given})
    assert config.train.label_smoothing == smoothing


# A task of one's own


def test_an_own_task_is_named_by_a_recipe_and_never_by_a_received_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from tests.laws import own_task

    kind, sample = f"{own_task.__name__}:TASK", own_task.sample(tmp_path)
    monkeypatch.chdir(tmp_path)
    source = sample["data"]["train"][0]["source"]
    (tmp_path / "mean.toml").write_text(
        f'task = "{kind}"\ntrain = {{ steps = 4, threads = 1, precision = "float32" }}\n'
        f'[[data.train]]\nsource = "{source}"\n'
    )
    monkeypatch.setenv("REGARD_TASKS", kind)
    assert cli.run(["train", "mean.toml", "--name", "mean"]) == 0
    assert isinstance(regard.load(tmp_path / "runs" / "mean")([[1.0, 2.0]])[0], float)
    monkeypatch.delenv("REGARD_TASKS")
    assert cli.run(["train", "--resume", "runs/mean"]) == 2
    assert "REGARD_TASKS" in capfd.readouterr().err


def test_the_page_shows_the_task_that_the_laws_hold_for() -> None:
    from tests.laws import own_task

    page = Path(own_task.__file__).parents[2] / "docs" / "how-to" / "add-a-task.md"
    source = Path(own_task.__file__).read_text(encoding="utf-8").partition('"""\n\n')[2]
    assert f"```python\n{source}```" in page.read_text(encoding="utf-8")


# Every key arrives where it counts

LAYERS = {
    "layers": 3, "width": 24, "feed_forward": 20, "activation": "swiglu", "heads": 4, "key_heads": 1, "dropout": 0.5,
    "attention_dropout": 0.5, "feed_forward_dropout": 0.5, "norm": "post", "normalization": "rms",
    "position": "learned", "share": "none", "init_std": 0.5, "mixer": "average", "preset": "tiny", "key_width": 2,
    "value_width": 3, "attention_bias": True, "output_bias": True,
    "qk_norm": True, "context_norm": True, "attention_gate": True, "zero_output": True, "embedding_residual": True,
    "value_embedding": True,
    "normalization_epsilon": 0.5, "embedding_scale": 1.0,
}  # fmt: skip


def footprint(model: dict[str, Any], context: int = 12) -> tuple[Any, ...]:
    """Tensors of a network, and what it computes while it trains."""
    small = {"layers": 2, "width": 16, "heads": 2, "feed_forward": 16}
    if "preset" in model:
        small = {}
    config = load_config({"task": "language-model", "data": {"train": [], "context": context}, "model": small | model})
    torch.manual_seed(2)
    net = TASK.build(config, {"types": 11}).train()
    torch.manual_seed(3)
    tokens = torch.arange(8)[None] % 11
    features = net(tokens, Span.without_padding(tokens)).features
    shapes = tuple((name, tuple(each.shape)) for name, each in net.state_dict().items())
    return shapes, round(float(features.detach().double().square().sum()), 6)


@pytest.mark.parametrize("key", LAYERS)
def test_every_key_of_the_layers_changes_the_network(key: str) -> None:
    assert footprint({key: LAYERS[key]}) != footprint({})


def test_the_keys_of_the_layers_are_all_tried() -> None:
    keys = {*CausalModelConfig.model_fields, *CausalStackConfig.model_fields}
    assert set(LAYERS) == keys - {
        "decoder",
        "kind",
        "execution",  # tests/test_execution.py
        "feed_forward_chunks",  # the same; it changes no number
        "never_predicted",  # tests/hand/test_imported_parts.py
        "wide",  # tests/test_wide_language_model.py
        "from",  # tests/test_going_on.py
        "lora",  # tests/test_lora.py
    }


def test_a_learned_table_is_as_long_as_the_context() -> None:
    shapes = dict(footprint({"position": "learned"}, context=9)[0])
    assert shapes["embedding.position.table"] == (9, 16)


@pytest.mark.parametrize("key", ["length", "temperature", "top_k", "top_p"])
def test_settings_of_a_run_decide_how_it_generates(generator: Generator, key: str) -> None:
    values = {"length": 3, "temperature": 1e-4, "top_k": 1, "top_p": 1e-6}
    generator.settings = GenerateConfig(**({"length": 12} | {key: values[key]}))
    found = [generator("ab", seed=seed) for seed in range(4)]
    if key == "length":
        assert all(len(each.text) <= 3 for each in found)
    else:
        assert all(each == generator("ab", greedy=True) for each in found)


@pytest.mark.parametrize("spec", [{}, {"types": 9, "more": 9}, {"source_types": 9, "target_types": 9}])
def test_a_received_plan_of_other_sizes_is_damaged(trained: Path, tmp_path: Path, spec: dict[str, int]) -> None:
    received = Path(shutil.copytree(trained, tmp_path / "received"))
    plan = json.loads((received / "plan.json").read_text())
    (received / "plan.json").write_text(json.dumps(plan | {"spec": spec}))
    assert cli.run(["info", str(received)]) == 4


# From Python


def test_python_trains_resumes_and_refuses_another_config(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(TEXT)
    tables: dict[str, Any] = {
        "task": "language-model", "data": {"train": [{"source": str(tmp_path / "book.txt")}], "context": 16},
        "model": {"layers": 1, "width": 16, "heads": 2, "feed_forward": 16},
        "train": {"steps": 4, "batch_tokens": 64, "threads": 1, "precision": "float32", "save_every": 2},
    }  # fmt: skip
    steps: list[int] = []

    class Stopping(NullReporter):
        def updated(self, progress: Any, total: int | None, figures: dict[str, float]) -> None:
            steps.append(progress.step)
            if steps == [1, 2, 3]:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regard.train(tables, tmp_path / "run", reporter=Stopping())
    assert regard.train(tables, tmp_path / "run", reporter=Stopping()) == tmp_path / "run"
    assert steps == [1, 2, 3, 3, 4], "it resumed from the checkpoint of step 2"
    assert "text-generation" in (tmp_path / "run" / "README.md").read_text()
    with pytest.raises(ConfigError, match="another config"):
        regard.train(tables, tmp_path / "run", overrides=["train.steps=5"])
    whole = regard.train(tables, tmp_path / "whole")
    one, other = (regard.load(path).model.state_dict() for path in (tmp_path / "run", whole))
    assert all(torch.equal(each, other[name]) for name, each in one.items())


def test_an_own_task_is_found_in_the_working_folder(tmp_path: Path) -> None:
    """By the console script, whose path begins where it is installed."""
    from tests.laws import own_task

    shutil.copy(own_task.__file__, tmp_path / "my_task.py")
    source = own_task.sample(tmp_path)["data"]["train"][0]["source"]
    (tmp_path / "mean.toml").write_text(
        f'task = "my_task:TASK"\ntrain = {{ steps = 2, threads = 1 }}\n[[data.train]]\nsource = "{source}"\n'
    )
    root = Path(own_task.__file__).parents[2]
    script = "import sys; sys.path[0] = '/nowhere'; from regard.cli import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", script, "train", "mean.toml"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert "next: regard predict runs/mean < in.txt" in found.stderr


# Division of an update


@pytest.mark.parametrize(
    "threads, cuda, given, expected",
    [
        (2, False, {}, {"workers": 2}),
        (1, False, {}, {}),
        (2, True, {}, {}),
        (1, False, {"threads": 4}, {"workers": 2}),
        (2, False, {"threads": 1}, {}),
        (2, False, {"workers": 1}, {}),
        (2, False, {"shards": 1}, {}),
    ],
)
def test_a_text_alone_is_learned_by_two_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, threads: int, cuda: bool, given: dict[str, Any], expected: Any
) -> None:
    """Where a CPU has the threads, and nobody said otherwise."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    (tmp_path / "text.txt").write_text(TEXT)
    train = choose([tmp_path / "text.txt"], [], given).config["train"]
    assert {key: value for key, value in train.items() if key == "workers"} == expected
