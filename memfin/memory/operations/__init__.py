"""The operations of the store, a module for each kind of thing that they are about."""
