"""What a build needs of the machine it runs on: CA bundle, pip's and apt's settings, proxies, a folder of wheels."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from tooling.machine import ScriptError, ask, os_release

CA_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
# Predefined by BuildKit: they reach each RUN, and neither the history nor the cache key.
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "FTP_PROXY", "ALL_PROXY")
LOCAL = re.compile(r"file:|[/.~]")
INDEX_KEYS = ("index-url", "extra-index-url", "trusted-host", "timeout", "proxy")


class Target(TypedDict, total=False):
    """What the scripts read of a target in bake's plan."""

    args: dict[str, str]
    dockerfile: str
    labels: dict[str, str]
    tags: list[str]


@dataclass(frozen=True)
class Handover:
    """The machine's settings, ready for bake."""

    secrets: tuple[str, ...]
    proxies: dict[str, str]
    wheel_folders: tuple[Path, ...]
    efa_folder: Path | None = None

    def target(self, planned: Target, network: str | None) -> dict[str, object]:
        """Return the override of one target of bake's plan. Effects: looks for the wheel that it pins."""
        # Only what has a name is an image.
        output = "type=docker" if planned.get("tags") else "type=cacheonly"
        override: dict[str, object] = {
            "secret": list(self.secrets),
            "args": self.proxies,
            "output": [output],
        }
        if network:
            override["network"] = network
        torch = planned.get("args", {}).get("TORCH_VERSION")
        contexts = {}
        for folder in self.wheel_folders:
            if torch and any(folder.glob(f"torch-{torch}-*.whl")):
                contexts["wheels"] = str(folder)
        if self.efa_folder and wants_efa(planned):
            contexts["efa-folder"] = str(self.efa_folder)
        return {**override, **({"contexts": contexts} if contexts else {})}


def wants_efa(planned: Target) -> bool:
    """Tell whether a target fetches EFA's installer. Pure."""
    return planned.get("args", {}).get("EFA", "none") != "none"


def proxies(env: Mapping[str, str]) -> dict[str, str]:
    """Return the proxy variables that are set, in capitals. Pure."""
    either = {name: env.get(name) or env.get(name.lower()) for name in PROXY_VARIABLES}
    return {name: value for name, value in either.items() if value}


def pip_settings(listed: str) -> dict[str, list[str]]:
    """Return pip's settings from `pip config list`, what the environment sets before the files. Pure."""
    found: dict[str, list[str]] = {}
    for line in sorted(listed.splitlines(), key=lambda text: not text.startswith(":env:")):
        if match := re.fullmatch(r"[\w:-]+\.([\w-]+)=('.*'|\".*\")", line):
            found.setdefault(match[1], str(ast.literal_eval(match[2])).split())
    return found


def pip_conf(settings: Mapping[str, list[str]]) -> str:
    """Return the pip.conf for a build: where packages come from, and nothing that names a file of this machine. Pure."""
    kept = {
        key: [value for value in settings.get(key, []) if not LOCAL.match(value)]
        for key in INDEX_KEYS
    }
    lines = [f"{key} = {' '.join(values)}\n" for key, values in kept.items() if values]
    return "".join(["[global]\n", *lines]) if lines else ""


def apt_sources() -> str:
    """Return this machine's mirror of Debian 12 as apt sources, for a base of the same release; else empty.

    Effects: runs apt-get.
    """
    if os_release().get("VERSION_CODENAME") != "bookworm":
        return ""
    fields = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    listed = ask("apt-get", "indextargets", "--format", fields, "Created-By: Packages") or ""
    return "".join(
        f"{line}\n" for line in listed.splitlines() if re.search(r" bookworm[a-z-]* main$", line)
    )


def apt_conf() -> str:
    """Return apt's proxies and date checks of this machine; empty where none is set. Effects: runs apt-config."""
    dump = ask("apt-config", "dump") or ""
    wanted = re.compile(r"Acquire::(https?::Proxy(::\S+)?|Check-Valid-Until|Check-Date) \".+\";")
    return "".join(f"{line}\n" for line in dump.splitlines() if wanted.fullmatch(line))


def gather(folder: Path, env: Mapping[str, str]) -> Handover:
    """Collect what this machine's builds need, secrets as files in `folder`. Effects: those files; asks pip and apt."""
    settings = pip_settings(ask(sys.executable, "-m", "pip", "config", "list") or "")
    secrets = []
    for name, text in (
        ("pip", pip_conf(settings)),
        ("apt_sources", apt_sources()),
        ("apt_conf", apt_conf()),
    ):
        if text:
            (folder / name).write_text(text, encoding="utf-8")
            secrets.append(f"id={name},src={folder / name}")
    if bundle := next(
        (env[name] for name in CA_VARIABLES if Path(env.get(name, "")).is_file()), None
    ):
        secrets.append(f"id=ca,src={bundle}")
    folders = (Path(value) for value in settings.get("find-links", []))
    efa = env.get("MUSTER_EFA_FOLDER")
    if efa and not Path(efa).is_dir():
        raise ScriptError(f"MUSTER_EFA_FOLDER={efa} is no folder")
    return Handover(
        secrets=tuple(secrets),
        proxies=proxies(env),
        wheel_folders=tuple(path for path in folders if path.is_dir()),
        efa_folder=Path(efa).resolve() if efa else None,
    )


def asks_entitlements() -> bool:
    """Tell whether this buildx's bake must be told that the host network is allowed: 0.17 and newer. Effects: asks it."""
    match = re.search(r"\bv?(\d+)\.(\d+)\.", ask("docker", "buildx", "version") or "")
    return match is not None and (int(match[1]), int(match[2])) >= (0, 17)
