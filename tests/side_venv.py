"""A virtual environment beside the one that the tests run in: it sees all of that, and packages of its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent


@dataclass(frozen=True)
class SideVenv:
    """Packages are built and installed into it for real, offline, by the pinned uv and its build backend."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> SideVenv:
        """Make an empty one."""
        venv = cls.bare(path)
        ours = sysconfig.get_path("purelib")
        # As a site directory, and not only on the path: the workspace's own packages are there by .pth files.
        (venv.purelib / "beside.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
        return venv

    @classmethod
    def bare(cls, path: Path) -> SideVenv:
        """Make one that sees nothing of this one."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
        return cls(path)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.path / "bin" / "python"

    @property
    def purelib(self) -> Path:
        """Where its packages are."""
        return Path(sysconfig.get_path("purelib", vars={"base": str(self.path)}))

    def install(self, package: Path) -> None:
        """Build a package from its directory, or take its wheel, and install it, as pip would without an index."""
        how = ("--offline", "--no-deps", "--no-build-isolation", "--reinstall")
        run_uv("pip", "install", "--python", self.python, *how, package)

    def uninstall(self, name: str) -> None:
        """Remove a package."""
        run_uv("pip", "uninstall", "--python", self.python, name)


def run_uv(*arguments: str | Path) -> None:
    """Run the pinned uv."""
    done = subprocess.run(
        [sys.executable, "-m", "uv", "--quiet", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def wheel(package: Path, directory: Path) -> Path:
    """Build the wheel of a package, as for publishing, without a network."""
    offline = ("--offline", "--no-build-isolation", "--wheel", "--python", sys.executable)
    run_uv("build", *offline, "--out-dir", directory, package)
    (built,) = directory.glob("*.whl")
    return built


def write_package(directory: Path, name: str, code: str, entry_point: str) -> Path:
    """Write the sources of a package with one module and one entry point of volmgr."""
    module = name.replace("-", "_")
    source = directory / "src" / module
    source.mkdir(parents=True, exist_ok=True)
    (source / "__init__.py").write_text(code)
    (directory / "pyproject.toml").write_text(
        dedent(f"""\
        [project]
        name = "{name}"
        version = "1.0"

        [project.entry-points."volmgr.plugins"]
        {entry_point}

        [build-system]
        requires = ["uv_build"]
        build-backend = "uv_build"
        """)
    )
    return directory
