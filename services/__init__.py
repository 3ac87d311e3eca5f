"""The processes behind the gateway, and what they share."""

import os

# From 1.29 on ONNX Runtime sends Microsoft what it runs, and keeps an identifier of the machine in ~/.cache/Microsoft,
# unless this is set when it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
