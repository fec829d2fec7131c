"""The page that displays inspections: its files for a server, or one HTML file with everything in it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import ConfigError

FOLDER = Path(__file__).parent / "page"  # built from web/; part of every wheel
FILES = ("index.html", "app.js", "app.css", "microphone.js")
EMPTY = '<script type="application/json" id="bundle"></script>'


def require_page() -> None:
    """Raise ConfigError where the page was not built, as in a fresh clone."""
    if missing := [name for name in FILES if not (FOLDER / name).is_file()]:
        raise ConfigError(
            "the page has not been built", why=f"no {', '.join(missing)} in {FOLDER}",
            help="scripts/page builds it in a clone; an installed regard has it",
        )  # fmt: skip


def offline(bundle: Mapping[str, Any] | None = None) -> str:
    """The page as one self-contained HTML file with ``bundle`` in it; without a bundle, a template for the page's own.

    The content security policy allows only the page's own script and style, by their hashes, and no requests.
    """
    require_page()
    html, script, style, _ = ((FOLDER / name).read_text(encoding="utf-8") for name in FILES)  # no microphone offline
    script = script.replace("</script", "<\\/script")
    policy = f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data: blob:"
    data = "" if bundle is None else json.dumps(bundle, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    parts = {
        EMPTY: EMPTY.replace("></", f">{data}</"),
        '<script type="module" crossorigin src="./app.js"></script>': "",
        '<link rel="stylesheet" crossorigin href="./app.css">': f"<style>{style}</style>",
        "<head>": f'<head>\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "</body>": f'<script type="module">{script}</script>\n</body>',
    }
    for old, new in parts.items():
        if html.count(old) != 1:
            raise ConfigError(
                "the page does not belong to this version", where=str(FOLDER), why=f"no {old}", help="scripts/page"
            )
        html = html.replace(old, new)
    return html


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
