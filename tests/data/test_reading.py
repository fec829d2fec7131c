"""Reading parallel text: every format gives the same pairs, and bad input one error that names file and line."""

import errno
import gzip
import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.alignment import first_shifted_line
from regard.data.reading import CorpusConfig, Sentences, read_pairs
from regard.data.text_files import read_lines
from regard.errors import DataError, StorageError

PAIRS = [("a dog", "ein Hund"), ("two\u2028cats\x85 run", "zwei Katzen"), ("", " "), ("grün", "green")]
EXPECTED = [(number, *pair) for number, pair in enumerate(PAIRS, start=1) if pair[0]]


def write(path, text):
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def two_files(folder, source, target):
    return CorpusConfig(source=write(folder / "train.en", source), target=write(folder / "train.de", target))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_every_format_gives_the_same_pairs(tmp_path, packed, end):
    source = write(tmp_path / f"a.en{packed}", end.join(pair[0] for pair in PAIRS) + end)
    target = write(tmp_path / f"a.de{packed}", end.join(pair[1] for pair in PAIRS))
    tsv = write(tmp_path / f"a.tsv{packed}", "".join(f"{first}\t{second}{end}" for first, second in PAIRS))
    rows = (json.dumps({"en": first, "de": second, "id": 1}) for first, second in PAIRS)
    jsonl = write(tmp_path / f"a.jsonl{packed}", end.join(rows))
    for config in (
        CorpusConfig(source=source, target=target),
        CorpusConfig(source=tsv),
        CorpusConfig(source=jsonl, source_key="en", target_key="de"),
    ):
        pairs = read_pairs(config)
        assert list(pairs) == EXPECTED
        assert list(pairs) == EXPECTED, "a second loop reads anew"
        assert pairs.blank == 1


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", exclude_categories=["Cs"])), min_size=1))
def test_only_a_line_feed_ends_a_line(tmp_path_factory, lines):
    path = write(tmp_path_factory.mktemp("lines") / "x", "\n".join(lines) + "\n")
    assert list(read_lines(path)) == lines


def test_a_byte_order_mark_is_dropped_at_the_start_only(tmp_path):
    assert list(read_lines(write(tmp_path / "x", "\ufeffa\n\ufeffb\n"))) == ["a", "\ufeffb"]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_pipe_can_be_read_only_once_so_it_is_no_corpus(tmp_path, side):
    config = two_files(tmp_path, "a\n", "b\n")
    getattr(config, side).unlink()
    os.mkfifo(getattr(config, side))
    with pytest.raises(DataError, match=r"(?s)pipe.*save it to a file") as caught:
        next(iter(read_pairs(config)))
    assert caught.value.where == str(getattr(config, side))


