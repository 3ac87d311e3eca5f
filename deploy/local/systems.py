"""Chooses the services that a stack starts on request: SYSTEMS, what a demo needs; brings the models of all."""

from collections.abc import Iterable, Mapping

from deploy.local.problem import StackProblem
from deploy.local.replaced_environment import replaced_environment
from deploy.models.fetch import main as fetch_models
from gateway.search.catalog import read_pipelines
from gateway.search.plan import PipelineError, absent_backends
from gateway.settings import DEFAULT_BACKENDS, GatewaySettings
from services.chassis.settings.configuration import BadSettings, read_settings
from services.contracts.query import AskedPipeline
from services.dense.settings import BgeSettings, DenseSettings, E5Settings
from services.late_interaction.settings import LateInteractionSettings
from services.reranker.settings import RerankerSettings
from services.sparse.settings import SparseSettings

SYSTEMS = ("sparse", "late_interaction", "dense_bge", "dense_e5")
PAPER = "paper"  # of SYSTEMS: all of them
NONE = "none"  # of SYSTEMS: USUAL does not start either
USUAL = "late_interaction"
_SETTINGS: Mapping[str, type[DenseSettings | SparseSettings | LateInteractionSettings | RerankerSettings]] = {
    "dense": DenseSettings,
    "reranker": RerankerSettings,
    "sparse": SparseSettings,
    "late_interaction": LateInteractionSettings,
    "dense_bge": BgeSettings,
    "dense_e5": E5Settings,
}


def requested_systems(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Returns USUAL, unless SYSTEMS has NONE, and the services that SYSTEMS names. Raises StackProblem for a name that
    is none."""
    named = _named(environment)
    if unknown := [name for name in named if name not in (*SYSTEMS, PAPER, NONE)]:
        raise StackProblem(
            f"SYSTEMS={environment['SYSTEMS']}: {', '.join(unknown)} is none of the choices: take {', '.join(SYSTEMS)} "
            f"or several, separated by commas, {PAPER} for all, or {NONE} to start without {USUAL}. The other services "
            "always start."
        )
    wanted = named if NONE in named else [*named, USUAL]
    return tuple(name for name in SYSTEMS if name in wanted or PAPER in named)


def _named(environment: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in environment.get("SYSTEMS", "").split(",") if name.strip()]


def asks_for_paper(environment: Mapping[str, str]) -> bool:
    """Returns whether SYSTEMS asks for the systems of the BEIR paper."""
    return PAPER in _named(environment)


def demo_systems(environment: Mapping[str, str], pipelines: Iterable[AskedPipeline]) -> tuple[str, ...]:
    """Returns the services that SYSTEMS names, and those that the pipelines of a demo need beside the ones that always
    start."""
    requested = requested_systems({"SYSTEMS": ",".join([NONE, *_named(environment)])})
    try:
        with replaced_environment(environment):
            settings = read_settings(GatewaySettings)
        backends = {**DEFAULT_BACKENDS, **settings.backends}
        absent = read_pipelines(settings.pipelines, backends).absent
    except (BadSettings, PipelineError):
        return requested  # the check before the start names the fault
    needed: set[str] = set()
    for pipeline in pipelines:
        needed.update(absent.get(pipeline, ()) if isinstance(pipeline, str) else absent_backends(pipeline, backends))
    return tuple(name for name in SYSTEMS if name in requested or name in needed)


def bring_models(environment: Mapping[str, str], processes: Iterable[str]) -> None:
    """Fetches and verifies the models of these processes, as `make models` does. Raises StackProblem."""
    with replaced_environment(environment):
        for name in (process for process in processes if process in _SETTINGS):
            try:
                settings = read_settings(_SETTINGS[name])
            except BadSettings:
                continue  # the check before the start names the fault
            runs_on = settings.scorer if isinstance(settings, RerankerSettings) else settings.encoder
            if runs_on == "onnx" and fetch_models([settings.model, "--directory", str(settings.models)]):
                raise StackProblem(f"The model of {name} could not be fetched (see above); nothing was started.")
