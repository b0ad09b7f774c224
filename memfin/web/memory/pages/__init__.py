"""Web pages for the people concerned: consent, settings, export; plain forms that need no JavaScript."""
