"""Whatever is wrong gets one clear error with the exit code of its kind, and nothing that was there is lost."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from regard import cli
from regard.core import atomic_files
from regard.errors import ConfigError
from regard.runs import checkpoint
from regard.runs.config import find_recipe
from regard.runs.run_folder import RunFolder
from regard.training.setup import set_up

from .conftest import TinyRun

SENTENCES = 60


class Said(NamedTuple):
    """How a command ended and what it printed on standard error."""

    code: int
    error: str


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """``call("train", source, target)`` in this process. A failure is one error block, never a traceback."""

    def run(*arguments: object) -> Said:
        threads = torch.get_num_threads()
        code = cli.run([str(each) for each in arguments])
        torch.set_num_threads(threads)
        error = capfd.readouterr().err
        assert error.count("error: ") == (0 if code in (0, 130) else 1) or "check" in arguments, error
        assert "Traceback" not in error and "defect" not in error
        return Said(code, error)

    return run


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Sixty parallel sentences, the target as long as its source."""
    draw = random.Random(1)
    lines = [" ".join(draw.choices("abcdefgh", k=draw.choice([3, 9, 27]))) for _ in range(SENTENCES)]
    source, target = tmp_path / "text.lower", tmp_path / "text.upper"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    target.write_text("".join(f"{line.upper()}\n" for line in lines), encoding="utf-8")
    return source, target


def change(path: Path, how: Callable[[list[str]], None]) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    how(lines)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


QUICK = {
    "train.steps": 2, "train.precision": "float32", "train.threads": 1, "model.width": 16, "model.encoder_layers": 1,
    "model.decoder_layers": 1, "data.tokenizer.kind": "word", "data.tokenizer.size": "",
}  # fmt: skip


@pytest.fixture
def train(call: Callable[..., Said], tmp_path: Path) -> Callable[..., Said]:
    """``train(source, target)``: two updates of a tiny model, the run under ``tmp_path / "runs"``."""
    quick = [each for key, value in QUICK.items() for each in ("--set", f"{key}={value}")]
    return lambda *arguments: call("train", "--runs", tmp_path / "runs", *quick, *arguments)


# Text


@pytest.mark.parametrize("side", [0, 1])
def test_different_lengths_name_the_first_suspicious_line(train, pair: tuple[Path, Path], side: int) -> None:
    change(pair[side], lambda lines: lines.pop(19))
    code, error = train(*pair)
    assert code == 3
    assert "59" in error and "60" in error
    line = int(error.split(f"{pair[1 - side]}:")[1].split()[0])
    assert 17 <= line <= 24, "far from line 20, which is missing"


def test_an_empty_file(train, pair: tuple[Path, Path]) -> None:
    pair[1].write_text("")
    code, error = train(*pair)
    assert code == 3 and "empty" in error and str(pair[1]) in error


def test_a_file_of_blank_lines(train, pair: tuple[Path, Path]) -> None:
    for path in pair:
        path.write_text("\n" * 10)
    code, error = train(*pair)
    assert code == 3 and ("no text" in error or "blank" in error)


def test_lines_blank_on_one_side_are_named(train, pair: tuple[Path, Path]) -> None:
    def blank(lines: list[str]) -> None:
        lines[6] = lines[30] = ""

    change(pair[1], blank)
    code, error = train(*pair)
    assert code == 3 and f"{pair[1]}:7" in error and "31" in error


def test_invalid_utf_8_names_file_and_line(train, pair: tuple[Path, Path]) -> None:
    lines = pair[0].read_bytes().splitlines(keepends=True)
    lines[11] = "déjà vu\n".encode("latin-1")
    pair[0].write_bytes(b"".join(lines))
    code, error = train(*pair)
    assert code == 3 and f"{pair[0]}:12" in error and "UTF-8" in error and "0xe9" in error


def test_a_line_of_100_000_words_is_left_out_by_number(train, pair: tuple[Path, Path], tmp_path: Path) -> None:
    for path, word in zip(pair, ["a ", "A "], strict=True):
        change(path, lambda lines, word=word: lines.__setitem__(41, (word * 100_000).strip()))
    code, error = train(*pair, "--valid", *pair)
    assert code == 0
    assert "1 pair longer than 256 pieces left out: lines 42" in error
    assert f"{pair[0]}: {SENTENCES - 1} pairs" in error


