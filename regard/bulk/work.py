"""Types of bulk work: functions from lines to output lines, made from settings that are sent between processes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from regard.core.predictor import settings_of_call
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.core.predictor_interface import ScoresPairs, ScoresTexts
    from regard.tasks.language_model.generator import Generator
    from regard.tasks.translation.translator import Translator

LOCAL = ("run", "device", "threads")  # keys of a spec that do not define the outputs


class Work(Protocol):
    """A function from lines to outputs. An output depends on its line and the seed of the job only."""

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Return one output for each line, in order."""

    def numbered(self, output: str, number: int) -> str:
        """Return the output of the line with this number."""


def settings_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a spec that must be equal at each start of a job, with a digest of the model's files."""
    settings = {key: value for key, value in spec.items() if key not in LOCAL}
    return settings | {"model": _digest(Path(spec["run"]), spec.get("checkpoint"))}


def _digest(run: Path, checkpoint: str | None) -> str:
    """Return the sha256 of the manifest of the weights, or the baseline alone, the config and the vocabularies."""
    import hashlib

    from regard.core.baseline import ARRAYS_FILE, SETTINGS_FILE
    from regard.core.baseline import FOLDER as BASELINE_FOLDER
    from regard.runs.baseline_choice import BASELINE, NAME
    from regard.runs.run_folder import RunFolder

    folder = RunFolder.open(run)
    digest = hashlib.sha256()
    selected = folder.selected(checkpoint)
    files = [] if selected.name == BASELINE else [selected.path / "manifest.json"]
    if selected.name == BASELINE or selected.memory:
        files += [folder.path / BASELINE_FOLDER / name for name in (ARRAYS_FILE, SETTINGS_FILE)]
    files += [folder.path / NAME] if selected.memory else []
    for path in (*files, run / "config.toml", *sorted(folder.tokenizers.glob("*"))):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def open_work(spec: Mapping[str, Any], seed: int) -> Work:
    """Load the model of a spec and return its work. Raises ConfigError for settings that the model does not have."""
    import torch

    from regard.tasks.load import load

    if spec.get("threads"):
        torch.set_num_threads(spec["threads"])
    options = {name: spec[name] for name in ("engine", "ensemble") if spec.get(name)}
    model = load(spec["run"], checkpoint=spec.get("checkpoint"), device=spec.get("device"), **options)
    kinds: dict[str, Any] = {
        "translate": _Translating, "generate": _Generating, "predict": _Predicting, "score": _scoring,
    }  # fmt: skip
    work: Work = kinds[spec["verb"]](model, spec, seed)
    return work if "rows" not in spec else _OfRows(work)


