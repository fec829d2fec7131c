"""Graphs: a class or a number of each graph as a whole."""
