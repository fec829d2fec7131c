"""``regard check``: the report of the lint, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard as package
from regard.errors import ConfigError, DataError


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_corpus_that_cannot_be_trained_on_exits_with_3_and_names_the_line(regard, tmp_path: Path) -> None:
    source = write(tmp_path, "s", "one", "two", "three")
    target = write(tmp_path, "t", "eins", "", "drei")
    result = regard("check", source, target)
    assert result.exit_code == 3
    assert "error    blank-side: 1" in result.stdout
    assert f"{source}:2: the target is blank" in result.stdout


def test_overlap_with_held_out_data_is_a_warning(regard, tmp_path: Path) -> None:
    source = write(tmp_path, "s", "a dog runs", "a cat sits")
    target = write(tmp_path, "t", "ein Hund rennt", "eine Katze sitzt")
    test = write(tmp_path, "test.tsv", "a cat sits\teine Katze sitzt")
    result = regard("check", source, target, "--test", test, "--test", f"{source},{target}", "--json", "--most", "1")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["counts"]["overlap"] == 3
    assert [each["line"] for each in found["findings"] if each["kind"] == "overlap"] == [1]
    assert "training can start" in regard("check", source, target, "--test", test).stdout


def recipe(folder: Path, attention: str) -> Path:
    source = write(folder, "s", "one two", "three four", "five six")
    target = write(folder, "t", "eins zwei", "drei vier", "sechs")
    return write(
        folder,
        "r.toml",
        "[data]",
        "joint = false",
        'tokenizer = { kind = "word" }',
        "[[data.train]]",
        f'source = "{source}"',
        f'target = "{target}"',
        "[model]",
        'share = "target"',
        "width = 8",
        "heads = 2",
        f"cross_attention = {attention}",
        "[train]",
        "steps = 1",
    )


def test_a_recipe_is_looked_through_with_the_model_it_names(regard, tmp_path: Path) -> None:
    result = regard("check", recipe(tmp_path, '{ kind = "location-aware", reach = 2, width = 4 }'))
    assert result.exit_code == 0
    assert "3 lines in" in result.stdout
    assert "warning: the location filter of width 5 is wider than the longest source (3 tokens)" in result.stdout
    found = json.loads(regard("check", tmp_path / "r.toml", "--json").stdout)
    assert found["corpora"][0]["lines"] == 3 and len(found["remarks"]) == 1
    narrow = regard("check", recipe(tmp_path, '{ kind = "location-aware", reach = 1, width = 4 }'))
    assert "warning" not in narrow.stdout


def test_a_recipe_that_cannot_be_built_is_one_clear_error(regard, tmp_path: Path) -> None:
    problem = regard("check", recipe(tmp_path, '{ kind = "local-p", window = 0, score = { kind = "dot" } }')).exception
    assert isinstance(problem, ConfigError)
    assert problem.where == "model.decoder.cross_attention" and "window" in str(problem.why)


def test_python_does_what_the_command_does(regard, tmp_path: Path) -> None:
    source = write(tmp_path, "s", "a dog runs", "a cat sits")
    target = write(tmp_path, "t", "ein Hund rennt", "eine Katze sitzt")
    test = write(tmp_path, "test.tsv", "a cat sits\teine Katze sitzt")
    found = package.check(source, target, test=[test, (source, target)], max_findings=1)
    assert found.trainable and found.clean and found.refused is None and not found.valid
    printed = json.loads(
        regard("check", source, target, "--test", test, "--test", f"{source},{target}", "--json").stdout
    )
    assert found.train[0].lint.counts == printed["counts"]
    held_out = package.check(str(source), str(target), valid=[test])
    assert held_out.valid[0].lint.lines == 1 and held_out.train[0].lint.counts["overlap"] == 1
    write(tmp_path, "t", "eins", "")
    wrong = package.check(source, target)
    assert not wrong.clean and not wrong.trainable and wrong.remarks == []


def test_a_text_is_rehearsed_for_a_language_model(regard, tmp_path: Path) -> None:
    text = write(tmp_path, "book.txt", *["the cat sat on the mat"] * 60)
    result = regard("check", text, "--valid-file", text)
    assert result.exit_code == 0 and result.stdout.endswith("no findings\n")
    assert json.loads(regard("check", text, "--json").stdout)["corpora"] == []
    (tmp_path / "odd.txt").write_bytes(b"\xff\xfe")
    assert isinstance(regard("check", tmp_path / "odd.txt").exception, DataError)


def test_a_recipe_of_a_language_model_is_rehearsed(regard, tmp_path: Path) -> None:
    text = write(tmp_path, "book.txt", *["the cat sat on the mat"] * 60)
    lines = 'task = "language-model"', "train = { steps = 1 }", "[[data.train]]", f'source = "{text}"'
    assert regard("check", write(tmp_path, "r.toml", *lines)).stdout == "no findings\n"


def test_tagged_and_labeled_files_are_not_taken_for_pairs(regard, tmp_path: Path) -> None:
    """What looks like pairs of sentences to a lint is rehearsed by the task that would be trained."""
    tagged, labeled = tmp_path / "tags.jsonl", tmp_path / "labels.tsv"
    tagged.write_text("".join(f'{{"tokens": ["w{n}", "."], "tags": ["{"XY"[n % 2]}", "Z"]}}\n' for n in range(40)))
    labeled.write_text("".join(f"text {n % 30}\t{'yes' if n % 2 else 'no'}\n" for n in range(40)))
    for path in (tagged, labeled):
        done = regard("check", path)
        assert (done.exit_code == 0 and "no findings" in done.output) or path == labeled, done.output
    with tagged.open("a") as file:
        file.write('{"tokens": ["a"], "tags": []}\n')
    done = regard("check", tagged)
    assert str(getattr(done.exception, "where", "")).endswith("tags.jsonl:41")


REVIEWS = "text,label\n" + "".join(f"a {'good' if n % 2 else 'bad'} film {n},{'xy'[n % 2]}\n" for n in range(40))
SESSIONS = "".join(f'{{"items": ["i{n}", "i{n + 1}", "i{n * 7 % 40}"]}}\n' for n in range(40))
GRAPHS = "".join(f'{{"edges": [[0, 1]], "nodes": {n + 2}, "label": "{"xy"[n % 2]}"}}\n' for n in range(40))
TAGS = "".join(f"the\tDET\ndog{n}\tNOUN\n\n" for n in range(40))


@pytest.mark.parametrize(
    ("name", "content", "again", "other", "counts"),
    [
        ("a.csv", REVIEWS, "a bad film 0,x\n", "a bad film 0,y\n", {"contradiction": 1, "duplicate": 1}),
        ("a.tsv", TAGS, "the\tDET\ndog0\tNOUN\n\n", "the\tDET\ndog0\tVERB\n\n", {"contradiction": 1, "duplicate": 1}),
        ("a.jsonl", SESSIONS, SESSIONS[: SESSIONS.index("\n") + 1], "", {"duplicate": 1}),
        ("g.jsonl", GRAPHS, GRAPHS.split("\n")[0] + "\n", GRAPHS.split("\n")[0].replace('"x"', '"y"') + "\n",
         {"contradiction": 1, "duplicate": 1}),
    ],
)  # fmt: skip
def test_examples_of_every_task_are_compared(
    regard, tmp_path: Path, name: str, content: str, again: str, other: str, counts: dict[str, int]
) -> None:
    """Equal examples, an input with two targets, and inputs of other parts that training has, each with its line."""
    path, valid, test = tmp_path / name, tmp_path / f"valid-{name}", tmp_path / f"test-{name}"
    path.write_text(content + again + other)
    valid.write_text(content.split("\n")[0] + "\n" + again if name == "a.csv" else again)
    test.write_text(content)
    found = package.check(path, valid=[valid])
    assert found.trainable and found.train[0].lint.counts == counts | {"overlap": 1}
    messages = {each.kind: each for each in found.train[0].lint.findings}
    first = 2 if name == "a.csv" else 1
    assert f"{path}:{first}" in messages["duplicate"].message and messages["duplicate"].file == str(path)
    assert messages["overlap"].file == str(valid)
    held_out = package.check(path, valid=[valid], test=[test]).train[0].lint.counts["overlap"]
    assert held_out == 1 + 40, "validation, and every input of the test"
    printed = regard("check", path, "--valid-file", valid).stdout
    unit = {"a.jsonl": "item", "g.jsonl": None}.get(name, "word")
    assert "training examples in " in printed and f" in {valid}" in printed
    assert ("(median)" in printed) == (f"% of its {unit}s are not" in printed) == (unit is not None)
    assert (
        unit is None
        or f"inputs have {3 if unit == 'item' else 4 if name == 'a.csv' else 2} {unit}s (median)" in printed
    )
    if name != "a.jsonl" and name != "a.tsv":
        assert "targets: " in printed


def test_rare_classes_and_lengths_are_named(regard, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(REVIEWS + "a strange film indeed it is,z\n")
    printed = regard("check", path).stdout
    assert "; fewer than 5 examples: z" in printed and "targets: x " in printed
    assert "inputs have 4 words (median), 6 at most" in printed and "in the held-out part; " in printed
    assert "% of its words are not in the training data" in printed


def test_inputs_without_spaces_are_measured_in_characters(regard, tmp_path: Path) -> None:
    rows = "".join(f"{'ACGT'[n % 4]}{'ACGT' * (n % 7)}ACG\t{'EI' if n % 2 else 'N'}\n" for n in range(60))
    (tmp_path / "a.tsv").write_text(rows)
    printed = regard("check", tmp_path / "a.tsv").stdout
    assert "inputs have 16 characters (median), 28 at most" in printed and "word" not in printed
