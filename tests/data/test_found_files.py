"""What files are: several of a kind, endings in any case, heads, parts, lists in cells, columns that are not read."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import cli
from regard.core.task_table import locate
from regard.data.documents import text_files
from regard.data.graph_files import read_graph
from regard.data.reading import read_pairs
from regard.data.rows import form_of, read_head, read_rows
from regard.data.sessions import ITEMS, SessionColumns, read_sessions
from regard.data.shared_files import FilesConfig
from regard.errors import ConfigError, DataError, RegardError
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.tasks.evaluation import config_with_files
from regard.tasks.find_config import find_config
from regard.tasks.tagging.config import TaggedDataConfig
from regard.tasks.tagging.task import read_tagged

REVIEWS = "text,label\n" + "".join(f"a {word} film {n},{word}\n" for n in range(30) for word in ("good", "bad"))
LABELED = "".join(f"a {word} film {n}\t{word}\n" for n in range(30) for word in ("good", "bad"))
TAGGED = "".join(f"the\tDET\ndog{n}\tNOUN\n\n" for n in range(30))
CONLLU = "".join(f"1\tthe\tthe\tDET\t_\n2\tdog{n}\tdog\tNOUN\t_\n\n" for n in range(30))
SESSIONS = "".join(f'{{"items": ["a{n}", "b", "c"]}}\n' for n in range(30))
GRAPHS = "".join(f'{{"edges": [[0, 1]], "nodes": {n + 2}, "label": "{"xy"[n % 2]}"}}\n' for n in range(90))
PAIRS = "".join(f"a dog {n}\tein Hund {n}\n" for n in range(300))
DOCUMENTS = '{"text": "some text"}\n' * 20


def found(*what: str | Path, sets: Sequence[str] = ()) -> tuple[RunConfig, list[str]]:
    said: list[str] = []
    return find_config([str(each) for each in what], [], list(sets), log=said.append), said


def refused(*what: str | Path, sets: Sequence[str] = ()) -> RegardError:
    with pytest.raises(RegardError) as caught:
        found(*what, sets=sets)
    return caught.value


def write(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize(
    ("kind", "ending", "content"),
    [
        ("classification", "csv", REVIEWS), ("classification", "tsv", LABELED), ("tagging", "tsv", TAGGED),
        ("tagging", "conllu", CONLLU), ("next-item", "jsonl", SESSIONS), ("graphs", "jsonl", GRAPHS),
        ("translation", "tsv", PAIRS), ("language-model", "jsonl", DOCUMENTS),
    ],
)  # fmt: skip
def test_several_files_of_a_kind_are_one_corpus(tmp_path: Path, kind: str, ending: str, content: str) -> None:
    one, two = (write(tmp_path, f"part-{number}.{ending}", content) for number in (1, 2))
    for what in ([one], [one, two], [tmp_path / f"part-*.{ending}"]):
        config, _ = found(*what)
        assert config.task.kind == kind
        sources = [corpus.source for corpus in config.data.train]
        assert sources in ([what[0]], [tuple(what)], what), "one corpus, or one after the other"
        run = RunFolder.create(tmp_path / f"run-{len(list(tmp_path.iterdir()))}", config)
        assert len(locate(kind).task().prepare(run, lambda line: None, None).train)


def test_files_of_different_kinds_are_refused(tmp_path: Path) -> None:
    csv, tsv, text = (
        write(tmp_path, "a.csv", REVIEWS),
        write(tmp_path, "b.tsv", LABELED),
        write(tmp_path, "c.txt", "a\n"),
    )
    other = write(tmp_path, "d.csv", REVIEWS.replace("label", "stars"))
    for what in ([csv, tsv], [csv, text], [tsv, text], [csv, other]):
        error = refused(*what)
        assert "no task reads these files together" in error.what and error.why is not None
        assert all(str(file) in error.why for file in what), "the form of each"
    assert "csv with the columns text, stars" in str(refused(csv, other).why)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("REVIEWS.CSV", REVIEWS, "classification"), ("Reviews.TSV", LABELED, "classification"),
        ("a.JSONL", DOCUMENTS, "language-model"), ("a.CONLLU", CONLLU, "tagging"), ("a.Tsv", PAIRS, "translation"),
        ("train.iob2", TAGGED, "tagging"), ("train.conll", TAGGED.replace("\t", " "), "tagging"),
    ],
)  # fmt: skip
def test_endings_count_in_any_case(tmp_path: Path, name: str, content: str, kind: str) -> None:
    assert found(write(tmp_path, name, content))[0].task.kind == kind
    import gzip

    (tmp_path / f"{name}.GZ").write_bytes(gzip.compress(content.encode()))
    assert found(tmp_path / f"{name}.GZ")[0].task.kind == kind and form_of(tmp_path / f"{name}.GZ") != "text"


def test_a_part_column_cuts_texts(tmp_path: Path) -> None:
    rows = [
        f"a {word} film {n},{word},{part}\n" for n, part in enumerate(("train", "VAL", "test") * 20) for word in "xy"
    ]
    path = write(tmp_path, "reviews.csv", "text,label,split\n" + "".join(rows))
    config, said = found(path)
    assert any("40 training rows, 40 test rows for regard evaluate" in line for line in said)
    texts = [text for part in (config.data.train, config.data.valid) for text in _texts(config, part)]
    assert len(texts) == 80 and len(_texts(config, config.data.train)) == 40 and "a x film 2" not in texts
    run = RunFolder.create(tmp_path / "run", config)
    assert _texts(config, config_with_files(run, [path], {}).data.train)[0] == "a x film 2", (
        "evaluate reads what is left"
    )
    (tmp_path / "other.csv").write_text(
        "text,label,split\n" + "".join(f"a {n},{'xy'[n % 2]},{n % 3}\n" for n in range(60))
    )
    config, said = found(tmp_path / "other.csv")
    assert config.data.train[0].part is None and any("not read: split" in line for line in said)
    pairs = "".join(f"a dog {n},ein Hund,{part}\n" for n, part in enumerate(("train", "test", "dev") * 20))
    config, said = found(write(tmp_path, "pairs.csv", "source,target,split\n" + pairs))
    assert config.data.train[0].part == ("split", "train") and config.data.valid[0].part == ("split", "valid")
    assert [len(list(read_pairs(part[0]))) for part in (config.data.train, config.data.valid)] == [20, 20]


def _texts(config: RunConfig, corpora: Any) -> list[str]:
    from regard.tasks.classification.labeled_text import read_labeled

    data: Any = config.data
    return [each.texts[0] for each in read_labeled(corpora, data)]


def test_the_columns_that_are_not_read_are_said(tmp_path: Path) -> None:
    rows = "".join(f"{n},a {w} film,{w},{n % 7}\n" for n in range(30) for w in ("good", "bad"))
    _, said = found(write(tmp_path, "reviews.csv", "id,Text,LABEL,votes\n" + rows))
    assert "columns read: Text (text), LABEL (label); not read: id, votes" in said
    four = "the\tDT\tB-NP\tO\ndog\tNN\tI-NP\tO\n\n" * 20
    config, said = found(write(tmp_path, "train.tsv", "-DOCSTART-\t-X-\t-X-\tO\n\n" + four))
    assert any(
        "columns read: 1 (word), 2 (tag); not read: 3, 4 (to read another: --set data.tag=4" in line for line in said
    )
    assert any("1 line with -DOCSTART-" in line and "ignored" in line for line in said)
    assert all("-DOCSTART-" not in each.tokens for each in read_tagged(config.data.train, config.data))
    config, _ = found(tmp_path / "train.tsv", sets=["data.tag=4"])
    assert config.data.tag == 4


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("a.csv", "text,emotion_tags,stars\n" + "some text,1.5,1.25\n" * 3, None),
        ("a.jsonl", '{"text": "some text", "completion": "x"}\n' * 3, "completion"),
        (
            "a.jsonl",
            "".join(json.dumps({"text": f"some text {n}", "label": f"l{n}"}) + "\n" for n in range(40)),
            "label",
        ),
    ],
)
def test_a_guess_that_drops_labels_or_targets_is_refused(
    tmp_path: Path, name: str, content: str, column: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, name, content)
    if column is None:
        assert found(path)[0].task.kind == "classification"
        return
    error = refused(path)
    assert repr(column) in error.what and "--task language-model" in str(error.help)
    config, said = found(path, sets=["task.kind=language-model"])
    assert config.task.kind == "language-model" and any(f"not read: {column}" in line for line in said)
    monkeypatch.chdir(tmp_path)
    assert cli.run(["train", path.name, "--task", "language-model", "--set", "train.steps=1"]) == 0


def test_text_and_summary_in_json_lines_are_a_pair(tmp_path: Path) -> None:
    path = write(
        tmp_path, "a.jsonl", "".join(json.dumps({"text": f"long text {n}", "summary": f"{n}"}) + "\n" for n in range(9))
    )
    config, _ = found(path)
    assert config.task.kind == "translation" and config.data.train[0].target_key == "summary"


@pytest.mark.parametrize(
    ("content", "text", "label"),
    [
        ("".join(f"word{n} and more\tclass{n % 50}\n" for n in range(600)), (1,), 2),
        ("".join(f"{'good' if n % 2 else 'bad'}\tsome film {n}\n" for n in range(60)), (2,), 1),
    ],
)
def test_a_column_of_labels_is_found_in_either_place(
    tmp_path: Path, content: str, text: tuple[int, ...], label: int
) -> None:
    config, said = found(write(tmp_path, "a.tsv", content))
    assert config.task.kind == "classification" and (config.data.text, config.data.label) == (text, label)
    assert "--task translation" in said[0]
    assert found(tmp_path / "a.tsv", sets=["task.kind=translation"])[0].task.kind == "translation"


def test_a_head_of_a_tsv_of_pairs_is_no_pair(tmp_path: Path) -> None:
    path = write(
        tmp_path, "pairs.tsv", "id\tSource\ttarget\n" + "".join(f"{n}\ta dog {n}\tein Hund\n" for n in range(30))
    )
    config, said = found(path)
    assert config.task.kind == "translation" and "30 pairs" in said[0]
    assert "columns read: Source (source), target (target); not read: id" in said
    four = write(tmp_path, "four.tsv", "1\ta dog\t2\tein Hund\n" * 30)
    error = refused(four)
    assert error.help is not None and error.help.startswith("cut -f2,4 ")
    subprocess.run(["sh", "-c", error.help.partition(" keeps")[0]], check=True)
    assert path.read_text() == "a dog\tein Hund\n" * 30


def test_blank_lines_under_a_head_of_texts_and_labels_make_no_tagger(tmp_path: Path) -> None:
    rows = "".join(f"film {n} was good\tgood\n\nfilm {n} was bad\tbad\n" for n in range(30))
    config, _ = found(write(tmp_path, "x.tsv", "text\tlabel\n" + rows))
    assert config.task.kind == "classification"
    tags = "".join("the\tDET\ndog\tNOUN\n\n" for _ in range(30))
    for head in ("token\ttag\n", ""):
        assert found(write(tmp_path, "y.tsv", head + tags))[0].task.kind == "tagging"


def test_a_file_that_the_named_task_does_not_choose_is_no_recipe(tmp_path: Path) -> None:
    path = write(tmp_path, "x.txt", "a dog runs\n" * 30)
    with pytest.raises(ConfigError, match="the task graphs does not read this file") as caught:
        find_config([str(path)], [], ["task.kind=graphs"])
    assert caught.value.where == str(path)
    with pytest.raises(ConfigError, match="the task graphs does not read this file"):
        find_config([str(tmp_path / "*.txt")], [], ["task.kind=graphs"])


@pytest.mark.parametrize(("name", "task"), [("book.txt", "tagging"), ("book.txt", "nodes"), ("pairs.tsv", "graphs")])
def test_a_file_that_the_named_task_does_not_read_is_no_recipe(tmp_path: Path, name: str, task: str) -> None:
    write(tmp_path, "book.txt", "some text\n" * 300)
    write(tmp_path, "pairs.tsv", PAIRS)
    error = refused(tmp_path / name, sets=[f"task.kind={task}"])
    assert error.what == f"the task {task} does not read this file" and "recipe" not in str(error.why)
    error = refused(tmp_path / "boek.txt", sets=[f"task.kind={task}"])
    assert "recipe" not in error.what and "book.txt" in str(error.help)


def test_a_pattern_without_an_ending_is_no_recipe(tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path, f"{number}.txt", "some text\n" * 300)
    assert found(tmp_path / "*")[0].task.kind == "language-model"


TAGGED_ROWS = "".join(f"the DT I-NP O\nDog{n} NNP I-NP I-PER\n\n" for n in range(30))
ROWS_IN_TEXT = [
    (
        "SMSSpamCollection",
        "".join(f"{'ham' if n % 2 else 'spam'}\tsome text {n}\n" for n in range(60)),
        "classification",
    ),
    ("labels.txt.gz", LABELED, "classification"),
    ("eng.train", f"-DOCSTART- -X- -X- O\n\n{TAGGED_ROWS}", "tagging"),
    ("tagged.txt", TAGGED, "tagging"),
    ("ratings.dat", "user::item\n" + "".join(f"{n // 5}::{n % 7}\n" for n in range(60)), "next-item"),
]


@pytest.mark.parametrize(("name", "content", "task"), ROWS_IN_TEXT, ids=[name for name, *_ in ROWS_IN_TEXT])
def test_rows_in_a_text_are_not_learned_as_text(tmp_path: Path, name: str, content: str, task: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    error = refused(path)
    assert error.what == "the lines of this text are rows of a table" and error.help is not None
    before = {*tmp_path.iterdir()}
    subprocess.run(["sh", "-c", error.help.partition(", then train")[0]], check=True)
    (rows,) = {*tmp_path.iterdir()} - before
    assert found(rows)[0].task.kind == task
    assert found(path, sets=["task.kind=language-model"])[0].task.kind == "language-model"


@pytest.mark.parametrize(
    "line", ["roses are red {n}", "one\ttwo {n}{tab}", "std::move({n}){two}", "to be {n}\n\nor not"]
)
def test_a_text_is_no_table(tmp_path: Path, line: str) -> None:
    lines = [line.format(n=f"x{n}", tab="\t" * (n % 2), two="::" * (n % 2)) for n in range(200)]
    assert found(write(tmp_path, "a.txt", "\n".join(lines) + "\n"))[0].task.kind == "language-model"


def test_numbers_between_tabs_are_no_pair_of_texts(tmp_path: Path) -> None:
    help = str(refused(write(tmp_path, "u.tsv", "1\t2\t3.5\t964982703\n" * 30)).help)
    assert "cut" not in help and "user and item" in help and ".csv" in help
    rows = "".join(f"{n // 5}\t{n % 7}\t3.5\t{n}\n" for n in range(30))
    table = write(tmp_path, "u.csv", f"user\titem\trating\ttimestamp\n{rows}")
    assert found(table)[0].task.kind == "next-item"


@pytest.mark.parametrize("separator", [", ", ";", "|"])
def test_labels_between_separators_are_several(tmp_path: Path, separator: str) -> None:
    cells = ["Drama", "Comedy", "Sci-Fi", separator.join(("Comedy", "Drama")), separator.join(("Drama", "Sci-Fi"))]
    rows = "".join(f"film {n}\t{cells[n % 5]}\n" for n in range(100))
    config, said = found(write(tmp_path, "films.tsv", f"text\tlabel\n{rows}"))
    assert config.data.label_kind == "several" and config.data.label_separator == separator.strip()
    assert "several labels of 3 different values" in said[0]


def test_columns_named_by_hand_count_in_any_case_and_are_refused_by_their_cells(tmp_path: Path) -> None:
    rows = "".join(f"film {n},{'good' if n % 2 else 'bad'},x{n}\n" for n in range(60))
    path = write(tmp_path, "films.csv", f"Plot,Verdict,Id\n{rows}")
    config, said = found(path, sets=["data.text=plot", "data.label=VERDICT"])
    assert config.task.kind == "classification" and "columns read: Plot (text), Verdict (label); not read: Id" in said
    error = refused(path, sets=["data.text=Plot", "data.label=Id"])
    assert error.what == "the column 'Id' contains neither classes nor numbers"
    sets = ["data.text=Plot", "data.label=Id", "data.label_kind=class"]
    assert "data.label_kind=class" in str(error.help) and found(path, sets=sets)[0].data.label == "Id"


def test_the_first_line_is_named_where_it_is_no_head(tmp_path: Path) -> None:
    error = refused(write(tmp_path, "reviews.csv", "".join(f"a film {n},good\n" for n in range(30))))
    assert error.why == "the cells of its first line are a film 0, good"


def test_tables_of_a_graph_are_found_in_either_order(tmp_path: Path) -> None:
    nodes = write(tmp_path, "n.csv", "id,label,age\n" + "".join(f"n{n},{'xy'[n % 2]},{n}\n" for n in range(60)))
    edges = write(tmp_path, "e.csv", "Source,Target\n" + "".join(f"n{n},n{n + 1}\n" for n in range(59)))
    config, said = found(edges, nodes)
    assert config == found(nodes, edges)[0] and config.task.kind == "nodes" and config.data.train[0].source == nodes
    assert "edge table, columns read: Source and Target" in said


def test_commands_of_errors_make_files_that_are_read(tmp_path: Path) -> None:
    """Rows in a .json, and labels of fastText."""
    rows = [{"text": f"a {word} film {n}", "label": word} for word in ("good", "bad") for n in range(30)]
    write(tmp_path, "reviews.json", json.dumps(rows, indent=1))
    write(tmp_path, "reviews.txt", "".join(f"__label__{row['label']} {row['text']}\n" for row in rows))
    for name, made in (("reviews.json", "reviews.jsonl"), ("reviews.txt", "reviews.tsv")):
        command = refused(tmp_path / name).help
        assert command is not None
        subprocess.run(["sh", "-c", command], check=True)
        config, _ = found(tmp_path / made)
        assert config.task.kind == "classification" and {*_texts(config, config.data.train)} < {
            row["text"] for row in rows
        }


LISTS = """\
tokens,tags
"['the', 'dog']","['DET', 'NOUN']"
"[""it's"", 'so']","['PRON', 'ADV']"
"""


def test_lists_in_cells_are_lists(tmp_path: Path) -> None:
    path = write(tmp_path, "tags.csv", LISTS)
    data = TaggedDataConfig.model_validate({"train": [{"source": str(path)}]})
    assert [each.tokens for each in read_tagged(data.train, data)] == [("the", "dog"), ("it's", "so")]
    rows = "".join(f'a {n} film,"[{label}]"\n' for n in range(30) for label in ("'good', 'long'", "'bad'", ""))
    config, _ = found(write(tmp_path, "labels.csv", "text,label\n" + rows))
    from regard.tasks.classification.labeled_text import read_labeled

    assert config.data.label_kind == "several"
    labels = {each.labels for each in read_labeled(config.data.train, config.data)}
    assert labels == {("good", "long"), ("bad",), ()}


@pytest.mark.parametrize("cell", ["dog", "['the' 'dog']", "[the, dog]", "['the', None]", "[['the']]", "[1, x]"])
def test_a_cell_that_is_no_list_among_lists_is_named_by_its_line(tmp_path: Path, cell: str) -> None:
    path = write(
        tmp_path, "a.csv", "tokens\n\"['a', 'b']\"\n" * 1 + "".join(["\"['a', 'b']\"\n"] * 150) + f'"{cell}"\n'
    )
    with pytest.raises(RegardError, match="not a list") as caught:
        list(read_rows(path, ["tokens"], lists=["tokens"]))
    assert caught.value.where == f"{path}:153"
    bracketed = write(tmp_path, "b.csv", 'tokens\n[laughter]\n"no list, of course"\n')
    assert next(read_rows(bracketed, ["tokens"], lists=["tokens"])).cells["tokens"] == "[laughter]"


def test_time_orders_the_items_of_a_session(tmp_path: Path) -> None:
    head = "userId,movieId,rating,timestamp\n"
    rows = [(user, f"i{item}", (item + 3) % 5) for user in (1, 2) for item in range(5)]
    path = write(tmp_path, "ratings.csv", head + "".join(f"{user},{item},4.0,{time}\n" for user, item, time in rows))
    config, said = found(path)
    assert config.task.kind == "next-item" and "order of the items in a session: sorted by timestamp" in said
    sessions = [
        row.cells[ITEMS]
        for row in read_sessions([config.data.train[0].model_copy(update={"share": (0.0, 1.0)})], config.data.columns)
    ]
    assert sessions == [("i2", "i3", "i4", "i0", "i1")] * 2
    write(tmp_path, "r.csv", path.read_text().replace("timestamp", "when"))
    assert any("row order" in line for line in found(tmp_path / "r.csv")[1])


@pytest.mark.parametrize(
    "times", [("2024-05-31", "2023-01-01"), ("10", "9"), ("2024-01-01T10:00:00", "2024-01-01 09:00")]
)
def test_times_are_numbers_or_dates(tmp_path: Path, times: tuple[str, str]) -> None:
    path = write(tmp_path, "a.csv", f"user,item,time\nu,a,{times[0]}\nu,b,{times[1]}\n")
    files, columns = [FilesConfig(source=path)], SessionColumns(time="time")
    assert [row.cells[ITEMS] for row in read_sessions(files, columns)] == [("b", "a")]
    write(tmp_path, "a.csv", f"user,item,time\nu,a,{times[0]}\nu,b,yesterday\n")
    with pytest.raises(RegardError, match="invalid time 'yesterday'") as caught:
        list(read_sessions(files, columns))
    assert caught.value.where == f"{path}:3"


NODES = "node,a,b\n" + "".join(f"n{n},{n},{n % 3}\n" for n in range(12))
RING = [(f"n{n}", f"n{(n + 1) % 12}") for n in range(12)]


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("id,source,target", "{0},{1},{2}"), ("weight,Source,TARGET", "0.5,{1},{2}"), ("from,to,kind", "{1},{2},x"),
        ("node_1,node_2", "{1},{2}"), ("dst,src", "{2},{1}"), ("one,other", "{1},{2}"), ("", "{1},{2}"),
    ],
)  # fmt: skip
def test_heads_of_edges_tell_which_columns_are_read(tmp_path: Path, head: str, row: str) -> None:
    nodes = write(tmp_path, "nodes.csv", NODES)
    lines = [head] * bool(head) + [row.format(n, *pair) for n, pair in enumerate(RING)]
    edges = write(tmp_path, "edges.csv", "\n".join(lines) + "\n")
    config, said = found(nodes, edges)
    assert config.task.kind == "links"
    graph = read_graph(nodes, edges, directed=True)
    loops = graph.pairs[0] == graph.pairs[1]
    ring = {(int(one[1:]), int(other[1:])) for one, other in RING}
    assert {tuple(pair) for pair in graph.pairs.T[~loops].tolist()} in (ring, {(b, a) for a, b in ring})
    if head.startswith("id"):
        assert "edge table, columns read: source and target; not read: id" in said


def test_a_head_of_edges_that_tells_nothing_is_refused(tmp_path: Path) -> None:
    edges = write(
        tmp_path, "edges.csv", "number,one,other\n" + "".join(f"{n},{a},{b}\n" for n, (a, b) in enumerate(RING))
    )
    with pytest.raises(RegardError, match="does not identify the two ends") as caught:
        read_graph(write(tmp_path, "nodes.csv", NODES), edges)
    assert caught.value.where == f"{edges}:1" and "source and target" in str(caught.value.help)


@pytest.mark.parametrize("head", ["node,label,split,a", "Node,Label,Split,a", "id,class,part,a", ",node,y,SPLIT,a"])
def test_heads_of_nodes_count_in_any_case(tmp_path: Path, head: str) -> None:
    rows = [f"n{n},{'xy'[n % 2]},{('train', 'val', 'test')[n % 3]},{n + 0.5}" for n in range(12)]
    rows = [f"{n},{row}" if head.startswith(",") else row for n, row in enumerate(rows)]
    nodes = write(tmp_path, "nodes.csv", "\n".join([head, *rows]) + "\n")
    edges = write(tmp_path, "edges.csv", "source,target\n" + "".join(f"{a},{b}\n" for a, b in RING))
    config, said = found(nodes, edges)
    assert config.task.kind == "nodes" and any("1 feature" in line for line in said)
    assert any("unnamed row numbers" in line for line in said) == head.startswith(",")
    graph = read_graph(nodes, edges)
    assert (
        graph.features == 1
        and graph.classes == ("x", "y")
        and np.flatnonzero(graph.parts["valid"]).tolist() == [1, 4, 7, 10]
    )


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_runs_are_no_texts(tmp_path: Path, levels: int) -> None:
    """A run, a folder of runs, a folder of folders of runs."""
    folder = tmp_path / "experiments" / "runs" / "first"
    config, _ = found(write(tmp_path, "a.txt", "some text\n" * 300))
    RunFolder.create(folder, config)
    write(folder, "metrics.jsonl", '{"step": 1, "loss": 2.5}\n' * 30)
    write(folder, "README.md", "# a model\n")
    source = [folder, *folder.parents][levels]
    with pytest.raises(DataError) as caught:
        text_files(source)
    for error in (caught.value, refused(source) if levels else caught.value):  # a run alone is read as a recipe
        assert error.where == str(source) and str(folder) in str(error.why)
        assert f"--resume {folder}" in str(error.help) and f"--continue {folder}" in str(error.help)


def test_a_folder_of_texts_with_a_config_of_its_own_is_no_run(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "some text\n" * 300)
    (tmp_path / "site").mkdir()
    write(tmp_path / "site", "config.toml", "title = 'x'\n")
    assert found(tmp_path)[0].task.kind == "language-model"


def test_a_file_of_comments_alone_is_no_defect(tmp_path: Path) -> None:
    (tmp_path / "x.conllu").write_text("# text = two men\n\n" * 500)
    try:
        find_config([str(tmp_path / "x.conllu")], [], [])
    except RegardError as error:
        assert "x.conllu" in str(error)


@pytest.mark.parametrize(
    ("name", "cells", "kind"),
    [
        ("label", ["a", "b", "a, b"], "several"), ("label", ["a", "b", "a, c"], "class"),
        ("labels", ["a", "b", "a, c"], "several"), ("labels", ["a, x", "b, y"], "class"),
    ],
)  # fmt: skip
def test_labels_with_commas_are_several_where_cells_say_so(
    tmp_path: Path, name: str, cells: list[str], kind: str
) -> None:
    rows = "".join(f'a film {n},"{cells[n % len(cells)]}"\n' for n in range(60))
    config, _ = found(write(tmp_path, "a.csv", f"text,{name}\n{rows}"))
    assert config.data.label_kind == kind


def test_the_columns_of_an_npz_are_its_arrays_and_it_has_no_rows_of_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, frames=np.zeros((2, 3)), label=np.array(["x"]))
    assert read_head(path) == ("npz", ("frames", "label"))
    with pytest.raises(
        DataError, match=r"cannot read a .npz as rows of cells\n.*a\.npz\n.*its arrays are frames, label"
    ):
        next(read_rows(path, ["label"]))
    path.write_bytes(b"junk")
    with pytest.raises(DataError, match=r"not a \.npz of plain arrays"):
        read_head(path)
