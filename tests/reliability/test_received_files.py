"""Every file that somebody may receive, changed at random: a RegardError or success, and nothing else.

``READERS`` has a line for each of them. Whoever adds a file to a run folder, or a reader of foreign files, adds its
line: the folders' files are compared with the table.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors

import regard
from regard.commands.info import _run as info
from regard.comparison.execution import read_json_object
from regard.core import atomic_files
from regard.core.resumable_output import ResumableOutput
from regard.data.corpus import Corpus
from regard.data.reading import CorpusConfig, read_pairs
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError, DataError, ModelError, RegardError, StorageError, TrainingError
from regard.inspection.aligner import find_aligner
from regard.inspection.run_history import checkpoints, describe_run
from regard.runs.run_folder import RunFolder
from regard.server.glossaries import GlossaryStore
from regard.server.keys import KeyStore, add_key
from regard.share.hub import write as write_hub
from regard.share.import_folder import import_folder
from regard.share.import_marian import import_marian
from regard.share.transformers_format import write as write_language_model
from regard.studies.record import read_record
from regard.tasks.translation.codecs import open_codecs
from regard.tasks.translation.translator import Translator
from regard.training.setup import set_up
from regard.training.trainer import Trainer
from tests.share.test_causal_export import LLAMA, config_of, model_of, tokenizer_of
from tests.share.test_marian import THEIRS, WORDS, pieces_of, vocabulary, write_plain

from .changes import WHOLE, changed
from .conftest import Silent

DRAWS = int(os.environ.get("REGARD_FUZZ", "12"))  # of each file; a long session asks for thousands
ROOM = 2 << 30  # bytes beyond what the process has
LINES = ["a dog runs", "two men", "b c d e f g", "the cat sat on a mat", "über"] * 20


class Shelf(NamedTuple):
    """Where all of these files are, a trainer that resumes, and the model of the run as it was."""

    path: Path
    trainer: Trainer
    translator: Translator


Read = Callable[[Shelf], object]


def corpus(shelf: Shelf) -> None:
    found = Corpus.open(shelf.path / "run/data/train-0")
    for row in range(len(found)):
        assert len(found.source(row)) == found.source_length[row] and len(found.target(row)) == found.target_length[row]
        assert found.where(row)
    found.require_types(1000, 1000)


def aligner(shelf: Shelf) -> None:
    run, translator = RunFolder.open(shelf.path / "run"), shelf.translator
    found = find_aligner(run, translator)
    assert found is not None and found.why
    found.weights(dict(translator("a b").attention))


def told(shelf: Shelf) -> None:
    run = RunFolder.open(shelf.path / "run")
    for each in (info(run), describe_run(run, name="run", checkpoint="best")):
        json.dumps(each)
    run.environment_changes()


def baseline(shelf: Shelf) -> None:
    run = RunFolder.open(shelf.path / "run")
    opened = run.task.open_baseline(run, run.task.open(run).codecs)  # None without the file
    assert opened is None or opened.description


def cut(name: str) -> Read:
    def read(shelf: Shelf) -> None:
        found = load_tokenizer(shelf.path / "tokenizers", name)
        pieces = found.encode_lines(LINES[:5])
        assert all(0 <= piece < len(found) for line in pieces for piece in line)
        assert [found.decode(line) for line in pieces] and found.pieces(pieces[0]) and found.digest()

    return read


def imported(shelf: Shelf) -> None:
    made = shelf.path / "imported"
    try:
        import_marian(shelf.path / "marian", made)
        regard.load(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def imported_speaker(shelf: Shelf) -> None:
    made = shelf.path / "imported"
    try:
        import_folder(shelf.path / SPEAKER, made)
        regard.load(made)("a dog", length=2, seed=1)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def exported(shelf: Shelf) -> None:
    made = shelf.path / "given"
    try:
        write_hub(RunFolder.open(shelf.path / "run"), "last", made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def chosen(shelf: Shelf) -> None:
    run = RunFolder.open(shelf.path / "run")
    for which in (None, "average", "best", "last"):
        run.weights_path(which)
    checkpoints(run)


def journal(shelf: Shelf) -> None:
    ResumableOutput(shelf.path / "out.txt", {"beam": 5}, resume=True).close()


def glossaries(shelf: Shelf) -> None:
    for each in GlossaryStore(shelf.path / "glossaries").owned_by("me"):
        each.glossary.find_terms("a dog runs")


def run_of(shelf: Shelf) -> object:
    return regard.load(shelf.path / "run")  # its average


def last(shelf: Shelf) -> object:
    return regard.load(shelf.path / "run", checkpoint="last")("a b").candidates


def lines_of(name: str) -> Read:
    return lambda shelf: list(read_pairs(CorpusConfig(source=shelf.path / name)))


def resumed(shelf: Shelf) -> object:
    return shelf.trainer.resume()


STEP, MARIAN, SPEAKER = "run/checkpoints/step-000002", "marian", "llama"
READERS: dict[str, list[Read]] = {
    "run/config.toml": [run_of],
    "run/plan.json": [told],
    "run/environment.json": [told],
    "run/metrics.jsonl": [told, exported],
    "run/alignment.json": [aligner],
    "run/baseline/baseline.json": [baseline, told],
    "run/baseline/baseline.safetensors": [baseline],
    "run/tokenizer/joint.json": [run_of],
    "run/data/train-0/corpus.json": [corpus, told],
    "run/data/train-0/source.offsets": [corpus],
    "run/data/train-0/target.offsets": [corpus],
    "run/data/train-0/source.tokens": [corpus, aligner],
    "run/data/train-0/target.tokens": [corpus],
    "run/data/train-0/lines": [corpus],
    f"{STEP}/manifest.json": [last],
    f"{STEP}/state.json": [last, resumed],
    f"{STEP}/model.safetensors": [last],
    f"{STEP}/optimizer.safetensors": [resumed],
    "run/checkpoints/best.json": [chosen, resumed],
    "run/checkpoints/average/manifest.json": [chosen],
    "run/checkpoints/average/state.json": [chosen],
    "run/checkpoints/average/model.safetensors": [run_of],
    "tokenizers/byte.json": [cut("byte")],
    "tokenizers/character.json": [cut("character")],
    "tokenizers/word.json": [cut("word")],
    "tokenizers/bpe.json": [cut("bpe")],
    "tokenizers/bpe.model": [cut("bpe")],
    "tokenizers/unigram.model": [cut("unigram")],
    "tokenizers/library.json": [cut("library")],
    "tokenizers/library.tokenizer.json": [cut("library")],
    "tokenizers/listed.json": [cut("listed")],
    "tokenizers/listed.model": [cut("listed")],
    f"{MARIAN}/config.json": [imported],
    f"{MARIAN}/generation_config.json": [imported],
    f"{MARIAN}/tokenizer_config.json": [imported],
    f"{MARIAN}/vocab.json": [imported],
    f"{MARIAN}/model.safetensors": [imported],
    f"{MARIAN}/source.spm": [imported],
    f"{MARIAN}/target.spm": [imported],
    f"{SPEAKER}/config.json": [imported_speaker],
    f"{SPEAKER}/tokenizer.json": [imported_speaker],
    f"{SPEAKER}/model-1.safetensors": [imported_speaker],
    f"{SPEAKER}/model.safetensors.index.json": [imported_speaker],
    "keys.json": [lambda shelf: KeyStore(shelf.path / "keys.json").find("x")],
    "glossaries/00000000-0000-4000-8000-000000000001.json": [glossaries],
    "study/result.json": [lambda shelf: read_record(shelf.path / "study/result.json")],
    "compared/training.json": [lambda shelf: read_json_object(shelf.path / "compared/training.json")],
    ".out.txt.partial.json": [journal],
    "pairs.jsonl": [lines_of("pairs.jsonl")],
    "pairs.tsv": [lines_of("pairs.tsv")],
    "pairs.tsv.gz": [lines_of("pairs.tsv.gz")],
}
MADE_ANEW = ("run/alignment.json", "glossaries/", ".out.txt")  # or left out, where they are damaged
UNREAD = {"README.md", "lock", "in.txt", ".out.txt.partial"}


@pytest.fixture(scope="module")
def shelf(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return filled(tmp_path_factory.mktemp("shelf"), small)


def write_speaker(folder: Path) -> None:
    """A language model of transformers, its weights in a file with an index."""
    config, tokenizer = config_of(LLAMA | {"layers": 1}, "byte-bpe"), tokenizer_of("byte-bpe")
    write_language_model(model_of(config, len(tokenizer)), config, tokenizer, folder)
    for name in ("generation_config.json", "tokenizer_config.json"):
        (folder / name).unlink()
    weights = (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    with safetensors.safe_open(weights, framework="pt") as opened:
        named = dict.fromkeys(opened.keys(), weights.name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": named}))


def filled(path: Path, small: Path) -> Shelf:
    run = Path(shutil.copytree(small, path / "run"))
    kinds: dict[str, dict[str, Any]] = {kind: {"kind": kind} for kind in ("byte", "character", "word")}
    kinds |= {kind: {"kind": kind} for kind in ("bpe", "unigram")}
    for name, options in (kinds | {"library": {"kind": "bpe", "library": "tokenizers"}}).items():
        train_tokenizer(LINES, TokenizerConfig(**options)).save(path / "tokenizers", name)
    marian, pieces = path / MARIAN, pieces_of(WORDS)
    marian.mkdir()
    for name in ("source.spm", "target.spm"):
        (marian / name).write_bytes(pieces.model)
    numbers = vocabulary([pieces, pieces])
    (marian / "vocab.json").write_text(json.dumps(numbers))
    (marian / "generation_config.json").write_text('{"num_beams": 4, "length_penalty": 1.0}')
    (marian / "tokenizer_config.json").write_text('{"source_lang": "eng", "target_lang": "deu"}')
    pad = numbers["<pad>"]
    write_plain(marian, THEIRS | {"vocab_size": len(numbers), "pad_token_id": pad, "decoder_start_token_id": pad})
    open_codecs(import_marian(marian, path / "imported")).source.save(path / "tokenizers", "listed")
    shutil.rmtree(path / "imported")
    write_speaker(path / SPEAKER)
    add_key(path / "keys.json", "me", requests_per_minute=10, characters=1000)
    kept = GlossaryStore(path / "glossaries").add("me", "x", "EN", "DE", {"a dog": "ein Hund"})
    (path / "glossaries" / f"{kept.id}.json").unlink()
    named = kept.model_copy(update={"id": "00000000-0000-4000-8000-000000000001"})
    (path / "glossaries" / f"{named.id}.json").write_text(named.model_dump_json(warnings=False))
    for folder, name, text in (("study", "result", '{"format": 1}'), ("compared", "training", '{"finished": true}')):
        (path / folder).mkdir()
        (path / folder / f"{name}.json").write_text(text)
    begun = ResumableOutput(path / "out.txt", {"beam": 5}, resume=False)
    begun.write(b"A\n")
    begun.commit(["a"])
    begun.close()
    (path / "pairs.jsonl").write_text('{"source": "a", "target": "b"}\n' * 5)
    (path / "pairs.tsv").write_text("a\tb\n" * 5)
    atomic_files.write_bytes(path / "pairs.tsv.gz", gzip.compress(b"a\tb\n" * 5))
    shutil.rmtree(run / "checkpoints/step-000001")  # to which a resume would go back
    ready = set_up(RunFolder.open(run), log=lambda text: None)
    trainer = Trainer(
        RunFolder.open(run), ready.net, ready.data, steps=2, reporter=Silent(), interrupted=lambda: False,
    )  # fmt: skip
    found = Shelf(path, trainer, regard.load(run))
    aligner(found)
    return found


@pytest.fixture(autouse=True)
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No more memory than some, and nothing is unpickled."""

    def refuse(*given: object, **options: object) -> None:
        pytest.fail("something was unpickled")

    monkeypatch.setattr("regard.inspection.aligner.COUNTED", 20)  # quick, wherever it is measured anew
    monkeypatch.setattr("pickle.Unpickler", refuse)
    monkeypatch.setattr("pickle.loads", refuse)
    monkeypatch.setattr("torch.load", refuse)
    had = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (had + ROOM, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_every_file_of_a_folder_has_its_readers(shelf: Shelf) -> None:
    found = {str(path.relative_to(shelf.path)) for path in shelf.path.rglob("*") if path.is_file()}
    like = {name for name in found if name.startswith("run/data/")}
    known = {name for name in found if name in READERS or Path(name).name in UNREAD}
    assert {name for name in found - known - like if not name.startswith("tokenizers/")} == set()
    assert set(READERS) <= found


@pytest.mark.parametrize("name", READERS)
def test_a_changed_file_is_an_error_or_is_read(shelf: Shelf, name: str) -> None:
    path = shelf.path / name
    whole = path.read_bytes()
    kept = {each: each.read_bytes() for each in (*path.parent.glob("*.json"), shelf.path / "run/alignment.json")}
    for read in READERS[name]:
        read(shelf)
    draw, outcomes = random.Random(name), set()
    try:
        for data in [*WHOLE, *(changed(name, whole, draw) for _ in range(DRAWS))]:
            path.write_bytes(data)
            sealed(path)
            for read in READERS[name]:
                outcomes.add(outcome(read, shelf, data))
            for each, content in kept.items():
                each.write_bytes(content)
            path.write_bytes(whole)
        for replace in (os.mkfifo, os.mkdir):
            path.unlink(missing_ok=True)
            replace(path)
            for read in READERS[name]:
                outcome(read, shelf, replace.__name__.encode())
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            path.write_bytes(whole)
        path.unlink(missing_ok=True)
        for read in READERS[name]:
            outcome(read, shelf, b"missing")
    finally:
        for each, content in {**kept, path: whole}.items():
            each.write_bytes(content)
    assert outcomes - {0} or name.startswith(MADE_ANEW), "no change was ever noticed"


KINDS = (ConfigError, DataError, ModelError, StorageError, TrainingError)


def outcome(read: Read, shelf: Shelf, data: bytes) -> int:
    """The exit code. Whatever is no RegardError fails, with what was read."""
    try:
        read(shelf)
    except RegardError as error:
        assert isinstance(error, KINDS) and len(str(error)) < 100_000
        return error.exit_code
    except (KeyboardInterrupt, pytest.fail.Exception):
        raise
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__} of {data[:300]!r} … {data[-100:]!r}") from error
    return 0


def sealed(path: Path) -> None:
    """Let the digest beside it be that of the change, as whoever means harm would."""
    manifest, head = path.parent / "manifest.json", path.parent / f"{path.name.split('.')[0]}.json"
    if path.name != "manifest.json" and manifest.exists():
        found = json.loads(manifest.read_text())
        found["files"][path.name] = {"size": path.stat().st_size, "sha256": atomic_files.sha256(path)}
        manifest.write_text(json.dumps(found))
    elif path.parent.name == "tokenizers" and path != head:
        found = json.loads(head.read_text())
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        head.write_text(json.dumps(found | {"files": dict.fromkeys(found["files"], digest)}))
