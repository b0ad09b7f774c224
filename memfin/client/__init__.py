"""HTTP for agents and judges: endpoints and their secrets, the chat client, the gate over all calls.

Nothing is imported here: whoever needs the errors or the format of answers does not load the HTTP client.
"""
