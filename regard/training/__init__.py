"""Training a run: set-up, updates, validation and resuming."""
