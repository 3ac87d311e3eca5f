"""Checks every process's settings and the pipelines before a start, by reading them as the processes will."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from deploy.local.choices import ROOT
from deploy.local.problem import StackProblem
from deploy.local.replaced_environment import replaced_environment
from evaluator.settings import EvaluatorSettings
from gateway.search.catalog import read_pipelines
from gateway.search.plan import PipelineError
from gateway.settings import GatewaySettings
from services.chassis.instruments import Instruments
from services.chassis.server.tls import certificate_of
from services.chassis.settings.configuration import (
    BadSettings,
    ConfigurationError,
    read_settings,
    secret_variables,
    variable,
    variables,
)
from services.chassis.settings.service_settings import ServiceSettings
from services.chassis.settings.trust import caller_context
from services.dense.settings import SERVICES, DenseSettings
from services.inference.profiles import (
    MODELS_FILE,
    ModelError,
    load_cross_encoder,
    load_encoder,
    load_sparse_encoder,
    load_token_encoder,
)
from services.late_interaction.settings import LateInteractionSettings
from services.lexical.settings import LexicalSettings
from services.reranker.settings import RerankerSettings
from services.sparse.settings import SparseSettings

SETTINGS: Mapping[str, type[ServiceSettings]] = {
    "gateway": GatewaySettings,
    "lexical": LexicalSettings,
    **SERVICES,
    "sparse": SparseSettings,
    "late_interaction": LateInteractionSettings,
    "reranker": RerankerSettings,
    "evaluator": EvaluatorSettings,
}
# Variables of compose alone.
ELSEWHERE = frozenset({"GATEWAY_PUBLISHED_PORT", "ELASTICSEARCH_VERSION", "QDRANT_VERSION"})


def expect_startable(environment: Mapping[str, str], processes: Iterable[str]) -> None:
    """Raises StackProblem listing every fault of the settings, the pipelines and the chosen models."""
    faults: list[str] = []
    with replaced_environment(environment):
        for process in processes:
            if process not in SETTINGS:
                continue
            try:
                settings = read_settings(SETTINGS[process])
            except BadSettings as error:
                faults += str(error).splitlines()
            else:
                faults += _faults(settings)
    if faults:
        raise StackProblem("\n  ".join(["Nothing was started, because:", *dict.fromkeys(faults)]))


def unknown_settings(environment: Mapping[str, str]) -> list[str]:
    """Returns variables with the prefix of a setting that no setting has: most likely typing errors."""
    known = {name for settings in SETTINGS.values() for name in variables(settings)} | ELSEWHERE
    prefixes = tuple(f"{process.upper()}_" for process in SETTINGS)
    return sorted(name for name in environment if name.startswith(prefixes) and name not in known)


def settings_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the non-empty settings of an environment."""
    known = {name for settings in SETTINGS.values() for name in variables(settings)}
    return {name: environment[name] for name in sorted(known) if environment.get(name)}


def public_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that hold no secret."""
    secret = {name for process in SETTINGS.values() for name in secret_variables(process)}
    return {name: value for name, value in settings.items() if name not in secret}


def _faults(settings: ServiceSettings) -> Iterator[str]:
    try:
        certificate_of(settings, Instruments())
        if isinstance(settings, GatewaySettings | EvaluatorSettings) and settings.ca_file is not None:
            caller_context(settings.ca_file)
    except ConfigurationError as error:
        yield str(error)
    match settings:
        case GatewaySettings():
            try:
                read_pipelines(settings.pipelines, settings.backends)
            except PipelineError as error:
                yield str(error)
        case DenseSettings(encoder="onnx", model=name, models=models):
            yield from _model_faults(variable(type(settings), "model"), load_encoder, name, models)
        case SparseSettings(encoder="onnx", model=name, models=models, idf=table):
            yield from _model_faults("SPARSE_MODEL", load_sparse_encoder, name, models)
            yield from _table_faults("SPARSE_IDF", table, name)
        case LateInteractionSettings(encoder="onnx", model=name, models=models, idf=table):
            yield from _model_faults("LATE_INTERACTION_MODEL", load_token_encoder, name, models)
            yield from _table_faults("LATE_INTERACTION_IDF", table, name)
        case RerankerSettings(scorer="onnx", model=name, models=models):
            yield from _model_faults("RERANKER_MODEL", load_cross_encoder, name, models)


def _model_faults(variable: str, load: Callable[[Path, str], object], name: str, models: Path) -> Iterator[str]:
    try:
        load(MODELS_FILE, name)
    except ModelError as error:
        yield f"{variable}={name}: {error}"
    else:
        if not (ROOT / models / name).is_dir():
            yield f"{variable}={name}: it is not in {models}; `make models MODELS={name}` brings it."


def _table_faults(variable: str, table: Path | None, model: str) -> Iterator[str]:
    if table is not None and not (ROOT / table).is_file():
        yield (
            f"{variable}={table}: there is no such file; `.venv/bin/python -m workshop.idf CORPUS "
            f"--model {model} --out {table}` writes it."
        )
