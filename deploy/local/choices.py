"""Decides engines, ports and directories of a stack from the environment. Starts nothing."""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from deploy.local.ports import DEFAULT_PORTS, HOST, free_ports, port_block
from deploy.local.problem import StackProblem
from deploy.local.secure import SecureFiles, secure_files
from deploy.local.systems import SYSTEMS, requested_systems
from evaluator.datasets.catalogue import load_catalogue
from evaluator.settings import EvaluatorSettings
from gateway.families import STARTABLE
from gateway.settings import BackendAddress
from services.chassis.settings.addresses import server_address
from services.contracts.base import Name

ROOT = Path(__file__).resolve().parents[2]
# Processes that a backend of the same name in GATEWAY_BACKENDS replaces.
OWN_BACKENDS: tuple[str, ...] = ("lexical", "dense", *SYSTEMS, "reranker")
# The settings that a stack decides, because its data lie in its directory and its processes reach one another.
DECIDED: tuple[str, ...] = (
    *("GATEWAY_URL", "GATEWAY_EVALUATOR_URL", "EVALUATOR_SEARCH_URL", "LEXICAL_DIRECTORY", "LEXICAL_INDEX_PREFIX"),
    *(f"{service.upper()}_{setting}" for service in ("dense", *SYSTEMS) for setting in ("DIRECTORY", "PREFIX")),
    *(f"{process.upper()}_METRICS_PORT" for process in DEFAULT_PORTS),
)
_BACKENDS = TypeAdapter(dict[Name, BackendAddress])
_FOLDERS = TypeAdapter(tuple[str, ...])