def test_different_line_counts_name_both_and_the_first_shifted_line(tmp_path):
    generator = random.Random(0)
    source = ["x" * generator.randint(5, 90) for _ in range(500)]
    target = [line + "y" * (len(line) // 4) for line in source]
    del target[321]
    config = two_files(tmp_path, "\n".join(source) + "\n", "\n".join(target) + "\n")
    with pytest.raises(DataError, match="500 and 499") as caught:
        list(read_pairs(config))
    named = int(caught.value.where.rsplit(":", 1)[1])
    assert abs(named - 322) <= 3
    assert str(config.source) in caught.value.where
    assert str(named) in caught.value.why


def test_a_shorter_side_that_is_parallel_to_its_end_is_said_to_be(tmp_path):
    config = two_files(tmp_path, "a\nbbbbbb\nccc\n" + "dd\n" * 3, "a\nbbbbbb\nccc\n")
    with pytest.raises(DataError, match=r"6 and 3[\s\S]*parallel up to line 3"):
        list(read_pairs(config))


@given(
    st.lists(st.integers(20, 400), min_size=40, max_size=80, unique=True),
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.sampled_from([0.6, 1.0, 1.5]),
    st.booleans(),
)
def test_the_gap_is_found_whatever_the_usual_ratio(lengths, place, missing, ratio, swap):
    random.Random(place).shuffle(lengths)
    place %= len(lengths) - missing
    shorter = [round(length * ratio) for length in lengths]
    del shorter[place : place + missing]
    sides = (lengths, shorter) if swap else (shorter, lengths)
    assert abs(first_shifted_line(*sides) - (place + 1)) <= 2


def test_lines_blank_on_one_side_are_listed(tmp_path):
    config = two_files(tmp_path, "a\n\nc\n\nd\n", "a\nb\n \n\nd\n")
    with pytest.raises(DataError, match="2 lines are blank on one side only") as caught:
        list(read_pairs(config))
    assert caught.value.where == f"{config.source}:2"
    assert "2 (source), 3 (target)" in caught.value.why


def test_an_empty_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match="empty"):
        list(read_pairs(two_files(tmp_path, "", "a\n")))
    with pytest.raises(DataError, match="empty"):
        list(read_lines(write(tmp_path / "x.gz", "")))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_invalid_utf8_names_file_and_line(tmp_path, suffix):
    path = write(tmp_path / f"x{suffix}", b"ok\nalso ok\nk\xf6nnen\n")
    with pytest.raises(DataError, match="not valid UTF-8") as caught:
        list(read_lines(path))
    assert caught.value.where == f"{path}:3"
    assert "byte 2 of the line is 0xf6" in caught.value.why


def test_a_missing_file_names_the_nearest(tmp_path):
    write(tmp_path / "train.en", "a\n")
    with pytest.raises(DataError, match=r"did you mean .*train\.en\?"):
        list(read_lines(tmp_path / "trian.en"))
    with pytest.raises(DataError, match="is missing too"):
        list(read_lines(tmp_path / "nowhere" / "train.en"))


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(DataError, match="a folder, not a text file"):
        list(read_lines(tmp_path))


def test_damaged_gzip(tmp_path):
    whole = gzip.compress("".join(f"{line}\n" for line in range(10_000)).encode())
    for content in (whole[: len(whole) // 2], whole[:500] + b"\xff" * 50 + whole[550:], b"no gzip\n"):
        (tmp_path / "x.gz").write_bytes(content)
        with pytest.raises(DataError, match="gzip"):
            list(read_lines(tmp_path / "x.gz"))


def test_no_permission(tmp_path, monkeypatch):
    path = write(tmp_path / "x", "a\n")

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(StorageError, match="no permission"):
        list(read_lines(path))


@pytest.mark.parametrize(("line", "why"), [("no tab", "no tab"), ("a\tb\tc", "3 columns")])
def test_tsv_needs_two_columns(tmp_path, line, why):
    path = write(tmp_path / "x.tsv", f"a\tb\n{line}\n")
    with pytest.raises(DataError, match=why) as caught:
        list(read_pairs(CorpusConfig(source=path)))
    assert caught.value.where == f"{path}:2"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"Source": "a", "target": "b"}', 'no key "source"[\\s\\S]*"Source"'),
        ('{"source": 1, "target": "b"}', "not a string"),
        ('{"source": "\\ud800", "target": "b"}', "surrogate"),
    ],
)
def test_bad_json_lines(tmp_path, line, message):
    path = write(tmp_path / "x.jsonl", f'{{"source": "a", "target": "b"}}\n{line}\n')
    with pytest.raises(DataError, match=message) as caught:
        list(read_pairs(CorpusConfig(source=path)))
    assert caught.value.where == f"{path}:2"


def test_a_source_alone_needs_a_format_with_both_sides(tmp_path):
    with pytest.raises(DataError, match="no target"):
        list(read_pairs(CorpusConfig(source=write(tmp_path / "train.en", "a\n"))))


def test_two_shares_of_a_file_part_its_sources(tmp_path: Path) -> None:
    """Complementary shares hold every pair once, equal sources on one side, and about as many as they say."""
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"source {number // 2}\ttarget {number}\n" for number in range(4000)), encoding="utf-8")
    held = {(line, source) for line, source, _ in read_pairs(CorpusConfig(source=path, share=(0, 0.25)))}
    kept = {(line, source) for line, source, _ in read_pairs(CorpusConfig(source=path, share=(0.25, 1)))}
    assert {line for line, _ in held | kept} == set(range(1, 4001))
    assert not {source for _, source in held} & {source for _, source in kept}
    assert 0.2 < len(held) / 4000 < 0.3


@pytest.mark.parametrize("share", [(0.5, 0.5), (0.9, 0.1), (-0.1, 1), (0, 1.1)])
def test_a_share_is_a_part_of_the_whole(share: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="share must be a part"):
        CorpusConfig(source=Path("a.tsv"), share=share)


@pytest.mark.parametrize(
    ("side", "expected"), [("source", ["a", "c", "e"]), ("target", ["b", "d", "f"]), ("both", list("abcdef"))]
)
def test_sentences_of_several_corpora_come_again_with_every_loop(tmp_path, side, expected):
    paths = write(tmp_path / "x.tsv", "a\tb\nc\td\n"), write(tmp_path / "y.tsv", "e\tf\n")
    sentences = Sentences([CorpusConfig(source=path) for path in paths], side)
    assert list(sentences) == list(sentences) == expected
