"""Wrong versions of what is read, counted and measured, each with the test that catches it."""

from __future__ import annotations

import random

import torch

from regard.answers.spans import _may_follow, find_scheme
from regard.answers.tag_codecs import SpanScheme
from regard.attention.mask import Segments
from regard.baselines.gaps import HiddenTokens
from regard.core.task import find_task
from regard.data.graphs import Graph
from regard.data.lanes import _Segments
from regard.data.molecules import reverse_complement
from regard.data.windows import WindowExamples
from regard.inference.prompt_decoding import PromptDecoding
from regard.inference.run_search import inputs_of
from regard.metrics.classes import calibration_error, class_figures, class_metrics, label_set_metrics
from regard.metrics.numbers import number_metrics
from regard.metrics.ranking import area_under_curve, average_precision, ranks
from regard.models.graph.heads import GraphPooling
from regard.models.graph.layers import degree_weights
from regard.search.choice import _choose as choose_rows
from regard.search.choice import draw_limited
from regard.tasks.language_model.scoring import score_windows
from regard.tasks.links import task as links_task
from regard.tasks.masked import task as masked_task
from regard.tasks.masked.wide import held_out_tables
from regard.tasks.nodes import task as nodes_task
from regard.testing import TASK_LAWS, Draw, TaskCase
from regard.training.validation import Validator
from tests import (
    test_generation,
    test_links,
    test_molecules,
    test_packed_documents,
    test_sampling,
    test_tag_schemes,
    test_wide_masked,
)
from tests.data import test_counted_targets
from tests.hand import test_directed_graphs
from tests.parity import test_scikit_learn

from .editing import Edit
from .table import Mutant

__all__ = ["MEASURED"]


def task_law(kind: str, name: str) -> None:
    (law,) = [each for each in TASK_LAWS if each.name == name]
    law.check(TaskCase(find_task(kind), kind), Draw(random.Random(1)))


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
        Edit(SpanScheme.output_tags, 'len(tags), "iob1"', 'len(tags), "iob2"'),
        test_tag_schemes.test_a_tagger_learns_spans_in_each_scheme,
        {"scheme": "iob1"},
    ),
}

METRICS = {
    "macro-F1 without classes that are only predicted": Mutant(
        Edit(class_metrics, "(confusion.sum(0) + confusion.sum(1)) > 0", "confusion.sum(1) > 0"),
        test_scikit_learn.test_figures_of_classes,
    ),
    "F1 over what occurs alone": Mutant(
        Edit(class_figures, "2 * hit / max(count_actual + count_predicted, 1.0)", "hit / max(count_actual, 1.0)"),
        test_scikit_learn.test_figures_of_classes,
    ),
    "macro-F1 without labels that are only predicted": Mutant(
        Edit(label_set_metrics, "seen = (predicted + targets) > 0", "seen = targets > 0"),
        test_scikit_learn.test_figures_of_label_sets,
    ),
    "calibration by bins of equal weight": Mutant(
        Edit(calibration_error, "(right - confidence).abs()", "((right - confidence) / number.clamp_min(1)).abs()"),
        test_scikit_learn.test_calibration_error,
    ),
    "ties that count as won": Mutant(
        Edit(area_under_curve, "negative / 2", "negative"), test_scikit_learn.test_rankings_with_ties
    ),
    "precision before the ties": Mutant(
        Edit(average_precision, "hits + negative.cumsum(0)", "hits + negative.cumsum(0) - negative"),
        test_scikit_learn.test_rankings_with_ties,
    ),
    "a correlation of sums that are no means": Mutant(
        Edit(number_metrics, "/ count**2", "/ count"), test_scikit_learn.test_figures_of_numbers
    ),
    "equal items all ranked first": Mutant(
        Edit(ranks, "(scores == own) & earlier", "(scores == own) & (scores != own)"),
        test_scikit_learn.test_equal_scores_are_ranked_by_their_order,
    ),
}

GRAPHS = {
    "degrees counted at the wrong end": Mutant(
        Edit(degree_weights, "pairs[0], minlength", "pairs[1], minlength"), test_directed_graphs.test_degrees_by_pencil
    ),
    "degrees of a graph counted at the wrong end": Mutant(
        Edit(Graph.__dict__["degree"].func, "self.pairs[0], minlength", "self.pairs[1], minlength"),
        test_directed_graphs.test_weights_by_degree_are_those_of_the_matrix,
    ),
    "maxima that share no ties": Mutant(
        Edit(GraphPooling.pool, "(greatest / ties)", "greatest"),
        test_directed_graphs.test_weights_of_pooling_share_ties_and_sum_to_one,
        {"kind": "max"},
    ),
    "pairs drawn among the edges of other parts": Mutant(
        Edit(links_task._prepare, "LinkExamples(codec, whole,", "LinkExamples(codec, codec,"),
        test_links.test_pairs_drawn_in_a_part_are_edges_of_none,
        {"directed": False},
    ),
    "the labels of all nodes in the loss": Mutant(
        Edit(nodes_task._prepare, "data.part if is_evaluation(run) else name", '"all"'),
        task_law,
        {"kind": "nodes", "name": "held_out_data_leave_training_alone"},
    ),
    "nodes that look along held-out edges": Mutant(
        Edit(links_task._prepare, "edge_pairs(edges.train, whole.nodes, directed=data.directed)", "whole.pairs"),
        task_law,
        {"kind": "links", "name": "held_out_data_leave_training_alone"},
    ),
}

