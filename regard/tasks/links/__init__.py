"""Links: whether two nodes of a graph belong together."""
