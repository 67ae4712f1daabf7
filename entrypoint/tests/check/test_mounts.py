import pytest

from muster.check.mounts import Mount, mount_of, read_mounts

MOUNTS = r"""overlay / overlay rw,relatime 0 0
proc /proc proc rw 0 0
/dev/nvme1n1 /opt/ml/input/data/train\040one ext4 ro 0 0
fs-0a.efs.eu-west-1.amazonaws.com:/ /opt/ml/input/data/efs nfs4 rw 0 0
127.0.0.1:/ /opt/ml/input/data/tls nfs4 rw,port=20055 0 0
filer:/vol /opt/ml/input/data/nfs nfs rw 0 0
10.0.0.9@tcp:/abcd /opt/ml/input/data/fsx lustre rw 0 0
mountpoint-s3 /opt/ml/input/data/fast fuse ro 0 0
tmpfs /opt/ml/input/data/memory tmpfs rw 0 0
odd
/dev/nvme2n1 /opt/ml/input/data/fast/inner xfs rw 0 0
"""


@pytest.fixture
def mounts(put, roots):
    """Return the mounts of a host that has each kind."""
    put("proc/mounts", MOUNTS)
    return read_mounts(str(roots / "proc"))


@pytest.mark.parametrize(
    ("channel", "kind", "fetches"),
    [
        ("train one", "disk (ext4)", False),
        ("other", "disk (overlay)", False),
        ("efs", "EFS", False),
        ("tls", "EFS", False),
        ("nfs", "NFS", False),
        ("fsx", "FSx for Lustre", False),
        ("fsx2", "disk (overlay)", False),
        ("fast", "FUSE (FastFile)", True),
        ("fast/inner/part", "disk (xfs)", False),
        ("memory", "memory", False),
    ],
)
def test_the_kind_of_a_channel(mounts, channel, kind, fetches):
    """By the longest mount above it, whole names only; blanks are blanks again."""
    found = mount_of(f"/opt/ml/input/data/{channel}", mounts)
    assert found is not None
    assert (found.kind, found.fetches) == (kind, fetches)


def test_the_last_mount_at_a_place_counts():
    """It hides what was mounted there before."""
    mounts = (Mount("a", "/data", "ext4"), Mount("b", "/data", "lustre"))
    found = mount_of("/data/train", mounts)
    assert found is not None
    assert found.source == "b"


def test_no_mount_at_all():
    """Then nothing is known."""
    assert mount_of("/data", ()) is None
