"""Who may speak on a job's channel: keys from the job's secret, or from its identity. Pure.

Without MUSTER_JOB_SECRET the key is made of the job's name, which is public: it keeps two jobs and
a left-over host apart, not an attacker. With it, only who knows the secret is admitted.
"""

from __future__ import annotations

import hashlib
import hmac


def job_key(identity: str, secret: str | None) -> bytes:
    """The key that all hosts of a job have.

    Args:
        identity: what names this run of the job, the same on all of its hosts (its ARN, its name).
        secret: MUSTER_JOB_SECRET, if there is one.
    """
    return _mac((secret or "").encode(), b"job", identity)


def session_key(key: bytes, host: str, member_nonce: str, leader_nonce: str) -> bytes:
    """The key of one connection: with both nonces new, no frame of another one is valid."""
    return _mac(key, b"session", host, member_nonce, leader_nonce)


def proof(key: bytes, host: str, member_nonce: str, leader_nonce: str) -> str:
    """What shows the member that the leader knows the key. Hexadecimal digits."""
    return _mac(key, b"leader", host, member_nonce, leader_nonce).hex()


def _mac(key: bytes, purpose: bytes, *parts: str) -> bytes:
    # Each part's length goes first: ("a", "bc") and ("ab", "c") are not the same.
    fields = b"".join(b"%d:%s" % (len(part.encode()), part.encode()) for part in parts)
    return hmac.new(key, purpose + b" " + fields, hashlib.sha256).digest()
