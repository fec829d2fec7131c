"""Parts of uvicorn without documentation: the installed version has them, and another one is refused with a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import uvicorn

from regard.commands.server_plan import require_libraries
from regard.errors import ConfigError
from regard.server.uvicorn_parts import TESTED, missing_parts

ROOT = Path(__file__).parents[2]


def test_the_installed_version_has_all_parts() -> None:
    missing = missing_parts()
    assert not missing, f"uvicorn {uvicorn.__version__} lacks {missing}: change regard/server, or cap the extra serve"


def test_another_version_is_refused_before_it_loses_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    require_libraries()
    monkeypatch.delattr(uvicorn.Server, "main_loop")
    with pytest.raises(ConfigError, match="is not supported") as refused:
        require_libraries()
    assert "Server.main_loop" in str(refused.value.why) and f"uvicorn=={TESTED}" in str(refused.value.help)
    monkeypatch.setattr(uvicorn, "Config", lambda app: None)  # it no longer takes the same arguments
    with pytest.raises(ConfigError, match="is not supported"):
        require_libraries()


def test_the_suggested_version_is_the_one_of_the_tests() -> None:
    assert re.findall(r"^uvicorn==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE) == [TESTED]
