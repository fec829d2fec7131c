"""Several recipes under one budget, in one table."""
