"""RAG systems behind HTTP: `serve` puts one there, ``--rag http://...`` asks one.

`memfin.rag.http.protocol` has the messages, ``/openapi.json`` of a server the OpenAPI document.
"""

from memfin.rag.http.server import application, serve

__all__ = ["application", "serve"]
