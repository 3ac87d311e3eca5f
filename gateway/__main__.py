"""Starts the gateway: `python -m gateway`. Makes, lists and revokes API keys: `python -m gateway keys`."""

import sys
from functools import partial

from gateway.app import build_app
from gateway.settings import GatewaySettings
from services.chassis.server.serve import start
from services.files.disk_writes import end_command
from services.keys.keys_command import keys_command

if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            start("gateway", GatewaySettings, build_app)
        case ["keys", *arguments]:
            end_command("keys", partial(keys_command, arguments))
        case _:
            sys.exit(
                "gateway: without arguments it serves, by its settings (.env.example); `keys --help` is for API keys."
            )
