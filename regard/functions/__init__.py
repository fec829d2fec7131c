"""The verbs of the command line as functions of Python.

A function has the arguments of its verb and returns what the verb prints, as Python values.
"""
