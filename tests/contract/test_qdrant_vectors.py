"""Vectors in the messages of gRPC, by the client's own conversions: what goes out comes back bit by bit."""

import numpy as np
import pytest
from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from services.vectorstore.qdrant_parameters import DEFAULT_PARAMETERS
from services.vectorstore.qdrant_vectors import collection_config, qdrant_vector, search_arguments
from services.vectorstore.representation import Representation, Sparse, Vector, checked_vector, vector_of
from tests.support.vectors import SAMPLES, Sample, drawn, same, sparse


def answered(vector: Vector, representation: Representation) -> Vector:
    """The vector as a server's answer holds it, after a point with it was sent."""
    struct = models.PointStruct(id=1, vector=qdrant_vector(vector, representation), payload={})
    sent = RestToGrpc.convert_point_struct(struct).vectors
    if sent.WhichOneof("vectors_options") == "vectors":
        named = {name: output_of(one) for name, one in sent.vectors.vectors.items()}
        output = grpc.VectorsOutput(vectors=grpc.NamedVectorsOutput(vectors=named))
    else:
        output = grpc.VectorsOutput(vector=output_of(sent.vector))
    return vector_of(GrpcToRest.convert_vectors_output(output), representation)


def output_of(sent: grpc.Vector) -> grpc.VectorOutput:
    kind = sent.WhichOneof("vector")
    assert kind is not None
    return grpc.VectorOutput(**{kind: getattr(sent, kind)})


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_points_go_out_and_come_back(sample: Sample) -> None:
    representation = sample.spec.representation
    for one in drawn(sample, 20):
        vector = checked_vector(one.vector, representation)
        assert same(vector, answered(vector, representation))


def test_a_sparse_vector_without_terms_and_the_largest_term_come_back() -> None:
    for given in (sparse(), sparse((0, -0.5), (2**32 - 1, 1.5))):
        vector = checked_vector(given, Sparse())
        assert same(vector, answered(vector, Sparse()))


MESSAGES = {"dense": "dense", "sparse": "sparse", "multi-vector": "multi_dense", "int8": "multi_dense"}


@pytest.mark.parametrize("name", MESSAGES)
def test_queries_and_collections_have_the_kind_of_their_representation(name: str) -> None:
    sample = SAMPLES[name]
    representation = sample.spec.representation
    wanted = checked_vector(sample.random(np.random.default_rng(3)), representation)
    asked = search_arguments(wanted, representation, limit=10, where=None, beam=20)
    query = RestToGrpc.convert_query(models.NearestQuery(nearest=asked["query"]))
    assert query.nearest.WhichOneof("variant") == MESSAGES[name]
    config = collection_config(representation, DEFAULT_PARAMETERS)
    dense = RestToGrpc.convert_vectors_config(config["vectors_config"])
    held = dense.params_map.map[asked["using"]] if name == "int8" else dense.params
    assert (config["sparse_vectors_config"] is None) == (name != "sparse")
    assert (held.size, held.HasField("multivector_config"), held.HasField("quantization_config")) == {
        "dense": (8, False, False), "sparse": (0, False, False), "multi-vector": (8, True, False),
        "int8": (8, True, True),
    }[name]  # fmt: skip
    assert held.hnsw_config.m == (32 if name == "multi-vector" else 0)
    assert [RestToGrpc.convert_prefetch_query(one).using for one in asked["prefetch"] or ()] == (
        ["pooled"] if name == "int8" else []
    )
