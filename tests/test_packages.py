"""pyproject.toml, environment.yml and constraints.txt name the same packages, and a Python that fits."""

import re
import tomllib
from itertools import chain

import yaml

from book.chapters import ROOT

CONDA_NAMES = {"matplotlib-base": "matplotlib", "pytorch": "torch", "playwright-python": "playwright"}


def requirement(line):
    """`name>=1.2` as (name, bound)."""
    name, bound = re.fullmatch(r"([\w.-]+)(.*)", line).groups()
    return CONDA_NAMES.get(name, name), bound


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def wanted():
    extras = project()["optional-dependencies"]
    return dict(map(requirement, chain(project()["dependencies"], *extras.values())))


def test_conda_gets_the_same_packages():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    *packages, with_pip = environment["dependencies"]
    offered = dict(map(requirement, packages))
    assert offered.pop("python") == project()["requires-python"]
    assert offered.pop("pip") == ""
    [itself, *others] = with_pip["pip"]
    assert itself == "--editable ." and offered | dict(map(requirement, others)) == wanted()


def test_ci_runs_a_pinned_version_of_each_and_each_lower_bound_is_at_most_that():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    for name, bound in wanted().items():
        assert numbers(bound.removeprefix(">=")) <= numbers(pinned[name]), name


def numbers(version):
    return [int(part) for part in version.split(".")]
