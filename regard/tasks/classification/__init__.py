"""Classification: predict labels or numbers of texts or series."""
