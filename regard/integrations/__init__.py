"""Regard's parts inside other libraries. Nothing here is imported by the rest of the package."""
