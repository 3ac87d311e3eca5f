"""Builds the images of the tests: a base of Debian's packages in place of Docker Hub's, and ours by deploy/Dockerfile.

A registry of images is never asked.
"""

import subprocess

from deploy.deployables import DEPLOYABLES
from tests.containers.engine import Engine
from tests.support.processes import ROOT

# Not the tag of deploy/Dockerfile: on an engine that runs already, that is somebody's real image.
BASE = "retrieval-stack/debian-python:bookworm"
VERSION = "test"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
# As python:3.11-slim has it: `python`, and a pip that installs outside virtual environments. The authorities of this
# machine, because its registries may be reached through one of its own.
MADE_ALIKE = (
    'ln -s python3 "$1/usr/bin/python"',
    'rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
    f'cp {AUTHORITIES} "$1{AUTHORITIES}"',
)
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"


def build_base(engine: Engine) -> None:
    """Makes the image BASE; the root file system is made once a checkout."""
    root = ROOT / ".cache" / "containers" / "bookworm.tar"
    if not root.exists():
        print("base image: mmdebstrap fetches Debian's packages", flush=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        made = root.with_suffix(".part.tar")
        lean = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "man", "locale")]
        hooks = [f"--customize-hook={line}" for line in MADE_ALIKE]
        lean += ["--variant=minbase", "--dpkgopt=force-unsafe-io"]
        command = ["mmdebstrap", f"--include={PACKAGES}", *lean, *hooks]
        done = subprocess.run([*command, "bookworm", made], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        made.rename(root)
    variables = [f"--change=ENV {name}={AUTHORITIES}" for name in ("SSL_CERT_FILE", "PIP_CERT")]
    engine.docker("import", *variables, root, BASE)


def build_image(engine: Engine, name: str) -> str:
    """Builds the image of one deployable on BASE; returns its tag."""
    tag = f"retrieval-stack/{name}:{VERSION}"
    print(f"image: {tag}", flush=True)
    # No hub of models is asked: what its files are is pinned, and the other sources have them.
    arguments = {"DEPLOYABLE": DEPLOYABLES[name].name, "PYTHON_IMAGE": BASE, "HF_ENDPOINT": "http://127.0.0.1:9"}
    chosen = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
    engine.docker("build", "--file", "deploy/Dockerfile", *chosen, "--tag", tag, ".")
    return tag


def size(engine: Engine, tag: str) -> int:
    """Returns the bytes of an image, all its layers together."""
    return int(engine.docker("image", "inspect", "--format", "{{.Size}}", tag))
