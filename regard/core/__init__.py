"""Utilities for every other folder: files, states, random streams, and errors of the machine."""

VERSION = "0.1.0"  # of Regard; hatchling reads it from this line
