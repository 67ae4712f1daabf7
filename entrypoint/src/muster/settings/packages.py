"""Variables about the packages that a job installs before its ranks begin."""

from __future__ import annotations

from muster.variables import Setting, one_of, switch

INSTALLERS = ("pip", "uv")

PACKAGES: dict[str, Setting] = {
    "requirements": Setting(
        "MUSTER_REQUIREMENTS",
        str,
        None,
        "a file, or none",
        "What is installed on each host before the ranks begin, from the code folder or an absolute path. "
        "Otherwise requirements.txt in the code folder.",
    ),
    "install_project": Setting(
        "MUSTER_INSTALL_PROJECT",
        switch,
        default=False,
        accepts="1 or 0",
        meaning="Install the code folder itself, which then has a pyproject.toml or a setup.py.",
    ),
    "allow_torch_change": Setting(
        "MUSTER_ALLOW_TORCH_CHANGE",
        switch,
        default=False,
        accepts="1 or 0",
        meaning="Let requirements replace torch and what the image has built for it.",
    ),
    "installer": Setting(
        "MUSTER_INSTALLER",
        one_of(INSTALLERS),
        "pip",
        "pip or uv",
        "What installs. uv has to be on PATH.",
    ),
    "constraints": Setting(
        "MUSTER_CONSTRAINTS",
        str,
        "/opt/muster/constraints.txt",
        "a file",
        "The versions that the image holds. Without such a file, requirements may change torch as well.",
    ),
    "ca_repository": Setting(
        "CA_REPOSITORY_ARN",
        str,
        None,
        "an ARN",
        "The CodeArtifact repository that is the index, asked with the job's role.",
    ),
    "warm_cache": Setting(
        "SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY",
        str,
        None,
        "a folder",
        "The folder that a warm pool keeps between jobs, set by the platform: pip's cache goes there.",
    ),
}
