"""Upload of an exported folder to the Hugging Face hub."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.core.installation import extra_command
from regard.errors import ConfigError, StorageError

REPOSITORY = re.compile(r"[\w][\w.-]{0,95}/[\w][\w.-]{0,95}", re.ASCII)


def require_repository(name: str) -> None:
    """Raise ConfigError if a name is not OWNER/NAME, or the library of the hub is not installed."""
    if not REPOSITORY.fullmatch(name) or ".." in name:
        raise ConfigError(f"{name[:100]!r} is not the name of a repository", where="--push", help="write OWNER/NAME")
    _library()


def upload(folder: Path, name: str) -> str:
    """Upload the files of a folder as one commit to a repository, which is created if it is missing.

    Args:
        folder: the exported folder.
        name: OWNER/NAME.

    Returns:
        the address of the commit.

    Raises:
        StorageError: the hub refuses the upload, or cannot be reached.
    """
    library = _library()
    errors = (OSError, ValueError, library.errors.HfHubHTTPError)
    try:
        api = library.HfApi()
        api.create_repo(name, exist_ok=True)
        commit = api.upload_folder(repo_id=name, folder_path=str(folder), commit_message="Upload a model of Regard")
    except errors as error:
        why = " ".join(str(error).split())[:300] or type(error).__name__
        help = f"log in with `hf auth login`, then: hf upload {name} {folder}"
        raise StorageError(f"{name} cannot be uploaded", where=str(folder), why=why, help=help) from error
    return str(getattr(commit, "commit_url", commit))


def _library() -> Any:
    try:
        library = import_module("huggingface_hub")
        import_module("huggingface_hub.errors")
    except ImportError as error:
        raise ConfigError("huggingface_hub is not installed", why=str(error), help=extra_command("hub")) from error
    return library
