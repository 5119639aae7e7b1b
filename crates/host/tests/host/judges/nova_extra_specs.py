"""Judges extra specs by Nova's own schema: `KEY=VALUE` as arguments.

Of Nova only the schema is loaded; what a running service needs besides is left out, and so are its many libraries.
"""

import importlib.util
import os
import sys
import types
from unittest.mock import MagicMock


def without_its_own_imports(name, folder):
    """A package whose parts can be imported, but whose own code does not run."""
    module = types.ModuleType(name)
    module.__path__ = [folder]
    sys.modules[name] = module


root = importlib.util.find_spec("nova").submodule_search_locations[0]
for name in ["nova", "nova.api", "nova.api.validation", "nova.objects", "nova.network", "nova.virt"]:
    without_its_own_imports(name, os.path.join(root, *name.split(".")[1:]))
# Signed images and threads: nothing that an extra spec is about.
for name in ["cursive", "cursive.signature_utils", "nova.utils"]:
    sys.modules[name] = MagicMock()
signatures = sys.modules["cursive"].signature_utils = sys.modules["cursive.signature_utils"]
signatures.HASH_METHODS = signatures.CERT_TYPES = {"none": None}

from nova import exception  # noqa: E402
from nova.api.validation.extra_specs import hw, validators  # noqa: E402, F401

for argument in sys.argv[1:]:
    key, value = argument.split("=", 1)
    if key not in validators.VALIDATORS:
        sys.exit(f"{key}: Nova has no such extra spec")
    try:
        validators.validate(key, value)
    except exception.ValidationError as error:
        sys.exit(f"{argument}: {error.kwargs.get('detail', error)}")
print(f"{len(sys.argv) - 1} extra specs accepted, of {len(validators.VALIDATORS)} known")
