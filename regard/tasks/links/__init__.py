"""Links: predict edges between nodes of a graph."""
