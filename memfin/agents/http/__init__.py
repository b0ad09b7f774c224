"""Agents behind HTTP: `serve` puts a Python agent there, ``--agent http://...`` evaluates one.

`memfin.agents.http.protocol` has the messages, ``/openapi.json`` of a server the OpenAPI document.
"""

from memfin.agents.http.server import application, serve

__all__ = ["application", "serve"]
