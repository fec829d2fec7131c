"""Training of a run: set-up, updates, validation and resuming."""
