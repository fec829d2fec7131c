"""Positions: tables, rotations, and biases by distance."""
