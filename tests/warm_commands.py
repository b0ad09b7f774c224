"""Imports and loads what commands import and load when they first use it, for processes to be forked from."""

import pkgutil
from importlib import import_module

import memfin
from memfin.agents.builtin.profile import profile_rules
from memfin.report.render import environment
from memfin.scoring.rows import prepare_scoring

for found in pkgutil.walk_packages(memfin.__path__, "memfin."):
    if not found.name.endswith(("__main__", "pytest_plugin")) and "adapter" not in found.name:  # load slowly
        import_module(found.name)

prepare_scoring()
profile_rules("zh")
profile_rules("en")
for name in ("report.html.j2", "report.md.j2"):
    environment().get_template(name)
