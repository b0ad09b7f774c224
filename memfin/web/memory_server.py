"""MCP server over stdio: the tools of one user's memory."""

import inspect
from typing import Any, Final, get_type_hints

import msgspec
from anyio import to_thread
from mcp import types  # pyright: ignore[reportMissingImports]
from mcp.server.lowlevel import Server  # pyright: ignore[reportMissingImports]

from memfin.errors import MemfinError, RunFault
from memfin.memory.tools import INSTRUCTIONS, MemoryTools
from memfin.sandbox.signatures import arguments_form, object_schema
from memfin.text.lines import one_line
from memfin.version import __version__
from memfin.web.run_server import serve_stdio

_READING: Final = frozenset(("search_memory", "list_memory"))
_REMOVING: Final = frozenset(("forget_memory",))


class MemoryServer:
    """Server of the protocol that calls the tools of a memory; a refusal is an error in one line."""

    def __init__(self, tools: MemoryTools) -> None:
        self._tools = tools

    def protocol(self) -> Server[Any]:
        """Return the server of the protocol."""
        return Server(
            "memfin-memory",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call,
        )

    async def run(self) -> None:
        """Serve on stdin and stdout until the former ends."""
        await serve_stdio(self.protocol())

    async def list_tools(self, _context: Any, _params: Any) -> types.ListToolsResult:
        """Describe the tools."""
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=inspect.getdoc(function),
                    input_schema=object_schema(arguments_form(function)),
                    output_schema=object_schema(get_type_hints(function)["return"]),
                    annotations=types.ToolAnnotations(
                        read_only_hint=name in _READING, destructive_hint=name in _REMOVING
                    ),
                )
                for name, function in self._tools.items()
            ]
        )

    async def call(self, _context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Call a tool."""
        try:
            found = await to_thread.run_sync(self._tools.invoke, params.name, params.arguments or {})
        except MemfinError as problem:
            reason = str(problem)
            if isinstance(problem, RunFault):  # without its path, which names the user
                reason = getattr(problem.__cause__, "strerror", None) or "the memory cannot be read"
            text = one_line(reason, 500)
            return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
        content: list[Any] = [types.TextContent(text=msgspec.json.encode(found).decode())]
        return types.CallToolResult(content=content, structured_content=msgspec.to_builtins(found))
