"""Wrong versions of fields and answers, each with the law that catches it."""

from __future__ import annotations

from regard.answers import losses, outcomes
from regard.answers.followers import Followers
from regard.answers.label_set import SeveralLabels
from regard.answers.named_labels import ranked, to_json
from regard.answers.next_item import NextItem
from regard.answers.number import Number
from regard.answers.number_scale import Scale
from regard.answers.one_class import OneClass
from regard.answers.plain_class import PlainClass
from regard.core.field import FieldBase, Padded
from regard.data.frame_augmentation import augment_frames
from regard.data.graph_union import PackedGraphs
from regard.data.labels import Labels
from regard.data.order import packed_runs
from regard.data.padding import padded
from regard.data.recordings import recording_line
from regard.fields.frames import Frames
from regard.fields.graphs import Graphs
from regard.fields.image import Images
from regard.fields.items import Items
from regard.fields.node_features import EncodedGraph
from regard.fields.pieces import without
from regard.fields.sound import Sounds
from regard.fields.text import Text
from regard.fields.text_rows import in_windows
from regard.metrics.numbers import number_metrics
from regard.metrics.ranking import gain_sums, next_item_metrics
from regard.tasks.classification.spoken_examples import SpokenExample
from regard.tasks.net_outputs import HeadOutputs
from regard.tasks.supervised import Supervised
from regard.tasks.supervised_examples import SupervisedExamples
from regard.tasks.supervised_predictor import SupervisedPredictor
from regard.testing import ANSWER_LAWS, FIELD_LAWS
from regard.testing.law import run_laws
from tests import test_graph_pooling, test_sounds
from tests.laws.declared import ANSWERS, FIELDS
from tests.laws.test_declared import test_a_memorized_batch_is_predicted, test_the_loss_of_a_head_is_that_of_its_logits

from .editing import Edit
from .table import Mutant

__all__ = ["DECLARED"]


def law_holds(case: str, law: str) -> None:
    made = (FIELDS | ANSWERS)[case]()
    table = FIELD_LAWS if case in FIELDS else ANSWER_LAWS
    run_laws([each for each in table if each.name == law], made, trials=3, seed=0)


def caught(edit: Edit, case: str, law: str) -> Mutant:
    return Mutant(edit, law_holds, {"case": case, "law": law})


