import pytest

from muster.launch.evidence import Evidence, look


@pytest.mark.parametrize(
    ("files", "kills", "limit"),
    [
        ({"memory.events": "low 0\noom 3\noom_kill 2\n", "memory.max": "268435456\n"}, 2, 2**28),
        ({"memory.events": "oom_kill 0\n", "memory.max": "max\n"}, 0, 0),
        (
            {
                "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
                "memory/memory.limit_in_bytes": "268435456\n",
            },
            1,
            2**28,
        ),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0, 0),
        ({"memory.events": "\xff", "memory.max": ""}, 0, 0),
        ({}, 0, 0),
    ],
    ids=["v2", "v2-no-limit", "v1", "v1-no-limit", "not-readable", "none"],
)
def test_counters_of_both_versions(tmp_path, files: dict[str, str], kills: int, limit: int):
    """Kills and limit are read from either version of cgroups, and are 0 where there is none."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    seen = look(str(tmp_path))
    assert (seen.oom_kills, seen.memory_limit) == (kills, limit)
    assert seen.shm_size >= seen.shm_free >= 0


def test_only_later_kills_count():
    """What the kernel had killed before the ranks began is not theirs."""
    assert Evidence(oom_kills=5, shm_size=1).since(Evidence(oom_kills=3)).oom_kills == 2
