"""Tasks: the data, network, loss, metrics and outputs of each. ``core.task_table`` lists them. Imports no torch."""
