"""Holds training and benches for developers. In no image; imports the rest, nothing imports it."""

import services  # noqa: F401  # before ONNX Runtime, which some modules here import first
