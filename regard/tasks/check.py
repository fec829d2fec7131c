"""Check of data and config before training: a lint of the examples, and a rehearsal of the preparation."""

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

Showing = Callable[[str], AbstractContextManager[ProgressCallback]]  # opens a progress display with this title


class CheckedCorpus(NamedTuple):
    """A checked corpus (a file, a pair of files, or the examples of another task) and its lint report.

    Attributes:
        corpus: a CorpusConfig, or the files section of another task.
        lint: the findings.
    """

    corpus: Any
    lint: LintReport

    @property
    def name(self) -> str:
        """Names of the files."""
        target = getattr(self.corpus, "target", None)
        return self.corpus.name + (f" and {target}" if target else "")


class CheckReport(NamedTuple):
    """Result of a check.

    Attributes:
        train: empty for a task without a lint.
        valid: the validation corpora.
        remarks: warnings of the rehearsal.
        refused: the error that training would raise.
        recipe: whether a recipe was checked instead of files.
    """

    train: list[CheckedCorpus]
    valid: list[CheckedCorpus]
    remarks: list[str]
    refused: RegardError | None
    recipe: bool

    @property
    def clean(self) -> bool:
        """True if no finding is an error, which would prevent training."""
        return not any(KINDS[kind] == "error" for corpus in (*self.train, *self.valid) for kind in corpus.lint.counts)

    @property
    def trainable(self) -> bool:
        """True if training can start."""
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
    max_findings: int = 5,
    showing: Showing = lambda doing: nullcontext(lambda count: None),
) -> CheckReport:
    """Check data, or the data of a recipe: ``regard.check("train.en", "train.de").trainable``.

    If no finding is an error, all steps of training before the first update are rehearsed.

    Args:
        files: SOURCE and TARGET, one .tsv or .jsonl, a text for a language model, or a recipe.
        valid: the validation data, in the same form.
        test: held-out data that must not occur in the training data, each a file or a pair of files.
        max_findings: the maximum number of findings of each type that are listed.
        showing: opens a progress display.

    Raises:
        RegardError: if the config cannot be found or a file cannot be read. Other errors are in the report.
    """
    request = _request([Path(file) for file in files], [Path(file) for file in valid])
    valid_files = [file for corpus in request.valid for file in corpus.each_file()]
    held_out = [*valid_files, *(file for paths in test for file in _held_out(paths).each_file())]
    linted = partial(_linted, max_findings=max_findings, showing=showing)
    train = [linted(file, held_out=held_out) for corpus in request.train for file in corpus.each_file()]
    report = CheckReport(train, [linted(file, held_out=()) for file in valid_files], [], None, request.recipe)
    if not report.clean:
        return report
    remarks, refused = _rehearsed(request.config, showing)
    examples = [] if train or refused is not None else _checked_examples(request.config(), test, max_findings, showing)
    return report._replace(train=[*train, *examples], remarks=remarks, refused=refused)


def _checked_examples(
    config: RunConfig, test: Sequence[Any], max_findings: int, showing: Showing
) -> list[CheckedCorpus]:
    """Check the examples of a task other than translation; return an empty list for a task without a lint."""
    task, data = find_task(config.task.kind), config.data
    rows: Any = task.lint_rows
    if rows is None and task.lint is None:
        return []

    def read(corpora: Sequence[Any]) -> Iterator[LintExample]:
        return (LintExample(*row) for row in rows(data, corpora))

    kind = type(data.train[0])
    tests = [kind.model_validate({"source": str(path)}) for path in test]
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

        if task.lint is not None:
            return [CheckedCorpus(data.train[0], task.lint(config, max_findings, progress))]
        train, unit = read(data.train), task.lint_unit_of(data)
        lint = lint_examples(train, held_out=held_out, unit=unit, max_findings=max_findings, progress=progress)
    return [CheckedCorpus(data.train[0], lint)]


def _request(files: Sequence[Path], valid: Sequence[Path]) -> _Request:
    find = partial(find_config, [str(file) for file in files], valid, [])
    if len(files) == 1 and _is_recipe(files[0]):
        config = find()
        if not isinstance(config, TranslationConfig):
            return _Request([], [], lambda: config, True)
        # Training and validation may share a file, which is split by a hash of each sentence.
        shared = {corpus.source for corpus in config.data.train}
        held_out = [corpus for corpus in config.data.valid or () if corpus.source not in shared]
        return _Request(config.data.train, held_out, lambda: config, True)
    if (corpus := corpus_of_files(files)) is not None and _are_pairs(files, valid):
        return _Request([corpus], [_corpus(valid)] if valid else [], find, False)
    return _Request([], [], find, False)


def _are_pairs(files: Sequence[Path], valid: Sequence[Path]) -> bool:
    """Return whether translation reads these files, and no task with a higher confidence does."""
    groups = tasks_by_confidence(files, valid, {})
    preferred = list(takewhile(lambda kinds: "translation" not in kinds, groups))
    if len(preferred) == len(groups):
        return False
    return all(locate(kind).config().propose(files, valid, {}) is None for kinds in preferred for kind in kinds)


def _rehearsed(find: Callable[[], RunConfig], showing: Showing) -> tuple[list[str], RegardError | None]:
    """Prepare the data as training does, in a temporary folder; return the warnings, and the error that it raises."""
    try:
        with tempfile.TemporaryDirectory() as folder, showing("preparing") as advance:
            return rehearse(RunFolder.create(Path(folder) / "run", find()), progress=advance), None
    except RegardError as error:
        return [], error


def _linted(
    corpus: FileCorpus, *, held_out: Sequence[FileCorpus], max_findings: int, showing: Showing
) -> CheckedCorpus:
    with showing("reading") as advance:
        done = 0

        def read(line: int) -> None:
            nonlocal done
            advance(line - done)
            done = line

        return CheckedCorpus(corpus, lint(corpus, held_out=held_out, max_findings=max_findings, progress=read))


def _is_recipe(source: Path) -> bool:
    """Return whether the argument is a recipe: a .toml file, or a name without a suffix that is not a file."""
    return source.suffix == ".toml" or (not source.suffix and not source.exists())


def _held_out(paths: str | Path | tuple[str | Path, str | Path]) -> CorpusConfig:
    return _corpus([Path(path) for path in (paths if isinstance(paths, tuple) else (paths,))])


def _corpus(files: Sequence[Path]) -> CorpusConfig:
    return corpus_of_files(files) or CorpusConfig(source=files[0])
