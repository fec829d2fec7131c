"""Template sentences in English with German translations, for the studies of meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from regard.data.tokenizers.closed import WordTokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.studies import toy_tasks

# The first half is neuter, the second feminine: the index determines the gender.
ANIMALS = (
    ("animal", "Tier"), ("horse", "Pferd"), ("sheep", "Schaf"), ("calf", "Kalb"), ("pig", "Schwein"),
    ("cat", "Katze"), ("cow", "Kuh"), ("mouse", "Maus"), ("duck", "Ente"), ("snake", "Schlange"),
)  # fmt: skip
PLACES = (
    ("field", "Feld"), ("valley", "Tal"), ("swamp", "Moor"), ("ice", "Eis"), ("sea", "Meer"),
    ("street", "Straße"), ("bridge", "Brücke"), ("meadow", "Wiese"), ("gorge", "Schlucht"), ("border", "Grenze"),
)  # fmt: skip
OF_SUBJECTS = (
    ("tired", "müde"),
    ("weak", "schwach"),
    ("hungry", "hungrig"),
    ("scared", "ängstlich"),
    ("sick", "krank"),
)


class SentenceScene(NamedTuple):
    """Words of a scene, each with its translation: objects, verbs of the negated action, adjectives of the objects."""

    objects: Sequence[tuple[str, str]]
    verbs: Sequence[tuple[str, str]]
    of_objects: Sequence[tuple[str, str]]


SCENES = (
    SentenceScene(
        PLACES,
        (("cross", "überquerte"), ("reach", "erreichte"), ("leave", "verließ")),
        (("wide", "breit"), ("deep", "tief"), ("wet", "nass"), ("steep", "steil"), ("far", "weit")),
    ),
    SentenceScene(
        ANIMALS,
        (("chase", "jagte"), ("catch", "fing"), ("lift", "hob")),
        (("fast", "schnell"), ("big", "groß"), ("strong", "stark"), ("heavy", "schwer"), ("clever", "klug")),
    ),
)
NEUTER = len(ANIMALS) // 2
SUBJECT, OBJECT, PRONOUN = 1, 6, 8  # positions in the English sentence; PRONOUN also in the German one


class PronounSentence(NamedTuple):
    """A sentence with *it*, which refers to the noun at position ``antecedent``, and not to that at ``other_noun``.

    Attributes:
        source: the English sentence.
        target: its German translation.
        antecedent: position of the noun that *it* refers to.
        other_noun: position of the other noun.
        genders_differ: whether the nouns differ in gender, so *es* or *sie* determines the antecedent.
        held_out: whether the pair of adjective and antecedent is held out: one in five, equally neuter and feminine.
    """

    source: str
    target: str
    antecedent: int
    other_noun: int
    genders_differ: bool
    held_out: bool


def pronoun_sentences() -> list[PronounSentence]:
    """Return all sentences like *the animal did not cross the street because it was too wide*."""
    return [sentence for scene in SCENES for sentence in _scene(scene)]


def _scene(scene: SentenceScene) -> Iterator[PronounSentence]:
    for (s, subject), (o, object), verb in product(enumerate(ANIMALS), enumerate(scene.objects), scene.verbs):
        if subject == object:
            continue
        for of_subject, adjectives in ((True, OF_SUBJECTS), (False, scene.of_objects)):
            noun, positions = (s, (SUBJECT, OBJECT)) if of_subject else (o, (OBJECT, SUBJECT))
            for a, adjective in enumerate(adjectives):
                english = f"the {subject[0]} did not {verb[0]} the {object[0]} because it was too {adjective[0]}"
                german = (
                    f"{_article(s)} {subject[1]} {verb[1]} {_article(o)} {object[1]} nicht , "
                    f"weil {_pronoun(noun)} zu {adjective[1]} war"
                )
                genders_differ = (s < NEUTER) != (o < NEUTER)
                yield PronounSentence(english, german, *positions, genders_differ, (noun + a) % 5 == 0)


def _article(noun: int) -> str:
    return "das" if noun < NEUTER else "die"


def _pronoun(noun: int) -> str:
    return "es" if noun < NEUTER else "sie"


MONEY = (
    ("loan", "den Kredit"), ("cash", "das Bargeld"), ("account", "das Konto"), ("cheque", "den Scheck"),
    ("savings", "die Ersparnisse"), ("interest", "die Zinsen"), ("money", "das Geld"), ("mortgage", "die Hypothek"),
    ("debt", "die Schulden"), ("coins", "die Münzen"), ("safe", "den Tresor"), ("cashier", "den Kassierer"),
)  # fmt: skip
RIVER = (
    ("boat", "das Boot"), ("fish", "den Fisch"), ("mud", "den Schlamm"), ("reeds", "das Schilf"),
    ("water", "das Wasser"), ("ducks", "die Enten"), ("current", "die Strömung"), ("bridge", "die Brücke"),
    ("swan", "den Schwan"), ("willow", "die Weide"), ("angler", "den Angler"), ("raft", "das Floß"),
)  # fmt: skip
PEOPLE = (("man", "der Mann"), ("woman", "die Frau"), ("child", "das Kind"), ("teacher", "der Lehrer"))
VERBS = (("saw", "sah"), ("knew", "kannte"), ("painted", "malte"), ("described", "beschrieb"))


class Sense(NamedTuple):
    """A sentence with *bank*.

    Attributes:
        source: the English sentence.
        target: its German translation.
        position: position of *bank*.
        sense: 1 for a river, −1 for money.
        neighbor: index of the other noun among the words of that sense.
    """

    source: str
    target: str
    position: int
    sense: int
    neighbor: int


def sense_sentences() -> list[Sense]:
    """Return all sentences like *the man saw the bank and the loan*."""
    sentences = []
    meanings = ((-1, "die Bank", MONEY), (1, "das Ufer", RIVER))
    for person, verb, (sense, bank, words), last in product(PEOPLE, VERBS, meanings, (False, True)):
        for neighbor, word in enumerate(words):
            pair = [word, ("bank", bank)] if last else [("bank", bank), word]
            source = f"the {person[0]} {verb[0]} the {pair[0][0]} and the {pair[1][0]}"
            target = f"{person[1]} {verb[1]} {pair[0][1]} und {pair[1][1]}"
            sentences.append(Sense(source, target, 7 if last else 4, sense, neighbor))
    return sentences


def encode_pairs(sentences: Sequence[PronounSentence | Sense], tokenizer: WordTokenizer) -> toy_tasks.ToyPairs:
    """Encode sentences as pairs of id lists."""
    sources, targets = [sentence.source for sentence in sentences], [sentence.target for sentence in sentences]
    return toy_tasks.ToyPairs(tokenizer.encode_lines(sources), tokenizer.encode_lines(targets))


def word_tokenizer(sentences: Sequence[PronounSentence | Sense]) -> WordTokenizer:
    """Return a word tokenizer over all words of the sentences, English and German."""
    words = {word for sentence in sentences for text in (sentence.source, sentence.target) for word in text.split()}
    return WordTokenizer(TokenizerConfig(kind="word"), sorted(words))
