"""Running batches: one scheduler for each served model."""
