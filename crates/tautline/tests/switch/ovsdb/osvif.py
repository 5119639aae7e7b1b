"""Plugs or unplugs a vhost-user interface by os-vif's own plug-in `ovs`, as Nova does.

Arguments: plug|unplug, the database's socket, the bridge, the interface's identity, its address, the path of its socket,
and client|server: which QEMU is.
"""
import sys
import tempfile
import uuid

import os_vif
from oslo_config import cfg
from os_vif.objects import instance_info, network, vif

action, database, bridge, port, address, path, mode = sys.argv[1:]
with tempfile.NamedTemporaryFile("w", suffix=".conf") as settings:
    settings.write("[os_vif_ovs]\novsdb_connection = unix:" + database + "\n")
    settings.flush()
    cfg.CONF(["--config-file", settings.name], project="tautline")
os_vif.initialize()
from vif_plug_ovs import privsep  # noqa: E402: it reads the settings

privsep.vif_plug.set_client_mode(False)
profile = vif.VIFPortProfileOpenVSwitch(interface_id=port, datapath_type="netdev")
interface = vif.VIFVHostUser(
    id=port,
    address=address,
    vif_name=("vhu" + port)[:14],
    bridge_name=bridge,
    path=path,
    mode=mode,
    plugin="ovs",
    network=network.Network(id=str(uuid.uuid4()), bridge=bridge, mtu=1500),
    port_profile=profile,
)
instance = instance_info.InstanceInfo(uuid=str(uuid.uuid4()), name="guest")
getattr(os_vif, action)(interface, instance)
