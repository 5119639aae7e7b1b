"""Loads a profile as tuned does: `CONFIGURATION FOLDER NAME`. FOLDER has NAME/tuned.conf; every section must be a plugin of tuned's,
and every option one that the plugin knows, of which tuned itself would only warn."""

import sys
from unittest.mock import MagicMock

configuration, folder, name = sys.argv[1:]

import tuned.logs  # noqa: E402
import tuned.plugins.base  # noqa: E402
import tuned.plugins.exceptions  # noqa: E402
import tuned.plugins.repository  # noqa: E402
import tuned.profiles  # noqa: E402
from tuned.utils.global_config import GlobalConfig  # noqa: E402

locator = tuned.profiles.Locator([folder])
merger, factory = tuned.profiles.Merger(), tuned.profiles.Factory()
variables = tuned.profiles.variables.Variables()
profile = tuned.profiles.Loader(locator, factory, merger, GlobalConfig(configuration), variables).load(name)
if not profile.units:
    sys.exit("nothing in it")
repository = tuned.plugins.repository.Repository(*[MagicMock()] * 6, GlobalConfig(configuration), variables)
warnings = []
tuned.plugins.base.log.warn = warnings.append
for unit in profile.units.values():
    try:
        plugin = repository.create(unit.type)
    except ImportError as error:
        sys.exit(f"[{unit.name}]: {error}")
    except tuned.plugins.exceptions.NotSupportedPluginException:
        # Not on this machine, which has no GRUB; what it takes is known all the same.
        kind = repository.load_plugin(unit.type)
        plugin = kind.__new__(kind)
        plugin._has_dynamic_options = False
    taken = plugin._get_effective_options(unit.options)
    # The boot loader's are merged into one.
    lost = [option for option in unit.options if option not in taken and not option.startswith("cmdline")]
    warnings += [f"[{unit.name}] {option}: passed over" for option in lost if not warnings]
if warnings:
    sys.exit("\n".join(warnings))
print(f"{len(profile.units)} sections accepted: {', '.join(profile.units)}")
