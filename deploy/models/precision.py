"""Decides by the CPU whether models that come in both precisions run in int8 or in fp32, and names these models.

Static int8 needs instructions that add up products of int8 in 32 bits. Without them ONNX Runtime adds pairs of products
in 16 bits, which may overflow and make vectors and scores wrong. Pure but for the text of /proc/cpuinfo.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from services.inference.profiles import ModelError

Precision = Literal["fp32", "int8"]
# By service: its model in each precision. What is called fp32 here computes in fp32, however its weights are stored.
MODELS: Mapping[str, Mapping[Precision, str]] = {
    "dense": {"fp32": "all-MiniLM-L6-v2", "int8": "all-MiniLM-L6-v2-int8"},
    "late_interaction": {"fp32": "bge-small-en-v1.5-tokens", "int8": "bge-small-en-v1.5-tokens-int8"},
    "reranker": {"fp32": "minilm-l6-ce-v4", "int8": "minilm-l6-ce-v4-int8"},
}
# As /proc/cpuinfo names them: x86's, and ARM's dot product.
INSTRUCTIONS = ("amx_int8", "avx512_vnni", "avx_vnni", "asimddp")
LACKING = "this CPU has no instructions for int8 (VNNI, AMX, ARM's dot product)"


@dataclass(frozen=True, slots=True)
class PrecisionChoice:
    """A precision, and why it was chosen."""

    precision: Precision
    reason: str

    @property
    def sentence(self) -> str:
        """The line that a start prints."""
        return f"Encoders and re-ranker in {self.precision}: {self.reason}."


def choose_precision(environment: Mapping[str, str], cpuinfo: str) -> PrecisionChoice:
    """Returns PRECISION, else int8 where every core of /proc/cpuinfo has instructions for it. Raises ModelError."""
    wanted, instructions = asked_precision(environment), int8_instructions(cpuinfo)
    if wanted is None and instructions is not None:
        return PrecisionChoice(
            "int8", f"this CPU has {instructions}; PRECISION=fp32 selects fp32, and all vectors are computed again"
        )
    if wanted is None:
        return PrecisionChoice("fp32", LACKING)
    if wanted == "int8" and instructions is None:
        return PrecisionChoice(wanted, f"PRECISION asks for it, but {LACKING}, so that sums may overflow")
    return PrecisionChoice(wanted, "PRECISION asks for it")


def asked_precision(environment: Mapping[str, str]) -> Precision | None:
    """Returns PRECISION; None where it is not set. Raises ModelError for a value that is none."""
    given = environment.get("PRECISION")
    known: tuple[Precision, ...] = get_args(Precision)
    if given and given not in known:
        raise ModelError(f"PRECISION={given} is none of the choices: take {' or '.join(known)}.")
    return next((precision for precision in known if precision == given), None)


def int8_instructions(cpuinfo: str) -> str | None:
    """Returns one of INSTRUCTIONS that every core in the text of /proc/cpuinfo has; None where there is none."""
    parts = (line.partition(":") for line in cpuinfo.splitlines())
    cores = [set(listed.split()) for name, _, listed in parts if name.strip() in ("flags", "Features")]
    return next((name for name in INSTRUCTIONS if cores and all(name in core for core in cores)), None)


def read_cpuinfo() -> str:
    """Returns the text of /proc/cpuinfo; an empty one where there is none, so that the choice is fp32."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