def test_nothing_but_long_lines(train, pair: tuple[Path, Path]) -> None:
    code, error = train(*pair, "--set", "data.max_length=2")
    assert code == 3 and "data.max_length" in error


def test_a_pair_that_fits_no_batch_is_named(train, pair: tuple[Path, Path]) -> None:
    code, error = train(*pair, "--valid", *pair, "--set", "train.batch_tokens=20")
    assert code == 3 and "data.max_length" in error
    line = int(error.split(f"--> {pair[0]}:")[1].split()[0])
    assert len(pair[0].read_text().splitlines()[line - 1].split()) >= 20


@pytest.mark.parametrize("kind", ["word", "bpe", "unigram"])
def test_a_vocabulary_larger_than_the_corpus_allows(train, pair: tuple[Path, Path], kind: str) -> None:
    code, error = train(*pair, "--set", f"data.tokenizer.kind={kind}", "--set", "data.tokenizer.size=5000")
    assert code == 2 and "5000" in error and "larger than the corpus allows" in error
    assert "data.tokenizer.size" in error
    largest = int(error.split("set it to at most ")[1].split(",")[0])
    again, _ = train(*pair, "--set", f"data.tokenizer.kind={kind}", "--set", f"data.tokenizer.size={largest}")
    assert again == 0, "the size that the message names does not do"


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_vocabulary_of_one_side_that_cannot_be_is_named_by_its_key(train, pair: tuple[Path, Path], side: str) -> None:
    key = f"data.{side}_tokenizer"
    own = [f"{key}.kind=bpe", f"{key}.size=5", "data.joint=false", "model.share=none"]
    code, error = train(*pair, *[each for value in own for each in ("--set", value)])
    assert code == 2 and "cannot hold every character" in error and f"{key}.size" in error


def test_pieces_that_the_vocabulary_does_not_know_are_told(train, pair: tuple[Path, Path], tmp_path: Path) -> None:
    """A warning where they are many; a line where they are some; nothing where there are none."""
    sides = ["data.joint=false", "model.share=none", "data.target_tokenizer.kind=word"]
    settings = [each for value in sides for each in ("--set", value)]
    code, error = train(*pair, *settings)
    assert code == 0 and "not in the vocabulary" not in error
    size = 4 + 7  # of eight words
    code, error = train(*pair, *settings, "--set", f"data.target_tokenizer.size={size}")
    assert code == 0 and "% of the target pieces are not in the vocabulary" in error and "source pieces" not in error
    assert any("warning: " in line and "vocabulary" in line for line in error.splitlines())
    assert "data.tokenizer.size" in error
    change(pair[1], lambda lines: lines.__setitem__(3, "Z " + lines[3]))
    code, error = train(*pair, *settings, "--set", f"data.target_tokenizer.size={size + 1}")
    assert code == 0 and "0.1% of the target pieces are not in the vocabulary" in error
    assert not any("warning: " in line and "vocabulary" in line for line in error.splitlines())


def test_a_file_that_is_not_there_names_the_nearest(train, pair: tuple[Path, Path]) -> None:
    code, error = train(pair[0], pair[1].with_name("text.uper"))
    assert code == 3 and f"did you mean {pair[1]}" in error


# Config


@pytest.mark.parametrize(
    ("key", "meant"), [("train.learning_rat=1", "train.learning_rate"), ("model.hads=2", "model.heads")]
)
def test_an_unknown_key_names_the_nearest(train, pair: tuple[Path, Path], key: str, meant: str) -> None:
    code, error = train(*pair, "--set", key)
    assert code == 2 and key.split("=")[0] in error and f"did you mean {meant}" in error


