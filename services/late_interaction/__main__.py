"""Starts the late-interaction service: `python -m services.late_interaction`."""

from services.chassis.server.serve import start
from services.late_interaction.app import build_app
from services.late_interaction.settings import LateInteractionSettings

if __name__ == "__main__":
    start("late_interaction", LateInteractionSettings, build_app)
