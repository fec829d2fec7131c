"""Tasks: kinds of work, each with its data, network, loss, measures and outputs. Imports no torch.

A new task is a module here, a line in this table and a page in the docs.
"""

# kind -> (class of the config, the Task, the verb of its runs). A verb without a module in ``commands/`` is that of
# ``regard predict`` under another name.
TASKS = {
    "nodes": (
        "regard.tasks.nodes.config:NodesConfig",
        "regard.tasks.nodes.task:TASK",
        "nodes",
    ),
    "links": (
        "regard.tasks.links.config:LinksConfig",
        "regard.tasks.links.task:TASK",
        "links",
    ),
    "graphs": (
        "regard.tasks.graphs.config:GraphsConfig",
        "regard.tasks.graphs.task:TASK",
        "graphs",
    ),
    "tagging": (
        "regard.tasks.tagging.config:TaggingConfig",
        "regard.tasks.tagging.task:TASK",
        "tag",
    ),
    "next-item": (
        "regard.tasks.next_item.config:NextItemConfig",
        "regard.tasks.next_item.task:TASK",
        "recommend",
    ),
    "classification": (
        "regard.tasks.classification.config:ClassificationConfig",
        "regard.tasks.classification.task:TASK",
        "classify",
    ),
    "translation": (
        "regard.tasks.translation.config:TranslationConfig",
        "regard.tasks.translation.task:TASK",
        "translate",
    ),
    "language-model": (
        "regard.tasks.language_model.config:LanguageModelConfig",
        "regard.tasks.language_model.task:TASK",
        "generate",
    ),
    "masked": (
        "regard.tasks.masked.config:MaskedConfig",
        "regard.tasks.masked.task:TASK",
        "fill",
    ),
}
