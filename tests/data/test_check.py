"""The lint: each kind of trouble is found on its line, clean text is left alone, and nothing makes it raise."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import rows
from regard.data.lint import check
from regard.data.lint.check import KINDS, lint
from regard.data.lint.languages import SAMPLE_SIZE, PairSample, wrong_language_lines
from regard.data.lint.rules import (
    BLOCK,
    check_pair,
    find_repeats,
    main_script,
    odd_length_ratios,
    shifted_ranges,
    unrelated_correlation,
)
from regard.data.reading import CorpusConfig
from regard.errors import DataError, MissingDataError


@pytest.fixture(autouse=True)
def _no_language_identified(monkeypatch):
    """Made-up words are of no language; what is identified stands in the tests of it."""
    monkeypatch.setattr(check, "language_identifier", lambda: None)


def clean_pairs(count, seed=0):
    """Pairs whose lengths go together, none twice."""
    generator = random.Random(seed)
    words = ["dog", "cat", "house", "tree", "runs", "sleeps", "green", "small", "mountain", "under"]
    pairs = []
    for number in range(count):
        chosen = [generator.choice(words) for _ in range(generator.randint(2, 25))]
        pairs.append((f"{number} " + " ".join(chosen), f"{number} " + " ".join(word[::-1] + "e" for word in chosen)))
    return pairs


def corpus(folder, pairs, name="train"):
    for suffix, side in (("en", 0), ("de", 1)):
        (folder / f"{name}.{suffix}").write_bytes(
            b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in (p[side] for p in pairs))
        )
    return CorpusConfig(source=folder / f"{name}.en", target=folder / f"{name}.de")


def found(report):
    return {(finding.kind, finding.line) for finding in report.findings}


def test_clean_text_has_no_findings(tmp_path):
    report = lint(corpus(tmp_path, clean_pairs(1000)))
    assert report.findings == []
    assert report.counts == {}
    assert report.lines == 1000


EXAMPLES = [
    ("blank-side", ("", "ein Hund")),
    ("blank-side", ("a dog", " \t")),
    ("blank", ("", " ")),
    ("encoding", ("a dog", b"k\xf6nnen")),
    ("script", ("a dog sleeps here", "собака здесь спит")),
    ("mojibake", ("a dog sleeps", "schlÃ¤ft ein Hund")),
    ("mojibake", ("it’s a dog", "itâ€™s a Hund")),
    ("mojibake", ("a dog\ufffd", "ein Hund")),
    ("control", ("a \x07dog", "ein Hund")),
    ("control", ("a dog", "ein\u2028Hund")),
    ("ratio", ("a dog sleeps under the small green tree of the house", "Hund")),
    ("long", ("dog " * 300, "Hund")),
    ("identical", ("same words", "same words")),
    ("duplicate", clean_pairs(200)[3]),
]


@pytest.mark.parametrize(("kind", "pair"), EXAMPLES)
def test_each_kind_is_found_on_its_line_and_nothing_else(tmp_path, kind, pair):
    pairs = clean_pairs(200)
    pairs.insert(150, pair)
    report = lint(corpus(tmp_path, pairs))
    assert (kind, 151) in found(report)
    assert report.counts[kind] == 1
    assert all(finding.line == 151 for finding in report.findings)
    assert {finding.severity for finding in report.findings if finding.kind == kind} == {KINDS[kind]}


def test_every_kind_has_a_test():
    elsewhere = {"empty", "lines", "format", "shifted", "unrelated", "overlap", "language", "contradiction"}
    elsewhere |= {"silent", "clipped", "speed", "speaker"}  # of recordings: test_lint_utterances.py
    elsewhere |= {"constant", "equal", "missing", "far"}  # of tables: test_lint_tables.py
    assert {kind for kind, _ in EXAMPLES} | elsewhere == set(KINDS)


@pytest.mark.parametrize(
    "text", ["für Größe", "Ça va, n’est-ce pas ?", "NÃO É", "Ångström", "日本語です", "Âge", "Ñandú"]
)
def test_honest_accents_are_no_mojibake(text):
    assert list(check_pair(text, "x")) == []


@given(st.text("äöüßéèñçÅ", min_size=1))
def test_utf8_read_as_something_else_is_mojibake(text):
    assert "mojibake" in dict(check_pair(text.encode().decode("latin-1"), "x"))


@pytest.mark.parametrize(
    ("text", "script"),
    [("dog", "Latin"), ("für", "Latin"), ("собака ok", "Cyrillic"), ("犬です", "Han"), ("12 , .", None), ("…–", None)],
)
def test_scripts(text, script):
    assert main_script(text) == script


def test_a_corpus_of_two_scripts_is_left_alone(tmp_path):
    pairs = [(f"dog {number}", f"{'собака' if number % 3 else 'Hund'} {number}") for number in range(60)]
    assert "script" not in lint(corpus(tmp_path, pairs)).counts


def test_different_line_counts_are_reported_with_the_line(tmp_path):
    pairs = clean_pairs(400)
    targets = [target for _, target in pairs]
    del targets[250]
    (tmp_path / "x.en").write_text("\n".join(source for source, _ in pairs) + "\n")
    (tmp_path / "x.de").write_text("\n".join(targets) + "\n")
    report = lint(CorpusConfig(source=tmp_path / "x.en", target=tmp_path / "x.de"))
    assert report.counts == {"lines": 1}
    assert "400 and 399" in report.findings[0].message
    assert abs(report.findings[0].line - 251) <= 3
    swapped = lint(CorpusConfig(source=tmp_path / "x.de", target=tmp_path / "x.en"))
    assert "399 and 400" in swapped.findings[0].message


def test_an_extra_line_that_is_not_utf8_still_makes_the_counts_differ(tmp_path):
    config = corpus(tmp_path, clean_pairs(30))
    with config.target.open("ab") as file:
        file.write(b"\xff\n")
    assert set(lint(config).counts) == {"lines", "encoding"}


def test_an_empty_file_is_a_finding(tmp_path):
    config = corpus(tmp_path, clean_pairs(3))
    config.target.write_text("")
    assert lint(config).counts == {"empty": 1}
    config.source.write_text("")
    assert lint(config).counts == {"empty": 1}


def test_a_shifted_stretch_is_found_where_the_counts_agree(tmp_path):
    pairs = clean_pairs(1500)
    targets = [target for _, target in pairs]
    targets.insert(1100, targets.pop(500))
    report = lint(corpus(tmp_path, [(source, target) for (source, _), target in zip(pairs, targets, strict=True)]))
    stretch = next(finding for finding in report.findings if finding.kind == "shifted")
    assert abs(stretch.line - 501) <= BLOCK
    assert "-1 lines" in stretch.message


def test_shuffled_targets_are_unrelated(tmp_path):
    pairs = clean_pairs(600)
    targets = [target for _, target in pairs]
    random.Random(1).shuffle(targets)
    report = lint(corpus(tmp_path, [(source, target) for (source, _), target in zip(pairs, targets, strict=True)]))
    assert "unrelated" in report.counts


def test_overlap_with_held_out_text_is_named(tmp_path):
    pairs = clean_pairs(300)
    other = [*clean_pairs(50, seed=9), pairs[7], (pairs[8][0], "otherwise")]
    held_out = corpus(tmp_path, other, "test")
    report = lint(corpus(tmp_path, pairs), held_out=[held_out])
    messages = {finding.line: finding.message for finding in report.findings}
    assert messages == {
        51: "the pair is also in training line 8",
        52: "the source is also in training line 9",
    }
    assert {finding.file for finding in report.findings} == {str(held_out.source)}


def test_lines_of_another_format_are_found(tmp_path):
    (tmp_path / "x.tsv").write_text("a b\tc d\nno tab\ne\tf\n1\t2\t3\n")
    assert found(lint(CorpusConfig(source=tmp_path / "x.tsv"))) == {("format", 2), ("format", 4)}
    rows = [json.dumps({"source": "a", "target": "b"}), "{", json.dumps({"source": "a"}), "[]"]
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    report = lint(CorpusConfig(source=tmp_path / "x.jsonl"))
    assert found(report) == {("format", 2), ("format", 3), ("format", 4)}


@given(st.lists(st.tuples(st.binary(max_size=12), st.binary(max_size=12)), max_size=30))
def test_no_bytes_make_it_raise(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("bytes")
    pairs = [(b"text", b"text"), *pairs]  # files that are no text by their first bytes are refused
    config = corpus(folder, pairs)
    report = lint(config, held_out=[config])
    assert sum(report.counts.values()) >= len(report.findings)
    (folder / "x.tsv").write_bytes(b"\n".join(b"\t".join(pair) for pair in pairs))
    lint(CorpusConfig(source=folder / "x.tsv"))


def test_a_missing_file_is_an_error_all_the_same(tmp_path):
    with pytest.raises(DataError, match="file not found"):
        lint(CorpusConfig(source=tmp_path / "x.tsv"))


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_a_missing_table_is_an_error_all_the_same(tmp_path, name):
    with pytest.raises(MissingDataError):
        lint(CorpusConfig(source=tmp_path / name))


@pytest.mark.parametrize("what", ["no column", "another wording of the message"])
def test_a_missing_column_is_an_error_whatever_its_message(tmp_path, monkeypatch, what):
    monkeypatch.setattr(rows, "missing_column", lambda column, names, where: MissingDataError(what, where=where))
    (tmp_path / "x.csv").write_text("source,other\na,b\n")
    with pytest.raises(MissingDataError, match=what):
        lint(CorpusConfig(source=tmp_path / "x.csv"))


@pytest.mark.parametrize("before", [0, 2])
def test_a_row_of_another_length_is_a_finding_and_no_error(tmp_path, before):
    """Also if it is the first row."""
    (tmp_path / "x.csv").write_text("source,target\n" + "a,b\n" * before + "a,b,c\n")
    report = lint(CorpusConfig(source=tmp_path / "x.csv"))
    assert ("format", before + 2) in found(report)


def test_many_findings_are_counted_but_not_all_named(tmp_path):
    report = lint(corpus(tmp_path, [(f"same {number}", f"same {number}") for number in range(90)]), max_findings=5)
    assert report.counts["identical"] == 90
    assert [finding.line for finding in report.findings if finding.kind == "identical"] == [1, 2, 3, 4, 5]


def test_errors_come_first(tmp_path):
    report = lint(corpus(tmp_path, [*clean_pairs(30), ("same", "same"), ("x", "")]))
    assert [finding.kind for finding in report.findings] == ["blank-side", "identical"]


def test_progress_is_told(tmp_path):
    seen: list[int] = []
    lint(corpus(tmp_path, [(f"a {number}", f"b {number}") for number in range(20_001)]), progress=seen.append)
    assert seen == [10_000, 20_000]


def identify(text):
    return "de" if "der" in text else "en"


def test_untranslated_lines_are_in_the_language_of_the_other_side(tmp_path):
    pairs = [
        (f"the dog of the house number {number}", f"der Hund in der Stadt Nummer {number}") for number in range(40)
    ]
    pairs[17] = (pairs[17][0], "the cat of that other house here")
    report = lint(corpus(tmp_path, pairs), identify=identify)
    assert found(report) == {("language", 18)}
    assert "target looks like en" in report.findings[0].message
    assert report.skipped == []
    same = [(source, source + " again") for source, _ in pairs]
    assert (
        "both sides look like the same language" in lint(corpus(tmp_path, same), identify=identify).findings[0].message
    )


def test_without_the_library_the_language_check_says_that_it_is_skipped(tmp_path):
    assert "py3langid is not installed" in lint(corpus(tmp_path, clean_pairs(5))).skipped[0]


@given(st.integers(0, 5 * SAMPLE_SIZE))
def test_the_sample_is_even_and_bounded(count):
    sample = PairSample()
    for number in range(count):
        sample.add(number, "a b c d e", "a b c d e")
    lines = [row[0] for row in sample.rows]
    assert min(count, SAMPLE_SIZE // 2) <= len(lines) <= SAMPLE_SIZE
    assert len(set(np.diff(lines))) <= 1


def test_short_lines_show_no_language():
    sample = PairSample()
    sample.add(1, "too short", "a b c d e")
    assert sample.rows == []
    assert wrong_language_lines([], identify) == []


@given(st.lists(st.integers(0, 9)))
def test_repeats_name_the_first_place(values):
    later, first = find_repeats(np.array(values, np.int64))
    expected = [(place, values.index(value)) for place, value in enumerate(values) if value in values[:place]]
    assert list(zip(later.tolist(), first.tolist(), strict=True)) == expected


def test_rules_are_silent_on_too_little_text():
    few = np.array([1.0, 50.0, 3.0])
    assert len(odd_length_ratios(few, few[::-1])) == 0
    assert unrelated_correlation(few, few[::-1]) is None
    assert list(shifted_ranges(few, few)) == []
    assert unrelated_correlation(np.ones(100), np.ones(100)) is None


@pytest.mark.parametrize("rows", [49, 50, 80])
def test_lengths_that_never_change_are_unrelated_to_nothing(rows):
    """A correlation needs both sides to vary, and fifty pairs."""
    varied, constant = np.arange(rows) % 7 + 1.0, np.ones(rows)
    for pair in ((varied, constant), (constant, varied), (constant, constant), (varied, varied)):
        assert unrelated_correlation(*pair) is None
    shuffled = np.random.default_rng(2).permutation(varied)
    found = unrelated_correlation(varied, shuffled)
    assert (found is None) == (rows < 50) and (found is None or abs(found) < 0.2)
