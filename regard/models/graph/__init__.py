"""Networks over the nodes of graphs."""
