"""Without a recipe: a config that suits the corpus, that loads, and that says why."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from regard.config.settings import TRAINING_ENDS
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.data.reading import CorpusConfig, read_pairs
from regard.errors import ConfigError, DataError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.automatic_training import (
    BATCH,
    MIN_BATCH,
    SHORT_BATCH,
    is_short,
    newer_parts,
    optimizer_settings,
    training_settings,
)
from regard.tasks.find_config import find_config
from regard.tasks.load import load
from regard.tasks.translation.automatic_config import choose
from regard.training.start import train
from tests.cli import file_forms


def corpus(folder: Path, pairs: int, words: int) -> CorpusConfig:
    rows = [" ".join(f"word{(row * words + at) % 997}" for at in range(words)) for row in range(pairs)]
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{row}\t{row}\n" for row in rows), encoding="utf-8")
    return CorpusConfig(source=path)


@pytest.mark.parametrize(("pairs", "preset"), [(50, "tiny"), (6_000, "tiny"), (100_001, "small")])
def test_the_preset_grows_with_the_corpus(tmp_path: Path, pairs: int, preset: str) -> None:
    choice = choose(corpus(tmp_path, pairs, 3), None)
    config = load_config(choice.config)
    assert config.model.preset == preset
    assert f"{pairs:,} pairs" in choice.reasons[0] and preset in choice.reasons[0]


def test_validation_data_are_held_out_where_none_are_given(tmp_path: Path) -> None:
    whole = corpus(tmp_path, 2_000, 6)
    config = load_config(choose(whole, None).config)
    assert config.data.valid is not None
    held = {source for _, source, _ in read_pairs(config.data.valid[0])}
    kept = {source for _, source, _ in read_pairs(config.data.train[0])}
    assert held and not held & kept
    assert held | kept == {source for _, source, _ in read_pairs(whole)}


def test_a_table_of_edges_is_told_from_words_and_what_they_become(tmp_path: Path) -> None:
    """A ring of names is; words in capitals, corrected words, sentences, and the files of two sides are not."""
    path, advice = tmp_path / "edges.csv", "regard train nodes.csv edges.csv"

    def told(pairs: list[tuple[str, str]]) -> bool:
        path.write_text("source,target\n" + "".join(f"{one},{other}\n" for one, other in pairs), encoding="utf-8")
        config = find_config([str(path)], [], [], log=(said := list[str]()).append)
        assert config.task.kind == "translation"
        assert all("The task is still translation" in line for line in said if advice in line)
        return any(advice in line for line in said)

    ring = [(f"n{at}", f"n{(at + 1) % 40}") for at in range(40)]
    assert told(ring) and told(ring + [(f"n{at}", f"leaf{at}") for at in range(30)])
    assert not told([(one, one.upper()) for one, _ in ring])
    assert not told([(one, one if at % 3 else other) for at, (one, other) in enumerate(ring)])
    assert not told([*ring, ("two words", "n1")]) and not told(ring[:5])
    for side, names in zip(("a", "b"), zip(*ring, strict=True), strict=True):
        (tmp_path / side).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    assert not any(
        advice in line for line in choose(CorpusConfig(source=tmp_path / "a", target=tmp_path / "b"), None).reasons
    )


def test_of_a_small_corpus_nothing_is_held_out_and_it_is_said(tmp_path: Path) -> None:
    """Its share could be no pair at all, and a loss over three pairs is no reason to stop."""
    whole = corpus(tmp_path, 12, 6)
    choice = choose(whole, None)
    config = load_config(choice.config)
    assert config.data.train == (whole,) and not config.data.valid
    assert config.train.early_stopping is None and config.train.epochs is not None
    assert "no validation" in choice.reasons[1] and "--valid" in choice.reasons[1]


def test_given_validation_data_are_used_and_the_corpus_left_whole(tmp_path: Path) -> None:
    whole, valid = corpus(tmp_path, 100, 6), CorpusConfig(source=tmp_path / "valid.tsv")
    config = load_config(choose(whole, valid).config)
    assert config.data.train == (whole,) and config.data.valid == (valid,)


def test_words_are_cut_into_characters_and_sentences_into_pieces(tmp_path: Path) -> None:
    assert load_config(choose(corpus(tmp_path, 100, 1), None).config).data.tokenizer.kind == "character"
    assert load_config(choose(corpus(tmp_path, 100, 9), None).config).data.tokenizer.kind == "bpe"


def lines(folder: Path, rows: list[tuple[str, str]]) -> CorpusConfig:
    path = folder / "rows.tsv"
    path.write_text("".join(f"{left}\t{right}\n" for left, right in rows), encoding="utf-8")
    return CorpusConfig(source=path)


def test_each_side_is_judged_by_itself(tmp_path: Path) -> None:
    """Few symbols used again and again are pieces of their own: phonemes, of words in characters."""
    words = [f"w{number * 7919 % 100_003}" for number in range(3_000)]
    sounds = [" ".join(f"P{int(sign)}" for sign in word[1:]) for word in words]
    config = load_config(choose(lines(tmp_path, list(zip(words, sounds, strict=True))), None).config)
    assert config.data.source_tokenizer is not None and config.data.target_tokenizer is not None
    assert (config.data.source_tokenizer.kind, config.data.target_tokenizer.kind) == ("character", "word")
    assert not config.data.joint and config.model.share == "target"
    both = load_config(choose(lines(tmp_path, list(zip(sounds, sounds, strict=True))), None).config)
    assert both.data.joint and both.data.tokenizer.kind == "word"


def test_the_best_checkpoint_of_a_small_dictionary_has_the_lowest_per(tmp_path: Path) -> None:
    """The loss rises before whole words are right; where an end is given, that one counts."""
    words = [f"w{number * 7919 % 100_003}" for number in range(3_000)]
    dictionary = lines(tmp_path, [(word, " ".join(f"P{int(sign)}" for sign in word[1:])) for word in words])
    choice = choose(dictionary, None)
    config = load_config(choice.config)
    settings = config.train
    assert (settings.schedule, settings.best_by, settings.early_stopping) == ("linear", "per", None)
    assert settings.epochs == 60 and settings.batch_tokens == 512
    assert config.model.encoder.dropout == 0.1 and "lowest PER" in choice.reasons[1]
    given = load_config(choose(dictionary, None, {"epochs": 3}).config, ["train.epochs=3"])
    assert (given.train.steps, given.train.best_by) == (None, "loss")


@pytest.mark.parametrize("tokens", [1, 300, 7_000, 40_000, 10**6, 10**9])
@pytest.mark.parametrize("given", [{}, {"minutes": 3.0}, {"minutes": 300.0}, {"batch_tokens": 64}])
def test_a_training_has_enough_updates_and_a_planned_end(tokens: int, given: dict[str, float]) -> None:
    settings = training_settings(given, tokens=tokens, epochs=20, optimizer={"optimizer": "muon"})
    assert settings["schedule"] == "linear" and settings["optimizer"] == "muon" and "warmup" not in settings
    assert MIN_BATCH <= settings["batch_tokens"] <= (SHORT_BATCH if given.get("minutes") == 3 else BATCH)
    assert settings["batch_tokens"] in (MIN_BATCH, SHORT_BATCH, BATCH) or tokens / settings["batch_tokens"] >= 50
    if "minutes" in given:
        assert "epochs" not in settings
    else:
        batch = given.get("batch_tokens", settings["batch_tokens"])
        assert settings["epochs"] >= 20 and settings["epochs"] * tokens / batch >= min(300, 20 * tokens / batch)
        assert settings["epochs"] == 20 or (settings["epochs"] - 1) * tokens / batch < 300


@pytest.mark.parametrize("key", ["minutes", "steps", "tokens", "epochs", "batch_tokens"])
@pytest.mark.parametrize("value", ["abc", "[1]", "-3", "0"])
def test_a_value_that_is_no_number_is_refused_with_its_key(tmp_path: Path, key: str, value: str) -> None:
    for name, content in (("a.tsv", "a b\tc d\n"), ("a.txt", "a b c\n")):
        (tmp_path / name).write_text(content * 300)
        with pytest.raises(ConfigError, match=key):
            find_config([str(tmp_path / name)], [], [f"train.{key}={value}"])


def test_the_optimizer_of_the_user_replaces_the_chosen_one() -> None:
    chosen = {"optimizer": "muon", "learning_rate": 5e-3, "weight_decay": 0.1}
    settings = training_settings({"optimizer": "sgd"}, tokens=10**6, epochs=3, optimizer=chosen)
    assert not chosen.keys() & settings.keys()
    settings = training_settings({"schedule": "noam"}, tokens=10**6, epochs=3, optimizer=chosen)
    assert "learning_rate" not in settings and settings["optimizer"] == "muon"


@pytest.mark.parametrize(
    ("given", "short"),
    [({}, True), ({"minutes": 3.5}, True), ({"minutes": 60}, False), ({"steps": 2_500}, True),
     ({"steps": 9_000}, False), ({"tokens": 1e6}, True), ({"tokens": 1e8}, False), ({"epochs": 90}, False),
     ({"epochs": 90, "steps": 9}, True), ({"batch_tokens": 100}, False), ({"minutes": None}, True)],
)  # fmt: skip
def test_a_training_of_few_updates_is_short(given: dict[str, float], short: bool) -> None:
    """250,000 tokens are 61 updates of 4,096 tokens: 2,441 in 40 epochs."""
    assert is_short(given, tokens=250_000, epochs=40) is short
    rate = optimizer_settings({"qk_norm": True}, 128, short=short)["learning_rate"]
    assert rate == (1e-2 if short else 5e-3)


@pytest.mark.parametrize(
    ("model", "newer"),
    [({}, True), ({"preset": "small"}, True), ({"kind": "transformer"}, True), ({"encoder": {"layers": 2}}, True),
     ({"preset": "luong-small"}, False), ({"kind": "convolutional"}, False),
     ({"decoder": {"kind": "recurrent"}}, False), ({"encoder": {"mixer": "linear"}}, False),
     ({"execution": "reversible"}, False)],
)  # fmt: skip
def test_another_architecture_has_adam_and_no_newer_parts(model: dict[str, Any], newer: bool) -> None:
    parts = newer_parts({"model": model})
    settings = optimizer_settings(parts, 512, short=False)
    assert bool(parts) is newer and settings["optimizer"] == ("muon" if newer else "adam")
    assert settings["learning_rate"] == (2.5e-3 if newer else 7.5e-4)


def test_an_epoch_of_a_small_corpus_has_many_updates(tmp_path: Path) -> None:
    small, larger = (
        load_config(choose(corpus(tmp_path, pairs, words), None).config).train.batch_tokens
        for pairs, words in ((6_000, 1), (20_000, 12))
    )
    assert small == 896  # 6,000 words of not quite seven letters and an end, by 50, by 64
    assert larger == 4_096


@pytest.mark.parametrize("given", ["steps=400", "minutes=3.5", "tokens=100000", "epochs=3", "early_stopping=4"])
def test_an_end_that_is_given_beats_those_that_are_chosen(tmp_path: Path, given: str) -> None:
    key, _, value = given.partition("=")
    choice = choose(corpus(tmp_path, 300, 6), None, {key: float(value) if key == "minutes" else int(value)})
    settings = load_config(choice.config, [f"train.{given}"]).train
    assert [end for end in TRAINING_ENDS if getattr(settings, end) is not None] == [key]
    assert settings.schedule == ("inverse-sqrt" if key == "early_stopping" else "linear")
    assert settings.warmup is None and settings.validate_every is None, "they suit the length, which is not known yet"
    assert choice.reasons[1].endswith(f"training is limited by train.{key}") and "epochs" not in choice.reasons[0]


def copied(folder: Path, share: int, kind: str = "words") -> list[str]:
    """Pairs of four words, of which this number are copied; returns the file as arguments."""
    names = [f"{kind}{number % 97}x{number % 89}longer" for number in range(1200)]
    lines = []
    for place in range(300):
        source = names[4 * place : 4 * place + 4]
        target = [word.upper() if index < share else f"other{index}{word[5:]}" for index, word in enumerate(source)]
        lines.append(f"{' '.join(source)}\t{' '.join(target)}\n")
    (folder / "copied.tsv").write_text("".join(lines))
    return [str(folder / "copied.tsv")]


@pytest.mark.parametrize(("share", "copying"), [(0, False), (1, True), (4, True)])
def test_words_of_the_source_are_copied(share: int, copying: bool, tmp_path: Path) -> None:
    """One of four words is the limit, whatever its case."""
    told: list[str] = []
    config = find_config(copied(tmp_path, share), [], ["train.steps=1", "data.tokenizer.size=400"], log=told.append)
    assert config.model.copying is copying  # type: ignore[attr-defined]
    assert [line for line in told if line.startswith(f"{25 * share}% of the words")] == (
        [line for line in told if "→ copying" in line]
    )
    assert any("→ copying" in line for line in told) is copying


@pytest.mark.parametrize(
    "setting", ["model.copying=false", "data.joint=false", "model.kind=recurrent", "data.tokenizer.kind=character"]
)
def test_the_user_may_refuse_copying(setting: str, tmp_path: Path) -> None:
    more = ["model.share=target"] if setting == "data.joint=false" else []
    config = find_config(copied(tmp_path, 4), [], ["train.steps=1", setting, *more])
    assert config.model.copying is False  # type: ignore[attr-defined]


@pytest.mark.parametrize(("copies", "copying"), [(True, True), (False, False)])
def test_short_summaries_share_the_vocabulary_of_their_sources(copies: bool, copying: bool, tmp_path: Path) -> None:
    """Otherwise targets of few characters are read as characters, of which a pointer has no use."""
    words = [f"word{number % 211}" for number in range(3000)]
    pairs = [(" ".join(words[9 * at : 9 * at + 9]), words[9 * at] if copies else f"x{at}") for at in range(300)]
    (tmp_path / "short.tsv").write_text("".join(f"{source}\t{target} y\n" for source, target in pairs))
    files = [str(tmp_path / "short.tsv")]
    config: Any = find_config(files, [], ["train.steps=1"])
    assert (config.model.copying, config.data.joint) == (copying, copying)
    refused: Any = find_config(files, [], ["train.steps=1", "model.copying=false"])
    assert not refused.data.joint and refused.data.target_tokenizer.kind == "character"


def test_letters_are_not_copied(tmp_path: Path) -> None:
    """Letters of short words are in many words."""
    (tmp_path / "words.tsv").write_text("".join(f"w{n}\tw{n}\n" for n in range(300)))
    assert find_config([str(tmp_path / "words.tsv")], [], ["train.steps=1"]).model.copying is False  # type: ignore[attr-defined]


def test_a_chosen_model_that_copies_is_trained(tmp_path: Path) -> None:
    config = find_config(copied(tmp_path, 4), [], ["train.steps=2", "train.threads=1", "train.choose=network"])
    assert len(load(train(config, tmp_path / "run"))("words1x1longer").text) >= 0


def test_an_end_taken_out_is_not_given(tmp_path: Path) -> None:
    settings = load_config(choose(corpus(tmp_path, 300, 6), None, {"minutes": None}).config).train
    assert settings.epochs == 60 and settings.minutes is None


def test_a_short_budget_wants_many_updates_of_a_small_model(tmp_path: Path) -> None:
    large = corpus(tmp_path, 101_000, 10)
    short, long = (load_config(choose(large, None, {"minutes": minutes}).config, ["train.minutes=9"])
                   for minutes in (3.5, 2_000))  # fmt: skip
    assert (short.model.preset, short.train.batch_tokens, short.model.encoder.dropout) == ("tiny", 1_024, 0.0)
    assert (long.model.preset, long.train.batch_tokens, long.model.encoder.dropout) == ("small", 4_096, 0.2)


@pytest.mark.parametrize("kind", ["pairs", "text"])
def test_the_order_of_a_very_large_corpus_is_computed_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    module = "translation" if kind == "pairs" else "language_model"
    path = tmp_path / ("a.tsv" if kind == "pairs" else "a.txt")
    path.write_text(("a b c\td e f\n" if kind == "pairs" else "a b c\n") * 300)
    for most, order in ((10**11, "shuffled"), (299, "feistel")):
        monkeypatch.setattr(f"regard.tasks.{module}.automatic_config.COMPUTED", most)
        told: list[str] = []
        assert find_config([str(path)], [], ["train.steps=1"], log=told.append).data.order == order
        assert any("feistel" in line for line in told) == (order == "feistel")
        given = find_config([str(path)], [], ["train.steps=1", "data.order=shuffled"], log=told.append)
        assert given.data.order == "shuffled"


@pytest.mark.parametrize("names", [["a.jsonl"], ["a.tsv"], ["a.en", "b.de"], ["a.txt"], ["full.tsv", "a.jsonl.gz"]])
@pytest.mark.parametrize(("text", "told"), [("", "it is empty"), ("\n \n\r\n\t\n", "all of its lines are blank")])
def test_a_file_with_nothing_in_it_chooses_no_task(tmp_path: Path, names: list[str], text: str, told: str) -> None:
    """Named, whatever stands in the others, for training and for validation."""
    whole = corpus(tmp_path, 9, 2).source
    for name in names:
        written = "a\tb\n" * 9 if name == "full.tsv" else text
        (tmp_path / name).write_bytes(gzip.compress(written.encode()) if name.endswith(".gz") else written.encode())
    files = [str(tmp_path / name) for name in names]
    nothing = next(file for file in files if "full" not in file)
    for training, valid in ((files, []), ([str(whole)], files)):
        with pytest.raises(DataError, match="no content") as refused:
            find_config(training, [Path(file) for file in valid], [])
        assert (refused.value.where, refused.value.why) == (nothing, told) and refused.value.help is not None


def test_parts_of_one_file_are_named_when_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"a dog {n}\tein Hund {n}\n" for n in range(300)))
    config = find_config([str(tmp_path / "pairs.tsv")], [], ["train.steps=1"])
    said: list[str] = []
    find_task("translation").prepare(RunFolder.create(tmp_path / "run", config), said.append, None)
    assert [line.rpartition(" ")[2] for line in said if " pairs (" in line] == ["(valid)", "(train)"]


@pytest.mark.parametrize("kind", [kind for kind in TASKS if kind != "masked"])
@pytest.mark.parametrize(("setting", "key"), [("data.foo=1", "data.foo"), ("data.train.0.bar=1", "bar")])
def test_an_unknown_key_of_the_data_is_named(tmp_path: Path, kind: str, setting: str, key: str) -> None:
    """Also where the choice of the config reads the settings first."""
    form = file_forms.NATIVE.get(kind, "csv")
    files = [str(path) for path in file_forms.training_files(tmp_path, kind, form)]
    with pytest.raises(ConfigError) as caught:
        find_config(files, [], [f"task={kind}", setting])
    assert key in f"{caught.value} {caught.value.where}"


@pytest.mark.parametrize("value", ["x", "1.5", "0", "true", "[1]"])
def test_a_wrong_border_is_refused_with_one_reason(tmp_path: Path, value: str) -> None:
    files = [str(path) for path in file_forms.training_files(tmp_path, "forecasting", "csv")]
    with pytest.raises(ConfigError, match="valid_from cannot be") as caught:
        find_config(files, [], [f"data.valid_from={value}"])
    assert "a share of the rows, a number of rows, or a date" in (caught.value.why or "")
