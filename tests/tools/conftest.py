"""A workspace with something in it, a secret beside it, and the tools."""

import os
from pathlib import Path

import pytest

from tieline.tools.search import find_ripgrep
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import Workspace

ENVIRONMENT = {"PATH": os.environ["PATH"], "GREETING": "hello"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the workspace."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workspace, with a file nobody may see or change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("the secret\n")
    return folder


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root)


@pytest.fixture
def box(workspace: Workspace) -> WorkspaceToolbox:
    """All tools, with the search program of our own."""
    return WorkspaceToolbox(workspace, environment=ENVIRONMENT)


@pytest.fixture(params=["ripgrep", "stand-in"])
def searching(request: pytest.FixtureRequest, workspace: Workspace) -> WorkspaceToolbox:
    """All tools, once with each program that can search."""
    if request.param == "stand-in":
        return WorkspaceToolbox(workspace, environment=ENVIRONMENT)
    ripgrep = find_ripgrep(ENVIRONMENT["PATH"])
    if ripgrep is None:
        pytest.skip("ripgrep is not installed")
    return WorkspaceToolbox(workspace, environment=ENVIRONMENT, ripgrep=ripgrep)
