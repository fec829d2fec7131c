"""Claims of the literature, each run in seconds to minutes and judged: one claim a file."""
