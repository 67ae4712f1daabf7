"""Hyperparameters from a file: what is too big for SageMaker's 2,500 characters. Effects: reads the file.

The file is one mapping in YAML or JSON. A scalar counts as the hyperparameter of the same text, so that
`1e5` and `1.10` keep their form; lists and mappings are JSON, as any hyperparameter's.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from muster.code.near import near_names
from muster.contract.exportable import refuse_unexportable
from muster.contract.hyperparameters import CONFIG, compact, decode, is_reserved
from muster.contract.precedence import choose
from muster.errors import ContractError
from muster.model import Code, HyperParameter, Job
from muster.settings import Settings

_KINDS = "YAML and JSON are read: by the file's name, JSON from .json, YAML from all others."
_FORM = 'The file holds one mapping of names to values, as {"lr": 0.1} or `lr: 0.1`.'


def add_config(job: Job, code: Code, settings: Settings) -> Job:
    """The job with the hyperparameters of its configuration file, below those that it was sent itself.

    The hyperparameter muster_config names the file, else MUSTER_CONFIG: in the code's folder, or as CHANNEL/FILE.

    Raises:
        ContractError: there is no such file, or it can't be understood; the message names it.
    """
    chosen = choose(
        "configuration",
        (job.reserved.get(CONFIG), f"hyperparameter {CONFIG}"),
        (settings.config, "MUSTER_CONFIG"),
    )
    if not chosen.value:
        return job
    path = _find(chosen.value, chosen.source, (code.directory, job.paths.data))
    sent = {item.key: item for item in job.hyperparameters}
    read = {item.key: item for item in _read(path)}
    hidden = sorted(set(read) & set(sent))
    notes = [f"hyperparameters from {path}: {len(read)}"]
    if hidden:
        notes.append(f"of {path}, the job's own hyperparameters win: {', '.join(hidden)}")
    merged = read | sent
    return dataclasses.replace(
        job,
        hyperparameters=tuple(merged[key] for key in sorted(merged)),
        notes=(*job.notes, *filter(None, [chosen.conflict]), *notes),
    )


def _find(name: str, source: str, folders: tuple[str, ...]) -> str:
    places = [os.path.normpath(os.path.join(folder, name)) for folder in folders]
    for path in places:
        if os.path.isfile(path):
            return path
    what = f"the configuration {name} ({source}) does not exist"
    searched = " and ".join(dict.fromkeys(places))
    remedy = f"Looked for {searched}: it is in the code, or CHANNEL/FILE"
    raise ContractError(what, remedy + near_names(places[0]))


def _read(path: str) -> list[HyperParameter]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ContractError(f"the configuration {path} can't be read: {error}") from error
    items = _from_json(path, text) if path.endswith(".json") else _from_yaml(path, text)
    for item in items:
        of = f"{path}: {item.key!r}"
        refuse_unexportable(of, item.key + item.text + compact(item.value), "Leave it out.")
        if is_reserved(item.key):
            what = f"{of} is the container's own"
            raise ContractError(what, "Send it as a hyperparameter of the job.")
    return items


class _Number(str):
    """A number of a JSON file, as it stands there."""

    __slots__ = ()


def _from_json(path: str, text: str) -> list[HyperParameter]:
    kept: Any = {"parse_int": _Number, "parse_float": _Number, "parse_constant": _Number}
    try:
        read, values = json.loads(text, **kept), json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ContractError(f"the configuration {path} is no JSON: {error}", _FORM) from error
    if not isinstance(read, dict):
        raise ContractError(f"the configuration {path} is no mapping", _FORM)
    return [
        decode(key, str(value) if isinstance(value, _Number) else json.dumps(values[key]))
        for key, value in read.items()
    ]


def _from_yaml(path: str, text: str) -> list[HyperParameter]:
    try:
        import yaml  # noqa: PLC0415  (10 ms, for few jobs)
    except ImportError:
        what = f"the configuration {path} needs PyYAML, which the harness's Python doesn't have"
        raise ContractError(
            what, "Write it as JSON, in a file whose name ends with .json."
        ) from None
    try:
        root, values = _loaded(yaml, text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ContractError(
            f"the configuration {path} can't be read as YAML: {_brief(error)}", _FORM
        ) from error
    if root is None:
        return []
    if not isinstance(values, dict):
        raise ContractError(f"the configuration {path} is no mapping", f"{_FORM} {_KINDS}")
    texts = {
        key.value: value.value
        for key, value in root.value
        if isinstance(value, yaml.ScalarNode) and not value.style
    }
    return [_from_value(path, key, value, texts) for key, value in values.items()]


def _loaded(yaml: Any, text: str) -> tuple[Any, Any]:
    """The document's node and its value; both None for an empty one."""
    # libyaml, where it is: ten times faster, for a file of a megabyte seconds.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        root = loader.get_single_node()
        return root, None if root is None else loader.construct_document(root)
    finally:
        loader.dispose()


def _from_value(path: str, key: Any, value: Any, texts: Mapping[str, str]) -> HyperParameter:
    """A number or a word by its text, a quoted one as it is, and all else (yes, a date, a list) by its value."""
    if not isinstance(key, str):
        raise ContractError(f"{path}: the name {key!r} is no text", "Put it into quotes.")
    if isinstance(value, (int, float, str)) and not isinstance(value, bool) and key in texts:
        return decode(key, texts[key])
    try:
        return decode(key, json.dumps(value, default=str))
    except (ValueError, TypeError, RecursionError) as error:
        what = f"{path}: {key!r} has no form in JSON: {error}"
        raise ContractError(
            what, "Lists, mappings with names, numbers and texts have one."
        ) from error


def _brief(error: Exception) -> str:
    """A parser's error in one line, with the line that it means."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"line {mark.line + 1}: {problem}" if mark else str(problem)
