"""Run folders: config, checkpoints, averages and the model card."""
