"""DNA: FASTA files, the other strand, overlapping letters as pieces, classes of sequences from file to answer."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from regard import cli
from regard.core.task import ExampleIndices
from regard.data.documents import Cut, read_documents
from regard.data.molecules import read_fasta, reverse_complement
from regard.data.shared_files import FilesConfig
from regard.data.stream import TextConfig
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import UNKNOWN, TokenizerConfig
from regard.errors import ConfigError, DataError
from regard.runs.config import load_config
from regard.tasks.classification.labeled_text import read_labeled
from regard.tasks.classification.task import CLASSIFICATION
from regard.tasks.find_config import find_config
from regard.tasks.load import load
from regard.tasks.supervised_examples import SupervisedExamples

THREE = TokenizerConfig(kind="k-mer", k=3)
letters = st.text("ACGT", min_size=3, max_size=30)


def call(*arguments: object, input: str | None = None) -> Any:
    return CliRunner().invoke(cli.build_app(), [str(each) for each in arguments], input=input)


def test_records_of_fasta(tmp_path: Path) -> None:
    path = tmp_path / "x.fa"
    path.write_text(">one a word EI\r\nACG\n\nTT\n; a comment\n>two\nGG\n")
    first, second = read_fasta(path)
    assert first == (("one", "a", "word", "EI"), "ACGTT", f"{path}:1") and second == (("two",), "GG", f"{path}:6")
    with gzip.open(tmp_path / "x.fasta.gz", "wt") as file:
        file.write(">p\nMKV\n")
    assert [each.sequence for each in read_fasta(tmp_path / "x.fasta.gz")] == ["MKV"]


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [("ACG\n", 1, "no header"), (">a\n>b\nAC\n", 1, "no sequence"), (">a\nAC GT\n", 2, "space"), (">a\n", 1, "no")],
)  # fmt: skip
def test_what_is_no_fasta_is_told_with_its_line(tmp_path: Path, text: str, line: int, told: str) -> None:
    (tmp_path / "x.fa").write_text(text)
    with pytest.raises(DataError, match=told) as caught:
        list(read_fasta(tmp_path / "x.fa"))
    assert str(caught.value.where).endswith(f":{line}")


def test_the_other_strand_by_pencil() -> None:
    assert reverse_complement("AACGn-R") == "Y-nCGTT" and reverse_complement("") == ""


# The bases that each letter stands for (IUPAC 1984, NC-IUB).
BASES = {
    "A": "A", "C": "C", "G": "G", "T": "T", "R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC",
    "B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG", "N": "ACGT",
}  # fmt: skip


@pytest.mark.parametrize("letter", [*BASES, "U"])
def test_the_complement_of_a_set_of_bases_is_the_set_of_complements(letter: str) -> None:
    pairs = {"A": "T", "C": "G", "G": "C", "T": "A"}
    expected = {pairs[base] for base in BASES["T" if letter == "U" else letter]}
    for found in (reverse_complement(letter), reverse_complement(letter.lower()).upper()):
        assert set(BASES[found]) == expected
    assert reverse_complement(letter.lower()).islower()


@given(st.text("ACGTRYKMSWBDHVNacgt", max_size=30))
def test_the_other_strand_of_the_other_strand_is_the_first(sequence: str) -> None:
    assert reverse_complement(reverse_complement(sequence)) == sequence


@given(letters)
def test_pieces_overlap_and_give_the_letters_back(sequence: str) -> None:
    every = [a + b + c for a in "ACGT" for b in "ACGT" for c in "ACGT"]
    tokenizer = train_tokenizer(every, THREE)
    numbers = tokenizer.encode(sequence)
    assert len(numbers) == len(sequence) - 2 and tokenizer.decode(numbers) == sequence
    assert tokenizer.pieces(numbers)[0] == sequence[:3] and len(tokenizer) == 4 + 64


def test_pieces_of_other_lengths(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["ACGT", "AC"], THREE)
    assert tokenizer.encode("") == [] and tokenizer.pieces(tokenizer.encode(" AC ")) == ["AC"]
    assert tokenizer.encode("GGGA") == [UNKNOWN, UNKNOWN] and tokenizer.unknown("ACGA") == ["CGA"]
    tokenizer.save(tmp_path, "text")
    assert load_tokenizer(tmp_path, "text").digest() == tokenizer.digest()
    for wrong in ({"kind": "k-mer"}, {"kind": "word", "k": 3}, {"kind": "k-mer", "k": 0}):
        with pytest.raises(ValueError, match="k"):
            TokenizerConfig.model_validate(wrong)


def test_documents_of_fasta_are_its_records(tmp_path: Path) -> None:
    (tmp_path / "x.fa").write_text(">a\nACG\n>b\nTT\n")
    text = TextConfig(source=tmp_path / "x.fa")
    assert [each.text for each in read_documents(text, Cut("file"))] == ["ACG", "TT"]
    assert [each.text for each in read_documents(TextConfig(source=tmp_path), Cut("auto"))] == ["ACG", "TT"]
    (whole,) = read_documents(text, Cut("stream"))
    assert ">a" in whole.text


def examples(folder: Path, **data: object) -> SupervisedExamples:
    (folder / "x.fa").write_text(">one x\nAACG\n>two y\nGGTT\n")
    config = load_config({
        "task": {"kind": "classification"}, "train": {"steps": 1},
        "data": {"train": [{"source": str(folder / "x.fa")}], "tokenizer": {"kind": "character"}, **data},
    })  # fmt: skip

    class Files:
        tokenizers = folder / "tokenizers"

    Files.config = config  # type: ignore[attr-defined]
    codecs = CLASSIFICATION.learn_codecs(Files(), lambda message: None)  # type: ignore[arg-type]
    return SupervisedExamples(CLASSIFICATION.read(config, "train"), config, codecs)


def test_training_reads_both_strands_and_evaluation_one(tmp_path: Path) -> None:
    found = examples(tmp_path, reverse_complement=True)

    def read(visit: int) -> tuple[int, ...]:
        batch = found.collate(ExampleIndices(np.array([0]), np.array([visit])))
        return tuple(batch.inputs[0].values[0].tolist())

    strands = [read(visit) for visit in range(1, 60)]
    assert read(0) == tuple(found.rows[0][0]) and {*strands} == {
        tuple(found.rows[0][0]),
        tuple(found._variants[0][0][0]),
    }
    assert 15 < strands.count(read(0)) < 45 and strands == [read(visit) for visit in range(1, 60)]
    plain = examples(tmp_path)
    assert all(tuple(plain.collate(each).inputs[0].values[0].tolist()) == tuple(plain.rows[each.index[0]][0])
               for each in plain.batches(3)[0].shards(2))  # fmt: skip
    assert all((each.visit > 0).all() for each in found.batches(0))


def test_classes_of_sequences_from_fasta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences with a motif, on either strand, and without; what is told of one is told of its other strand."""
    draw = random.Random(1)
    records = []
    for number in range(240):
        sequence = [draw.choice("ACGT") for _ in range(20)]
        if number % 2:
            at = draw.randrange(15)
            sequence[at : at + 5] = "GGTAC" if number % 4 == 1 else reverse_complement("GGTAC")
        records.append(f">r{number} {'motif' if number % 2 else 'none'}\n{''.join(sequence)}\n")
    monkeypatch.chdir(tmp_path)
    Path("x.fa").write_text("".join(records))
    Path("x.toml").write_text("""
name = "motifs"
task = "classification"
[data]
tokenizer = { kind = "k-mer", k = 5 }
reverse_complement = true
[[data.train]]
source = "x.fa"
share = [0.0, 0.8]
[[data.valid]]
source = "x.fa"
share = [0.8, 1.0]
[model]
encoder.kind = "convolutional"
encoder.blocks = [[32, 3, 1]]
width = 32
pooling = "attention"
dropout = 0.1
[train]
steps = 200
batch_tokens = 512
learning_rate = 5e-3
warmup = 10
threads = 1
""")
    found = call("train", "x.toml")
    assert found.exit_code == 0, found.output
    model = load("runs/motifs")
    told = model(["AAAAAGGTACAAAAAAAAAA", "TTTTTTTTTTGTACCTTTTT"])
    assert [each.label for each in told] == ["motif", "motif"]
    Path("bad.fa").write_text(">only-a-name\nACGT\n")
    with pytest.raises((DataError, ConfigError), match="no label"):
        list(read_labeled([FilesConfig(source=Path("bad.fa"))], model.config.data))


def test_labels_of_fasta_are_learned_by_the_named_task_and_not_lost_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "x.fasta"
    path.write_text("".join(f">seq{n} {'EI' if n % 2 else 'IE'}\n{'ACGT'[n % 4] * 30}{n * 'C'}\n" for n in range(60)))
    said: list[str] = []
    config = find_config([str(path)], [], ["task.kind=classification"], log=said.append)
    assert config.task.kind == "classification" and "EI, IE" in said[0]
    said.clear()
    assert find_config([str(path)], [], [], log=said.append).task.kind == "language-model"
    assert any("--task classification" in line for line in said)
