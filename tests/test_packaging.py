"""The wheel and the source archive hold everything, and install where nothing else is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
USED = (
    "import tensorc as tc, tensorc.passes, tensorc.codegen\n"
    "ops = tc.loads('op f(x: f32[n]) -> y: f32[n]\\n  y[n] = 2 * x[n]\\n')\n"
    "import numpy as np\n"
    "assert ops.f(np.ones(3, np.float32)).tolist() == [2, 2, 2]\n"
    "assert {path!r} in tc.__file__, tc.__file__\n"
)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive, built from a copy of the tree."""
    folder = tmp_path_factory.mktemp("build")
    source, out = folder / "source", folder / "dist"
    names = ["tensorc", "passes", "codegen", "pyproject.toml", "README.md", "LICENSE"]
    source.mkdir()
    for name in names:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "-o", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_the_wheel_installs_and_runs_alone(archives: Path, tmp_path: Path) -> None:
    (wheel,) = archives.glob("*.whl")
    target = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
        names = archive.namelist()
    assert not [name for name in names if name.startswith(("passes/", "codegen/", "tests/"))]
    run_there(target, tmp_path)


def test_the_source_archive_holds_what_the_wheel_is_made_of(archives: Path) -> None:
    (source,) = archives.glob("*.tar.gz")
    (wheel,) = archives.glob("*.whl")
    with tarfile.open(source) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    with zipfile.ZipFile(wheel) as packed:
        wanted = [name for name in packed.namelist() if ".dist-info/" not in name]
    for name in wanted:
        short = name.removeprefix("tensorc/")
        place = short if short.startswith(("passes/", "codegen/")) else name
        assert place in inside, place


def run_there(target: Path, folder: Path) -> None:
    """Use the package from `target`, away from the source tree."""
    environment = {**os.environ, "PYTHONPATH": str(target)}
    code = USED.format(path=str(target))
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
