"""Contents of files in base64, as requests send them."""

from __future__ import annotations

import base64
from typing import Any

from regard.errors import DataError


def decode_base64(text: Any, key: str) -> bytes:
    """Return the bytes of a text in base64. Raises DataError for another value."""
    try:
        return base64.b64decode(text if isinstance(text, str) else None, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        why = "expected the contents of a file in base64; paths and addresses are not opened"
        raise DataError(f"cannot decode {key!r}", why=why) from error
