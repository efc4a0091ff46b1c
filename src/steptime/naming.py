"""What a person calls a function."""

from functools import partial


def name_of(function):
    """Its own name, also of what a partial wraps; of an object that can be called, the name of its class."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)
