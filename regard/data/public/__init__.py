"""Public corpora by name: their files, checksums and download."""
