"""Calls for the account and its items: export and deletion (memory design §11.1, §11.2)."""

from typing import Final

from memfin.contracts.memory import DeletionStub
from memfin.memory.package import zipped
from memfin.memory.store import MemoryStore
from memfin.web.memory.bodies import ItemList
from memfin.web.memory.problems import Problem
from memfin.web.memory.routes import Call, Download, Field, Route, deletion


def export(store: MemoryStore, call: Call) -> Download:
    """Return everything of the caller as a zip archive."""
    package = store.export_user(call.user_id)
    return Download(
        name=f"{call.user_id}.zip", media_type="application/zip", data=zipped(call.user_id, package)
    )


def items(store: MemoryStore, call: Call) -> ItemList:
    """Return the items."""
    return ItemList(items=store.items.everything(call.user_id))


def delete_item(store: MemoryStore, call: Call) -> None:
    """Delete an item with its history."""
    store.items.forget(call.user_id, call.params["item_id"])


def delete(store: MemoryStore, call: Call) -> DeletionStub:
    """Delete the account, then its tokens: a call that was interrupted can be repeated until then."""
    if call.query["confirm"] != call.user_id:
        raise Problem(409, "not_confirmed", "confirm: give the id of the user; nothing was deleted")
    stub = store.delete_user(call.user_id)
    store.despite_full_disk(lambda: call.tokens.forget_user(call.user_id))
    return stub


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
    Route(
        method="GET",
        path="/api/items",
        name="listItems",
        summary="Return the remembered items, those of threads and blocked ones too, oldest first.",
        work=items,
        answer=ItemList,
    ),
    deletion("/api/items/{item_id}", "deleteItem", "Delete an item with its history.", delete_item),
    Route(
        method="DELETE",
        path="/api/users/me",
        name="deleteMe",
        summary="Delete the account for good, tokens too, and return the stub that stays; export it first.",
        work=delete,
        answer=DeletionStub,
        query=(Field("confirm", "The id of the user, to confirm it.", {"type": "string"}, required=True),),
        errors=(404, 409),
    ),
)
