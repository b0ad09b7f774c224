"""Web applications on aiohttp."""
