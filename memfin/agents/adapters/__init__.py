"""Adapters for agent frameworks and memory libraries; each module needs the extra of its name.

- `memfin.agents.adapters.langchain`: any LangChain runnable as an agent (``memfin[langchain]``)
- `memfin.agents.adapters.langgraph`: a compiled LangGraph graph as an agent (``memfin[langgraph]``)
- `memfin.agents.adapters.mem0`: mem0 as the memory behind a plain model (``memfin[mem0]``)
"""
