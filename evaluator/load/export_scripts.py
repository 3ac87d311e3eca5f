"""Renders planned traffic as a script and its targets for k6, vegeta or locust. Pure text; sends and writes nothing.

The tools send at a constant rate, each request at the place of the plan's order. Their times count from when they send,
not from a planned time; k6 and vegeta send whether or not earlier requests were answered, locust's users wait.
"""

import base64
import json
import math
import shlex
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from urllib.parse import urlsplit

from evaluator.load.sending.generator_task import GeneratorTask

# The environment of the tool has the key of the gateway: no file holds it.
KEY = "GATEWAY_API_KEY"
PERCENTILES = (50, 90, 95, 99, 99.9)


class ExportTool(StrEnum):
    """The tools that can send exported traffic."""

    K6 = "k6"
    VEGETA = "vegeta"
    LOCUST = "locust"


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


def exported_files(tool: ExportTool, traffic: ExportedTraffic) -> dict[str, str]:
    """Returns the files of a tool: name → text."""
    match tool:
        case ExportTool.K6:
            return {f"{traffic.name}.js": _k6_script(traffic), f"{traffic.name}.json": _requests(traffic)}
        case ExportTool.VEGETA:
            return {f"{traffic.name}.sh": _vegeta_script(traffic), f"{traffic.name}.targets.jsonl": _targets(traffic)}
        case ExportTool.LOCUST:
            return {f"{traffic.name}.py": _locust_script(traffic), f"{traffic.name}.json": _requests(traffic)}


def export_command(tool: ExportTool, traffic: ExportedTraffic) -> str:
    """Returns the command that runs the script, in the folder that holds it."""
    match tool:
        case ExportTool.K6:
            return f"k6 run {traffic.name}.js"
        case ExportTool.VEGETA:
            return f"sh {traffic.name}.sh"
        case ExportTool.LOCUST:
            users = math.ceil(traffic.rate)
            return f"locust -f {traffic.name}.py --headless -u {users} -r {users} -t {math.ceil(traffic.seconds)}s"


def _requests(traffic: ExportedTraffic) -> str:
    """Returns the distinct bodies, and the body of each request in order, as JSON."""
    bodies = [body.decode() for body in traffic.task.bodies]
    return json.dumps({"bodies": bodies, "picks": traffic.task.picks}, ensure_ascii=False) + "\n"


def _k6_script(traffic: ExportedTraffic) -> str:
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
    given = {"headers": traffic.task.headers, "timeout": f"{traffic.timeout_ms}ms"}
    return f"""// {export_command(ExportTool.K6, traffic)}
import http from "k6/http";
import exec from "k6/execution";
import {{ SharedArray }} from "k6/data";

const read = (key) => new SharedArray(key, () => JSON.parse(open("./{traffic.name}.json"))[key]);
const bodies = read("bodies");
const picks = read("picks");

const given = {json.dumps(given)};
if (__ENV.{KEY}) given.headers.authorization = `Bearer ${{__ENV.{KEY}}}`;

export const options = {json.dumps(options, indent=2)};

export default function () {{
  const body = bodies[picks[exec.scenario.iterationInTest % picks.length]];
  http.post({json.dumps(traffic.task.url)}, body, given);
}}
"""


def _vegeta_script(traffic: ExportedTraffic) -> str:
    name, rate = traffic.name, traffic.fraction
    return f"""#!/bin/sh
# {export_command(ExportTool.VEGETA, traffic)}
set -e
targets() {{
  if [ -n "${{{KEY}:-}}" ]; then
    # Not by an option of vegeta: other users can read command lines.
    awk '{{
      at = index($0, "\\"header\\": {{") + 11
      print substr($0, 1, at - 1) "\\"authorization\\": [\\"Bearer " ENVIRON["{KEY}"] "\\"], " substr($0, at)
    }}' {name}.targets.jsonl
  else
    cat {name}.targets.jsonl
  fi
}}
targets | vegeta attack -name={shlex.quote(name)} -format=json \\
  -rate={rate.numerator}/{rate.denominator}s -duration={round(traffic.seconds * 1000)}ms \\
  -timeout={traffic.timeout_ms}ms -max-workers={traffic.task.in_flight} -output={name}.results
vegeta report {name}.results
"""


def _targets(traffic: ExportedTraffic) -> str:
    task = traffic.task
    header = {name: [value] for name, value in task.headers.items()}
    target = {"method": "POST", "url": task.url, "header": header}
    lines = [json.dumps({**target, "body": base64.b64encode(body).decode()}) for body in task.bodies]
    return "".join(lines[pick] + "\n" for pick in task.picks)


def _locust_script(traffic: ExportedTraffic) -> str:
    url = urlsplit(traffic.task.url)
    return f'''"""{export_command(ExportTool.LOCUST, traffic)}"""

import itertools
import json
import os
from pathlib import Path

import gevent
from locust import FastHttpUser, constant_throughput, task

USERS, RATE = {math.ceil(traffic.rate)}, {traffic.rate!r}
REQUESTS = json.loads(Path(__file__).with_name("{traffic.name}.json").read_text(encoding="utf-8"))
HEADERS = {dict(traffic.task.headers)!r}
if os.environ.get("{KEY}"):
    HEADERS["authorization"] = "Bearer " + os.environ["{KEY}"]
NUMBERS = itertools.count()
STARTS = itertools.count()


class Searcher(FastHttpUser):
    host = {f"{url.scheme}://{url.netloc}"!r}
    wait_time = constant_throughput(RATE / USERS)
    network_timeout = connection_timeout = {traffic.task.timeout_s!r}

    def on_start(self):
        # The users start at once; so they send one after another, not all together.
        gevent.sleep(next(STARTS) % USERS / RATE)

    @task
    def search(self):
        pick = REQUESTS["picks"][next(NUMBERS) % len(REQUESTS["picks"])]
        self.client.post({url.path!r}, data=REQUESTS["bodies"][pick].encode(), headers=HEADERS)
'''
