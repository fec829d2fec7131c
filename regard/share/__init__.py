"""Export of trained models to other formats, with a report of parity, and import of models of transformers."""
