"""Baselines: simple models that read the inputs of a task and are fitted in seconds."""
