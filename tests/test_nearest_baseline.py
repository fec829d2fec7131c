"""The baseline of translation: parity with scikit-learn, what is saved, and its comparison by `regard evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from regard import cli
from regard.baselines import nearest
from regard.baselines.nearest import NearestBaseline
from regard.core.baseline import ARRAYS_FILE, FOLDER, SETTINGS_FILE, SavedBaseline, copy_baseline, save_baseline
from regard.core.task import find_task
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ModelError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.evaluate import evaluate
from regard.tasks.translation.baseline import TranslationBaseline
from regard.testing import TaskCase
from regard.training.baseline import GROUPS, added, baseline_groups
from regard.training.start import train

ANIMALS = "dog cat horse cow bird fish".split()
VERBS = "runs sleeps eats jumps sings".split()
PAIRS = [(f"A {animal} {verb}.", f"{verb} {animal} {verb} {animal}") for animal in ANIMALS for verb in VERBS]


def fitted(pairs: Any = PAIRS) -> NearestBaseline:
    model = NearestBaseline()
    model.learn(*map(list, zip(*pairs, strict=True)))
    return model


@pytest.mark.parametrize("compared", ["words and pairs of words", "words", "n-grams of characters"])
def test_cosines_are_those_of_scikit_learn(compared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    monkeypatch.setattr(nearest, "_features", lambda words: compared)
    model = fitted()
    sources, unseen = [source for source, _ in PAIRS], ["A dog that sings sings.", "The CAT, a cat!", "zzz", ""]
    tfidf = TfidfVectorizer(sublinear_tf=True, analyzer=model._grams)
    table = tfidf.fit_transform(sources)
    expected = (tfidf.transform(unseen) @ table.T).toarray()
    np.testing.assert_allclose([model._cosines(source) for source in unseen], expected, atol=1e-12)
    pairs, cosines = model.nearest(unseen)
    np.testing.assert_array_equal(pairs, expected.argmax(1))
    np.testing.assert_allclose(cosines, expected.max(1), atol=1e-12)


def test_the_target_of_a_known_source_is_its_own() -> None:
    model = fitted()
    assert model.outputs([source for source, _ in PAIRS], str) == [target for _, target in PAIRS]
    pairs, _ = model.nearest([source for source, _ in PAIRS], own=True)
    assert (pairs != np.arange(len(PAIRS))).all()


def test_features_fit_the_sources() -> None:
    words = [(word, word.upper()) for word in "walk walks walked talk talks talked".split()]
    assert fitted(words).compared == "n-grams of characters"
    assert fitted(words).outputs(["walking"], str) == ["WALK"]
    assert fitted([("long " * 60 + name, name) for name in ANIMALS]).compared == "words"
    assert fitted([("我喜欢你的狗", "dog"), ("他爱吃鱼", "fish")]).outputs(["你的狗呢"], str) == ["dog"]


def test_of_many_pairs_a_sample_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "MAX_GRAMS", 70)  # seven n-grams in a pair
    model = NearestBaseline()
    read = model.learn(*map(list, zip(*PAIRS, strict=True)))
    assert read == [0, 3, 6, 9, 12, 15, 18, 21, 24, 27]
    assert model.targets == [PAIRS[pair][1] for pair in read]


def test_without_a_word_there_is_an_output() -> None:
    model = fitted([("", "nothing"), ("…", "dots")])
    assert len(model.outputs(["", "…", "new"], str)) == 3


def test_a_saved_one_is_the_same() -> None:
    model, unseen = fitted([*PAIRS, ("Żółw 🐢", "ŻÓŁW 🐢\n\u2028")]), ["A dog.", "sleeps", "żółw", "zzz"]
    model.threshold = 0.3
    opened = NearestBaseline().open(model.save())
    assert opened.outputs(unseen, str.upper) == model.outputs(unseen, str.upper)
    assert opened.description == model.description and opened.targets == model.targets


DAMAGES: dict[str, Any] = {
    "bytes": lambda arrays: arrays.update({"targets.bytes": arrays["targets.bytes"][:-1]}),
    "no text": lambda arrays: arrays.update({"targets.bytes": np.full_like(arrays["targets.bytes"], 255)}),
    "starts": lambda arrays: arrays.update({"targets.starts": arrays["targets.starts"][::-1]}),
    "no targets": lambda arrays: arrays.update(
        {"targets.starts": np.zeros(1, np.int64), "targets.bytes": np.zeros(0, np.uint8)}
    ),
    "a pair": lambda arrays: arrays.update(rows=arrays["rows"] + 10**6),
    "a weight": lambda arrays: arrays.update(weights=arrays["weights"] * np.nan),
    "length": lambda arrays: arrays.update(weights=arrays["weights"][:-1]),
    "columns": lambda arrays: arrays.update(starts=arrays["starts"][::-1]),
    "idf": lambda arrays: arrays.update(idf=arrays["idf"][:-1]),
    "missing": lambda arrays: arrays.pop("rows"),
}


@pytest.mark.parametrize("damage", [*DAMAGES, "threshold", "features"])
def test_damaged_arrays_are_refused(damage: str) -> None:
    saved = fitted().save()
    arrays, settings = dict(saved.arrays), dict(saved.settings)
    DAMAGES.get(damage, lambda arrays: None)(arrays)
    settings |= {"threshold": {"threshold": float("nan")}, "features": {"compared": "bits"}}.get(damage, {})
    with pytest.raises((ValueError, LookupError)):
        NearestBaseline().open(SavedBaseline(arrays, settings))


def summaries(seed: int, number: int = 60) -> list[tuple[str, str]]:
    """Texts whose summary is their first sentence, and repeated texts whose summary has none of their words."""
    draw = np.random.default_rng(seed)
    pairs = []
    for place in range(number):
        body = " ".join(f"Word{word} goes on." for word in draw.integers(0, 40, 6))
        pairs.append((f"Topic{place} is number {place}. {body}", f"Topic{place} is number {place}."))
    return [*pairs, *[("The weekly report is here. Please read the whole report soon.", "Numbers, numbers")] * number]


def test_a_first_sentence_is_used_where_no_source_is_near() -> None:
    baseline, pairs = TranslationBaseline(NearestBaseline(), TokenizerConfig(kind="word"), "en"), summaries(1)
    baseline.learn(*map(list, zip(*pairs[::-1], strict=True)))
    assert baseline.model.threshold > 0 and "first sentence" in baseline.description
    new = [source.replace("Topic", "Theme") for source, _ in summaries(2, 3)[:3]]
    expected = [f"Theme{place} is number {place}." for place in range(3)]
    assert baseline.outputs([*new, pairs[-1][0]]) == [*expected, "Numbers, numbers"]


def test_translations_are_not_compared_with_their_source() -> None:
    baseline = TranslationBaseline(NearestBaseline(), TokenizerConfig(kind="word"), "en")
    baseline.learn(*map(list, zip(*PAIRS, strict=True)))
    assert baseline.model.threshold == 0


def test_its_sums_are_those_of_all_examples(tmp_path: Path) -> None:
    case = TaskCase(find_task("translation"), "translation")
    run: Any = SimpleNamespace(path=tmp_path, config=case.config)
    assert case.task.open_baseline(run, case.data.codecs) is None
    model = case.task.fit_baseline(run, case.data)
    assert model is not None
    model.save(run, {})
    opened = case.task.open_baseline(run, case.data.codecs)
    assert opened is not None
    figures = case.task.compute_metrics(added(baseline_groups(opened, case.data.train, ["bleu", "wer"])))
    assert figures == {"bleu": pytest.approx(100), "wer": 0}
    assert opened.sums(case.data.train, np.arange(2), []) == {}


def files(folder: Path) -> tuple[Path, Path]:
    for name, side in (("en", 0), ("up", 1)):
        (folder / f"test.{name}").write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    return folder / "test.en", folder / "test.up"


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    source, target = files(folder)
    corpus = {"source": str(source), "target": str(target)}
    config = load_config({
        "data": {"train": [corpus], "valid": [corpus], "tokenizer": {"kind": "word"}},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2},
        "train": {"steps": 2, "batch_tokens": 64, "threads": 1},
    })  # fmt: skip
    return train(config, folder / "run")


def regard(*arguments: object) -> Any:
    return CliRunner().invoke(cli.build_app(), [str(each) for each in arguments])


def test_evaluation_compares_outputs(untrained: Path, tmp_path: Path) -> None:
    source, target = files(tmp_path)
    summary = json.loads((untrained / FOLDER / SETTINGS_FILE).read_text())
    assert summary["figures"] == {"bleu": pytest.approx(100), "chrf": pytest.approx(100)} and summary["private"]
    found = evaluate(untrained, source, target, metrics=["bleu", "wer"], beam=1)
    assert found.baseline is not None and found.baseline.figures == {"bleu": pytest.approx(100), "wer": 0}
    for name, (difference, error) in found.baseline.differences.items():
        assert difference == pytest.approx(found.figures[name] - found.baseline.figures[name]) and error >= 0
    printed = regard("evaluate", untrained, source, target, "--beam", 1, "--metric", "bleu").stdout
    assert "baseline 100.00  -" in printed and "baseline: target of the nearest source" in printed
    as_json = json.loads(regard("evaluate", untrained, source, target, "--beam", 1, "--json").stdout)["baseline"]
    assert as_json["figures"]["chrf"] == pytest.approx(100) and as_json["differences"]["bleu"]["value"] < 0


def test_the_standard_error_is_that_of_paired_items(untrained: Path, tmp_path: Path) -> None:
    """For a mean over groups of equal size: the deviation of their differences over √groups."""
    lines = [(f"{number} {pair[0]}", pair[1]) for number, pair in enumerate(PAIRS[:GROUPS])]
    for name, side in (("s", 0), ("t", 1)):
        (tmp_path / name).write_text("".join(f"{line[side]}\n" for line in lines))
    found = evaluate(untrained, tmp_path / "s", tmp_path / "t", metrics=["wer"], beam=1)
    assert found.baseline is not None
    wrong = np.array([[output != target for output, (_, target) in zip(texts, lines, strict=True)] for texts in (
        found.outputs, NearestBaseline().open(_saved(untrained)).outputs([source for source, _ in lines], str)
    )], float)  # fmt: skip
    difference, error = found.baseline.differences["wer"]
    assert difference == pytest.approx(100 * (wrong[0] - wrong[1]).mean())
    assert error == pytest.approx(100 * (wrong[0] - wrong[1]).std(ddof=1) / np.sqrt(GROUPS))


def _saved(run: Path) -> SavedBaseline:
    from safetensors.numpy import load_file

    settings = json.loads((run / FOLDER / SETTINGS_FILE).read_text())["settings"]
    return SavedBaseline(load_file(run / FOLDER / ARRAYS_FILE), settings)


def test_texts_of_the_training_data_are_not_published(untrained: Path, tmp_path: Path) -> None:
    copy_baseline(untrained / FOLDER, tmp_path / "copy")
    copy_baseline(tmp_path / "no such folder", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    save_baseline(tmp_path / "public", SimpleNamespace(
        kind="items", description="tables", save=lambda: SavedBaseline({"counts": np.zeros(2)}, {})
    ), {})  # type: ignore[arg-type]  # fmt: skip
    copy_baseline(tmp_path / "public", tmp_path / "copy")
    assert (tmp_path / "copy" / ARRAYS_FILE).read_bytes() == (tmp_path / "public" / ARRAYS_FILE).read_bytes()


def test_a_damaged_one_is_refused(untrained: Path) -> None:
    run = RunFolder.open(untrained)
    codecs, path = run.task.open(run).codecs, untrained / FOLDER / ARRAYS_FILE
    whole = path.read_bytes()
    for data in (b"", whole[:-8], whole[:100]):
        path.write_bytes(data)
        with pytest.raises(ModelError):
            run.task.open_baseline(run, codecs)
    path.write_bytes(whole)
    assert run.task.open_baseline(run, codecs) is not None
