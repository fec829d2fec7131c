"""Nodes: a class of each node of a graph."""
