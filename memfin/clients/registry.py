"""The model that words simulated clients, made from the settings of a run."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from memfin.contracts import RunConfig
from memfin.errors import UsageError

if TYPE_CHECKING:
    from memfin.clients.model import ClientModel

MAX_ATTEMPTS: Final = 3
MAX_DOWN: Final = 30.0  # seconds that words wait for an endpoint that is down; then templates take over
_OPENAI: Final = "openai:"


def resolve_client_model(config: RunConfig, warn: Callable[[str], None]) -> "ClientModel | None":
    """Return the model that words simulated clients, None where templates do.

    Raises:
        UsageError: the setting has another form, there are no simulated clients, or no endpoint is set.
    """
    reference = config.client_model
    if reference is None:
        return None
    if config.client != "simulated":
        raise UsageError("setting client_model: words simulated clients alone; add --client simulated")
    model = reference.removeprefix(_OPENAI)
    if model == reference or not model.strip() or not model.isprintable():
        raise UsageError(f"setting client_model: {reference!r}: name the model, as in openai:qwen3")
    # The client for HTTP loads slowly, and most runs need none.
    from memfin.client.endpoint import Endpoint  # noqa: PLC0415
    from memfin.client.limiter import CallLimiter  # noqa: PLC0415
    from memfin.clients.model import ClientModel  # noqa: PLC0415

    gate = CallLimiter(
        workers=config.workers_dialog,
        max_attempts=MAX_ATTEMPTS,
        max_down=MAX_DOWN,
        on_warning=warn,
        name="the client model's endpoint",
    )
    endpoint = Endpoint.from_environment("client")
    return ClientModel(model, endpoint, gate, seed=config.seed, limit=config.turn_timeout)


def client_inputs(config: RunConfig, model: "ClientModel | None") -> dict[str, Any]:
    """Return what the words of simulated clients depend on, nothing for scripted ones."""
    if config.client == "scripted":
        return {}
    return {"client": config.client, **({} if model is None else {"client_model": model.inputs})}
