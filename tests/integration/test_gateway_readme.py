"""Every curl of the gateway's README works as written, in that order, on the real processes."""

import asyncio
import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.support import secured
from tests.support.processes import ROOT, started

README = (ROOT / "gateway" / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(curl.*?)```", README, re.DOTALL)
COMMANDS = [command for block in BLOCKS for command in re.split(r"\n(?=curl )", block.strip())]


@pytest.mark.integration
async def test_every_curl_of_the_readme_succeeds(tmp_path: Path) -> None:
    async with started(tmp_path) as processes:
        options = secured.curl_options(processes["gateway"].port)
        # Deleting the collection stands before the pipelines in the README; nothing after it needs one.
        for command in COMMANDS:
            runnable = command.replace("http://127.0.0.1:8000", processes["gateway"].url).replace(
                "curl -s", f"curl -sS -f {options}"
            )
            done = await asyncio.to_thread(
                subprocess.run, ["bash", "-c", runnable], capture_output=True, text=True, timeout=30, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            if "/search" in command:
                answer = json.loads(done.stdout)
                assert answer["hits"][0]["id"] in ("kettle", "teapot")
                assert answer["degraded"] == []
