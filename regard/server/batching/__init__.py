"""Running batches: one scheduler per served model."""
