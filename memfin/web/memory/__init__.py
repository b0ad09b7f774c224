"""The memory layer as a service: a REST interface for programs, pages for the people concerned."""
