"""Nodes: predict the class of nodes of a graph."""
