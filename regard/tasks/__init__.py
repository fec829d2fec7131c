"""Tasks, each with its data, network, loss, measures and outputs; ``core.task_table`` lists them. Imports no torch."""
