"""A check of data and config before hours are spent on training: a lint of parallel text, and a rehearsal."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.task import ProgressCallback, find_task
from regard.core.task_table import locate
from regard.data.lint.check import KINDS, LintReport, lint
from regard.data.lint.examples import LintExample, lint_examples
from regard.data.reading import CorpusConfig, FileCorpus, corpus_of_files
from regard.errors import RegardError
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.tasks.find_config import find_config, tasks_by_confidence
from regard.tasks.translation.config import TranslationConfig
from regard.training.setup import rehearse

Showing = Callable[[str], AbstractContextManager[ProgressCallback]]  # opens a display of work of that name


class CheckedCorpus(NamedTuple):
    """One file of parallel text, a pair of files, or the examples of another task, and what its lint found."""

    corpus: Any  # a CorpusConfig, or the section of files of another task
    lint: LintReport

    @property
    def name(self) -> str:
        """The files."""
        target = getattr(self.corpus, "target", None)
        return self.corpus.name + (f" and {target}" if target else "")


class CheckReport(NamedTuple):
    """The outcome of a check."""

    train: list[CheckedCorpus]  # none for a task without a lint
    valid: list[CheckedCorpus]
    remarks: list[str]  # warnings of the rehearsal
    refused: RegardError | None  # what training would refuse the data or the config with
    recipe: bool  # a recipe was named, not files

    @property
    def clean(self) -> bool:
        """Return whether no finding keeps the text from being trained on."""
        return not any(KINDS[kind] == "error" for each in (*self.train, *self.valid) for kind in each.lint.counts)

    @property
    def trainable(self) -> bool:
        """Return whether training could start."""
        return self.clean and self.refused is None


class _Request(NamedTuple):
    """Corpora to check, and the config that training would use."""

    train: Sequence[CorpusConfig]
    valid: Sequence[CorpusConfig]
    config: Callable[[], RunConfig]
    recipe: bool


def check(
    *files: str | Path,
    valid: Sequence[str | Path] = (),
    test: Sequence[str | Path | tuple[str | Path, str | Path]] = (),
    most: int = 5,
    showing: Showing = lambda doing: nullcontext(lambda count: None),
) -> CheckReport:
    """Check data, or the data of a recipe: ``regard.check("train.en", "train.de").trainable``.

    ``files``: SOURCE and TARGET, one .tsv or .jsonl, a text for a language model, or a recipe; ``valid``: the same, to
    validate on. ``test``: held-out data that must not occur in the training data, each a file or a pair of files.
    ``most`` findings of each kind are named. If no finding is an error, everything that training does before its first
    update is rehearsed. Raises only what a config that cannot be found or files that cannot be read raise.
    """
    request = _request([Path(file) for file in files], [Path(file) for file in valid])
    valid_files = [file for corpus in request.valid for file in corpus.each_file()]
    held_out = [*valid_files, *(file for each in test for file in _held_out(each).each_file())]
    linted = partial(_linted, most=most, showing=showing)
    train = [linted(file, held_out=held_out) for corpus in request.train for file in corpus.each_file()]
    found = CheckReport(train, [linted(file, held_out=()) for file in valid_files], [], None, request.recipe)
    if not found.clean:
        return found
    remarks, refused = _rehearsed(request.config, showing)
    examples = [] if train or refused is not None else _checked_examples(request.config(), test, most, showing)
    return found._replace(train=[*train, *examples], remarks=remarks, refused=refused)


def _checked_examples(config: RunConfig, test: Sequence[Any], most: int, showing: Showing) -> list[CheckedCorpus]:
    """Check the examples of a task that is not translation; nothing where it has none one by one."""
    task, data = find_task(config.task.kind), config.data
    rows: Any = task.lint_rows
    if rows is None:
        return []

    def read(corpora: Sequence[Any]) -> Iterator[LintExample]:
        return (LintExample(*row) for row in rows(data, corpora))

    kind = type(data.train[0])
    tests = [kind.model_validate({"source": str(each)}) for each in test]
    trained = {corpus.name for corpus in data.train}
    held_out = {
        "the held-out part" if corpus.name in trained else corpus.name: partial(read, [corpus])
        for corpus in (*(data.valid or ()), *tests)
    }
    with showing("reading") as advance:
        done = 0

        def progress(number: int) -> None:
            nonlocal done
            advance(number - done)
            done = number

        train, unit = read(data.train), task.lint_unit_of(data)
        lint = lint_examples(train, held_out=held_out, unit=unit, max_findings=most, progress=progress)
    return [CheckedCorpus(data.train[0], lint)]


def _request(files: Sequence[Path], valid: Sequence[Path]) -> _Request:
    find = partial(find_config, [str(file) for file in files], valid, [])
    if len(files) == 1 and _is_recipe(files[0]):
        config = find()
        if not isinstance(config, TranslationConfig):
            return _Request([], [], lambda: config, True)
        # Training and validation may share a file, split by a hash of each sentence.
        shared = {corpus.source for corpus in config.data.train}
        held_out = [corpus for corpus in config.data.valid or () if corpus.source not in shared]
        return _Request(config.data.train, held_out, lambda: config, True)
    if (corpus := corpus_of_files(files)) is not None and _are_pairs(files, valid):
        return _Request([corpus], [_corpus(valid)] if valid else [], find, False)
    return _Request([], [], find, False)


def _are_pairs(files: Sequence[Path], valid: Sequence[Path]) -> bool:
    """Return whether translation reads these files, and no task that is more certain of them."""
    groups = tasks_by_confidence(files, valid, {})
    surer = list(takewhile(lambda kinds: "translation" not in kinds, groups))
    if len(surer) == len(groups):
        return False
    return all(locate(kind).config().propose(files, valid, {}) is None for kinds in surer for kind in kinds)


def _rehearsed(find: Callable[[], RunConfig], showing: Showing) -> tuple[list[str], RegardError | None]:
    """Prepare as training does, in a temporary folder; the remarks, and the error if training would refuse."""
    try:
        with tempfile.TemporaryDirectory() as folder, showing("cutting") as advance:
            return rehearse(RunFolder.create(Path(folder) / "run", find()), progress=advance), None
    except RegardError as error:
        return [], error


def _linted(corpus: FileCorpus, *, held_out: Sequence[FileCorpus], most: int, showing: Showing) -> CheckedCorpus:
    with showing("reading") as advance:
        done = 0

        def read(line: int) -> None:
            nonlocal done
            advance(line - done)
            done = line

        return CheckedCorpus(corpus, lint(corpus, held_out=held_out, max_findings=most, progress=read))


def _is_recipe(source: Path) -> bool:
    """Return whether the argument is a recipe: a .toml file, or a name without a suffix that is no file."""
    return source.suffix == ".toml" or (not source.suffix and not source.exists())


def _held_out(given: str | Path | tuple[str | Path, str | Path]) -> CorpusConfig:
    return _corpus([Path(each) for each in (given if isinstance(given, tuple) else (given,))])


def _corpus(files: Sequence[Path]) -> CorpusConfig:
    return corpus_of_files(files) or CorpusConfig(source=files[0])
