"""Call for the person's own export (memory design §11.1)."""

from typing import Final

from memfin.memory.package import zipped
from memfin.memory.store import MemoryStore
from memfin.web.memory.routes import Call, Download, Route


def export(store: MemoryStore, call: Call) -> Download:
    """Return everything of the caller as a zip archive."""
    package = store.export_user(call.user_id)
    return Download(
        name=f"{call.user_id}.zip", media_type="application/zip", data=zipped(call.user_id, package)
    )


ROUTES: Final = (
    Route(
        method="GET",
        path="/api/users/me/export",
        name="exportMe",
        summary="Return everything that is saved of the caller, with a manifest, as a zip archive.",
        work=export,
        answer="application/zip",
        errors=(404, 410),
    ),
)
