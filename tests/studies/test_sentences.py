"""The made-up languages say what they promise."""

from __future__ import annotations

from collections import Counter, defaultdict

from regard.studies.sentences import (
    OBJECT,
    PRONOUN,
    SUBJECT,
    encode_pairs,
    pronoun_sentences,
    sense_sentences,
    word_tokenizer,
)


def test_the_classic_sentence() -> None:
    found = {each.source: each for each in pronoun_sentences()}
    tired = found["the animal did not cross the street because it was too tired"]
    wide = found["the animal did not cross the street because it was too wide"]
    assert tired.target == "das Tier überquerte die Straße nicht , weil es zu müde war"
    assert wide.target == "das Tier überquerte die Straße nicht , weil sie zu breit war"
    assert (tired.antecedent, tired.other_noun, wide.antecedent, wide.other_noun) == (SUBJECT, OBJECT, OBJECT, SUBJECT)


def test_no_source_has_two_translations() -> None:
    for language in (pronoun_sentences(), sense_sentences()):
        assert len({each.source for each in language}) == len(language)


def test_only_the_noun_meant_gives_the_pronoun() -> None:
    """The gender of neither place nor any single word but the noun's own tells es from sie."""
    for each in pronoun_sentences():
        source, target = each.source.split(), each.target.split()
        assert source[PRONOUN] == "it" and target[PRONOUN] in ("es", "sie")
        article = target[0] if each.antecedent == SUBJECT else target[3]
        assert target[PRONOUN] == {"das": "es", "die": "sie"}[article]
        assert each.genders_differ == (target[0] != target[3])
    judged = [each for each in pronoun_sentences() if each.held_out and each.genders_differ]
    assert set(Counter(each.target.split()[PRONOUN] for each in judged).values()) == {len(judged) // 2}
    assert set(Counter((each.antecedent, each.target.split()[PRONOUN]) for each in judged).values()) == {
        len(judged) // 4
    }


def test_held_out_pairs_are_never_seen() -> None:
    seen, held = (
        {(e.source.split()[e.antecedent], e.source.split()[-1]) for e in pronoun_sentences() if e.held_out == out}
        for out in (False, True)
    )
    assert held and not seen & held
    assert {noun for noun, _ in held} <= {noun for noun, _ in seen}
    assert {adjective for _, adjective in held} <= {adjective for _, adjective in seen}


def test_bank_is_where_it_is_said_to_be_and_means_what_stands_beside_it() -> None:
    beside: dict[str, set[int]] = defaultdict(set)
    for each in sense_sentences():
        words = each.source.split()
        assert words[each.position] == "bank"
        assert ("das Ufer" in each.target, "die Bank" in each.target) == (each.sense == 1, each.sense == -1)
        beside[words[11 - each.position]].add(each.sense)
    assert all(len(found) == 1 for found in beside.values())
    assert sum(each.sense for each in sense_sentences()) == 0


def test_all_words_are_known() -> None:
    tokenizer = word_tokenizer(sense_sentences())
    pairs = encode_pairs(sense_sentences()[:3], tokenizer)
    assert tokenizer.decode(pairs.sources[0]) == sense_sentences()[0].source
    assert tokenizer.decode(pairs.targets[2]) == sense_sentences()[2].target
