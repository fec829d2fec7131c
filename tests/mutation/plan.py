"""The modules whose code is changed, and the tests that should notice.

Of each module one or more pytest command lines, quick ones first: the next is run only where a change survived the one
before. Since a change that survives meets them all, they are kept to what belongs to the module.
"""

from __future__ import annotations

__all__ = ["TESTS"]

Stages = tuple[tuple[str, ...], ...]

LAWS = "tests/laws/test_laws.py"
SEARCH = ("tests/laws/test_search.py", "-k", "luong-dot or best_of_many or draws_of")  # one model of many
SETTINGS = ("tests/test_decoding.py", "tests/test_sampling.py")
ENGINES = ("tests/laws/test_engine.py",)
HAND = "tests/hand/test_"


ABILITIES = ("tests/laws/test_abilities.py",)


def laws(*kinds: str) -> tuple[str, ...]:
    return (LAWS, "-k", " or ".join(kinds))


ATTENTION: Stages = (
    (HAND + "attention.py", HAND + "scores.py", "tests/parity/test_torch_layers.py"),
    laws("transformer-multi-query", "self-attention-multi-query", "dot-unscaled"),
)
RECURRENT: Stages = (
    (HAND + "recurrent.py", HAND + "recurrent_build.py", "tests/parity/test_torch_recurrent.py"),
    laws("luong-dot"),
)
CONVOLUTIONAL: Stages = ((HAND + "convolutional.py",), laws("convolutional-widening"))
POSITIONS: Stages = (
    (HAND + "positions.py",),
    laws("self-attention-rotary", "dot-alibi", "dot-t5", "transformer-pre-learned"),
)

LONG = ("tests/test_long_attention.py",)


def stages(*tests: str) -> Stages:
    """A stage of each: files below ``tests``, with spaces between those that are run together."""
    return tuple(tuple(f"tests/{name}.py" for name in together.split()) for together in tests)


def each(folder: str, names: str, tests: Stages) -> dict[str, Stages]:
    """The same tests for several modules of a folder, with spaces between their names."""
    return {f"regard/{folder}/{name}.py": tests for name in names.split()}


def tasks(*kinds: str) -> tuple[str, ...]:
    """The laws of tasks for these."""
    return ("tests/laws/test_tasks.py", "-k", " or ".join(f"test_task[{kind}" for kind in kinds))


REFERENCE: Stages = (("tests/test_docs.py", "-k", "config_reference_is_current"),)  # which states every bound
CONFIGS = REFERENCE + stages("test_net_config test_config hand/test_mixers hand/test_attention_parameters")
METRICS: Stages = stages("parity/test_scikit_learn", "test_classification test_links")
GRAPHS: Stages = stages(
    "hand/test_directed_graphs data/test_graphs", "test_graph_net test_graph_pooling test_links test_neighbors"
)
STREAMS: Stages = stages(
    "data/test_documents data/test_masking", "data/test_many_files test_language_model test_molecules"
)
TABLES: Stages = stages(
    "data/test_reading data/test_tables data/test_found_files data/test_confidence",
    "data/test_encoding data/test_many_files data/test_foreign_errors",
)
BUDGETS: Stages = stages("data/test_budgets data/test_first_bytes data/test_foreign_errors", "data/test_graphs")
PREPARED: Stages = (
    *stages("data/test_pairs data/test_text", "data/test_many_files data/test_corpora"),
    tasks("translation"),
)
LINT: Stages = stages("data/test_check", "cli/test_check")
MUSIC: Stages = stages("test_music test_harmony test_reviewed_inputs")
MASKED: Stages = (*stages("data/test_masking", "test_masked_model"), tasks("masked"))
PACKS: Stages = stages("data/test_counted_targets data/test_packs data/test_computed_order", "test_packed_documents")
TOKENIZERS: Stages = stages("data/test_text test_molecules test_language_model", "share/test_imported test_music")
REMEMBER: Stages = (*stages("hand/test_segment_memory"), laws("segment-memory-small", "compressive-small"))
ENCODERS: Stages = (
    *stages("test_net_config test_native_reading test_classification test_tagging"),
    *stages("test_site hand/test_mixers hand/test_modern_parts hand/test_forgetting hand/test_positions"),
)

