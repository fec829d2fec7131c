"""Wrong versions of what is read, counted and measured, each with the test that catches it."""

from __future__ import annotations

from regard.tasks.tagging.codecs import TagCodec
from regard.tasks.tagging.spans import _may_follow, find_scheme
from tests import test_tag_schemes

from .editing import Edit
from .table import Mutant

__all__ = ["MEASURED"]

TAGGING = {
    "spans that IOB1 begins are barred": Mutant(
        Edit(_may_follow, 'if scheme == "iob1":', "if False:"),
        test_tag_schemes.test_names_alone_suggest_iob1_where_a_kind_has_no_begin,
    ),
    "spans of IOBES without an end": Mutant(
        Edit(_may_follow, "(begins and ends)", "begins"),
        test_tag_schemes.test_decoding_is_the_best_of_all_that_are_well_formed,
        {"scheme": "iobes"},
    ),
    "every corpus of B and I taken for IOB2": Mutant(
        Edit(find_scheme, 'starts["I"] > starts["B"]', "False"),
        test_tag_schemes.test_the_scheme_of_training_tags_is_detected,
        {"scheme": "iob1"},
    ),
    "one wrong tag decides the scheme": Mutant(
        Edit(find_scheme, 'starts["I"] > starts["B"]', 'starts["I"] > 0'),
        test_tag_schemes.test_the_more_frequent_begin_decides_and_other_tags_spell_none,
        {"tags": "I-X O B-X O B-X I-X", "scheme": "iob2"},
    ),
    "outputs in the scheme of the classes": Mutant(
        Edit(TagCodec.output_tags, 'len(tags), "iob1"', 'len(tags), "iob2"'),
        test_tag_schemes.test_a_tagger_learns_spans_in_each_scheme,
        {"scheme": "iob1"},
    ),
}

MEASURED: dict[str, Mutant] = {**TAGGING}
