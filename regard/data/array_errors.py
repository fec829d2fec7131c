"""Errors that reading arrays of unknown origin ends in, whatever of them is damaged."""

from __future__ import annotations

import lzma
import tokenize
import zipfile
import zlib

__all__ = ["UNREADABLE"]

# Numpy reads a header as a literal of Python, so that its errors are those of a parser; RuntimeError has those of zip
# files that are encrypted or packed in an unknown way, and of literals that are nested too deep.
UNREADABLE = (
    OSError, ValueError, TypeError, EOFError, KeyError, OverflowError, SyntaxError, MemoryError, RuntimeError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip
