"""Vectors in the messages of gRPC, by the client's own conversions: what goes out comes back bit by bit."""

import numpy as np
import pytest
from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from services.vectorstore.qdrant_vectors import nearest_query, qdrant_vector, vector_of, vectors_config
from services.vectorstore.representation import Representation, Sparse, Vector, checked_vector
from tests.support.vectors import SAMPLES, Sample, drawn, same, sparse


def answered(vector: Vector, representation: Representation) -> Vector:
    """The vector as a server's answer holds it, after a point with it was sent."""
    struct = models.PointStruct(id=1, vector=qdrant_vector(vector), payload={})
    sent = RestToGrpc.convert_point_struct(struct).vectors
    if sent.WhichOneof("vectors_options") == "vectors":
        named = {name: grpc.VectorOutput(sparse=one.sparse) for name, one in sent.vectors.vectors.items()}
        output = grpc.VectorsOutput(vectors=grpc.NamedVectorsOutput(vectors=named))
    else:
        kind = sent.vector.WhichOneof("vector")
        output = grpc.VectorsOutput(vector=grpc.VectorOutput(**{kind: getattr(sent.vector, kind)}))
    return vector_of(GrpcToRest.convert_vectors_output(output), representation)


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


MESSAGES = {"dense": "dense", "sparse": "sparse", "multi-vector": "multi_dense"}


@pytest.mark.parametrize("name", MESSAGES)
def test_queries_and_collections_have_the_kind_of_their_representation(name: str) -> None:
    sample = SAMPLES[name]
    asked = nearest_query(checked_vector(sample.random(np.random.default_rng(3)), sample.spec.representation))
    query = RestToGrpc.convert_query(models.NearestQuery(nearest=asked["query"]))
    assert query.nearest.WhichOneof("variant") == MESSAGES[name]
    config = vectors_config(sample.spec.representation)
    dense = RestToGrpc.convert_vectors_config(config["vectors_config"])
    assert (config["sparse_vectors_config"] is None) == (asked["using"] is None)
    assert (dense.params.size, dense.params.HasField("multivector_config")) == {
        "dense": (8, False), "sparse": (0, False), "multi-vector": (8, True),
    }[name]  # fmt: skip
