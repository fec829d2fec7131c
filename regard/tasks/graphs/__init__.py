"""Graphs: predict a class or a number of a whole graph."""