DECLARED = {
    "a text that loses its spaces": caught(
        Edit(Text.parse, 'text.rstrip("\\r\\n")', "text.strip()"), "Text", "parsing_gives_the_value_of_a_row"
    ),
    "texts split at spaces": caught(
        Edit(Text.parse, 'line.split("\\t")', "line.split()"), "Text of pairs", "parsing_gives_the_value_of_a_row"
    ),
    "a limit that learning changes": caught(
        Edit(Text.learn, "return self", "self.max_length -= 1; return self"), "Text", "opened_is_as_learned"
    ),
    "a limit that the batch shares": caught(
        Edit(Text.encode, "part[:limit]", "part[: limit // len(values) + 1]"),
        "Text", "encoding_does_not_depend_on_neighbors",
    ),
    "truncation that the batch shares": caught(
        Edit(Text.encode, "append(any(", "append(any(truncated) or any("),
        "Text", "encoding_does_not_depend_on_neighbors",
    ),
    "padding that is valid": caught(
        Edit(padded, "< lengths[:, None]", "<= lengths[:, None]"), "Text", "padding_adds_nothing"
    ),
    "padding before the row": caught(
        Edit(padded, "values[number, : len(row)]", "values[number, values.shape[1] - len(row) :]"),
        "Text that drops words", "padding_adds_nothing",
    ),
    "the last position cut off": caught(
        Edit(Text.unpad, "values[: len(row)]", "values[: len(row) - 1]"), "Text", "padding_adds_nothing"
    ),
    "the first symbol of each part": caught(
        Edit(Text.unpad, "numbers[1:]", "numbers"), "Text of pairs apart", "padding_adds_nothing"
    ),
    "labels without the first symbol": caught(
        Edit(Text.labels, "numbers_of(row)", "numbers_of(row)[1:]"), "Text", "each_position_has_a_label"
    ),
    "windows that overlap": caught(
        Edit(FieldBase.windows, "range(0, len(row), size)", "range(0, len(row), size - 1)"),
        "Text in windows", "windows_divide_each_part",
    ),
    "windows without a beginning": caught(
        Edit(in_windows, "(END, BEGIN, *window)", "(END, *window)"), "Text in windows", "windows_divide_each_part"
    ),
    "words dropped in evaluation": caught(
        Edit(Text.augment, "if not draws.visit:", "if draws.visit is None:"),
        "Text that drops words", "the_first_visit_has_the_encoded_row",
    ),
    "the other strand in evaluation": caught(
        Edit(Text.augment, "return rows[0]", "return rows[-1]"),
        "Text of strands", "the_first_visit_has_the_encoded_row",
    ),
    "draws of their own": caught(
        Edit(Text.augment, "draws.stream(DROPOUT)", "np.random.default_rng()"),
        "Text that drops words", "augmenting_is_a_function_of_seed_index_and_visit",
    ),
    "words dropped for ever": caught(
        Edit(without, "row.copy()", "row"),
        "Text of pairs", "augmenting_is_a_function_of_seed_index_and_visit",
    ),
    "frames by the scale of the batch": caught(
        Edit(Frames.encode, "self.scale, self", "(np.mean([f.mean(0) for f in series], 0), self.scale[1]), self"),
        "Frames", "encoding_does_not_depend_on_neighbors",
    ),
    "deviations that are not saved": caught(
        Edit(Frames.learn, "self.scale.tolist()", "(self.scale ** 2).tolist()"), "Frames", "opened_is_as_learned"
    ),
    "masks in evaluation": caught(
        Edit(Sounds.augment, "if not draws.visit", "if draws.visit is None"),
        "Sounds by recording", "the_first_visit_has_the_encoded_row",
    ),
    "speeds drawn from the clock": caught(
        Edit(Sounds.augment, "draws.stream(SPEED)", "np.random.default_rng()"),
        "Sounds by speaker", "augmenting_is_a_function_of_seed_index_and_visit",
    ),
    "masks for ever": caught(
        Edit(augment_frames, "frames.copy()", "frames"),
        "Sounds by recording", "augmenting_is_a_function_of_seed_index_and_visit",
    ),
    "the scale of a speaker left out": caught(
        Edit(recording_line, "if recording.scale is None", "if True"),
        "Sounds by speaker", "parsing_gives_the_value_of_a_row",
    ),
    "images turned in evaluation": caught(
        Edit(Images.augment, "not draws.visit or", ""), "Images that move", "the_first_visit_has_the_encoded_row"
    ),
    "images moved by the clock": caught(
        Edit(Images.augment, "draws.stream(MOVES)", "np.random.default_rng()"),
        "Images that move", "augmenting_is_a_function_of_seed_index_and_visit",
    ),
    "a speaker in two parts": Mutant(
        Edit(SpokenExample.split_key.fget, "if self.speaker is None", "if True"),  # type: ignore[attr-defined]
        test_sounds.test_a_speaker_is_in_one_part_only, {},
    ),
    "statistics of the validation part": Mutant(
        Edit(
            Supervised.learn_codecs, 'examples = self.read(run.config, "train", read)',
            'examples = [*self.read(run.config, "train", read), *self.read(run.config, "valid", read)]',
        ),
        test_sounds.test_the_run_learns_its_statistics_from_the_training_part, {},
    ),
    "frames cut from a line": caught(
        Edit(Frames.text, "value.frames]", "value.frames[1:]]"), "Frames", "parsing_gives_the_value_of_a_row"
    ),
    "sessions that are split apart": caught(
        Edit(Items._rows, "range(0, len(items), self.max_length)", "range(0, len(items))"),
        "Items", "prediction_reads_what_training_read",
    ),
    "sessions continued from their first item": caught(
        Edit(Items.continued, "[BEGIN, *numbers", "[*numbers"), "Items", "prediction_reads_what_training_read"
    ),
    "the first items of a long session": caught(
        Edit(Items.continued, "row[-self.max_length :]", "row[: self.max_length]"),
        "Items", "prediction_reads_what_training_read",
    ),
    "items read as a list": caught(
        Edit(Items.text, "return line if json_value(line) is None else", "return line if line else"),
        "Items", "parsing_gives_the_value_of_a_row",
    ),
    "labels of channels": caught(
        Edit(Frames.labels, "len(row)", "row.shape[1]"), "Frames", "each_position_has_a_label"
    ),
    "graphs without their features": caught(
        Edit(Graphs.text, "if value.features.shape[1]", "if not value.nodes"),
        "Graphs", "parsing_gives_the_value_of_a_row",
    ),
    "features whose scale is not saved": caught(
        Edit(Graphs.learn, "self.codec._asdict()", '{"scale": [1.0] * len(self.codec.scale), "kinds": []}'),
        "Graphs", "opened_is_as_learned",
    ),
    "graphs in another order": caught(
        Edit(Graphs.encode, "for value in values", "for value in values[::-1]"),
        "Graphs", "encoding_does_not_depend_on_neighbors",
    ),
    "graphs of equally many nodes": caught(
        Edit(PackedGraphs.by_row, "split(self.counts.tolist())", "tensor_split(len(self.counts))"),
        "Graphs", "padding_adds_nothing",
    ),
    "a digest of the number of nodes": caught(
        Edit(Graphs.digest, "row.digest", "str(len(row))"), "Graphs", "padding_adds_nothing"
    ),
    "labels without the first node": caught(
        Edit(Graphs.labels, "range(len(row))", "range(1, len(row))"),
        "Graphs of labeled nodes", "each_position_has_a_label",
    ),
    "noise of a visit in evaluation": caught(
        Edit(Graphs.augment, "draws.visit) if draws.visit", "draws.visit + 1) if row"),
        "Graphs with noise", "the_first_visit_has_the_encoded_row",
    ),
    "noise that nothing repeats": caught(
        Edit(EncodedGraph.with_noise, "default_rng([int(self.digest[:15], 16), visit])", "default_rng()"),
        "Graphs with noise", "augmenting_is_a_function_of_seed_index_and_visit",
    ),
    "noise added to noise": Mutant(
        Edit(EncodedGraph.with_noise, "graph.entries[1] < first", "graph.entries[1] >= 0"),
        test_graph_pooling.test_noise_is_of_the_visit_in_training_and_of_the_graph_elsewhere,
    ),
    "a graph too many in a batch": Mutant(
        Edit(packed_runs, "total + length > positions", "total > positions"),
        test_graph_pooling.test_batches_are_cut_where_they_are_full,
    ),
    "contents in another order than recorded": Mutant(
        Edit(SupervisedExamples.digest, "digests.encode() + self.targets.tobytes()", "self.targets.tobytes()"),
        test_graph_pooling.test_contents_are_those_that_older_runs_recorded,
    ),
    "the least likely label": caught(
        Edit(PlainClass.predict, "max(p,", "min(p,"), "PlainClass", "memorized_outputs_predict_their_targets"
    ),
    "a label in the place of JSON": caught(
        Edit(PlainClass.write, "if not json:", "if json:"), "PlainClass", "a_prediction_is_one_line"
    ),
    "a scale that is not saved": caught(
        Edit(Scale.save, "self._asdict()", '{"mean": 0.0, "deviation": 1.0}'), "Number", "opened_is_as_learned"
    ),
    "labels saved in another order": caught(
        Edit(Labels.save, "list(self.names)", "list(self.names)[::-1]"), "OneClass", "opened_is_as_learned"
    ),
    "targets around the mean of the batch": caught(
        Edit(Number.targets, "- self.scale.mean", "- np.mean(numbers)"), "Number", "targets_do_not_depend_on_neighbors"
    ),
    "weights by the classes of the batch": caught(
        Edit(OneClass.row_weights, "self.labels.counts", "np.bincount(targets, minlength=len(self.labels.counts)) + 1"),
        "OneClass that is balanced", "targets_do_not_depend_on_neighbors",
    ),
    "smoothing over the batch": caught(
        Edit(losses.class_loss, "smoothing * log_p.mean(-1)", "smoothing * log_p.mean()"),
        "OneClass", "losses_add_over_rows",
    ),
    "a loss that is a mean": caught(
        Edit(losses.label_set_loss, ".sum(-1)", ".sum(-1) / len(targets)"), "SeveralLabels", "losses_add_over_rows"
    ),
    "a sum that is a mean": caught(
        Edit(losses.number_loss, "error.detach().double().sum()", "error.detach().double().mean()"),
        "Number", "losses_add_over_rows",
    ),
    "a reliability that is a mean": caught(
        Edit(OneClass.measure, '["reliability"]', '["reliability"] / len(targets)'), "OneClass", "losses_add_over_rows"
    ),
    "a metric that is a sum": caught(
        Edit(number_metrics, 'float(sums["absolute"]) / count', 'float(sums["absolute"])'),
        "Number", "metrics_are_ratios_of_sums",
    ),
    "a threshold that is drawn": caught(
        Edit(SeveralLabels.predict, "0.5 if", "np.random.default_rng().random() if"),
        "SeveralLabels", "predictions_depend_on_the_row_and_the_settings",
    ),
    "a temperature that rises": caught(
        Edit(OneClass.predict, "p = self.", "self.temperature += 0.01; p = self."),
        "OneClass", "predictions_depend_on_the_row_and_the_settings",
    ),
    "a label and its probability on two lines": caught(
        Edit(OneClass.write, "\\t{output.probability", "\\n{output.probability"), "OneClass", "a_prediction_is_one_line"
    ),
    "JSON of Python": caught(
        Edit(to_json, "json.dumps(", "(lambda value, ensure_ascii: str(value))("), "Number", "a_prediction_is_one_line"
    ),
    "the least likely first": caught(
        Edit(ranked, "descending=True", "descending=False"), "SeveralLabels", "alternatives_are_ranked"
    ),
    "outcomes with the least likely label": caught(
        Edit(outcomes.class_outcomes, "log_p.exp().max(-1)", "log_p.exp().min(-1)"),
        "OneClass", "outcomes_have_the_prediction",
    ),
    "ranked items named by their tokens": caught(
        Edit(outcomes.item_outcomes, "pieces([item + first])", "pieces([item + first + 1])"),
        "NextItem", "outcomes_have_the_prediction",
    ),
    "the label next to the predicted one": caught(
        Edit(OneClass.predict, "names[best]", "names[best - 1]"), "OneClass", "memorized_outputs_predict_their_targets"
    ),
    "followers that are not saved": caught(
        Edit(Followers.save, "list(self.popular)", "list(self.popular)[:1]"), "NextItem", "opened_is_as_learned"
    ),
    "gains as a mean": caught(
        Edit(gain_sums, "best.new_tensor(float(len(best)))", "best.new_tensor(float(len(best)) / max(len(rank), 1))"),
        "NextItem", "losses_add_over_rows",
    ),
    "hits that are a sum": caught(
        Edit(next_item_metrics, "/ count).tolist()", ").tolist()"), "NextItem", "metrics_are_ratios_of_sums"
    ),
    "the item before the predicted one": caught(
        Edit(NextItem._best, "best.indices + FIRST", "best.indices + FIRST - 1"),
        "NextItem", "memorized_outputs_predict_their_targets",
    ),
    "the item after the first one": caught(
        Edit(NextItem.predict, "outputs[-1]", "outputs[0]"), "NextItem", "memorized_outputs_predict_their_targets"
    ),
    "a loss of unknown items": Mutant(
        Edit(HeadOutputs.loss, "weights > 0", "weights >= 0"),
        test_the_loss_of_a_head_is_that_of_its_logits, {"smoothing": 0.0},
    ),
    "settings that stay": caught(
        Edit(NextItem.predict, "exclude_none=True))", "exclude_none=True)); self.defaults = chosen"),
        "NextItem", "predictions_depend_on_the_row_and_the_settings",
    ),
    "the worst items as alternatives": caught(
        Edit(NextItem._best, "topk(min(count, len(log_p)))", "topk(min(count, len(log_p)), largest=False)"),
        "NextItem", "memorized_outputs_predict_their_targets",
    ),
    "an answer at the first position": Mutant(
        Edit(Padded.at_end, "keepdim=True) - 1", "keepdim=True) - self.valid.sum(1, keepdim=True)"),
        test_a_memorized_batch_is_predicted, {"kind": "next-item"},
    ),
    "the labels below the threshold": caught(
        Edit(SeveralLabels.predict, ">= threshold", "< threshold"),
        "SeveralLabels of columns", "memorized_outputs_predict_their_targets",
    ),
    "a number without its mean": caught(
        Edit(Number.predict, "self.scale.mean + ", ""), "Number", "memorized_outputs_predict_their_targets"
    ),
    "outputs of the row before": Mutant(
        Edit(SupervisedPredictor._compute, "results[number] = ", "results[numbers[place - 1]] = "),
        test_a_memorized_batch_is_predicted, {"kind": "classification"},
    ),
}  # fmt: skip
