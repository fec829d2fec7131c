"""Tagging: what is read, how tokens become columns, which spans tags spell, and what a trained tagger says."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.answers.spans import TagSpan, are_spans, best_path, spans
from regard.answers.tagged_tokens import TaggedTokens
from regard.attention.span import Span
from regard.core.task import ExampleIndices, find_task
from regard.data.affixes import AFFIXES, affix_buckets, shape
from regard.data.shared_files import FilesConfig
from regard.errors import ConfigError, DataError, ModelError, RegardError
from regard.fields.items import Items
from regard.fields.tokens import Tokens
from regard.models.classifier import build_tagger
from regard.models.classifier_config import TaggerModelConfig
from regard.models.input import AffixInput, TokenInput
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.links.linker import Linker
from regard.tasks.supervised_examples import SupervisedExamples
from regard.tasks.supervised_predictor import NetOutputs, SupervisedPredictor
from regard.tasks.tagging.automatic_config import choose
from regard.tasks.tagging.config import TaggedDataConfig
from regard.tasks.tagging.task import read_tagged
from regard.testing import TaskCase


def data_of(path: Path, **keys: object) -> TaggedDataConfig:
    return TaggedDataConfig.model_validate({"train": [{"source": str(path)}], **keys})


def read(path: Path, **keys: object) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    data = data_of(path, **keys)
    return [(each.tokens, each.tags) for each in read_tagged(data.train, data)]


CONLL_U = """\
# text = He can't.
1-2\tHe can\t_\t_
1\tHe\the\tPRON\tPRP
2\tca\tcan\tAUX\tMD
3\tn't\tnot\tPART\tRB
3.1\twin\twin\tVERB\tVB

