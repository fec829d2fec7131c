"""Tokenizers: what is encoded comes back, the special numbers are fixed, and bad folders are told apart."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.core.installation import upgrade_advice
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN, TokenizerConfig
from regard.errors import ConfigError, DataError, ModelError, StorageError

LINES = [
    "the cat sat on the mat .",
    "a dog runs over the green grass , and a cat runs away .",
    "two dogs and three cats sit on seven mats < / >",
    "Ein Hund läuft über das grüne Gras .",
] * 5
CONFIGS = {
    "bpe": TokenizerConfig(kind="bpe", size=80),
    "unigram": TokenizerConfig(kind="unigram", size=45),
    "bpe-tokenizers": TokenizerConfig(kind="bpe", library="tokenizers", size=80),
    "unigram-tokenizers": TokenizerConfig(kind="unigram", library="tokenizers", size=45),
    "word": TokenizerConfig(kind="word"),
    "character": TokenizerConfig(kind="character"),
    "byte": TokenizerConfig(kind="byte"),
    "pretokenized": TokenizerConfig(kind="pretokenized", joiner="@@"),
}
TRAINED = {name: train_tokenizer(LINES, config) for name, config in CONFIGS.items()}
SUBWORDS = [name for name in CONFIGS if name.startswith(("bpe", "unigram"))]
every = pytest.mark.parametrize("name", CONFIGS)


@every
def test_training_text_comes_back(name):
    tokenizer = TRAINED[name]
    for line in LINES:
        assert tokenizer.decode(tokenizer.encode(line)) == line


@every
def test_text_never_yields_a_special_number(name):
    encoded = TRAINED[name].encode("<s> </s> <pad> a </s>cat")
    assert encoded
    assert not {PAD, BEGIN, END} & set(encoded)
    assert max(encoded) < len(TRAINED[name])


@every
def test_decoding_stops_at_the_end_and_drops_specials(name):
    tokenizer = TRAINED[name]
    cat, dog = tokenizer.encode("the cat"), tokenizer.encode("a dog")
    assert tokenizer.decode([BEGIN, *cat, PAD, UNKNOWN, END, *dog]) == "the cat"


@every
def test_pieces_name_the_specials(name):
    tokenizer = TRAINED[name]
    assert tuple(tokenizer.pieces([PAD, UNKNOWN, BEGIN, END])) == SPECIALS
    assert len(tokenizer.pieces(tokenizer.encode("the cat"))) == len(tokenizer.encode("the cat"))


@every
def test_saved_and_loaded_cuts_alike(name, tmp_path):
    tokenizer = TRAINED[name]
    tokenizer.save(tmp_path, "joint")
    assert {path.name.split(".")[0] for path in tmp_path.iterdir()} == {"joint"}
    loaded = load_tokenizer(tmp_path, "joint")
    text = "the zebra läuft  over 日本 </s>"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert (len(loaded), loaded.config, loaded.digest()) == (
        len(tokenizer),
        tokenizer.config,
        tokenizer.digest(),
    )


@every
def test_many_lines_are_cut_as_one_by_one(name):
    tokenizer = TRAINED[name]
    assert tokenizer.encode_lines(LINES) == [tokenizer.encode(line) for line in LINES]


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "unigram-tokenizers"])
def test_training_is_deterministic(name):
    assert train_tokenizer(LINES, CONFIGS[name]).digest() == TRAINED[name].digest()


@every
def test_no_trained_vocabulary_reads_marks_of_languages(name):
    """Those of imported models do, whose pieces are listed."""
    assert TRAINED[name].reads_language_marks is False


@every
def test_training_prints_nothing(name, capfd):
    train_tokenizer(LINES, CONFIGS[name])
    assert capfd.readouterr() == ("", "")


def test_different_vocabularies_have_different_digests():
    assert len({tokenizer.digest() for tokenizer in TRAINED.values()}) == len(TRAINED)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_bytes_lose_nothing(text):
    tokenizer = TRAINED["byte"]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert UNKNOWN not in tokenizer.encode(text)


@given(st.text("".join(sorted(set("".join(LINES))))))
def test_known_characters_lose_nothing(text):
    tokenizer = TRAINED["character"]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("name", SUBWORDS)
@given(st.lists(st.text("abcdefghlmnorstuvwy.", min_size=1), min_size=1))
def test_subwords_of_known_characters_lose_nothing(name, words):
    line = " ".join(words)
    assert TRAINED[name].decode(TRAINED[name].encode(line)) == line


@every
def test_what_has_no_piece_is_named_as_often_as_it_is_there(name):
    tokenizer = TRAINED[name]
    words = CONFIGS[name].kind in ("word", "pretokenized")
    line = f"{LINES[0]} 漢字♞ 漢"
    found = tokenizer.unknown(line)
    assert found == ([] if name == "byte" else ["漢字♞", "漢"] if words else ["漢", "字", "♞", "漢"])
    assert (UNKNOWN in tokenizer.encode(line)) == bool(found)
    assert tokenizer.unknown(LINES[0]) == []


def test_words_are_numbered_by_frequency_and_then_by_alphabet():
    tokenizer = train_tokenizer(["b c a", "c d"], TokenizerConfig(kind="word"))
    assert tokenizer.encode("c a b d e") == [4, 5, 6, 7, UNKNOWN]


def test_a_word_vocabulary_keeps_the_most_frequent():
    tokenizer = train_tokenizer(["b c a", "c a", "c"], TokenizerConfig(kind="word", size=6))
    assert tokenizer.encode("c a b") == [4, 5, UNKNOWN]
    assert len(tokenizer) == 6


def test_joiners_are_removed_also_at_the_end_of_an_unfinished_word():
    tokenizer = train_tokenizer(["low@@ er new@@ est x@@"], CONFIGS["pretokenized"])
    assert tokenizer.decode(tokenizer.encode("low@@ er new@@ est")) == "lower newest"
    assert tokenizer.decode(tokenizer.encode("low@@ er x@@")) == "lower x"


def test_without_a_joiner_the_pieces_stay():
    tokenizer = train_tokenizer(["low@@ er"], TokenizerConfig(kind="pretokenized"))
    assert tokenizer.decode(tokenizer.encode("low@@ er")) == "low@@ er"


@every
def test_lowercase_holds_for_training_and_for_encoding(name):
    tokenizer = train_tokenizer([line.upper() for line in LINES], CONFIGS[name].model_copy(update={"lowercase": True}))
    assert tokenizer.decode(tokenizer.encode("THE CAT")) == "the cat"


@pytest.mark.parametrize("name", [*SUBWORDS, "word", "character"])
def test_a_vocabulary_larger_than_the_corpus_allows_names_the_largest(name):
    config = CONFIGS[name].model_copy(update={"size": 5000})
    with pytest.raises(ConfigError, match="larger than the corpus allows") as caught:
        train_tokenizer(LINES, config)
    largest = int(str(caught.value.why).split(" is ")[1].split(",")[0])
    fitting = train_tokenizer(LINES, config.model_copy(update={"size": largest}))
    assert len(fitting) == largest


@pytest.mark.parametrize("name", SUBWORDS)
def test_an_open_size_takes_what_a_small_corpus_allows(name):
    config = CONFIGS[name].model_copy(update={"size": None})
    tokenizer = train_tokenizer(iter(LINES), config)
    assert len(SPECIALS) < len(tokenizer) < 8000
    assert tokenizer.decode(tokenizer.encode(LINES[0])) == LINES[0]


@pytest.mark.parametrize("name", SUBWORDS)
def test_a_vocabulary_too_small_for_the_characters_says_so(name):
    with pytest.raises(ConfigError, match="cannot hold every character"):
        train_tokenizer(LINES, CONFIGS[name].model_copy(update={"size": 7}))


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "byte"])
@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_no_text_no_vocabulary(name, lines):
    with pytest.raises(DataError, match="no text"):
        train_tokenizer(lines, CONFIGS[name])


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "byte"])
def test_an_error_of_the_reader_comes_through(name):
    def lines():
        yield from LINES
        raise DataError("A line is broken.", where="x:7")

    with pytest.raises(DataError, match="x:7"):
        train_tokenizer(lines(), CONFIGS[name])


def test_options_of_another_kind_are_refused():
    with pytest.raises(ValidationError, match="joiner"):
        TokenizerConfig(kind="bpe", joiner="@@")
    with pytest.raises(ValidationError, match="260"):
        TokenizerConfig(kind="byte", size=300)
    with pytest.raises(ValidationError, match="vocab"):
        TokenizerConfig(vocab=300)


@every
def test_a_missing_file_is_named(name, tmp_path):
    TRAINED[name].save(tmp_path, "source")
    for path in list(tmp_path.iterdir()):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(ModelError, match=path.name.replace(".", r"\.")):
            load_tokenizer(tmp_path, "source")
        path.write_bytes(content)
    with pytest.raises(ModelError, match=r"nearest name in the folder is source\.json"):
        load_tokenizer(tmp_path, "sauce")


@every
def test_a_truncated_file_is_told(name, tmp_path):
    TRAINED[name].save(tmp_path, "source")
    for path in list(tmp_path.iterdir()):
        content = path.read_bytes()
        for length in (0, 1, len(content) // 2, len(content) - 3):
            path.write_bytes(content[:length])
            with pytest.raises(ModelError):
                load_tokenizer(tmp_path, "source")
        path.write_bytes(content)
    assert load_tokenizer(tmp_path, "source").digest() == TRAINED[name].digest()


@pytest.mark.parametrize("name", SUBWORDS)
def test_the_model_file_of_another_tokenizer_is_refused(name, tmp_path):
    TRAINED[name].save(tmp_path, "source")
    other = CONFIGS[name].model_copy(update={"size": 43})
    train_tokenizer(LINES, other).save(tmp_path, "target")
    model = next(path for path in tmp_path.glob("target.*") if path.name != "target.json")
    model.rename(tmp_path / model.name.replace("target", "source"))
    with pytest.raises(ModelError, match="another model"):
        load_tokenizer(tmp_path, "source")


@pytest.mark.parametrize("head", [[], {}, {"format": "other"}, {"format": "regard-tokenizer", "version": 1}], ids=str)
def test_foreign_json_is_refused(head, tmp_path):
    (tmp_path / "source.json").write_text(json.dumps(head))
    with pytest.raises(ModelError, match="not a Regard tokenizer"):
        load_tokenizer(tmp_path, "source")


def test_a_newer_format_is_refused_clearly(tmp_path):
    (tmp_path / "source.json").write_text('{"format": "regard-tokenizer", "version": 2}')
    with pytest.raises(ModelError, match="version 2") as caught:
        load_tokenizer(tmp_path, "source")
    assert caught.value.help == upgrade_advice()


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        TRAINED["word"].save(tmp_path / "file" / "folder", "source")


class Repeated:
    """A corpus of 2 MB that is made anew by every loop over it."""

    def __init__(self) -> None:
        self.loops = 0

    def __iter__(self):
        self.loops += 1
        for number in range(1_000):
            yield " ".join(f"{'abcdefgh'[(number + at) % 8]}bcd" for at in range(400))


def test_a_corpus_larger_than_memory_is_read_again_instead_of_kept():
    corpus = Repeated()
    tracemalloc.start()
    train_tokenizer(corpus, TokenizerConfig(kind="bpe"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert corpus.loops == 2, "the corpus allows fewer than the usual 8,000 pieces"
    assert peak < 1 << 20


def test_lines_that_come_only_once_are_enough():
    config = TokenizerConfig(kind="bpe")
    assert train_tokenizer(iter(["a b c"] * 9), config).digest() == train_tokenizer(["a b c"] * 9, config).digest()


def test_a_panic_of_the_library_is_an_error_of_the_model(monkeypatch):
    """It is derived from BaseException alone."""

    class PanicException(BaseException):
        pass

    class Panicking:
        def encode_batch_fast(self, *arguments, **options):
            raise PanicException("retry-limit-in-match over")

    tokenizer = train_tokenizer(["the cat"], TokenizerConfig(kind="byte-bpe", size=260))
    monkeypatch.setattr(tokenizer, "_library", Panicking())
    with pytest.raises(ModelError, match="retry-limit"):
        tokenizer.encode("a")
