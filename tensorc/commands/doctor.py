"""`tensorc doctor`: what works on this machine, and what installs the rest."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
from dataclasses import asdict, dataclass

import click

from tensorc.commands.options import print_json, with_json


@dataclass(frozen=True)
class Finding:
    """One thing that tensorc can use: whether it is there, and what it is for."""

    name: str
    found: str
    purpose: str
    install: str

    @property
    def line(self) -> str:
        """For people: a tick or what to do."""
        if self.found:
            return f"  ok       {self.name:12} {self.found:14} {self.purpose}"
        return f"  missing  {self.name:12} {'':14} {self.purpose}; {self.install}"


_PACKAGES = (
    ("numpy", "arrays", "pip install numpy"),
    ("ml_dtypes", "bf16 and f8 arrays", "pip install ml_dtypes"),
    ("llvmlite", "CPU kernels", "pip install 'llvmlite>=0.50,<0.51'"),
    ("egglog", "algebraic rewriting", "pip install 'egglog>=13.2,<13.3'"),
    ("ortools", "scheduling", "pip install 'ortools>=9.15,<9.16'"),
    ("sympy", "fusion formulas", "pip install sympy"),
    ("cupy-cuda13x", "CUDA kernels on a GPU", "pip install 'tensorc[cuda]'"),
)


def findings() -> list[Finding]:
    """Every package and tool, found or not; nothing heavy is imported."""
    found = [Finding(name, _version(name), use, how) for name, use, how in _PACKAGES]
    compilers = [c for c in ("c++", "clang++", "g++") if shutil.which(c)]
    found.append(
        Finding("c++", compilers[0] if compilers else "", "the CUDA emulator",
                "install g++ or pip install 'tensorc[emulator]'")
    )  # fmt: skip
    nvcc = "nvcc" if shutil.which("nvcc") else ""
    found.append(Finding("nvcc", nvcc, "checking CUDA ahead of time", "install the CUDA toolkit"))
    return found


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


@click.command("doctor")
@with_json
def command(as_json: bool) -> int:
    """Say what works on this machine and what installs the rest."""
    found = findings()
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    if as_json:
        print_json("doctor", {"system": system, "findings": [asdict(item) for item in found]})
        return 0
    click.echo(system)
    for item in found:
        click.echo(item.line)
    return 0