class _OfRows:
    """Work on rows of tables. Inputs are JSON strings, because a text may have several lines."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, lines: Sequence[str]) -> list[str]:
        return self._work([json.loads(line) for line in lines])

    def numbered(self, output: str, number: int) -> str:
        return self._work.numbered(output, number)


class _Numbered:
    """Base of works whose JSON objects begin with the line number, as the verbs print them."""

    as_json = False

    def numbered(self, output: str, number: int) -> str:
        return f'{{"line": {number}, {output[1:]}' if self.as_json and output else output


class _Translating(_Numbered):
    def __init__(self, model: Translator, spec: Mapping[str, Any], seed: int) -> None:
        from regard.config.settings import SearchConfig

        self.model, self.as_json = model, spec["json"]
        self.search = SearchConfig.model_validate(spec["search"] | {"seed": seed})
        self.prefix = spec["prefix"]
        if self.prefix is not None:
            model.translate(["."], search=self.search, prefixes=[self.prefix])  # raises before any work

    def __call__(self, lines: Sequence[str]) -> list[str]:
        prefixes = None if self.prefix is None else [self.prefix] * len(lines)
        translations = self.model.translate(lines, search=self.search, prefixes=prefixes)
        return [self.model.write(translation, json=self.as_json) for translation in translations]


class _Predicting:
    """Any predictor; one that samples gets the seed of the job unless its settings have one."""

    def __init__(self, model: Any, spec: Mapping[str, Any], seed: int) -> None:
        from regard.tasks.prediction import require_settings

        self.model, self.settings, self.as_json = model, dict(spec["settings"]), spec["json"]
        require_settings(model, self.settings)
        if "seed" in settings_of_call(model):
            self.settings = {"seed": seed} | self.settings

    def __call__(self, lines: Sequence[str]) -> list[str]:
        from regard.tasks.prediction import predict_lines, read_inputs

        inputs, error = read_inputs(self.model, lines, name="line")
        if error is not None:
            raise error
        return predict_lines(self.model, inputs, self.settings, json=self.as_json)

    def numbered(self, output: str, number: int) -> str:
        return output


class _Generating(_Predicting):
    """A language model; its settings are checked before any work."""

    def __init__(self, model: Generator, spec: Mapping[str, Any], seed: int) -> None:
        super().__init__(model, spec, seed)
        model.adjusted({name: value for name, value in self.settings.items() if name != "seed"})


def _scoring(model: Any, spec: Mapping[str, Any], seed: int) -> Work:
    from regard.runs.run_folder import RunFolder

    pairs = RunFolder.open(Path(spec["run"])).task.scores == "pairs"
    return _ScoringPairs(model, spec) if pairs else _ScoringText(model, spec)


class _Scoring(_Numbered):
    def _written(self, pieces: Sequence[str], scores: Sequence[float], **more: Any) -> str:
        total = math.fsum(scores)
        if not self.as_json:
            return f"{total:.4f}"
        whole = {"log_probability": total, "pieces": list(pieces), "piece_log_probabilities": list(scores)}
        return json.dumps(whole | more, ensure_ascii=False)


class _ScoringText(_Scoring):
    """log P of a line, or of the document in a JSON line."""

    def __init__(self, model: ScoresTexts, spec: Mapping[str, Any]) -> None:
        self.model, self.as_json = model, spec["json"]
        self.prompt, self.stride, self.documents = spec["prompt"], spec["stride"], spec["documents"]
        if self.prompt is not None:
            model.read(self.prompt)

    def __call__(self, lines: Sequence[str]) -> list[str]:
        return [self._scored(line) if line else "" for line in lines]

    def _scored(self, line: str) -> str:
        from regard.data.documents import parse_document

        text, before = line, self.prompt
        if self.documents:
            document = parse_document(line, where="line")
            text, before = document.text, document.prompt or None
        score = self.model.score(text, prompt=before, stride=self.stride)
        more = {"nll": score.nll, "tokens": score.tokens, "bytes": score.bytes, "bits_per_byte": score.bits_per_byte}
        return self._written(score.pieces, score.piece_log_probabilities, **more)


class _ScoringPairs(_Scoring):
    """log P(target | source) of a line with both: two columns, or JSON."""

    def __init__(self, model: ScoresPairs, spec: Mapping[str, Any]) -> None:
        if spec["prompt"] is not None or spec["stride"] is not None:
            raise ConfigError("--prompt and --stride apply to language models only", why=f"{spec['run']} scores pairs")
        self.model, self.as_json, self.rows = model, spec["json"], spec["documents"]

    def __call__(self, lines: Sequence[str]) -> list[str]:
        from regard.data.reading import CorpusConfig, parse_json_pair, parse_tab_pair

        keys = CorpusConfig(source=Path("line"))
        pairs = [
            parse_json_pair(line, keys, where="line") if self.rows else parse_tab_pair(line, where="line")
            for line in lines
        ]
        if any(bool(source.strip()) != bool(target.strip()) for source, target in pairs):
            raise DataError("a sentence has no partner: one side is blank")
        some = [index for index, (source, _) in enumerate(pairs) if source.strip()]
        sources, targets = [pairs[index][0] for index in some], [pairs[index][1] for index in some]
        outputs = [""] * len(lines)
        for index, target, scores in zip(some, targets, self.model.score(sources, targets), strict=True):
            outputs[index] = self._written(self.model.scored_pieces(target), scores)
        return outputs
