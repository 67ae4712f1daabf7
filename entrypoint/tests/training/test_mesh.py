"""The mesh of a rank, from whatever has started it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.training.mesh import Mesh, make_mesh, read_mesh

# mp_parameters, the world; the dimensions, outermost first.
TABLE = [
    ({}, 1, {"dp_shard": 1, "tp": 1}),
    ({}, 4, {"dp_shard": 4, "tp": 1}),
    ({"tensor_parallel_degree": 2}, 4, {"dp_shard": 2, "tp": 2}),
    ({"tensor_parallel_degree": 4}, 4, {"dp_shard": 1, "tp": 4}),
    ({"tensor_parallel_degree": "2"}, 4, {"dp_shard": 2, "tp": 2}),
    ({"tensor_parallel_degree": None, "random_seed": 7}, 4, {"dp_shard": 4, "tp": 1}),
    ({"hybrid_shard_degree": 0}, 8, {"dp_shard": 8, "tp": 1}),
    ({"hybrid_shard_degree": 2}, 8, {"dp_replicate": 4, "dp_shard": 2, "tp": 1}),
    ({"hybrid_shard_degree": 1}, 8, {"dp_replicate": 8, "dp_shard": 1, "tp": 1}),
    (
        {"hybrid_shard_degree": 4, "tensor_parallel_degree": 2},
        16,
        {"dp_replicate": 2, "dp_shard": 4, "tp": 2},
    ),
    ({"context_parallel_degree": 2}, 8, {"dp_shard": 4, "cp": 2, "tp": 1}),
    (
        {"context_parallel_degree": 2, "hybrid_shard_degree": 4, "tensor_parallel_degree": 2},
        16,
        {"dp_replicate": 2, "dp_shard": 2, "cp": 2, "tp": 2},
    ),
    ({"partitions": 1, "pipeline_parallel_degree": 1}, 2, {"dp_shard": 2, "tp": 1}),
]


@pytest.mark.parametrize(("parameters", "world", "sizes"), TABLE)
def test_the_dimensions(parameters: dict[str, Any], world: int, sizes: dict[str, int]):
    """Each degree is a dimension, what is left over replicates, and neighbours share tensors."""
    mesh = make_mesh(parameters, world)
    assert dict(zip(mesh.names, mesh.shape, strict=True)) == sizes


def test_experts_are_no_dimension():
    """They are spread over ranks that already shard the rest."""
    mesh = make_mesh({"expert_parallel_degree": 4}, 8)
    assert mesh == Mesh(("dp_shard", "tp"), (8, 1), 4)
    assert json.loads(mesh.text) == {"shape": [8, 1], "names": ["dp_shard", "tp"], "ep": 4}


@pytest.mark.parametrize(
    ("parameters", "world", "why"),
    [
        ({"tensor_parallel_degree": 3}, 4, "tensor_parallel_degree 3 does not divide the 4 ranks"),
        ({"tensor_parallel_degree": 8}, 4, "tensor_parallel_degree 8 does not divide the 4 ranks"),
        (
            {"hybrid_shard_degree": 4, "tensor_parallel_degree": 2},
            4,
            "hybrid_shard_degree 4 times tensor_parallel_degree 2 does not divide the 4 ranks",
        ),
        (
            {"context_parallel_degree": 4, "hybrid_shard_degree": 2},
            8,
            "context_parallel_degree 4 does not divide the 2 ranks of hybrid_shard_degree",
        ),
        (
            {"expert_parallel_degree": 3},
            4,
            "expert_parallel_degree 3 does not divide the 4 ranks of hybrid_shard_degree",
        ),
        ({"tensor_parallel_degree": 0}, 4, "is no whole number from 1"),
        ({"hybrid_shard_degree": -1}, 4, "is no whole number from 0"),
        ({"tensor_parallel_degree": True}, 4, "is no whole number"),
        ({"tensor_parallel_degree": 2.0}, 4, "is no whole number"),
        ({"tensor_parallel_degree": "two"}, 4, "is no whole number"),
        ({"tensor_parallel_degree": [2]}, 4, "is no whole number"),
        ({"partitions": 2}, 4, "partitions is a pipeline"),
        ({"pipeline_parallel_degree": 2}, 4, "pipeline_parallel_degree is a pipeline"),
    ],
)
def test_what_does_not_fit(parameters: dict[str, Any], world: int, why: str):
    """Both numbers are named, or the degree that is none."""
    with pytest.raises(ValueError, match=why):
        make_mesh(parameters, world)


@given(
    st.dictionaries(
        st.sampled_from([f"{word}_parallel_degree" for word in ("tensor", "context", "expert")])
        | st.just("hybrid_shard_degree"),
        st.integers(-1, 9) | st.none() | st.text(max_size=2) | st.booleans(),
    ),
    st.integers(1, 64),
)
def test_every_rank_has_a_place(parameters: dict[str, Any], world: int):
    """A mesh holds all ranks and no more, or there is none."""
    try:
        mesh = make_mesh(parameters, world)
    except ValueError:
        return
    assert math.prod(mesh.shape) == world
    assert all(size > 0 for size in mesh.shape)
    assert mesh.names[-1] == "tp"
    assert "dp_shard" in mesh.names


SENT = {"SM_HP_MP_PARAMETERS": '{"tensor_parallel_degree":2}', "WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("env", "mesh"),
    [
        (SENT, Mesh(("dp_shard", "tp"), (2, 2))),
        # As muster wrote it: it knows more than the rank.
        (
            SENT | {"MUSTER_MESH": '{"shape": [1, 4], "names": ["dp_shard", "tp"]}'},
            Mesh(("dp_shard", "tp"), (1, 4)),
        ),
        ({"WORLD_SIZE": "4"}, Mesh(("dp_shard", "tp"), (4, 1))),
        ({}, Mesh(("dp_shard", "tp"), (1, 1))),
        ({"SM_HP_MP_PARAMETERS": "[]", "WORLD_SIZE": "2"}, Mesh(("dp_shard", "tp"), (2, 1))),
    ],
)
def test_where_a_rank_finds_it(env: dict[str, str], mesh: Mesh):
    """From muster, else from what AWS's own scripts set, else one of all ranks."""
    assert read_mesh(env) == mesh


@pytest.mark.parametrize("experts", [1, 4])
def test_the_text_comes_back(experts: int):
    """What muster writes is what the rank reads."""
    mesh = Mesh(("dp_replicate", "dp_shard", "cp", "tp"), (2, 4, 2, 8), experts)
    assert read_mesh({"MUSTER_MESH": mesh.text}) == mesh