TEXTS = {
    "letters that are their own complements": Mutant(
        Edit(reverse_complement, "COMPLEMENT", '{**COMPLEMENT, ord("K"): "K", ord("M"): "M"}'),
        test_molecules.test_the_complement_of_a_set_of_bases_is_the_set_of_complements,
        {"letter": "K"},
    ),
    "a third document that sees the second": Mutant(
        Edit(
            Segments.at,
            'query.read("segment")[batch, i] == key.read("segment")[batch, j]',
            'query.read("segment")[batch, i].clamp(max=1) == key.read("segment")[batch, j].clamp(max=1)',
        ),
        test_packed_documents.test_changing_one_document_leaves_the_others_bit_identical,
        {"variant": "rotary", "training": False},
    ),
    "a target of each window counted twice": Mutant(
        Edit(WindowExamples._seen, "self.context - self.stride, 0)", "self.context - self.stride - 1, 0)"),
        test_counted_targets.test_an_evaluation_counts_each_target_of_the_text_once,
    ),
    "prompts that count beyond a segment": Mutant(
        Edit(_Segments.bounds, "self.runs.uncounted[run] - place", "self.runs.uncounted[run]"),
        test_counted_targets.test_an_evaluation_counts_each_target_of_the_text_once,
    ),
    "a score that counts the last target of each window twice": Mutant(
        Edit(score_windows, "done + 1", "max(done, 1)"),
        test_counted_targets.test_a_score_counts_each_target_of_the_text_once,
    ),
}

TEMPERED = "scores / bounded(choice.temperature)"
VALIDATION = {
    "dropout at validation": Mutant(
        Edit(Validator.measure, "self.model.eval()", "self.model.train()"),
        task_law,
        {"kind": "tagging", "name": "a_validation_draws_nothing"},
    ),
}
SAMPLING = {
    "a language model's temperature after its limits": Mutant(
        Edit(
            choose_rows,
            f"scores = {TEMPERED}",
            "from regard.search.choice import limit_scores\n"
            "    scores = limit_scores(scores, choice.top_k, choice.top_p, choice.min_p)\n"
            f"    scores = {TEMPERED}",
        ),
        test_sampling.test_generation_draws_within_all_limits,
        {"limits": {"temperature": 2.0, "top_p": 0.6}, "dtype": torch.float32},
    ),
    "draws by an input's place in its call": Mutant(
        Edit(inputs_of, "Draws(seed, sample, input)", "Draws(seed, sample, [number])"),
        task_law,
        {"kind": "translation", "name": "an_output_knows_nothing_of_other_inputs"},
    ),
    "a prompt of exactly the context read from its middle": Mutant(
        Edit(PromptDecoding.read, "len(text) <= self.context", "len(text) < self.context"),
        test_generation.test_a_prompt_that_fits_the_context_is_read_whole_and_a_longer_one_from_its_last_half,
        {"length": 12, "generator": test_generation.generator_of()},
    ),
    "a prompt longer than the context read whole": Mutant(
        Edit(PromptDecoding.read, "len(text) <= self.context", "len(text) <= self.context + 1"),
        test_generation.test_a_prompt_that_fits_the_context_is_read_whole_and_a_longer_one_from_its_last_half,
        {"length": 13, "generator": test_generation.generator_of()},
    ),
    "min-p before top-p": Mutant(
        Edit(
            draw_limited,
            "drawn_tokens(scores, uniform, top_k, top_p, min_p)",
            "drawn_tokens(limit_scores(scores, None, None, min_p), uniform, top_k, top_p, None)",
        ),
        test_sampling.test_generation_draws_within_all_limits,
        {"limits": {"top_p": 0.7, "min_p": 0.6}, "dtype": torch.float32},
    ),
}

WIDE = {
    "tables that read the hidden token": Mutant(
        Edit(HiddenTokens.of.__func__, "np.where(chosen, HIDDEN, tokens)", "tokens"),
        test_wide_masked.test_no_chosen_token_is_read_by_the_tables,
        {"kind": "words"},
    ),
    "tables of a fold that know its texts": Mutant(
        Edit(held_out_tables, "fold != number", "fold >= 0"),
        test_wide_masked.test_a_token_of_training_is_predicted_without_its_fold,
        {"kind": "music"},
    ),
    "tables with the network's gradient": Mutant(
        Edit(masked_task._objective, "with torch.no_grad():\n                own", "if True:\n                own"),
        test_wide_masked.test_the_network_learns_from_its_own_loss_and_the_gate_from_the_product,
        {"kind": "words"},
    ),
}
MEASURED: dict[str, Mutant] = {**TAGGING, **METRICS, **GRAPHS, **TEXTS, **SAMPLING, **VALIDATION, **WIDE}