def test_an_unknown_key_in_a_file_names_its_line(call, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[[data.train]]\nsource = "a"\ntarget = "b"\n\n[train]\nwarmpu = 5\n')
    code, error = call("train", recipe)
    assert code == 2 and f"{recipe}:6" in error and "train.warmup" in error


def test_an_unknown_recipe_names_the_nearest(call) -> None:
    code, error = call("train", "multi3k")
    assert code == 2 and "multi30k" in error


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["model.self_attention.kind=nope"], "dot, forward, gat"),
        (["model.cross_attention.scal=1"], "did you mean model.decoder.cross_attention.scale?"),
        (["train.steps=", "train.epochs="], "train.epochs=20"),
        (["data.joint=false"], "model.share=target"),
    ],
)
def test_what_cannot_be_trained_is_told_before_a_run_is_made(
    train, pair: tuple[Path, Path], tmp_path: Path, overrides: list[str], told: str
) -> None:
    code, error = train(*pair, *(each for override in overrides for each in ("--set", override)))
    assert code == 2 and told in error
    assert not (tmp_path / "runs").exists()


TEXTS: dict[str, Callable[[list[str]], None]] = {
    "as it is": lambda lines: None,
    "few": lambda lines: lines.__delitem__(slice(2, None)),
    "blank": lambda lines: lines.__setitem__(slice(None), [" "] * len(lines)),
    "half blank": lambda lines: lines.__setitem__(slice(0, 30), [""] * 30),
    "invisible": lambda lines: lines.__setitem__(5, "\u200b"),
    "control": lambda lines: lines.__setitem__(5, "a\x00b"),
    "every line too long": lambda lines: lines.__setitem__(
        slice(None), [" ".join(random.Random(place).choices("abcdefgh", k=2_000)) for place in range(len(lines))]
    ),
    "one line too long": lambda lines: lines.__setitem__(5, "a b " * 5_000),
    "one character": lambda lines: lines.__setitem__(slice(None), ["a"] * len(lines)),
}


REFUSED = ("blank", "half blank", "every line too long")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("part", ["train", "valid"])
def test_check_and_train_agree(
    call, pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, text: str
) -> None:
    """Training here is all that comes before the first update, with the config that is chosen for these files."""
    from regard.training import start as started

    def start(run: RunFolder, *_: object) -> int:
        set_up(run, log=lambda message: None)
        return 0

    monkeypatch.setattr(started, "train_run", start)
    files, options = pair, []
    if part == "valid":
        files = tuple(Path(shutil.copy(path, tmp_path / f"valid.{path.name}")) for path in pair)
        options = ["--valid", *files]
    for path in files[:1] if text == "half blank" else files:
        change(path, TEXTS[text])
    once = ("--runs", tmp_path / "runs", "--set", "train.steps=1", "--set", "train.precision=float32")
    code = call("train", *pair, *options, *once).code
    assert call("check", *pair, *options).code == code == (3 if text in REFUSED else 0)


def test_check_refuses_a_pipe_as_train_does(call, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tsv")
    for verb in ("check", "train"):
        code, error = call(verb, tmp_path / "pipe.tsv")
        assert code == 3 and "pipe" in error


def test_check_of_a_recipe_reads_its_validation_data_too(call, pair: tuple[Path, Path], tmp_path: Path) -> None:
    valid = tmp_path / "valid.tsv"
    valid.write_text("a\tA\nb\t\nc\t\n")
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        f'[data]\ntrain = [{{ source = "{pair[0]}", target = "{pair[1]}" }}]\nvalid = [{{ source = "{valid}" }}]\n'
        '[model]\npreset = "tiny"\n[train]\nsteps = 2\n'
    )
    assert cli.run(["check", str(recipe)]) == 3
    valid.write_text("a\tA\n")
    assert call("check", recipe).code == 0
    recipe.write_text(recipe.read_text() + "batch_tokens = 4\n")
    code, error = call("check", recipe)
    assert code == 3 and "do not fit into a batch" in error
    assert call("train", recipe, "--runs", tmp_path / "runs").code == 3
    assert not list((tmp_path / "runs").iterdir())


# Run folders


def test_a_name_that_was_asked_for_is_not_renumbered(train, pair: tuple[Path, Path], tmp_path: Path) -> None:
    assert train(*pair, "--name", "mine").code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    for asked in (["--name", "mine"], ["--set", "name=mine"]):
        code, error = train(*pair, *asked)
        assert code == 2 and "exists" in error and f"regard train --resume {tmp_path / 'runs' / 'mine'}" in error
    assert {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()} == before


def test_a_name_that_nobody_asked_for_is(train, pair: tuple[Path, Path], tmp_path: Path) -> None:
    assert train(*pair).code == train(*pair).code == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["text", "text-2"]


