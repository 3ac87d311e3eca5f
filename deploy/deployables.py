"""Lists code, dependencies and models of each deployable; shared by Dockerfile, compose, Kubernetes and tests.

Standard library only: it runs in the build stage before anything is installed.
"""

from dataclasses import dataclass
from typing import Literal

# The extra that runs models.
Runtime = Literal["cpu", "gpu"]

# Read by a container's health check, so every image has it.
_PROBE = "deploy/probe.py"
_SERVICE = ("services/__init__.py", "services/files", "services/contracts", "services/keys", "services/chassis", _PROBE)
# Profiles of models are read when the service starts; weights are not in the code.
_INFERENCE = ("services/inference", "deploy/models/models.yaml")
_VECTORS = ("services/storage", "services/vectorstore", "services/vectorservice")
# The vendors' dialects of dense, sparse and reranker.
_DIALECTS = "services/dialects"


@dataclass(frozen=True, slots=True)
class Deployable:
    """One image: code, dependencies, models and start command."""

    name: str
    module: str
    prefix: str
    port: int
    paths: tuple[str, ...]
    extra: str
    models: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """Command of process 1 of its container."""
        return ("python", "-m", self.module, *self.arguments)

    def extras(self, runtime: Runtime) -> tuple[str, ...]:
        """Returns the extras of pyproject.toml to install: its own, and the model runtime when it has models."""
        return (self.extra, runtime) if self.models else (self.extra,)


def _dense(name: str, prefix: str, port: int, model: str, *arguments: str) -> Deployable:
    return Deployable(
        name=name,
        module="services.dense",
        prefix=prefix,
        port=port,
        paths=(*_SERVICE, *_INFERENCE, *_VECTORS, _DIALECTS, "services/dense"),
        extra="dense",
        models=(model,),
        arguments=arguments,
    )


DEPLOYABLES = {
    deployable.name: deployable
    for deployable in (
        Deployable(
            name="lexical",
            module="services.lexical",
            prefix="LEXICAL_",
            port=8001,
            paths=(*_SERVICE, "services/storage", "services/lexical"),
            extra="lexical",
        ),
        _dense("dense", "DENSE_", 8002, "all-MiniLM-L6-v2"),
        _dense("dense-bge", "DENSE_BGE_", 8006, "bge-small-en-v1.5", "dense_bge"),
        _dense("dense-e5", "DENSE_E5_", 8007, "e5-small-v2", "dense_e5"),
        Deployable(
            name="sparse",
            module="services.sparse",
            prefix="SPARSE_",
            port=8004,
            paths=(*_SERVICE, *_INFERENCE, *_VECTORS, _DIALECTS, "services/sparse"),
            extra="sparse",
            models=("splade-tiny-msmarco",),
        ),
        # Its name is one of hosts too, which have no underscore.
        Deployable(
            name="late-interaction",
            module="services.late_interaction",
            prefix="LATE_INTERACTION_",
            port=8005,
            paths=(*_SERVICE, *_INFERENCE, *_VECTORS, "services/late_interaction"),
            extra="late_interaction",
            models=("bge-small-en-v1.5-tokens",),
        ),
        Deployable(
            name="reranker",
            module="services.reranker",
            prefix="RERANKER_",
            port=8003,
            paths=(*_SERVICE, *_INFERENCE, _DIALECTS, "services/reranker"),
            extra="reranker",
            models=("minilm-l6-ce-v4",),
        ),
        Deployable(
            name="gateway",
            module="gateway",
            prefix="GATEWAY_",
            port=8000,
            paths=(*_SERVICE, "services/ranking", "gateway"),
            extra="gateway",
        ),
        Deployable(
            name="evaluator",
            module="evaluator",
            prefix="EVALUATOR_",
            port=8009,
            # Its reports name what the models were trained on; it loads collections with the package for apps.
            paths=(
                *_SERVICE,
                "services/ranking",
                "deploy/models/models.yaml",
                "clients/python/retrieval_client",
                "evaluator",
            ),
            extra="evaluator",
            # Without it the module is the command line.
            arguments=("serve",),
        ),
    )
}