@dataclass(frozen=True, slots=True)
class Choices:
    """One stack: its directories, the port of each process it starts, and the environment of all processes."""

    directory: Path
    lexical: str  # edge | elasticsearch
    stores: Mapping[str, str]  # of each vector service: edge | qdrant, of dense also elasticsearch
    ports: Mapping[str, int]
    elasticsearch_url: str | None  # None: we start one, if a service wants it
    prefix: str  # of names on servers that this stack shares with others
    backends: Mapping[str, BackendAddress]  # those of the environment, beside the stack's own or in their place
    datasets: str | None = None  # EVALUATOR_DATASETS with the folder of DATASET; None: as the environment has it
    unused: tuple[str, ...] = ()  # settings of the environment that this stack decides
    encrypted: frozenset[str] = frozenset()  # processes whose port speaks TLS
    secure: SecureFiles | None = None  # with SECURE=1
    models: Mapping[str, str] = field(default_factory=dict)  # by service, where `with_models` has chosen one
    precision: str = ""  # the sentence about them

    @property
    def on_elasticsearch(self) -> frozenset[str]:
        """The services of this stack whose engine is an Elasticsearch."""
        return _on_elasticsearch(self.lexical, self.stores, self.ports)

    @property
    def starts_elasticsearch(self) -> bool:
        """Whether this stack starts an Elasticsearch."""
        return "elasticsearch" in self.ports

    def url(self, process: str) -> str:
        """Returns the URL of a process of this stack."""
        scheme = "https" if process in self.encrypted else "http"
        return f"{scheme}://{HOST}:{self.ports[process]}"

    @property
    def elasticsearch_data(self) -> Path:
        """Data directory of the Elasticsearch that this stack starts."""
        return self.directory / "elasticsearch"

    def processes(self, environment: Mapping[str, str]) -> str:
        """Returns the URLs of the processes that searches use, as `--processes` of the evaluator takes them."""
        known = {name: self.url(name) for name in self.ports if name != "evaluator"}
        if self.on_elasticsearch and self.elasticsearch_url is not None:
            known["elasticsearch"] = self.elasticsearch_url
        if "qdrant" in self.stores.values():
            known["qdrant"] = environment["QDRANT_URL"]
        return ",".join(f"{name}={url}" for name, url in known.items())

    def outside_urls(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Returns the URLs of the engines and backends that this stack uses and does not start."""
        engines = []
        if self.on_elasticsearch and self.elasticsearch_url is not None:
            engines.append(self.elasticsearch_url)
        if any(self.stores.get(name) == "qdrant" for name in self.ports):
            engines.append(environment["QDRANT_URL"])
        return (*engines, *(backend.url for backend in self.backends.values()))

    def environment(self) -> dict[str, str]:
        """Returns the settings by which the processes find their engines, directories and one another."""
        addresses = {
            name: BackendAddress(family=STARTABLE[name], url=self.url(name))
            for name in OWN_BACKENDS
            if name in self.ports
        }
        # The stack's own backends come first: the first one of family lexical is the document store.
        known = {**addresses, **self.backends}
        ordered = {name: known[name] for name in OWN_BACKENDS if name in known}
        own = dict.fromkeys(self.unused, "")
        own |= {
            "LEXICAL_ENGINE": self.lexical,
            "LEXICAL_DIRECTORY": str(self.directory / "lexical"),
            "LEXICAL_INDEX_PREFIX": self.prefix,
            "GATEWAY_URL": self.url("gateway"),
            "GATEWAY_EVALUATOR_URL": self.url("evaluator"),
            "EVALUATOR_SEARCH_URL": self.url("gateway"),
            "GATEWAY_BACKENDS": _BACKENDS.dump_json(ordered | known).decode(),
        }
        for service, store in self.stores.items():
            own[f"{service.upper()}_STORE"] = store
            own[f"{service.upper()}_DIRECTORY"] = str(self.directory / service)
            own[f"{service.upper()}_PREFIX"] = f"{self.prefix}{service}."
        own |= {f"{service.upper()}_MODEL": model for service, model in self.models.items()}
        own |= {
            f"{process.upper()}_PORT": str(port) for process, port in self.ports.items() if process != "elasticsearch"
        }
        if self.starts_elasticsearch:
            own["ELASTICSEARCH_URL"] = self.url("elasticsearch")
        if self.datasets is not None:
            own["EVALUATOR_DATASETS"] = self.datasets
        if self.secure is not None:
            own |= self.secure.variables
        return own


def choose(environment: Mapping[str, str], directory: Path, *, own_ports: bool, name: str = "") -> Choices:
    """Reads the choices and the settings that all processes share. Raises StackProblem with the variable's name.

    `own_ports` takes free ports in place of the settable ones, so that a demo runs beside `make up`. `name` is the
    STACK of a further stack; empty for the default one.
    """
    secure = secure_files(environment, directory)
    if secure is not None:
        environment = {**environment, **secure.variables}
    encrypted = {process for process in DEFAULT_PORTS if environment.get(f"{process.upper()}_TLS_CERT_FILE")}
    for variable in ("ELASTICSEARCH_URL", "QDRANT_URL"):
        try:
            server_address(environment.get(variable) or "http://unset")
        except ValueError as error:
            raise StackProblem(f"{variable}: {error}.") from error
    engine = _one_of(environment, "ENGINE", ("embedded", "server"), "embedded")
    servers = engine == "server"
    lexical = _engine(environment, "LEXICAL", "LEXICAL_ENGINE", ("edge", "elasticsearch"), servers)
    systems = requested_systems(environment)
    stores = {"dense": _engine(environment, "DENSE", "DENSE_STORE", ("edge", "qdrant", "elasticsearch"), servers)}
    for system in systems:
        stores[system] = _one_of(
            environment, f"{system.upper()}_STORE", ("edge", "qdrant"), ("edge", "qdrant")[servers]
        )
    on_server = [name for name, store in stores.items() if store == "qdrant"]
    if on_server and not environment.get("QDRANT_URL"):
        chosen = "DENSE" if "dense" in on_server else f"{on_server[0].upper()}_STORE"
        raise StackProblem(
            f"{chosen}=qdrant needs a Qdrant server: set QDRANT_URL to its address (`docker run -p 6333:6333 "
            f"qdrant/qdrant` puts one at http://127.0.0.1:6333), or leave {chosen} out to use the embedded engine; "
            "nothing was started."
        )
    elasticsearch_url = environment.get("ELASTICSEARCH_URL") or None
    backends = _backends(environment, systems)
    idle = {*backends, *(name for name in SYSTEMS if name not in systems)}
    started = [process for process in DEFAULT_PORTS if process not in idle]
    if own_ports:
        ports = dict(zip(started, free_ports(len(started)), strict=True))
    else:
        defaults = port_block(directory) if name else DEFAULT_PORTS
        ports = {process: _port(environment, process, defaults[process]) for process in started}
    if elasticsearch_url is None and _on_elasticsearch(lexical, stores, started):
        (ports["elasticsearch"],) = free_ports(1)
        encrypted |= {"elasticsearch"} if secure is not None else set()
    decided = (*DECIDED, *(f"{process.upper()}_PORT" for process in DEFAULT_PORTS if own_ports))
    return Choices(
        directory=directory,
        lexical=lexical,
        stores=stores,
        ports=ports,
        elasticsearch_url=elasticsearch_url,
        # Stacks that share a server need distinct index names.
        prefix="demo-" if own_ports else f"{name}-" if name else "",
        backends=backends,
        datasets=_datasets(environment),
        unused=tuple(variable for variable in decided if environment.get(variable)),
        encrypted=frozenset(encrypted),
        secure=secure,
    )


def _on_elasticsearch(lexical: str, stores: Mapping[str, str], started: Container[str]) -> frozenset[str]:
    engines = {"lexical": lexical, **stores}
    return frozenset(name for name, engine in engines.items() if engine == "elasticsearch" and name in started)


def _engine(environment: Mapping[str, str], short: str, setting: str, allowed: tuple[str, ...], servers: bool) -> str:
    """Returns a service's engine: the choice of `make`, or the service's own setting; they must not differ."""
    choice, other = environment.get(short), environment.get(setting)
    if choice and other and choice != other:
        raise StackProblem(f"{short}={choice} and {setting}={other} contradict each other: leave one of them out.")
    return _one_of(environment, short if choice else setting, allowed, allowed[servers])


def _datasets(environment: Mapping[str, str]) -> str | None:
    """Returns EVALUATOR_DATASETS with the folder of DATASET, so that its experiments can be started in a browser too.

    None where DATASET names no folder but a set of the catalogue, or nothing.
    """
    dataset = environment.get("DATASET")
    if not dataset or dataset in load_catalogue().sets or not (ROOT / dataset).is_dir():
        return None
    given = environment.get("EVALUATOR_DATASETS")
    try:
        folders = _FOLDERS.validate_json(given) if given else EvaluatorSettings.model_fields["datasets"].default
    except ValidationError as error:
        raise StackProblem(f"EVALUATOR_DATASETS is not a JSON list of folders: {given}.") from error
    return json.dumps([*map(str, folders), dataset])


def _backends(environment: Mapping[str, str], systems: Sequence[str]) -> dict[str, BackendAddress]:
    """Returns GATEWAY_BACKENDS without the stack's own at their default addresses, as .env.example lists them.

    The stack's own are the usual services and `systems`.
    """
    try:
        given = _BACKENDS.validate_python(json.loads(environment.get("GATEWAY_BACKENDS") or "{}"))
    except json.JSONDecodeError as error:
        raise StackProblem(f"GATEWAY_BACKENDS is no JSON: {error}.") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise StackProblem(
            f"GATEWAY_BACKENDS.{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}."
        ) from error
    usual: dict[str, str] = {
        name: f"http://{HOST}:{_port(environment, name, DEFAULT_PORTS[name])}"
        for name in OWN_BACKENDS
        if name in systems or name not in SYSTEMS
    }
    return {name: backend for name, backend in given.items() if usual.get(name) != backend.url}


def _one_of(environment: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = environment.get(name) or default
    if value not in allowed:
        raise StackProblem(f"{name}={value} is none of the choices: take {' or '.join(allowed)}.")
    return value


def _port(environment: Mapping[str, str], process: str, default: int) -> int:
    name = f"{process.upper()}_PORT"
    value = environment.get(name) or str(default)
    if not value.isdigit() or not 1 <= int(value) <= 65_535:
        raise StackProblem(f"{name}={value} is no port: take a number from 1 to 65535.")
    return int(value)
