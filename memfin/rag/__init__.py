"""The RAG suite: questions about one document, answered with evidence (RAG benchmark schema)."""
