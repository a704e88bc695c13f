"""Search by meaning, when the extra `embeddings` is installed and a model is named."""

import math
from array import array
from collections.abc import Sequence
from importlib import import_module
from operator import mul
from typing import Protocol

import apsw

LEAST_ALIKE = 0.4
"""Cosine from which two texts count as being about the same."""


class Embedder(Protocol):
    name: str
    """Vectors of different models cannot be compared."""

    def embed(self, text: str) -> Sequence[float]: ...


class StaticEmbedder:
    """A model2vec model: a table of word vectors, no neural network to run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._model = import_module("model2vec").StaticModel.from_pretrained(name)

    def embed(self, text: str) -> Sequence[float]:
        return [float(each) for each in self._model.encode([text])[0]]


def unit(vector: Sequence[float]) -> bytes:
    """The vector with length 1, as it is stored; b"" for one that has no direction."""
    length = math.sqrt(sum(map(mul, vector, vector)))
    return array("f", (each / length for each in vector)).tobytes() if length else b""


def alike(
    connection: apsw.Connection, user: str, embedder: Embedder, query: str
) -> dict[int, float]:
    """The facts that mean something similar, with the cosine."""
    wanted = array("f", unit(embedder.embed(query)))
    rows = connection.execute(
        "SELECT fact, vector FROM vectors JOIN facts ON facts.id = fact"
        " WHERE user = ? AND model = ?",
        (user, embedder.name),
    )
    found = {fact: sum(map(mul, wanted, array("f", stored))) for fact, stored in rows}
    return {fact: cosine for fact, cosine in found.items() if cosine >= LEAST_ALIKE}
