"""Constraints: the words of what can be forbidden or limited, and a client's text read as a predicate."""
