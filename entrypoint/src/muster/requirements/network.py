"""What an installer prints where an index doesn't answer, or says no. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from muster.requirements.ended import Ended, Told

_BROKEN = re.compile(
    r"Retrying \(Retry\(|Max retries exceeded|error: connection-failed|Failed to fetch: `?"
    r"|fatal: unable to access|Connection to \S+ timed out|Read timed out|client error \(Connect\)|operation timed out"
)
_HOSTS = (
    re.compile(r"Failed to resolve '(?P<host>[^']+)'"),
    re.compile(r"host='(?P<host>[^']+)', port=(?P<port>\d+)"),
    re.compile(r"Connection to (?P<host>\S+) timed out"),
    re.compile(r"Failed to connect to (?P<host>\S+) (?:while|port (?P<port>\d+))"),
    re.compile(r"(?:Failed to fetch: `?|unable to access ')(?P<url>[^`'\s]+)"),
    re.compile(r"(?:for url|An index URL|An index) \((?P<url>[^)]+)\)"),
)
_INDEXES = re.compile(r"^Looking in indexes: (?P<urls>.+)$", re.MULTILINE)
_REASONS = (
    (r"ProxyError|[Cc]onnect to proxy", "the proxy refuses"),
    (r"Failed to resolve|Name or service not known|name resolution|dns error", "no such name"),
    (r"Connection refused", "connection refused"),
    (r"unreachable|No route to host", "no route to it"),
    (r"timed out|Timeout|timeout", "no answer"),
)
_NOTHING_FOUND = re.compile(
    r"from versions: none|connection-failed|Max retries exceeded|Failed to fetch: `?|unable to access"
    r"|ReadTimeoutError|Read timed out|client error \(Connect\)|operation timed out"
)
_REFUSED = re.compile(
    r"(?P<pip>40[13]) (?:Error, Credentials|Client Error)|HTTP error (?P<other>40[13])|status code (?P<uv>40[13])"
    r"|\((?P<uv2>40[13]) (?:Unauthorized|Forbidden)\)|User for (?P<asked>\S+):|returned a (?P<uv3>40[13])"
)
_CERTIFICATE = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError|invalid peer certificate|ssl certificate:"
)
_UNTRUSTED = re.compile(r"located at (?P<host>\S+) is not a trusted or secure host")
_WORKING = re.compile(
    r"^\s*(Downloading|Using cached|Building|Preparing|Cloning|Installing)\b", re.MULTILINE
)
_INSTEAD = (
    "Where a job has no way out (network isolation, a VPC without NAT), its packages go into a folder "
    "wheels/ beside the file, or into the image. Another index: PIP_INDEX_URL."
)


def is_stuck(output: str) -> bool:
    """Whether an installer has had no answer at all so far, and asks again."""
    return bool(_BROKEN.search(output)) and not _WORKING.search(output)


def refused(end: Ended) -> Told | None:
    """The index wants credentials, or others."""
    found = _REFUSED.search(end.output)
    if not found:
        return None
    code = next((text for text in found.groups() if text and text.isdigit()), "401")
    what = f"the index {where(end.output)} refuses ({code})"
    return (
        what,
        "Credentials are in PIP_INDEX_URL=https://USER:PASSWORD@HOST/simple, or come with CA_REPOSITORY_ARN.",
    )


def untrusted(end: Ended) -> Told | None:
    """A certificate that nobody here knows, or none at all."""
    if _CERTIFICATE.search(end.output):
        what = f"the certificate of {where(end.output)} is not trusted"
        return (
            what,
            "A proxy or an index with a CA of its own: PIP_CERT names the CA's file (for uv SSL_CERT_FILE).",
        )
    found = _UNTRUSTED.search(end.output)
    if found and "from versions: none" in end.output:
        what = f"the index {found['host']} has no https, and pip passes over it"
        return what, f"PIP_TRUSTED_HOST={found['host']} takes it all the same."
    return None


def no_way(end: Ended) -> Told | None:
    """Nobody has answered."""
    broken = _BROKEN.search(end.output) and _NOTHING_FOUND.search(end.output)
    if not (end.gave_up or broken):
        return None
    said = "\n".join(line for line in end.output.splitlines() if "Looking in indexes" not in line)
    reasons = [reason for pattern, reason in _REASONS if re.search(pattern, said)]
    reason = f": {reasons[0]}" if reasons else ""
    return f"no way to the index {where(end.output)}{reason}", _INSTEAD


def where(output: str) -> str:
    """The host that the output complains of; all indexes' hosts where it names none."""
    for pattern in _HOSTS:
        if found := pattern.search(output):
            parts = found.groupdict()
            if parts.get("url"):
                return _host(parts["url"])
            return parts["host"] + (f":{parts['port']}" if parts.get("port") else "")
    listed = _INDEXES.search(output)
    return ", ".join(_host(url) for url in listed["urls"].split(", ")) if listed else "pypi.org"


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


READERS = (refused, untrusted, no_way)
