"""The memory service: a REST interface for programs, and web pages for the people concerned."""