INSPECTED: Stages = stages("inspection/test_inspecting inspection/test_influence", "cli/test_inspect_tasks")
DECLARED: Stages = stages("laws/test_declared")
SUPERVISED: Stages = (
    *DECLARED, *stages("test_classification test_tagging test_next_item"),
    tasks("classification", "tagging", "next-item", "graphs"),
)  # fmt: skip
CHOOSING: Stages = stages(
    "test_choosing test_split data/test_confidence data/test_found_files",
    "test_choosing_documents test_graph_net",
    "cli/test_file_forms",
)
EVALUATED: Stages = stages("test_evaluate test_masked_model test_next_item", "cli/test_evaluate cli/test_classifier")

_TESTS: dict[str, Stages] = {
    "regard/core/state.py": (("tests/test_state.py",),),
    "regard/models/cross_entropy.py": (("tests/test_losses.py",),),
    "regard/training/optim.py": (("tests/test_optim.py",), ("tests/test_update.py",)),
    "regard/training/muon.py": (("tests/test_muon.py",),),
    "regard/training/shards.py": (("tests/test_shards.py",), ("tests/test_update.py", "tests/test_textbook.py")),
    "regard/inference/decoding.py": (SETTINGS, ("tests/test_translator.py",)),
    "regard/search/batch_search.py": (SETTINGS, SEARCH),
    "regard/search/best_types.py": (SETTINGS, SEARCH),
    "regard/search/rows.py": (SETTINGS, SEARCH),
    "regard/search/choice.py": (SETTINGS, SEARCH),
    "regard/search/repetition.py": (("tests/test_repetition.py",), ("tests/test_generation.py",)),
    "regard/search/beam.py": (("tests/test_beam.py", "tests/test_decoding.py"), SEARCH, ENGINES),
    "regard/search/constrained.py": (("tests/test_constrained.py", "tests/test_decoding.py"),),
    "regard/search/constraint_state.py": (("tests/test_constrained.py",),),
    "regard/data/pairs.py": (("tests/data/test_pairs.py",), ("tests/test_update.py",)),
    "regard/attention/span.py": (("tests/test_span.py", "tests/test_mask.py"),),
    "regard/attention/mask.py": (("tests/test_mask.py",), laws("dot-unscaled", "transformer-multi-query")),
    "regard/attention/kernel.py": (("tests/test_kernel.py",), LONG, *ATTENTION),
    "regard/attention/structure.py": (("tests/test_mask.py",), LONG),
    "regard/attention/window_kernel.py": (LONG,),
    "regard/attention/varlen_kernel.py": (("tests/test_mask.py",), LONG),
    "regard/attention/cpu_softmax.py": (("tests/test_kernel.py",), ATTENTION[0]),
    "regard/attention/contract.py": ATTENTION,
    "regard/attention/heads.py": (*ATTENTION, ABILITIES),
    "regard/attention/mechanisms/dot.py": (*ATTENTION, ABILITIES),
    "regard/attention/mechanisms/general.py": (ATTENTION[0], laws("hard-general", "luong-unfed"), ABILITIES),
    "regard/attention/mechanisms/local_predictive.py": (
        (HAND + "location_family.py", HAND + "attention.py"),
        laws("local-p"),
    ),
    "regard/attention/positions/absolute.py": POSITIONS,
    "regard/attention/positions/rotary.py": POSITIONS,
    "regard/attention/positions/distance_bias.py": POSITIONS,
    "regard/models/dropout.py": (("tests/test_dropout.py", "tests/test_textbook.py"),),
    "regard/models/transformer/norms.py": ((HAND + "norms.py", "tests/parity/test_torch_layers.py"),),
    "regard/models/transformer/transformer.py": (
        ("tests/parity/test_torch_layers.py",),
        laws("transformer-pre", "transformer-ro"),
    ),
    "regard/models/encoder_decoder.py": (("tests/test_decoding.py", "tests/test_losses.py"), SEARCH),
    "regard/models/recurrent/cells.py": RECURRENT,
    "regard/models/recurrent/stack.py": RECURRENT,
    "regard/models/recurrent/decoders.py": (*RECURRENT, laws("bahdanau-lstm")),
    "regard/models/convolutional/gated_convolution.py": CONVOLUTIONAL,
    "regard/models/convolutional/decoder.py": CONVOLUTIONAL,
    "regard/models/convolutional/encoder.py": CONVOLUTIONAL,
    **each("models/convolutional", "build", CONVOLUTIONAL + CONFIGS),
    **each("models/convolutional", "config", CONFIGS + CONVOLUTIONAL),
    **each("models/recurrent", "build encoder decoder_memory", RECURRENT),
    **each("models/recurrent", "config", CONFIGS + RECURRENT[:1]),
    **each("metrics", "classes numbers ranking", METRICS),
    **each("metrics", "significance", stages("test_significance")),
    **each("metrics", "text", stages("test_evaluate test_significance test_summaries")),
    **each("data", "feature_file graph_union graphs neighbors", GRAPHS),
    **each("models/graph", "build heads layers", GRAPHS),
    **each("models/graph", "config", CONFIGS + GRAPHS),
    **each("data", "graph_files", stages("data/test_graphs", "test_graph_net test_neighbors")),
    **each("data", "graph_lines", stages("data/test_graph_lines", "test_graph_pooling")),
    **each("data", "windows packs lanes", PACKS),
    **each("data", "computed_order", stages("data/test_permutation") + PACKS),
    **each("data", "length_index", stages("data/test_computed_order")),
    **each("data", "order", (*stages("data/test_pairs data/test_computed_order"), tasks("classification"))),
    **each("data", "padding", (*stages("test_tagging test_next_item"), tasks("classification"))),
    **each("data", "masking masked_examples", MASKED + REFERENCE),
    **each("data", "document_stream documents stream prepared", STREAMS + REFERENCE),
    **each("data", "tables rows column_names reading alignment encoding file_names shared_files", TABLES + REFERENCE),
    **each("data", "corpus preparation ragged", PREPARED + REFERENCE),
    **each("data", "ragged", (*stages("data/test_ragged"), *PREPARED)),
    **each("data", "text_files", TABLES + STREAMS),
    **each("data", "foreign_errors npz_files packed_files parquet_files parquet_pages", BUDGETS),
    **each("data", "labels", (*stages("data/test_labels", "test_classification test_tagging"), tasks("tagging"))),
    **each("data", "affixes", stages("test_tagging test_classification_words")),
    **each("data", "molecules", stages("test_molecules")),
    **each("data", "sentence_split", stages("server/test_sentence_split", "server/test_required_terms")),
    **each("data", "protected_spans", stages("server/test_required_terms", "server/test_sentence_split")),
    **each("data", "midi music_files notes standard_library", MUSIC),
    **each("data/tokenizers", "notes", MUSIC),
    **each("data/tokenizers", "catalog closed subword tokenizer", TOKENIZERS + REFERENCE),
    **each("data/tokenizers", "sentencepiece_file tokenizer_file", stages("data/test_tokenizer_files")),
    **each("data/lint", "check languages lint_reader rules", LINT),
    **each("data/public", "catalog download fetch", stages("data/test_fetch")),
    **each("data/public", "cmudict", stages("test_pronunciation")),
    **each("models", "attention_config causal_config configuration net_config parts", CONFIGS + ENCODERS),
    **each("models", "position_config presets stack_config build origin_config", CONFIGS + ENCODERS),
    **each("models/transformer", "config mixers site build", CONFIGS + ENCODERS),
    **each("models", "classifier classifier_config summary", ENCODERS + REFERENCE),
    **each("models", "input head", ENCODERS + REFERENCE),
    **each("models", "masked_config masked_model", MASKED[1:] + REFERENCE),
    **each("models", "copying", (*stages("hand/test_copying"), SEARCH)),
    **each("models", "execution reversible", stages("test_execution")),
    **each("training", "fsdp2", stages("test_execution", "hand/test_modern_parts", "test_faster_ranks")),
    **each("models", "saved_names", stages("formats/test_saved_names")),
    **each("models", "language_model", stages("test_language_model test_packed_documents", "test_generation")),
    **each("models/transformer", "average_attention", (*stages("hand/test_mixers"), laws("average"))),
    **each("models/transformer", "ssru", (*stages("hand/test_mixers"), laws("ssru"))),
    **each("models/transformer", "compressive segment_memory relative_attention", REMEMBER),
    **each(
        "models/transformer", "feed_forward",
        stages("parity/test_torch_layers hand/test_norms", "test_passes test_execution"),
    ),
    **each(
        "models/transformer", "layer",
        (*stages("parity/test_torch_layers hand/test_modern_parts", "test_execution"), laws("transformer-pre")),
    ),
    **each("models/transformer", "global_local", (*stages("hand/test_global_local"), laws("global-local"))),
    **each("models/transformer", "hashed", (*stages("hand/test_hashed"), laws("hashed"))),
    **each(
        "models/transformer", "linear_attention mamba2",
        (*stages("hand/test_linear_mixers"), laws("linear", "mamba2")),
    ),
    **each(
        "fields", "frames items pieces text tokens vocabularies",
        DECLARED
        + stages("test_classification test_tagging", "test_frames test_next_item", "inspection/test_influence"),
    ),
    **each("fields", "graphs node_features", DECLARED + GRAPHS + (tasks("graphs", "nodes"),)),
    **each(
        "answers",
        "answer_base calibrated_class label_set losses named_labels number number_scale one_class plain_class",
        DECLARED + stages("test_classification test_losses", "cli/test_classifier", "parity/test_scikit_learn"),
    ),
    **each("answers", "spans tag_codecs tag_sequence", DECLARED + stages("test_tagging test_tag_schemes")),
    **each("answers", "tagged_tokens", DECLARED + stages("test_tagging")),
    **each("answers", "followers next_item", DECLARED + stages("test_next_item")),
    **each("answers", "outcomes", DECLARED + stages("cli/test_outcomes")),
    **each("metrics", "error_analysis", stages("cli/test_outcomes", "cli/test_run_comparison")),
    **each("search", "contract coverage_penalty draws", (*stages("test_coverage_penalty"), SETTINGS, SEARCH)),
    **each("tasks", "supervised supervised_predictor net_outputs", SUPERVISED),
    **each("tasks", "influence hidden_nodes", stages("laws/test_influence inspection/test_influence")),
    **each("tasks/masked", "influence", stages("laws/test_influence")),
    **each("tasks/language_model", "influence", stages("laws/test_influence")),
    **each("tasks", "check", stages("data/test_check test_choosing_documents", "cli/test_check")),
    **each("tasks", "detect_files find_config split", CHOOSING),
    **each("tasks", "row_inputs prediction load", stages("cli/test_kinds", "cli/test_file_forms", "cli/test_score")),
    **each("tasks", "evaluation evaluate", EVALUATED),
    **each(
        "tasks", "supervised_outcomes graph_outcomes measured_outcomes run_comparison",
        stages("cli/test_outcomes", "cli/test_run_comparison"),
    ),
    **each("tasks", "automatic_engine", stages("test_engine_choice", "cli/test_automatic_engine")),
    **each(
        "tasks", "detect_graph_files graph_batch graph_parts graph_run_config named_nodes",
        GRAPHS + CHOOSING[:1] + stages("cli/test_nodes cli/test_links_verb"),
    ),
    **each("tasks", "encoder_run_config held_out_samples", SUPERVISED[:1] + REFERENCE),
    **each(
        "tasks/classification", "automatic_config config data_config frame_input inputs label_columns labeled_text "
        "task text_input",
        (*stages("test_classification test_frames test_molecules"), *CHOOSING, tasks("classification")),
    ),
    **each("tasks/tagging", "automatic_config config task", (*stages("test_tagging"), *CHOOSING, tasks("tagging"))),
    **each(
        "tasks/next_item", "automatic_config config task",
        (*stages("test_next_item"), *CHOOSING, tasks("next-item")),
    ),
    **each("tasks/graphs", "automatic_config config task", (*GRAPHS, *CHOOSING, tasks("graphs"), *INSPECTED)),
    **each("tasks/nodes", "automatic_config classifier config sampling task", (*GRAPHS, *CHOOSING, tasks("nodes"))),
    **each(
        "tasks/links", "automatic_config config examples linker task",
        (*GRAPHS, *CHOOSING, tasks("links"), *INSPECTED),
    ),
    **each("tasks/masked", "config filler task", (*MASKED, *stages("cli/test_fill"))),
    **each("tasks/masked", "harmony", MUSIC),
    **each(
        "tasks/language_model", "automatic_config config engine_trials generator observe scoring task "
        "text_listener text_search",
        (
            *stages("test_language_model test_generation test_going_on"),
            *stages("test_packed_documents test_choosing_documents"),
            *stages("cli/test_generate cli/test_language_model_scores"), tasks("language-model"),
            *INSPECTED, *MUSIC,
        ),
    ),
    **each(
        "tasks/translation", "automatic_config codecs config edge_signs engine_trials evaluation long_lines "
        "measure pair_scorer task translator write_run",
        (
            *stages("test_translator test_choosing test_evaluate", "test_decoding test_summaries test_train"),
            *stages("cli/test_translate cli/test_score"), tasks("translation"), *stages("cli/test_file_forms"),
        ),
    ),
}  # fmt: skip

DEFAULTS = stages("test_defaults")
EDGES = stages("test_edges test_task_edges")


def complete(path: str, found: Stages) -> Stages:
    """Return the stages of a module with those that its folder or name adds."""
    if path.startswith(("regard/models/", "regard/attention/")):
        return found + DEFAULTS + EDGES
    if path.startswith("regard/tasks/") and "config" in path:
        return REFERENCE + EDGES + found
    return EDGES + found


TESTS = {path: complete(path, found) for path, found in _TESTS.items()}
