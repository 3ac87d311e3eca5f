"""Renders planned traffic as a file of targets and a k6 script that reads it. Pure text; sends and writes nothing.

A target is a line of JSON with `method`, `url`, `header` (name → list of values) and `body` (base64), as vegeta reads
them too. The tools send at a constant rate, in the order of the lines, whether or not earlier requests were answered.
Their times count from when they send, not from a planned time.
"""

import base64
import json
import math
from dataclasses import dataclass
from fractions import Fraction

from evaluator.load.sending.generator_task import GeneratorTask

# The environment of the tool has the key of the gateway: no file holds it.
KEY = "GATEWAY_API_KEY"
PERCENTILES = (50, 90, 95, 99, 99.9)


@dataclass(frozen=True, slots=True)
class ExportedTraffic:
    """One pipeline at one rate: what is sent, in requests a second, for how many seconds. `name` begins the files."""

    name: str
    task: GeneratorTask
    rate: float
    seconds: float

    @property
    def timeout_ms(self) -> int:
        """How long a request may take."""
        return round(self.task.timeout_s * 1000)

    @property
    def fraction(self) -> Fraction:
        """The rate as whole requests in whole seconds."""
        return Fraction(self.rate).limit_denominator(1000)


def exported_files(traffic: ExportedTraffic) -> dict[str, str]:
    """Returns the script and its targets: name → text."""
    return {f"{traffic.name}.js": _script(traffic), f"{traffic.name}.targets.jsonl": _targets(traffic)}


def export_command(traffic: ExportedTraffic) -> str:
    """Returns the command that runs the script, in the folder that holds it."""
    return f"k6 run {traffic.name}.js"


def _targets(traffic: ExportedTraffic) -> str:
    task = traffic.task
    header = {name: [value] for name, value in task.headers.items()}
    target = {"method": "POST", "url": task.url, "header": header}
    lines = [json.dumps({**target, "body": base64.b64encode(body).decode()}) for body in task.bodies]
    return "".join(lines[pick] + "\n" for pick in task.picks)


def _script(traffic: ExportedTraffic) -> str:
    # k6 makes a JavaScript engine for each request in flight; it adds some when they run out, and drops what is over.
    most = traffic.task.in_flight
    options = {
        "discardResponseBodies": True,
        "summaryTrendStats": ["count", "avg", "max", *(f"p({share:g})" for share in PERCENTILES)],
        "scenarios": {
            "load": {
                "executor": "constant-arrival-rate",
                "rate": traffic.fraction.numerator,
                "timeUnit": f"{traffic.fraction.denominator}s",
                "duration": f"{round(traffic.seconds * 1000)}ms",
                "preAllocatedVUs": min(most, max(10, math.ceil(traffic.rate / 4))),
                "maxVUs": most,
            }
        },
    }
    return f"""// {export_command(traffic)}
import http from "k6/http";
import encoding from "k6/encoding";
import exec from "k6/execution";
import {{ SharedArray }} from "k6/data";

const lines = new SharedArray("targets", () => open("./{traffic.name}.targets.jsonl").trim().split("\\n"));
const key = __ENV.{KEY} ? {{ authorization: `Bearer ${{__ENV.{KEY}}}` }} : {{}};

export const options = {json.dumps(options, indent=2)};

export default function () {{
  const target = JSON.parse(lines[exec.scenario.iterationInTest % lines.length]);
  const headers = Object.assign({{}}, key);
  for (const name in target.header) headers[name] = target.header[name].join(", ");
  const body = encoding.b64decode(target.body);
  http.request(target.method, target.url, body, {{ headers, timeout: "{traffic.timeout_ms}ms" }});
}}
"""