def test_a_start_that_fails_gives_its_name_back(train, pair: tuple[Path, Path], tmp_path: Path, monkeypatch) -> None:
    from regard.errors import TrainingError
    from regard.training.trainer import Trainer

    runs = tmp_path / "runs"
    with monkeypatch.context() as patch:
        problem = TrainingError("it diverged")
        patch.setattr(Trainer, "fit", lambda self: (_ for _ in ()).throw(problem))
        code, error = train(*pair, "--name", "mine")
        assert code == problem.exit_code and "--resume" not in error and not list(runs.iterdir())
        patch.setattr(Trainer, "fit", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        assert train(*pair, "--name", "mine").code == 130
        assert (runs / "mine" / "plan.json").exists(), "there is much to go on with"
    assert train("--resume", runs / "mine").code == 2  # which takes no --set
    assert cli.run(["train", "--resume", str(runs / "mine")]) == 0


def test_no_advice_to_go_on_where_that_cannot_help(call, tiny_copy: TinyRun) -> None:
    for name, told in (("bset", "did you mean best?"), ("999", "or a step: 100, 200"), ("average", "regard average ")):
        code, error = call("translate", tiny_copy.path, tiny_copy.source, "--checkpoint", name)
        assert code == 4 and told in error and "--resume" not in error
    text = (tiny_copy.path / "config.toml").read_text()
    head, _, rest = text.partition("[[data.train]]")
    without = rest.partition("[[data.valid]]")[2].partition("[data.")[2]
    (tiny_copy.path / "config.toml").write_text(
        f"{head.replace('[data]', '[data]' + chr(10) + 'train = []')}[data.{without}"
    )
    code, error = call("train", tiny_copy.source, tiny_copy.target, "--runs", tiny_copy.path.parent, "--name", "run")
    assert code == 2 and "already exists" in error and "--resume" not in error


VERBS_WITH_FILES = (
    "train {}", "check {}", "train pairs.tsv --valid-file {}", "train pairs.tsv --runs {}", "train --resume {}",
    "train --continue {}", "info {}", "evaluate {} pairs.tsv", "translate {} pairs.tsv", "generate {}", "serve {}",
    "import {} x", "keys add {} bob",
)  # fmt: skip


@pytest.mark.parametrize("command", VERBS_WITH_FILES)
def test_a_name_that_the_system_refuses_is_named(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.tsv").write_text("a dog\tein hund\n" * 9)
    said = call(*command.format("a" * 300).split())
    assert said.code == 3 and "File name too long" in said.error and "a" * 150 in said.error, said.error


@pytest.mark.parametrize("name", ["", "..", "../out", "a/b"])
def test_a_name_leads_nowhere_else(train, pair: tuple[Path, Path], name: str) -> None:
    code, error = train(*pair, "--name", name)
    assert code == 2 and "is not a valid name of a run folder" in error and "--runs" in error


def test_resuming_takes_no_other_options(call, tiny_run: TinyRun) -> None:
    code, error = call("train", "--resume", tiny_run.path, "--name", "other")
    assert code == 2 and f"regard train --resume {tiny_run.path}" in error


def test_a_run_is_no_recipe(call, tiny_run: TinyRun, tmp_path: Path) -> None:
    for verb in ("train", "check"):
        code, error = call(verb, tiny_run.path)
        assert code == 2 and "is a run" in error and f"regard train --resume {tiny_run.path}" in error
    (tmp_path / "train.en").write_text("a\n")
    with pytest.raises(ConfigError, match="is a folder") as caught:
        find_recipe(str(tmp_path))
    assert "train.en" in str(caught.value.why)


def test_a_folder_that_is_no_run(call, tmp_path: Path, tiny_run: TinyRun) -> None:
    for arguments in (["train", "--resume"], ["translate"]):
        code, error = call(*arguments, tmp_path)
        assert code == 4 and "config.toml" in error


FILES = [
    "config.toml", "tokenizer/source.json", "checkpoints/LAST/manifest.json", "checkpoints/LAST/state.json",
    "checkpoints/LAST/model.safetensors",
]  # fmt: skip


def truncate(path: Path) -> None:
    """Cut a file in its middle; a config after an equals sign, since one that ends with a line may still be valid."""
    half = path.stat().st_size // 2
    os.truncate(path, path.read_bytes().index(b"=", half) + 1 if path.suffix == ".toml" else half)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "missing": lambda path: path.unlink(),
    "truncated": truncate,
    "foreign": lambda path: path.write_bytes(b"PK\x03\x04 this is something else\n"),
}


def damaged(run: Path, file: str, how: str) -> Path:
    newest = checkpoint.list_steps(run / "checkpoints")[-1]
    path = run / file.replace("LAST", f"step-{newest:06d}")
    DAMAGE[how](path)
    return path


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_model_is_named_by_file(call, tiny_copy: TinyRun, tmp_path: Path, file: str, how: str) -> None:
    path = damaged(tiny_copy.path, file, how)
    code, error = call("translate", tiny_copy.path, "--checkpoint", "last", tiny_copy.source)
    assert code == (2 if file == "config.toml" and how != "missing" else 4)
    assert path.name in error
    assert ["missing" in error or "no config.toml" in error, True][how != "missing"]


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_plan_or_vocabulary_stops_a_resume(call, tiny_copy: TinyRun, how: str) -> None:
    damaged(tiny_copy.path, "tokenizer/target.json", how)
    steps = checkpoint.list_steps(tiny_copy.path / "checkpoints")
    code, error = call("train", "--resume", tiny_copy.path)
    assert code == 4 and "target.json" in error
    assert checkpoint.list_steps(tiny_copy.path / "checkpoints") == steps


# The machine


def refusing(number: int, point: str, count: int) -> Callable[[str], None]:
    """The system's refusal at the ``count``-th moment called ``point``."""
    left = count

    def fault(passed: str) -> None:
        nonlocal left
        if passed == point:
            left -= 1
            if left == 0:
                raise OSError(number, os.strerror(number))

    return fault


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_a_full_disk_while_saving_loses_nothing(
    call, tiny_copy: TinyRun, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The run goes on to step 310 from 300, and the disk is full at some write on the way."""
    for name, line in (("config.toml", "steps = {}"), ("plan.json", '"steps": {}')):
        file = tiny_copy.path / name
        file.write_text(file.read_text().replace(line.format(400), line.format(310)))
        assert line.format(310) in file.read_text()
    shutil.rmtree(checkpoint.step_path(tiny_copy.path / "checkpoints", 400))
    (tiny_copy.path / "checkpoints" / "best.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "fault", refusing(errno.ENOSPC, "writing", count))
        code, error = call("train", "--resume", tiny_copy.path)
    assert code == 6 and "No space left" in error and "--resume" in error
    found = checkpoint.load_latest(tiny_copy.path / "checkpoints", pytest.fail)
    assert found is not None and found.step in (300, 310)
    assert not list((tiny_copy.path / "checkpoints").glob(".*")), "it left something on a disk that is full"
    assert call("train", "--resume", tiny_copy.path).code == 0
    assert checkpoint.list_steps(tiny_copy.path / "checkpoints")[-1] == 310


def test_a_full_disk_at_the_first_checkpoint_keeps_the_prepared_run(
    train, call, pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "fault", refusing(errno.ENOSPC, "tensors-written", 1))
        code, error = train(*pair, "--name", "full")
    run = tmp_path / "runs" / "full"
    assert code == 6 and "No space left" in error and f"regard train --resume {run}" in error
    assert (run / "plan.json").exists() and not checkpoint.list_steps(run / "checkpoints")
    assert call("train", "--resume", run).code == 0
    assert checkpoint.list_steps(run / "checkpoints")[-1] == 2


def test_a_full_disk_during_preparation_says_that_the_new_folder_is_removed(
    train, pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The config and the environment are written before the vocabulary, at the third write."""
    monkeypatch.setattr(atomic_files, "fault", refusing(errno.ENOSPC, "writing", 3))
    code, error = train(*pair, "--name", "full")
    run = tmp_path / "runs" / "full"
    assert code == 6 and not run.exists()
    assert f"{run} was removed" in error and "nothing" not in error and "--resume" not in error


def test_a_folder_that_may_not_be_written(call, pair: tuple[Path, Path], tmp_path: Path, monkeypatch) -> None:
    """Refused by a stand-in, as the superuser may write anywhere."""
    make = Path.mkdir

    def refuse(self: Path, *arguments: object, **options: object) -> None:
        if "locked" in self.parts:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        make(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", refuse)
    code, error = call("train", *pair, "--runs", tmp_path / "locked")
    assert code == 6 and "Permission denied" in error and "locked" in error and "chmod" in error


def test_a_text_that_may_not_be_read(train, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def refuse(self: Path, *arguments: object, **options: object) -> object:
        if self == pair[0]:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        return opened(self, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    code, error = train(*pair)
    assert code == 6 and str(pair[0]) in error and "permission" in error.lower()


# Ctrl-C; in training it has tests of its own, with real signals


@pytest.mark.parametrize(
    "moment",
    [
        "regard.tasks.translation.automatic_config.choose",
        "regard.runs.run_folder.RunFolder.create",
        "regard.training.start.set_up",
    ],
)
def test_control_c_before_there_is_anything_to_keep(
    call, train, pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(moment, interrupt)
        assert train(*pair, "--name", "mine").code == 130
    mine = tmp_path / "runs" / "mine"
    again = call("train", "--resume", mine) if mine.exists() else train(*pair, "--name", "mine")
    assert again.code == 0


def test_control_c_in_translation(call, tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.inference.decoding import Decoding

    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Decoding, "open", interrupt)
    assert call("translate", tiny_run.path, tiny_run.source).code == 130


@pytest.mark.parametrize("verb", ["evaluate", "score"])
def test_control_c_in_measuring(call, tiny_run: TinyRun, tmp_path: Path, monkeypatch, verb: str) -> None:
    from regard.inference.decoding import Decoding
    from regard.tasks.translation.translator import Translator

    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Decoding, "open", interrupt)
    monkeypatch.setattr(Translator, "log_probabilities", interrupt)
    kept = ["--output", tmp_path / "kept"] if verb == "evaluate" else []
    assert call(verb, tiny_run.path, tiny_run.source, tiny_run.target, *kept).code == 130
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("point", ["writing", "manifest-written", "set-aside"])
def test_control_c_in_averaging_keeps_the_average_of_before(
    call, tiny_copy: TinyRun, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    def interrupt(passed: str) -> None:
        if passed == point:
            raise KeyboardInterrupt

    folder = tiny_copy.path / "checkpoints"
    assert call("average", tiny_copy.path, "--last", 2).code == 0
    before = checkpoint.digest(checkpoint.load(folder / "average").groups)
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "fault", interrupt)
        assert call("average", tiny_copy.path, "--last", 3).code == 130
    atomic_files.sweep(folder)  # as the next save does
    assert checkpoint.digest(checkpoint.load(folder / "average").groups) == before
    assert call("average", tiny_copy.path, "--last", 3).code == 0
    assert checkpoint.load(folder / "average").state["averaged"] == [200, 300, 400]
    assert not list(tiny_copy.path.rglob(".*"))


def test_the_same_command_works_once_the_corpus_is_mended(call, pair: tuple[Path, Path], tmp_path: Path) -> None:
    good, run = pair[1].read_text(), tmp_path / "runs" / "mine"
    change(pair[1], lambda lines: lines.__setitem__(6, ""))
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        f'[[data.train]]\nsource = "{pair[0]}"\ntarget = "{pair[1]}"\n[data.tokenizer]\nkind = "word"\n'
        '[model]\npreset = "tiny"\n[train]\nsteps = 2\nthreads = 1\n'
    )
    same = ("train", recipe, "--runs", run.parent, "--name", "mine")
    assert call(*same).code == 3
    assert not run.exists(), "its name is taken"
    pair[1].write_text(good)
    assert call(*same).code == 0
    assert json.loads((run / "plan.json").read_text())["steps"] == 2


@pytest.mark.parametrize("further", [(), ("--name", "z")])
def test_one_file_after_valid_is_told_its_own_option(call, pair: tuple[Path, Path], further: tuple[str, ...]) -> None:
    told = call("train", *pair, "--valid", pair[0], *further)
    assert told.code == 2
    assert "--valid-file" in told.error and "no such file" not in told.error
