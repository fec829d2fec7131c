"""Positions: tables, rotations, and what distance adds to a score."""
