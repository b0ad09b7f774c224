"""Calls for the account and its items: export and deletion (memory design §11.1, §11.2)."""

from memfin.contracts.memory import DeletionStub
from memfin.memory.package import zipped
from memfin.memory.store import MemoryStore
from memfin.web.memory.bodies import ItemList
from memfin.web.memory.problems import Problem
from memfin.web.memory.routes import Archive, Call, Field, deletion, route


@route("GET", "/api/users/me/export", "exportMe", errors=(404, 410))
def export(store: MemoryStore, call: Call) -> Archive:
    """Return everything that is saved of the caller, with a manifest, as a zip archive."""
    package = store.export_user(call.user_id)
    return Archive(name=f"{call.user_id}.zip", data=zipped(call.user_id, package))


@route("GET", "/api/items", "listItems")
def items(store: MemoryStore, call: Call) -> ItemList:
    """Return the remembered items, those of threads and blocked ones too, oldest first."""
    return ItemList(items=store.items.everything(call.user_id))


@deletion("/api/items/{item_id}", "deleteItem")
def delete_item(store: MemoryStore, call: Call) -> None:
    """Delete an item with its history."""
    store.items.forget(call.user_id, call.params["item_id"])


_CONFIRM = Field("confirm", "The id of the user, to confirm it.", {"type": "string"}, required=True)


@route("DELETE", "/api/users/me", "deleteMe", query=(_CONFIRM,), errors=(404, 409))
def delete(store: MemoryStore, call: Call) -> DeletionStub:
    """Delete the account for good, tokens too, and return the stub that stays; export it first."""
    if call.query["confirm"] != call.user_id:
        raise Problem(409, "not_confirmed", "confirm: give the id of the user; nothing was deleted")
    stub = store.delete_user(call.user_id)
    # The tokens last: a call that was interrupted can be repeated until then.
    store.despite_full_disk(lambda: call.tokens.forget_user(call.user_id))
    return stub
