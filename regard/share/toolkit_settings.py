"""Settings of other toolkits: YAML files, and options inside a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from regard.core.installation import extra_command
from regard.errors import ConfigError, ModelError
from regard.share.marian_folder import SMALL, FolderSettings, bytes_of, invalid_folder, validation_as_model_error

MERGE = "tag:yaml.org,2002:merge"
Settings = TypeVar("Settings", bound=FolderSettings)


def settings_of(kind: type[Settings], values: Mapping[str, Any], where: Path) -> Settings:
    """Return the settings among values; None counts as unset. ModelError if they are invalid."""
    with validation_as_model_error(where):
        return kind.model_validate({name: value for name, value in values.items() if value is not None})


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping of a YAML file; a tagged value counts as its content, and no object is made.

    Raises:
        ModelError: the file is damaged or not a mapping.
    """
    try:
        yaml: Any = import_module("yaml")
    except ImportError as error:
        raise ConfigError("yaml is not installed", why=str(error), help=extra_command("import")) from error

    class Loader(yaml.SafeLoader):
        def flatten_mapping(self, node: Any) -> None:
            """Refuse merge keys: a few lines of them can state billions of keys."""
            if any(key.tag == MERGE for key, _ in node.value):
                raise ValueError("it has a merge key `<<`; write its keys out")
            super().flatten_mapping(node)

    Loader.add_multi_constructor("!", _untagged)
    Loader.add_multi_constructor("tag:yaml.org,2002:python/", _untagged)
    try:
        document = yaml.load(bytes_of(path, SMALL).decode("utf-8"), Loader=Loader)
    except ModelError:
        raise
    except Exception as error:  # numbers, dates and tags of a file may fail in any way
        raise invalid_folder(path, str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    if not isinstance(document, dict):
        raise invalid_folder(path, "it is not a mapping")
    return document


def _untagged(loader: Any, suffix: str, node: Any) -> Any:
    """Return the content of a tagged node."""
    if node.id == "mapping":
        return loader.construct_mapping(node, deep=True)
    if node.id == "sequence":
        return loader.construct_sequence(node, deep=True)
    return loader.construct_scalar(node)
