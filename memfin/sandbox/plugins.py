"""Plugins: objects that installed packages offer by name in entry points, found without importing them."""

from typing import TYPE_CHECKING, Final, NamedTuple

from memfin.errors import UsageError
from memfin.sandbox.references import unknown_reference

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PREFIX: Final = "memfin."
GROUPS: Final = tuple(
    PREFIX + kind for kind in ("agents", "judges", "metrics", "detectors", "datasets", "exporters")
)


class Plugin(NamedTuple):
    """A name that a package offers; ``reference`` is its object, ``pkg.module:name``."""

    group: str
    name: str
    package: str
    version: str
    reference: str

    @classmethod
    def of(cls, entry: "EntryPoint") -> "Plugin":
        """Return the plugin of an entry point; extras, as in ``module:name [extra]``, are left out."""
        package, version = (entry.dist.name, entry.dist.version) if entry.dist is not None else ("?", "?")
        return cls(entry.group, entry.name, package, version, entry.value.partition("[")[0].strip())


def installed_plugins(*groups: str) -> list[Plugin]:
    """Return the plugins of groups, by default of all of them, sorted; nothing is imported."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - loads slowly

    found = {Plugin.of(entry) for group in groups or GROUPS for entry in entry_points(group=group)}
    return sorted(found)


def plugin_reference(what: str, reference: str, forms: str, group: str) -> str:
    """Return the reference ``pkg.module:name`` of a bare name of a plugin, and any other as it is.

    ``what`` is the option the reference was given for, ``forms`` lists its other valid forms.

    Raises:
        UsageError: no package offers the name, or more than one does.
    """
    if ":" in reference:
        return reference
    plugins = installed_plugins(group)
    found = [each for each in plugins if each.name == reference]
    if not found:
        raise unknown_reference(what, reference, forms, sorted({each.name for each in plugins}))
    if len({each.reference for each in found}) > 1:
        offers = " and ".join(f"{each.package} {each.version} ({each.reference})" for each in found)
        raise UsageError(f"{what} {reference!r}: is offered by {offers}; name the object instead")
    return found[0].reference
