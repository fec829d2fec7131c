"""Utilities for every other folder: files, states, random streams, and errors of the machine."""