1\tYes\tyes\tINTJ\tUH
"""


def test_conll_u_without_comments_joined_and_unwritten_words(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text(CONLL_U)
    assert read(tmp_path / "a.conllu") == [(("He", "ca", "n't"), ("PRON", "AUX", "PART")), (("Yes",), ("INTJ",))]
    assert read(tmp_path / "a.conllu", tag=5)[1] == (("Yes",), ("UH",))


def test_tsv_and_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("\n\na\tX\nb c\tY\n\n \nd\tX")
    assert read(tmp_path / "a.tsv") == [(("a", "b c"), ("X", "Y")), (("d",), ("X",))]
    assert read(tmp_path / "a.tsv", token=2, tag=1)[1] == (("X",), ("d",))
    (tmp_path / "a.jsonl").write_text('{"words": ["a"], "tags": ["X"]}\n')
    assert read(tmp_path / "a.jsonl", token="words") == [(("a",), ("X",))]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.tsv", "a\tX\nb\n", ":2"),
        ("a.tsv", "a\tX\nb\t \n", ":2"),
        ("a.conllu", "1\ta\ta\n", ":1"),
        (
            "a.jsonl",
            '{"tokens": ["a"], "tags": ["X"]}\n{"tokens": ["a", "b"], "tags": ["X"]}\n',
            "found 1 tag for 2",
        ),
        ("a.jsonl", '{"tokens": "a b", "tags": ["X"]}\n', ":1"),
        ("a.jsonl", '{"tokens": [], "tags": []}\n', ":1"),
        ("a.jsonl", "[1]\n", "not a JSON object"),
        ("a.jsonl", "{\n", "not JSON"),
    ],
)
def test_a_line_that_is_no_token_or_sentence_is_named(tmp_path: Path, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        read(tmp_path / name)
    assert told in f"{caught.value} {caught.value.where}"


def test_names_of_columns_are_those_of_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("Word\tUPOS\ta\na\tX\tz\n\nb\tY\tz\n")
    with pytest.raises(DataError, match=r"no column 'xpos'[\s\S]*did you mean 'UPOS'"):
        read(tmp_path / "a.tsv", tag="xpos")
    assert read(tmp_path / "a.tsv", tag="upos") == read(tmp_path / "a.tsv", token="word", tag="upos")
    assert read(tmp_path / "a.tsv", tag="upos")[0] == (("a",), ("X",))


def test_shares_of_one_file_have_no_sentence_in_common(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"word{number}\tX\n\n" for number in range(40)))
    data = data_of(path)
    parts = [
        {each.tokens for each in read_tagged([FilesConfig(source=path, share=share)], data)}
        for share in ((0.0, 0.5), (0.5, 1.0))
    ]
    assert all(parts) and not parts[0] & parts[1] and len(parts[0] | parts[1]) == 40


def test_shapes_by_pencil() -> None:
    assert [shape(word) for word in ("Berlin-86", "USA", "iPhones", "…", "")] == ["Xxxx-dd", "XXX", "xXxxx", "…", ""]


def test_words_share_the_buckets_of_what_they_share() -> None:
    one, other, short = (affix_buckets(word, 10**6) for word in ("Running", "running", "ng"))
    assert len(one) == AFFIXES and min(one) > 0
    assert one[:-1] == other[:-1] and one[-1] != other[-1]  # all but the shape
    assert short[3] == short[6] == short[7] == 0 and short[5] == one[5]  # no three letters; the same last two
    assert len({*one}) == AFFIXES  # "n" in front and "n" behind are different things
    assert max(max(affix_buckets(f"word{n}", 7)) for n in range(99)) == 7


def test_embeddings_are_the_word_s_and_those_of_its_affixes() -> None:
    torch.manual_seed(1)
    part = AffixInput(TokenInput(torch.nn.Parameter(torch.randn(5, 4))), 6)
    found = part(torch.tensor([[[3, 2, 0], [4, 6, 6]]]), Span.of(torch.ones(1, 2, dtype=torch.bool))).x
    words, affixes = part.tokens.weight, part.affixes
    torch.testing.assert_close(found[0], 2 * torch.stack([words[3] + affixes[2], words[4] + 2 * affixes[6]]))


def test_spans_by_pencil() -> None:
    tags = "B-PER I-PER O I-LOC B-LOC I-PER".split()
    assert spans(tags) == [
        TagSpan("PER", 0, 2), TagSpan("LOC", 3, 4), TagSpan("LOC", 4, 5), TagSpan("PER", 5, 6)
    ]  # fmt: skip
    assert spans([]) == spans(["O"]) == []
    assert are_spans(["O", "B-X", "I-X"]) and not are_spans(["O", "B-X", "NOUN"]) and not are_spans(["O", "I-X"])


def test_the_best_path_is_the_best_of_all_that_spell_spans() -> None:
    tags = ("O", "B-X", "I-X", "I-Y", "B-Y")

    def well_formed(path: tuple[str, ...]) -> bool:
        return all(not tag.startswith("I-") or before[2:] == tag[2:] for before, tag in zip(("O", *path), path))  # noqa: B905

    draw, changed = np.random.default_rng(1), 0
    for _ in range(40):
        log_p = np.log(draw.dirichlet(np.ones(5), size=4))
        paths = [path for path in product(range(5), repeat=4) if well_formed(tuple(tags[at] for at in path))]
        wanted = max(paths, key=lambda path: sum(row[at] for row, at in zip(log_p, path, strict=True)))
        assert tuple(best_path(log_p, tags)) == wanted
        changed += list(wanted) != log_p.argmax(1).tolist()
    assert changed > 10  # what is likeliest token by token often spells none


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "convolutional"])
def test_padding_tells_nothing_under_any_encoder(kind: str) -> None:
    torch.manual_seed(1)
    side = {"kind": kind, "width": 8, "layers": 1, "dropout": 0.0}
    if kind == "transformer":
        side |= {"heads": 2, "feed_forward": 8}
    config = TaggerModelConfig.model_validate({"encoder": side, "affixes": 9})
    net = build_tagger(config, types=9, classes=3).double().eval()
    tokens, valid = torch.randint(1, 9, (1, 4, 3)), torch.ones(1, 4, dtype=torch.bool)
    with torch.no_grad():
        alone = net(tokens, Span.of(valid))
        beside = net(torch.nn.functional.pad(tokens, (0, 0, 0, 2)), Span.of(torch.nn.functional.pad(valid, (0, 2))))
    torch.testing.assert_close(alone, beside[:, :4])


def prepared(
    folder: Path, content: str, tables: dict[str, object], **data: object
) -> tuple[RunFolder, SupervisedExamples]:
    (folder / "a.tsv").write_text(content)
    corpus = [{"source": str(folder / "a.tsv")}]
    config = load_config({**tables, "task": "tagging", "data": {"train": corpus, "valid": corpus, **data}})
    run = RunFolder.create(folder / "run", config)
    found = find_task("tagging").prepare(run, lambda message: None, None)
    assert isinstance(found.train, SupervisedExamples)
    return run, found.train


@pytest.fixture(scope="module")
def case() -> TaskCase:
    return TaskCase(find_task("tagging"), "tagging")


def test_the_first_of_several_pieces_has_the_tag(tmp_path: Path, case: TaskCase) -> None:
    _, train = prepared(tmp_path, "ab\tX\nc\tY\n\n", case.tables, tokenizer={"kind": "character"})
    batch = train.collate(train.batches(None)[0])
    (inputs,) = batch.inputs
    assert inputs.answered.tolist() == [[False, True, False, True, False]] and batch.weight == 2
    assert batch.targets[inputs.answered].tolist() == [0, 1]
    assert inputs.values[0, 2, 1:].tolist() == [0] * AFFIXES  # affixes belong to a token, not to each piece
    assert inputs.values[0, 1, 1:].min() >= 0 and inputs.values[0, 1, 1] > 0


def test_long_sentences_are_learned_from_and_tagged_in_parts(tmp_path: Path, case: TaskCase) -> None:
    content = "".join(f"w{n}\t{'XY'[n % 2]}\n" for n in range(7)) + "\nw1\tY\n"
    run, train = prepared(tmp_path, content, case.tables, max_length=3)
    assert train.token_counts().tolist() == [3, 3, 1, 1] and train.starts == [0, 3, 4]
    batches = [train.collate(ExampleIndices(np.array([number]), np.array([0]))) for number in range(3)]
    assert torch.cat([batch.targets[batch.inputs[0].answered] for batch in batches]).tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert [numbers.tolist() for numbers in train.values_starting_in(np.array([1, 2, 3, 0]))] == [[3], [0, 1, 2]]
    codec = find_task("tagging").open(run)
    net = build_tagger(run.config.model, types=codec.spec["types"], classes=codec.spec["classes"])
    tagger = SupervisedPredictor(net, codec.codecs, run.config)
    words = [f"w{n}" for n in range(7)]
    whole, *parts = tagger([words, words[:3], words[3:6], words[6:]])
    assert whole.tokens == tuple(words)
    assert whole.tags == tuple(tag for part in parts for tag in part.tags)


SAMPLE_DIGEST = "9a9524c9aa57be5dc46d397a8c7a02ce6260ffbfdab069424f4fdda7c53d1d9e"


def test_interrupted_runs_of_earlier_versions_find_the_same_examples(tmp_path: Path) -> None:
    """The digest is a saved format: a run continues only if it finds it again."""
    tables = {**find_task("tagging").sample(tmp_path), "task": "tagging"}
    run = RunFolder.create(tmp_path / "run", load_config(tables))
    data = find_task("tagging").prepare(run, lambda message: None, None)
    assert data.contents == {"train": SAMPLE_DIGEST, "valid": SAMPLE_DIGEST}


TOKENS = Tokens(("tokens",), max_length=8)


@pytest.mark.parametrize("value", [(), ("a", "b"), ("a b", "c"), ("[1]",), ("{", "}"), ('"', "["), ("ü\t", "x")])
def test_a_sentence_is_read_from_its_text(value: tuple[str, ...]) -> None:
    assert TOKENS.parse(TOKENS.text(value)) == value == TOKENS.accept(value) == TOKENS.accept([*value])


@pytest.mark.parametrize("value", [7, None, ["a", 1], {"a": 1}])
def test_a_sentence_is_a_text_or_tokens(value: object) -> None:
    with pytest.raises(DataError, match="a text or a list of tokens") as caught:
        TOKENS.accept(value, "input 3")  # type: ignore[arg-type]
    assert caught.value.where == "input 3"


def test_spans_that_training_needs_must_be_in_the_tags(tmp_path: Path, case: TaskCase) -> None:
    tables = {**case.tables, "train": {**case.tables["train"], "best_by": "entity_f1"}}
    with pytest.raises(ConfigError, match="entity_f1 cannot be measured"):
        prepared(tmp_path, "a\tX\nb\tY\n\n", tables)


def test_training_hides_tokens_anew_each_time_and_evaluation_none(tmp_path: Path, case: TaskCase) -> None:
    content = "".join(f"w{n}\t{'XY'[n % 2]}\n" for n in range(200)) + "\n"
    tables = {**case.tables, "train": {"batch_tokens": 256}}
    _, train = prepared(tmp_path, content, tables, hidden_tokens=0.3)

    def unknown(visit: int) -> list[bool]:
        batch = train.collate(ExampleIndices(np.array([0]), np.array([visit])))
        return (batch.inputs[0].values[0, 1:-1, 0] == 1).tolist()

    first, second = unknown(1), unknown(2)
    assert first == unknown(1) != second
    assert [each.visit.tolist() for each in train.batches(0)] == [[1]]
    assert [each.visit.tolist() for each in train.batches(None)] == [[0]] and not any(unknown(0))
    assert 40 < sum(first) < 80 and 40 < sum(second) < 80


def test_an_unknown_tag_of_validation_is_named(tmp_path: Path, case: TaskCase) -> None:
    tables = dict(case.tables)
    (tmp_path / "valid.tsv").write_text("the\tDET\n\na\tSTRANGE\n")
    tables["data"] = tables["data"] | {"valid": [{"source": str(tmp_path / "valid.tsv")}]}
    run = RunFolder.create(tmp_path / "run", load_config({"task": "tagging", **tables}))
    with pytest.raises(DataError, match="STRANGE") as caught:
        case.task.prepare(run, lambda message: None, None)
    assert str(caught.value.where).endswith("valid.tsv:3")


def test_a_tagger_says_tags_probabilities_and_where_it_looked(case: TaskCase) -> None:
    predictor = case.predictor
    assert isinstance(predictor, SupervisedPredictor) and predictor.labels == ("DET", "NOUN", "VERB")
    found, nothing = predictor(["the dog  runs", []])
    assert found.tokens == ("the", "dog", "runs") and len(found.tags) == len(found.probabilities) == 3
    assert nothing.tags == () and predictor.write(nothing, json=False) == ""
    assert predictor.write(found, json=False) == " ".join(f"{a}/{b}" for a, b in zip(*found[:2], strict=True))
    told = json.loads(predictor.write(found, json=True))
    assert told.keys() == {"tokens", "tags", "probabilities"}
    seen = predictor.inspect("the dog runs")
    assert seen.surfaces[0].pieces == ("the", "dog", "runs")
    assert [each.site.pieces for each in seen.predictions] == [(0,), (1,), (2,)]
    assert [each.label for each in seen.predictions] == list(found.tags)
    (weights,) = seen.attention
    assert weights.query.labels[1:4] == ("the", "dog", "<unk>") and weights.weights.shape == (2, 5, 5)
    with pytest.raises(RegardError, match="empty input"):
        predictor.inspect("")


SPANS = "Ann\tB-PER\nSmith\tI-PER\nsaw\tO\nNew\tB-LOC\nYork\tI-LOC\n\n"


def test_entities_are_counted_by_sentence_and_told_with_their_words(tmp_path: Path, case: TaskCase) -> None:
    """A tagger that is told the truth, but for one span, and for a tag that cannot follow."""
    run, train = prepared(tmp_path, SPANS * 3, case.tables, max_length=2)
    codec = find_task("tagging").open(run).codecs
    net = build_tagger(run.config.model, types=len(codec.tokenizer), classes=5)
    tagger, number = SupervisedPredictor(net, codec, run.config), codec.answer.class_names.index
    tags = ("B-PER", "I-PER", "O", "B-LOC", "I-LOC")
    tables = [np.eye(5)[[number(tag) for tag in tags]] + 1e-9 for _ in range(3)]
    tables[0][3, number("I-LOC")], tables[0][3, number("B-LOC")] = 0.7, 0.3
    tables[1][3:] = np.eye(5)[number("O")] + 1e-9
    parts = [torch.from_numpy(np.log(part)) for table in tables for part in (table[:2], table[2:4], table[4:])]
    tagger._compute = lambda rows, at_end=False: [NetOutputs(part, {}) for part in parts]  # type: ignore[method-assign]
    sums = tagger.measure(train, np.arange(len(train)), ["entity_f1"])
    assert sums["spans"].tolist() == [6, 5, 5] and sums["exact"].tolist() == [2, 3]
    objective = find_task("tagging").objective(run.config)
    whole = [objective(net.eval(), train.collate(each), ()).sums for each in train.batches(None)]
    added = {name: sum(each[name] for each in whole) for name in whole[0]} | sums
    assert find_task("tagging").compute_metrics(added)["entity_f1"] == pytest.approx(2 * 5 / 11)
    assert find_task("tagging").compute_metrics(added)["exact"] == pytest.approx(2 / 3)
    out = tagger([["Ann", "Smith", "saw", "New", "York"]] * 3)
    assert out[0].spans == (TagSpan("PER", 0, 2), TagSpan("LOC", 3, 5)) and out[0].tags == tags
    assert json.loads(tagger.write(out[1], json=True))["spans"][0] == {
        "kind": "PER", "begin": 0, "end": 2, "text": "Ann Smith"
    }  # fmt: skip
    assert tagger.measure(train, np.arange(len(train)), ["accuracy"]) == {}


def test_the_baseline_is_the_tag_that_a_word_had_most(tmp_path: Path, case: TaskCase) -> None:
    content = "run\tNOUN\n\nrun\tVERB\n\nrun\tVERB\n\nthe\tDET\n\na\tNOUN\n\nb\tNOUN\n\n"
    run, train = prepared(tmp_path, content, case.tables)
    codec = find_task("tagging").open(run).codecs
    value = TaggedTokens(("run", "the", "new"), ("NOUN", "NOUN", "NOUN"))
    names = [codec.answer.class_names[number] for number in codec.answer.baseline_targets([value])]
    assert names == ["VERB", "DET", "NOUN"]
    objective = find_task("tagging").objective(run.config)
    net = build_tagger(run.config.model, types=len(codec.tokenizer), classes=3).eval()
    batches = [train.collate(each) for each in train.batches(None)]
    sums = [objective(net, batch, ()).sums["baseline_right"] for batch in batches]
    assert float(sum(sums)) == 5  # of six; one "run" is a noun
    path = run.path / "tokenizer" / "words.json"
    for damaged in ('{"run": 9}', "[]", "{", '{"run": true}'):
        path.write_text(damaged)
        with pytest.raises(ModelError, match="words"):
            find_task("tagging").open(run)


def test_files_of_tagged_sentences_are_recognized(tmp_path: Path) -> None:
    contents = {
        "a.conllu": CONLL_U, "a.jsonl": '{"tokens": ["a"], "tags": ["X"]}\n', "a.tsv": "a\tX\n\nb\tY\n",
        "pairs.tsv": "ein Hund\ta dog\nzwei\ttwo\n", "pairs.jsonl": '{"source": "a", "target": "b"}\n',
        "broken.jsonl": "{",
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    found = {name for name in contents if choose([tmp_path / name], [], {}) is not None}
    assert found == {"a.conllu", "a.jsonl", "a.tsv"}
    proposal = choose([tmp_path / "a.tsv"], [], {"epochs": 3, "optimizer": "adam"})
    assert proposal is not None and not {"epochs", "learning_rate"} & proposal.config["train"].keys()
    assert load_config(proposal.config, ["train.epochs=3"]).task.kind == "tagging"


@pytest.mark.parametrize(
    ("line", "items"),
    [
        ("[1] Ada lives", ("[1]", "Ada", "lives")),
        ("[ citation needed ] in Rome", ("[", "citation", "needed", "]", "in", "Rome")),
        ("{x} y", ("{x}", "y")),
        ('["a", "b"]', ("a", "b")),
        ('["a", "b"', ('["a",', '"b"')),
    ],
)
def test_a_line_with_a_bracket_is_a_text_unless_it_is_json(line: str, items: tuple[str, ...]) -> None:
    """The same for every predictor of words, items and nodes."""
    assert Tokens(("tokens",), max_length=8).parse(line) == items
    assert Items(("items",), max_length=8).parse(line) == items
    linker = object.__new__(Linker)
    linker._numbers = lambda names: []  # type: ignore[assignment,method-assign]
    if len(items) == 2:
        assert linker.read(line) == items
