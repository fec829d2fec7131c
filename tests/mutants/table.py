"""Wrong versions that no law of ``regard.testing`` speaks of, each with the test that catches it.

Of what a config, a run or a search is told; laws hold classes to each other (``tests/laws/mutants``), these rows hold
numbers to where they count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from regard.attention.heads import SelfAttention
from regard.attention.kernel import attend
from regard.attention.mechanisms.dot import Dot
from regard.attention.positions.forgetting import ForgetGate, ForgettingBias
from regard.core.state import reset_rows
from regard.data.document_stream import _write
from regard.data.packs import PackExamples, cut_documents
from regard.data.windows import WindowExamples
from regard.inference.decoding import TokenSources, max_lengths
from regard.inference.search_model import choice_of, start_search
from regard.models.convolutional.decoder import ConvolutionalLayer, ConvolutionalReader
from regard.models.convolutional.encoder import CenteredConvolution
from regard.models.ctc_model import CtcModel
from regard.models.dropout import Dropout
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.recurrent.decoders import BahdanauDecoder, InputFeedingDecoder, LuongDecoder
from regard.models.transformer.compressive import Compressive, Compressor
from regard.models.transformer.relative_attention import RelativeAttention
from regard.models.transformer.segment_memory import SegmentMemory
from regard.search.beam import _BeamState, length_normalizer
from regard.search.choice import _choose as choose_rows
from regard.search.choice import limit_scores
from regard.tasks.language_model.objective import batch_span
from regard.tasks.translation.task import objective
from regard.training.muon import Muon, hidden_matrices
from regard.training.optim import make_optimizer
from regard.training.trainer import Trainer
from regard.training.updater import Updater
from tests import (
    test_beam,
    test_decoding,
    test_dropout,
    test_kernel,
    test_muon,
    test_packed_documents,
    test_recognizer_net,
    test_sampling,
    test_update,
)
from tests.data import test_documents, test_packs
from tests.hand import (
    test_convolutional,
    test_forgetting,
    test_recurrent,
    test_segment_memory,
    test_value_embedding,
)
from tests.laws import test_abilities, test_lanes

from .editing import Edit

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """A wrong version; ``test`` fails under it, given ``arguments`` where it has parameters, and fixtures by name."""

    edit: Edit
    test: Callable[..., None]
    arguments: dict[str, Any] = {}  # noqa: RUF012  nobody writes to it


def ignored(key: str) -> Edit:
    """A trainer that leaves the optimizer its default."""
    return Edit(make_optimizer, f"{key}=settings.{key},", "")


def adam(**setting: Any) -> tuple[Callable[..., None], dict[str, Any]]:
    return test_update.test_updates_are_those_of_adam_by_hand, {"setting": setting}


def scores(penalty: float, offset: float, way: str = "beam") -> tuple[Callable[..., None], dict[str, Any]]:
    arguments = {"way": way, "penalty": penalty, "offset": offset}
    return test_decoding.test_scores_are_log_p_over_the_length_penalty_of_the_settings, arguments


def limits(extra: int, most: int | None) -> tuple[Callable[..., None], dict[str, Any]]:
    test = test_decoding.test_an_output_ends_at_the_source_s_length_plus_max_extra_and_at_max_length
    return test, {"way": "greedy", "extra": extra, "most": most}


MUON: tuple[Callable[..., None], dict[str, Any]] = (
    test_muon.test_equals_torch,
    {"dtype": torch.float32, "momentum": 0.6},
)


def within(limits: dict[str, Any]) -> tuple[Callable[..., None], dict[str, Any]]:
    """The test of draws by the formulas, which the kernels do not compute in 64 bits."""
    return test_sampling.test_generation_draws_within_all_limits, {"limits": limits, "dtype": torch.float64}


STEP, MODEL = {"draw": test_sampling.drawn_from_step}, {"draw": test_sampling.drawn_from_model}

# Dropout and the trainer
TRAINING = {
    "fast dropout without 1/(1 - p)": Mutant(
        Edit(Dropout.forward, "factors.mul_(256 / (256 - self.threshold))", "factors"),
        test_dropout.test_what_is_kept_is_scaled_so_that_the_mean_stays,
        {"probability": 0.1, "form": "fast, by torch"},
    ),
    "textbook dropout without 1/(1 - p)": Mutant(
        Edit(Dropout.forward, "x * keep_mask / (1 - self.probability)", "x * keep_mask"),
        test_dropout.test_what_is_kept_is_scaled_so_that_the_mean_stays,
        {"probability": 0.1, "form": "textbook"},
    ),
    "betas ignored": Mutant(ignored("betas"), *adam(betas=(0.5, 0.9))),
    "epsilon ignored": Mutant(ignored("epsilon"), *adam(epsilon=0.1)),
    "weight decay ignored": Mutant(ignored("weight_decay"), *adam(weight_decay=0.3)),
    "clip norm ignored": Mutant(ignored("clip_norm"), *adam(clip_norm=0.05)),
    "kind of optimizer ignored": Mutant(
        Edit(make_optimizer, "kind=settings.optimizer,", ""), *adam(weight_decay=0.3, optimizer="adamw")
    ),
    "CTC with END": Mutant(
        Edit(EncoderDecoder.forward, "target_span.length - 1", "target_span.length"),
        test_recognizer_net.test_the_joint_loss_is_weighted_and_ctc_reads_no_end,
    ),
    "CTC alone with END": Mutant(
        Edit(CtcModel.forward, "target_span.length - 1", "target_span.length"),
        test_recognizer_net.test_ctc_alone_has_no_decoder,
    ),
    "momentum ignored": Mutant(ignored("momentum"), *MUON),
    "momentum without a look ahead": Mutant(
        Edit(Muon._momentum, 'weight.grad.lerp(buffer, group["momentum"]).to', "buffer.to"), *MUON
    ),
    "hidden matrices without decay": Mutant(Edit(Muon.step, 'rate * group["weight_decay"]', "0"), *MUON),
    "hidden matrices scaled by their rows": Mutant(
        Edit(Muon.step, "math.sqrt(max(matrices[0].shape))", "math.sqrt(len(weight))"), *MUON
    ),
    "stacked matrices taken for one": Mutant(
        Edit(Muon.step, '.chunk(group["stacked"])', ".chunk(1)"),
        test_muon.test_stacked_matrices_are_counted_and_orthogonalized_one_by_one,
    ),
    "an embedding taken for a hidden matrix": Mutant(
        Edit(hidden_matrices, " and id(weight) not in at_ends", ""),
        test_muon.test_hidden_matrices_are_what_no_end_looks_up,
    ),
    "label smoothing ignored": Mutant(
        Edit(objective, "smoothing = config.train.label_smoothing", "smoothing = 0.1"), *adam(label_smoothing=0.6)
    ),
    "warm-up ignored": Mutant(
        Edit(Trainer._rate, "warmup=self.intervals.warmup", "warmup=4000"),
        test_update.test_the_rate_of_an_update_is_that_of_its_own_number,
    ),
    "rate one update late": Mutant(
        Edit(Trainer._update, "self.rate(progress.step)", "self.rate(progress.step - 1)"),
        test_update.test_the_rate_of_an_update_is_that_of_its_own_number,
    ),
    "rate one update late, in the weights": Mutant(
        Edit(Updater.update, "rate(progress.step + 1)", "rate(progress.step)"), *adam()
    ),
    "the same dropout at every update": Mutant(
        Edit(Updater.update, "(self.config.seed, progress.step)", "(self.config.seed,)"),
        test_update.test_every_update_draws_its_own_dropout,
    ),
}

# What decoding is told
DECODING = {
    "length penalty ignored": Mutant(
        Edit(start_search, "length_penalty=settings.length_penalty,", ""), *scores(1.7, 5.0)
    ),
    "length offset ignored": Mutant(Edit(start_search, "length_offset=settings.length_offset,", ""), *scores(0.6, 0.0)),
    "length penalty ignored under constraints": Mutant(
        Edit(start_search, "length_penalty=settings.length_penalty,", ""), *scores(1.7, 5.0, "constrained")
    ),
    "length penalty without its offset below": Mutant(
        Edit(length_normalizer, "(offset + length) / (offset + 1)", "(offset + length) / offset"), *scores(0.6, 5.0)
    ),
    "beam that looks at no more extensions than its width": Mutant(
        Edit(_BeamState.reduce.fget, "2 * self.width", "self.width"),
        test_beam.test_it_is_the_textbook_s,
        {"width": 2, "penalty": (0.6, 5.0), "forced": False, "no_repeat": None, "early": False},
    ),
    "beam that stops at its first finished output": Mutant(
        Edit(_BeamState._unfinished, " and pool[-1].score >= bound", ""),
        test_beam.test_it_is_the_textbook_s,
        {"width": 2, "penalty": (1.0, 0.0), "forced": False, "no_repeat": None, "early": False},
    ),
    "beam of five whatever is asked": Mutant(
        Edit(start_search, "width=settings.beam,", "width=5,"),
        test_decoding.test_a_sentence_has_as_many_rows_as_the_beam_is_wide_or_as_are_drawn,
        {"rows": 2, "options": {"beam": 2}},
    ),
    "max extra ignored": Mutant(Edit(TokenSources.limits, "settings.max_extra", "50"), *limits(3, None)),
    "max length ignored": Mutant(
        Edit(max_lengths, "(settings.max_length, positions)", "(None, positions)"), *limits(7, 6)
    ),
    "temperature squared": Mutant(
        Edit(choose_rows, "bounded(choice.temperature)", "bounded(choice.temperature**2)"),
        test_sampling.test_temperature_divides_log_probabilities,
        STEP | {"temperature": 2.0},
    ),
    "temperature ignored": Mutant(
        Edit(choice_of, "temperature=settings.draw_temperature", "temperature=1.0"),
        test_sampling.test_temperature_divides_log_probabilities,
        MODEL | {"temperature": 0.5},
    ),
    "top-p squared": Mutant(Edit(limit_scores, ">= top_p", ">= top_p**2"), *within({"top_p": 0.5})),
    "top-p without the token that crosses it": Mutant(
        Edit(limit_scores, "probability.cumsum(-1) - probability >= top_p", "probability.cumsum(-1) >= top_p"),
        *within({"top_p": 0.5}),
    ),
    "top-p ignored": Mutant(
        Edit(choice_of, 'if name != "temperature"', 'if name not in ("temperature", "top_p")'),
        test_sampling.test_top_p_includes_the_token_that_crosses_it_and_none_after,
        MODEL,
    ),
    "top-k always 1": Mutant(
        Edit(limit_scores, "scores.topk(top_k, -1)", "scores.topk(1, -1)"), *within({"temperature": 2.0, "top_k": 4})
    ),
    "top-k of the model always 1": Mutant(
        Edit(choice_of, 'if name != "temperature"', 'if name not in ("temperature", "top_k")'),
        test_sampling.test_top_k_leaves_the_most_probable_in_their_proportions,
        MODEL | {"top_k": 3},
    ),
}

# Formulas of decoders
MODELS = {
    "attentional state dropped before it is fed": Mutant(
        Edit(InputFeedingDecoder.forward, "feed = after if", "feed = self.dropout(after) if"),
        test_recurrent.test_what_luong_feeds_back_is_not_dropped,
    ),
    "[h; c] for [c; h]": Mutant(
        Edit(InputFeedingDecoder.forward, "[read.output[:, 0], hidden]", "[hidden, read.output[:, 0]]"),
        test_recurrent.test_luong_reads_with_the_new_state_and_feeds_what_it_read,
    ),
    "[h; c] for [c; h] without input feeding": Mutant(
        Edit(LuongDecoder.forward, "[read.output, hidden]", "[hidden, read.output]"),
        test_recurrent.test_luong_without_input_feeding_reads_with_the_new_state,
    ),
    "[c; E y] for [E y; c]": Mutant(
        Edit(BahdanauDecoder.forward, "torch.cat([x, contexts[-1]], 1)", "torch.cat([contexts[-1], x], 1)"),
        test_recurrent.test_bahdanau_reads_with_the_old_state_and_speaks_from_it,
    ),
    "mechanism that denies its weights, and so escapes two laws": Mutant(
        Edit(Dot.can, "weights=True", "weights=False"),
        test_abilities.test_who_denies_an_ability_and_claims_it_is_caught,
        {"name": "dot", "ability": "weights"},
    ),
    "path chosen by how wide keys are": Mutant(
        Edit(attend, "keys=key.shape[2]", "keys=key.shape[3]"),
        test_kernel.test_the_path_is_chosen_by_what_is_attended_to,
        {"bias": False},
    ),
    "self-attention that says its columns are independent": Mutant(
        Edit(SelfAttention.can, "order_free=False", "order_free=True"),
        test_abilities.test_a_mixer_whose_columns_see_each_other_does_not_say_that_they_are_independent,
        {"name": "self-attention"},
    ),
    "ConvS2S without the outer sqrt(1/2)": Mutant(
        Edit(ConvolutionalLayer.forward, "(z + self.residual(h)) * HALF", "(z + self.residual(h))"),
        test_convolutional.test_a_decoder_layer_by_hand,
        {"widens": False},
    ),
    "ConvS2S without the inner sqrt(1/2)": Mutant(
        Edit(ConvolutionalLayer.forward, "(mixed.output + self.context(read.output)) * HALF",
             "(mixed.output + self.context(read.output))"),
        test_convolutional.test_a_decoder_layer_by_hand,
        {"widens": False},
    ),
    "ConvS2S query without sqrt(1/2)": Mutant(
        Edit(ConvolutionalLayer.forward, "(self.query(mixed.output) + embedded) * HALF",
             "(self.query(mixed.output) + embedded)"),
        test_convolutional.test_a_decoder_layer_by_hand,
        {"widens": False},
    ),
    "ConvS2S's encoder without sqrt(1/2)": Mutant(
        Edit(CenteredConvolution.forward, "(gated + self.residual(x)) * HALF", "gated + self.residual(x)"),
        test_convolutional.test_an_encoder_layer_by_hand,
    ),
    "ConvS2S reads without sqrt(S)": Mutant(
        Edit(ConvolutionalReader.forward, ".to(query.dtype).sqrt()", ".to(query.dtype).sqrt() ** 0"),
        test_convolutional.test_the_reader_by_hand,
    ),
}  # fmt: skip

# Newer parts
PARTS = {
    "forgetting that sums over documents": Mutant(
        Edit(ForgetGate.forward, "not isinstance(span.segment, Tensor)", "True"),
        test_forgetting.test_sums_over_documents_would_be_heard_of,
    ),
    "forgetting whose sums are rounded before they are compared": Mutant(
        Edit(ForgettingBias.forward, "span.read(\"decay\")", "span.read(\"decay\").float()"),
        test_forgetting.test_neighbors_are_told_apart_far_from_the_start,
    ),
    "forgetting that counts the key's own gate": Mutant(
        Edit(ForgettingBias.forward, "- at_key[..., None, :])", "- at_key.roll(1, -1)[..., None, :])"),
        test_forgetting.test_weights_are_products_of_the_gates_between,
    ),
    "value embeddings without their factor": Mutant(
        Edit(SelfAttention._add_values, "other * heads", "heads"),
        test_value_embedding.test_values_are_mixed_by_both_factors,
    ),
}  # fmt: skip

EPOCH = "np.random.default_rng((self.seed, epoch)).permutation(len(self._training.rows))"
PACKS: dict[str, Mutant] = {
    "positions that begin anew instead of a mask": Mutant(
        Edit(SelfAttention.forward, "mask = mask & Segments()", "mask = mask"),
        test_packed_documents.test_changing_one_document_leaves_the_others_bit_identical,
        {"variant": "rotary", "training": False},
    ),
    "a mask instead of positions that begin anew": Mutant(
        Edit(batch_span, "given_position=batch.position", "given_position=()"),
        test_packed_documents.test_a_document_in_a_pack_is_what_it_is_alone,
        {"variant": "learned"},
    ),
    "documents of one segment": Mutant(
        Edit(PackExamples.collate, "start:] = segment", "start:] = 0"),
        test_packs.test_a_row_tells_its_documents_apart_and_each_begins_at_0,
    ),
    "prompts that count": Mutant(
        Edit(cut_documents, "prompts[document]", "0"),
        test_packs.test_a_target_counts_once_with_enough_before_it,
        {"stride": 8, "prompts": [4, 0, 19]},
    ),
    "tokens of several windows that count in each": Mutant(
        Edit(WindowExamples._seen, "self.context - self.stride, 0)", "0, 0)"),
        test_packs.test_overlapping_windows_count_each_token_once,
        {"length": 23, "stride": 3},
    ),
    "rows drawn with replacement": Mutant(
        Edit(PackExamples.batches, EPOCH, f"{EPOCH[:-1]}, len(self._training.rows))".replace("permutation", "choice")),
        test_packs.test_an_epoch_is_an_order_of_its_own_without_replacement,
    ),
    "every epoch in the order of the first": Mutant(
        Edit(PackExamples.batches, "(self.seed, epoch)", "(self.seed, 0)"),
        test_packs.test_an_epoch_is_an_order_of_its_own_without_replacement,
    ),
    "bytes counted as characters": Mutant(
        Edit(_write, "len(document.text.encode())", "len(document.text)"),
        test_documents.test_documents_on_disk_are_begin_tokens_end_and_bytes_are_raw,
    ),
}  # fmt: skip

HAND = test_segment_memory
MEMORY: dict[str, Mutant] = {
    "a gradient into the memory": Mutant(
        Edit(SegmentMemory._moved, "1).detach()", "1)"), HAND.test_no_gradient_reaches_what_is_remembered
    ),
    "empty places of the memory seen": Mutant(
        Edit(SegmentMemory._first_kept, "self.memory - before", "0 * before"),
        HAND.test_two_segments_are_one_pass_under_a_banded_mask,
    ),
    "distances off by one": Mutant(
        Edit(SegmentMemory._within, "self.memory + offset", "self.memory + offset - 1"),
        HAND.test_two_segments_are_one_pass_under_a_banded_mask,
    ),
    "no bias of places": Mutant(
        Edit(RelativeAttention.forward, "query + self.place_bias[:, None]", "query"),
        HAND.test_relative_attention_is_the_formula, {"length": 5},
    ),
    "no bias of content, for few queries": Mutant(
        Edit(RelativeAttention.forward, "query + self.content_bias[:, None]", "query"),
        HAND.test_relative_attention_is_the_formula, {"length": 2},
    ),
    "the newest columns compressed": Mutant(
        Edit(Compressive._moved, "[:, : self.segment]", "[:, -self.segment :]"),
        HAND.test_memory_is_first_in_first_out,
    ),
    "new slots before old ones": Mutant(
        Edit(Compressive._moved, "[state.compressed, slots.detach()]", "[slots.detach(), state.compressed]"),
        HAND.test_memory_is_first_in_first_out,
    ),
    "slots that learn from the model's loss": Mutant(
        Edit(Compressive._moved, "slots.detach()]", "slots]"),
        HAND.test_reconstruction_teaches_the_compressor_alone,
        {"reconstruction": "attention", "compression": "conv"},
    ),
    "a reconstruction that teaches what it reads": Mutant(
        Edit(Compressive._moved, "[:, : self.segment].detach()", "[:, : self.segment]"),
        HAND.test_reconstruction_teaches_the_compressor_alone,
        {"reconstruction": "attention", "compression": "conv"},
    ),
    "a reconstruction that teaches the projections": Mutant(
        Edit(RelativeAttention.by_content, "part.weight.detach()", "part.weight"),
        HAND.test_reconstruction_teaches_the_compressor_alone,
        {"reconstruction": "attention", "compression": "dilated"},
    ),
    "usage that is no mean": Mutant(
        Edit(Compressive._mean_usage, "/ queries", "* 1"), HAND.test_usage_is_the_attention_that_each_column_got
    ),
    "most used, in the order of use": Mutant(
        Edit(Compressor.forward, ".indices.sort(1).values", ".indices"),
        HAND.test_the_most_used_columns_are_kept_in_their_order,
    ),
    "memory of the document before": Mutant(
        Edit(reset_rows, "new, old)", "old, old)"),
        test_lanes.test_evaluation_carries_the_memory_over_a_whole_document, {"name": "documents"},
    ),
}  # fmt: skip

MUTANTS = MEMORY | TRAINING | DECODING | MODELS | PARTS | PACKS
