"""Makes an environment of its own for packages that ours does not hold."""

import subprocess
import sys
from pathlib import Path


def environment(folder: Path, *packages: str | Path) -> Path:
    """Returns the folder of the commands of a new environment with these packages."""
    uv, commands = Path(sys.executable).with_name("uv"), folder / "venv" / "bin"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder / "venv"], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", commands / "python", *packages], check=True)
    return commands
