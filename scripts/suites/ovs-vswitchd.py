#!/usr/bin/env python3
"""`tautline switch` with the command line and the simulated interfaces of ovs-vswitchd, for the suites of Open vSwitch
and OVN (scripts/suites.sh).

The suites start `ovs-vswitchd --enable-dummy`, put frames into interfaces by `ovs-appctl netdev-dummy/receive`, and read
the files of `options:tx_pcap`. The switch has no simulated interfaces. This program runs the switch in a network
namespace of its own and stands between the switch and its two clients:

- the database: interfaces without a type become vhost-user ports, whose front-end is this program (in the tests of a
  system, interfaces of type afxdp); bridges and their datapath become those in user space. The database
  shows an MTU of 1500. Nothing else is changed.
- `ovs-appctl`: commands for simulated interfaces are answered here, all others by the switch.

The interface of a bridge, which may have addresses, is a TAP with a packet socket, through which frames come and go. The variable TAUTLINE names the program, OVS_VSWITCHD the
ovs-vswitchd that is the cable between the simulated hosts (the sandbox `main`).
"""

import fcntl
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time

from front_end import FrontEnd

RUN = os.environ.get("OVS_RUNDIR", "/var/run/openvswitch")
# The addresses of underlays, of all simulated hosts of a case.
UNDERLAYS = os.path.join(os.path.dirname(RUN), ".underlays")
SIMULATED = {"", "dummy", "dummy-pmd", "dummy-internal", "system"}
# The tables in which columns are changed for the switch.
TABLES = ("Interface", "Bridge", "Open_vSwitch")
# The MTU that the database shows of simulated interfaces, and that of the switch's ports.
MTU, LONGEST = 1500, 9000
OUTGOING = 4
ETH_P_ALL = 3
SOL_PACKET, PACKET_AUXDATA, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 8, 15, 23
TP_STATUS_VLAN_VALID = 0x10
NEEDS_CHECKSUM = 1
TIMES = 1000 * 1000


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False)


class Stream:
    """JSON values, one after the other."""

    def __init__(self):
        self.decoder, self.text = json.JSONDecoder(), ""

    def values(self, data):
        self.text += data.decode("utf-8", "surrogateescape")
        while True:
            self.text = self.text.lstrip()
            if not self.text:
                return
            try:
                value, end = self.decoder.raw_decode(self.text)
            except json.JSONDecodeError:
                return
            self.text = self.text[end:]
            yield value


class Capture:
    """A file of frames, as `ovs-pcap` reads it. Frames are added to those of an earlier interface."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "ab", buffering=0)
        if os.fstat(self.file.fileno()).st_size == 0:
            self.file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))

    def add(self, frame):
        now = time.time()
        head = struct.pack("<IIII", int(now), int(now % 1 * TIMES), len(frame), len(frame))
        self.file.write(head + frame)


class Interface:
    """A simulated interface: the other end of a port of the switch, with `path` of a vhost-user port, or of a TAP."""

    def __init__(self, owner, name, row, path):
        self.owner, self.name, self.row, self.options = owner, name, row, {}
        self.front_end = FrontEnd(owner, path, self.opened, self.came) if path else None
        self.packet = self.cable = self.listener = None
        self.captures, self.received, self.waiting = {}, b"", []
        self.index = None

    def configure(self, options):
        for key in ("tx_pcap", "rxq_pcap"):
            if options.get(key) != self.options.get(key):
                path = options.get(key)
                self.captures[key] = Capture(path) if path else None
        self.options = options

    def replace_removed_captures(self):
        """Makes a file of frames anew that was removed, as Open vSwitch does with each change of an interface."""
        for key, capture in self.captures.items():
            if capture and not os.path.exists(capture.path):
                self.captures[key] = Capture(capture.path)

    def open(self):
        """Opens the packet socket, once the switch has made the TAP."""
        if self.front_end:
            return
        try:
            index = socket.if_nametoindex(self.name)
        except OSError:
            self.close()
            return
        if self.packet and index == self.index:
            return
        self.close()
        self.index = index
        path = f"/proc/sys/net/ipv6/conf/{self.name}/disable_ipv6"
        if os.path.exists(path) and not self.has_ipv6():
            with open(path, "w") as file:
                file.write("1")
        run("ip", "link", "set", self.name, "up", "promisc", "on")
        packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        packet.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        packet.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        packet.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        packet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        packet.bind((self.name, ETH_P_ALL))
        packet.setblocking(False)
        self.packet = packet
        self.owner.watch(packet, self.sent)
        self.opened()

    def opened(self):
        """Sends what has waited for the switch."""
        waiting, self.waiting = self.waiting, []
        for frame in waiting:
            self.receive(frame)

    def has_ipv6(self):
        return any(":" in address for address in self.owner.addresses.get(self.name, []))

    def remove(self):
        self.close()
        self.unplug()
        if self.front_end:
            self.front_end.close()

    def close(self):
        if self.packet:
            self.owner.forget(self.packet)
            self.packet = None

    def receive(self, frame):
        """Gives a frame to the switch."""
        if not (self.front_end.connection if self.front_end else self.packet):
            self.waiting.append(frame)
            return
        if len(frame) < 14:
            return
        capture = self.captures.get("rxq_pcap")
        if capture:
            capture.add(frame)
        if self.front_end:
            if not self.front_end.send(frame):
                self.owner.log(f"{self.name}: no room for a frame of {len(frame)} bytes")
            return
        try:
            self.packet.send(bytes(10) + frame)
        except OSError as error:
            self.owner.log(f"{self.name}: a frame of {len(frame)} bytes: {error}")

    def sent(self, _):
        """Takes frames from the switch."""
        for _ in range(64):
            try:
                data, about, _, address = self.packet.recvmsg(65536, 256)
            except BlockingIOError:
                return
            except OSError:
                return
            if address[2] == OUTGOING:
                continue
            self.came(tagged(completed(data), about))

    def came(self, frame):
        """A frame that the switch has sent."""
        capture = self.captures.get("tx_pcap")
        # The switch asks for the neighbours of tunnels before the first frame, Open vSwitch with it.
        if capture and not self.owner.is_of_underlay(frame):
            capture.add(frame)
        if self.cable:
            try:
                self.cable.sendall(struct.pack(">H", len(frame)) + frame)
            except OSError:
                self.unplug()

    def plug(self):
        """Connects the cable that `options:stream` names, and listens at that of `options:pstream`."""
        path = self.options.get("stream", "")
        if self.cable is None and path.startswith("unix:"):
            cable = socket.socket(socket.AF_UNIX)
            try:
                cable.connect(path.removeprefix("unix:"))
            except OSError:
                return
            self.cable = cable
            self.owner.watch(cable, self.arrived)

    def unplug(self):
        if self.cable:
            self.owner.forget(self.cable)
            self.cable, self.received = None, b""

    def arrived(self, cable):
        try:
            data = cable.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.unplug()
            return
        self.received += data
        while len(self.received) >= 2:
            (length,) = struct.unpack(">H", self.received[:2])
            if len(self.received) < 2 + length:
                break
            frame, self.received = self.received[2 : 2 + length], self.received[2 + length :]
            self.receive(frame)


class Switch:
    """The switch, its database and the clients of `ovs-appctl`."""

    def __init__(self, database, simulates):
        self.database, self.simulates = database, simulates
        self.folder = os.path.join(RUN, ".s")
        self.selector = selectors.DefaultSelector()
        self.interfaces, self.rows, self.addresses = {}, {}, {}
        self.links, self.ends = set(), False
        self.log_file = open(os.path.join(os.environ.get("OVS_LOGDIR", RUN), "ovs-vswitchd.log"), "ab", buffering=0)

    def log(self, text):
        self.log_file.write((text + "\n").encode())

    def watch(self, file, handler):
        self.selector.register(file, selectors.EVENT_READ, handler)

    def watch_number(self, number, handler):
        self.selector.register(number, selectors.EVENT_READ, handler)

    def forget_number(self, number):
        self.selector.unregister(number)

    def forget(self, file):
        try:
            self.selector.unregister(file)
        except (KeyError, ValueError):
            pass
        file.close()

    def start(self):
        os.makedirs(self.folder, exist_ok=True)
        run("ip", "link", "set", "lo", "up")
        if self.simulates:
            # An interface of a bridge sends no frames of the kernel's own.
            for name, value in (("disable_ipv6", "1"), ("router_solicitations", "0")):
                with open(f"/proc/sys/net/ipv6/conf/default/{name}", "w") as file:
                    file.write(value)
        inner = os.path.join(self.folder, "db.sock")
        for path in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, path))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(inner)
        listener.listen(4)
        self.watch(listener, self.connected)
        control = os.path.join(self.folder, "control")
        words = [os.environ["TAUTLINE"], "switch", "--control", control, "--ovsdb", f"unix:{inner}"]
        environment = dict(os.environ, OVS_RUNDIR=self.folder)
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=self.log_file, env=environment
        )
        own = os.path.join(RUN, f"ovs-vswitchd.{os.getpid()}.ctl")
        clients = socket.socket(socket.AF_UNIX)
        if os.path.exists(own):
            os.remove(own)
        clients.bind(own)
        clients.listen(16)
        self.control_path = own
        self.watch(clients, self.client)

    def inner_control(self):
        return os.path.join(self.folder, f"ovs-vswitchd.{self.process.pid}.ctl")

    # --- The database ---

    def connected(self, listener):
        switch, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.database.removeprefix("unix:"))
        except OSError:
            switch.close()
            server.close()
            return
        streams = Stream()

        def over():
            self.forget(switch)
            self.forget(server)

        of_switch = Stream()

        def to_server(source):
            try:
                data = source.recv(1 << 16)
                if data:
                    # A client that waits for the switch finds the sockets of a new bridge.
                    self.tend()
                    for value in of_switch.values(data):
                        server.sendall(json.dumps(shown(value)).encode("utf-8", "surrogateescape"))
                    return
            except OSError:
                pass
            over()

        def to_switch(source):
            try:
                data = source.recv(1 << 20)
                if data:
                    for value in streams.values(data):
                        self.rewrite(value)
                        switch.sendall(json.dumps(value).encode("utf-8", "surrogateescape"))
                    return
            except OSError:
                pass
            over()

        self.watch(switch, to_server)
        self.watch(server, to_switch)

    def rewrite(self, value):
        if isinstance(value, dict):
            for key in TABLES:
                table = value.get(key)
                if isinstance(table, dict):
                    for row, change in table.items():
                        if isinstance(change, dict):
                            self.change(key, row, change)
            for key, inner in value.items():
                if key not in TABLES:
                    self.rewrite(inner)
        elif isinstance(value, list):
            for inner in value:
                self.rewrite(inner)

    def change(self, table, row, change):
        for kind in ("new", "old", "initial", "insert", "modify"):
            columns = change.get(kind)
            if not isinstance(columns, dict):
                continue
            if kind in ("new", "initial", "insert") or "type" in columns:
                if table == "Interface" and columns.get("type", "") in SIMULATED:
                    columns["type"] = "dpdkvhostuserclient" if self.simulates else "afxdp"
                    # A simulated interface of Open vSwitch has an MTU of 1500, and takes longer frames.
                    if self.simulates and columns.get("mtu_request") in (None, ["set", []]):
                        columns["mtu_request"] = LONGEST
            if table == "Interface" and self.simulates and columns.get("mtu") == MTU:
                columns["mtu"] = LONGEST
            if table == "Bridge" and (kind in ("new", "initial", "insert") or "datapath_type" in columns):
                columns["datapath_type"] = "netdev"
            if table == "Open_vSwitch" and isinstance(columns.get("datapaths"), list):
                columns["datapaths"] = ["map", [["netdev", row] for _, row in columns["datapaths"][1]]]
            if table == "Interface" and kind != "old":
                self.row(row, columns, kind == "modify")
        if table == "Interface" and ("delete" in change or set(change) == {"old"}):
            gone = self.rows.pop(row, None)
            interface = self.interfaces.get(gone.get("name")) if gone else None
            # An interface of the same name may have come in the same change.
            if interface and interface.row == row:
                self.interfaces.pop(interface.name).remove()

    def row(self, row, columns, is_difference):
        known = self.rows.setdefault(row, {})
        if "name" in columns:
            known["name"] = columns["name"]
        options = columns.get("options")
        if isinstance(options, list) and options and options[0] == "map":
            new = dict(options[1])
            if is_difference:
                old = dict(known.get("options", {}))
                for key, value in new.items():
                    if old.get(key) == value:
                        del old[key]
                    else:
                        old[key] = value
                new = old
            known["options"] = new
        if not self.simulates or "name" not in known:
            return
        name, path = known["name"], None
        if columns.get("type") == "dpdkvhostuserclient":
            known["path"] = path = os.path.join(self.folder, f"{name}.sock")
            columns["options"] = ["map", [*known.get("options", {}).items(), ("vhost-server-path", path)]]
        if "path" in known or columns.get("type") == "internal" or name in self.interfaces:
            interface = self.interfaces.get(name)
            if interface is None or interface.row != row:
                if interface:
                    interface.remove()
                interface = self.interfaces[name] = Interface(self, name, row, known.get("path"))
            interface.configure(known.get("options", {}))
            if "options" in columns:
                for interface in self.interfaces.values():
                    interface.replace_removed_captures()

    def tend(self):
        """Follows what the switch has made."""
        for interface in list(self.interfaces.values()):
            interface.open()
            interface.plug()
        try:
            names = {name for name in os.listdir(self.folder) if name.endswith((".mgmt", ".snoop"))}
        except OSError:
            names = set()
        for name in names - self.links:
            path = os.path.join(RUN, name)
            if os.path.lexists(path):
                os.remove(path)
            os.symlink(os.path.join(self.folder, name), path)
        for name in self.links - names:
            path = os.path.join(RUN, name)
            if os.path.lexists(path):
                os.remove(path)
        self.links = names

    # --- ovs-appctl ---

    def client(self, listener):
        connection, _ = listener.accept()
        stream = Stream()

        def request(source):
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                self.forget(source)
                return
            for value in stream.values(data):
                result, error = self.answer(value["method"], value.get("params", []))
                answer = {"id": value.get("id"), "result": result, "error": error}
                try:
                    source.sendall(json.dumps(answer).encode())
                except OSError:
                    pass

        self.watch(connection, request)

    def answer(self, method, words):
        own = getattr(self, "do_" + method.replace("/", "_").replace("-", "_"), None)
        if own:
            try:
                return own(*words), None
            except (LookupError, OSError, ValueError, TypeError) as error:
                return None, f"{error}\n"
        return self.ask(method, words)

    def ask(self, method, words):
        inner = socket.socket(socket.AF_UNIX)
        inner.settimeout(30)
        try:
            inner.connect(self.inner_control())
            inner.sendall(json.dumps({"id": 0, "method": method, "params": words}).encode())
            stream = Stream()
            while True:
                data = inner.recv(1 << 20)
                if not data:
                    return None, "the switch ended the connection\n"
                for value in stream.values(data):
                    return value.get("result"), value.get("error")
        except OSError as error:
            return None, f"the switch does not answer: {error}\n"
        finally:
            inner.close()

    def interface(self, name):
        if name not in self.interfaces:
            raise LookupError(f"{name}: no such simulated interface")
        return self.interfaces[name]

    def do_netdev_dummy_receive(self, name, *frames):
        interface = self.interface(name)
        frames, times = list(frames), 1
        while "--len" in frames:
            at = frames.index("--len")
            del frames[at : at + 2]
        while "--qid" in frames:
            at = frames.index("--qid")
            del frames[at : at + 2]
        for frame in frames:
            try:
                data = bytes.fromhex(frame.replace(" ", ""))
            except ValueError:
                made = run("ovs-ofctl", "compose-packet", "--bare", datapath_flow(frame))
                if made.returncode:
                    raise ValueError(made.stderr) from None
                data = bytes.fromhex(made.stdout.strip())
            for _ in range(times):
                interface.receive(data)
        return ""

    def do_netdev_dummy_ip4addr(self, name, address):
        self.addresses.setdefault(name, []).append(address)
        with open(UNDERLAYS, "a") as file:
            file.write(address.split("/")[0] + "\n")
        self.tend()
        run("ip", "addr", "replace", address, "dev", name)
        return "OK"

    def do_netdev_dummy_ip6addr(self, name, address):
        self.addresses.setdefault(name, []).append(address)
        self.tend()
        with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as file:
            file.write("0")
        run("ip", "addr", "replace", address, "dev", name, "nodad")
        return "OK"

    def is_of_underlay(self, frame):
        """Whether a frame is ARP between two addresses of underlays (`netdev-dummy/ip4addr`)."""
        if frame[12:14] != b"\x08\x06" or len(frame) < 42 or frame[28:32] == frame[38:42]:
            return False
        try:
            with open(UNDERLAYS) as file:
                known = set(file.read().split())
        except FileNotFoundError:
            return False
        return {socket.inet_ntoa(frame[28:32]), socket.inet_ntoa(frame[38:42])} <= known

    def do_netdev_dummy_set_admin_state(self, *words):
        names = words[:-1] or list(self.interfaces)
        for name in names:
            run("ip", "link", "set", name, words[-1])
        return "OK"

    def do_netdev_dummy_conn_state(self, *_):
        return ""

    def do_ovs_route_add(self, network, device, gateway=None, *_):
        words = ["via", gateway] if gateway and "=" not in gateway else []
        made = run("ip", "route", "replace", network, *words, "dev", device)
        if made.returncode and "/" in network:
            address, bits = network.split("/")
            made = run("ip", "route", "replace", f"{masked(address, int(bits))}/{bits}", *words, "dev", device)
        return "OK"

    def do_ovs_route_del(self, network, *_):
        run("ip", "route", "del", network)
        return "OK"

    def do_tnl_neigh_set(self, bridge, address, mac):
        run("ip", "neigh", "replace", address, "lladdr", mac, "dev", bridge, "nud", "permanent")
        return "OK"

    do_tnl_arp_set = do_tnl_neigh_set

    def do_vlog_set(self, *_):
        return ""

    do_vlog_reopen = do_vlog_disable_rate_limit = do_vlog_enable_rate_limit = do_vlog_set

    def do_coverage_read_counter(self, name):
        said, _ = self.ask("coverage/read-counter", [name])
        # Events in the code of Open vSwitch, which never happen here.
        return said or "0\n"

    def do_dpctl_ipf_set_min_frag(self, *_):
        # Open vSwitch has a least length of fragments, which the suites lower for theirs. This switch has none.
        return "setting minimum fragment size successful\n"

    def do_dpctl_ipf_set_max_nfrags(self, *_):
        # Open vSwitch has a number of fragments that wait at most; this switch counts their bytes by port.
        return "setting maximum fragments successful\n"

    def do_revalidator_wait(self, *_):
        time.sleep(0.1)
        return ""

    do_revalidator_purge = do_revalidator_wait

    def do_time_warp(self, *words):
        time.sleep(min(float(words[-2 if len(words) > 1 else -1]) / 1000, 5))
        return "warped\n"

    def do_exit(self, *words):
        self.ends = True
        return ""

    def loop(self):
        while not self.ends and self.process.poll() is None:
            for key, _ in self.selector.select(0.05):
                # A handler may have ended the connection of a later one.
                if self.selector.get_map().get(key.fd) is key:
                    key.data(key.fileobj)
            self.tend()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


def shown(value):
    """What the database gets of a value that the switch writes: another MTU."""
    if isinstance(value, dict):
        return {key: MTU if (key, inner) == ("mtu", LONGEST) else shown(inner) for key, inner in value.items()}
    return [shown(inner) for inner in value] if isinstance(value, list) else value


def completed(data):
    """A frame behind its header of virtio-net (10 bytes), with the checksum that the switch has left to the card."""
    flags, _, _, _, start, offset = struct.unpack("=BBHHHH", data[:10])
    frame = bytearray(data[10:])
    if flags & NEEDS_CHECKSUM and start + offset + 2 <= len(frame):
        part = bytes(frame[start:]) + bytes(len(frame[start:]) % 2)
        total = sum(struct.unpack(f">{len(part) // 2}H", part))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        struct.pack_into(">H", frame, start + offset, ~total & 0xFFFF or 0xFFFF)
    return bytes(frame)


def tagged(frame, about):
    """A frame with the tag that the kernel has taken out of it (struct tpacket_auxdata)."""
    for level, kind, data in about:
        if level == SOL_PACKET and kind == PACKET_AUXDATA and len(data) >= 20:
            status, _, _, _, _, tag, protocol = struct.unpack("=IIIHHHH", data[:20])
            if status & TP_STATUS_VLAN_VALID:
                return frame[:12] + struct.pack(">HH", protocol or 0x8100, tag) + frame[12:]
    return frame


def masked(address, bits):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    data = socket.inet_pton(family, address)
    number = int.from_bytes(data, "big") >> (len(data) * 8 - bits) << (len(data) * 8 - bits)
    return socket.inet_ntop(family, number.to_bytes(len(data), "big"))


def datapath_flow(text):
    """A flow as `ovs-ofctl` writes it, from one as `ovs-dpctl` writes it."""
    names = {
        "eth(src": "dl_src", "eth_dst": "dl_dst", "eth_type": "dl_type", "ipv4_src": "nw_src", "ipv4_dst": "nw_dst",
        "ipv4_proto": "nw_proto", "ipv4_tos": "nw_tos", "ipv4_ttl": "nw_ttl", "ipv6_src": "ipv6_src",
        "ipv6_dst": "ipv6_dst", "ipv6_proto": "nw_proto", "ipv6_hlimit": "nw_ttl", "udp_src": "udp_src",
        "udp_dst": "udp_dst", "tcp_src": "tcp_src", "tcp_dst": "tcp_dst", "icmp_type": "icmp_type",
        "icmp_code": "icmp_code", "arp_sip": "arp_spa", "arp_tip": "arp_tpa", "arp_op": "arp_op", "arp_sha": "arp_sha",
        "arp_tha": "arp_tha", "eth_src": "dl_src", "vlan_vid": "dl_vlan", "vlan_pcp": "dl_vlan_pcp",
    }
    if "(" not in text:
        return text
    said, rest = [], text
    while "(" in rest:
        name, rest = rest.split("(", 1)
        name = name.strip(", ")
        inner, rest = rest.split(")", 1)
        if "=" not in inner:
            if name in names:
                said.append(f"{names[name]}={inner}")
            continue
        for part in inner.split(","):
            key, value = part.split("=", 1)
            if f"{name}_{key}" in names:
                said.append(f"{names[f'{name}_{key}']}={value}")
    return ",".join(said)


def main():
    words = sys.argv[1:]
    options = [word for word in words if word.startswith("-")]
    rest = [word for word in words if not word.startswith("-")]
    if "--version" in options or "-V" in options:
        print("ovs-vswitchd (Open vSwitch) 3.1.0")
        return 0
    if os.path.basename(RUN) == "main":
        os.execv(os.environ["OVS_VSWITCHD"], ["ovs-vswitchd", *words])
    simulates = any(option.startswith("--enable-dummy") for option in options)
    if simulates and "TAUTLINE_INSIDE" not in os.environ:
        os.environ["TAUTLINE_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, os.path.abspath(__file__), *words])
    database = rest[0] if rest else f"unix:{RUN}/db.sock"
    reader, writer = os.pipe()
    detaches = "--detach" in options
    if detaches and os.fork():
        os.close(writer)
        said = os.read(reader, 1)
        return 0 if said else 1
    if detaches:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        # The suite waits until all ends of its pipes are closed.
        os.closerange(3, writer)
        os.closerange(writer + 1, 256)
    switch = Switch(database, simulates)
    signal.signal(signal.SIGTERM, lambda *_: setattr(switch, "ends", True))
    switch.start()
    pidfile = next((option.split("=", 1)[1] for option in options if option.startswith("--pidfile=")), None)
    pidfile = pidfile or os.path.join(RUN, "ovs-vswitchd.pid")
    # ovs-appctl takes a pidfile without a lock for one of a process that was killed.
    pid = open(pidfile + ".tmp", "w")
    pid.write(f"{os.getpid()}\n")
    pid.flush()
    fcntl.lockf(pid, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.rename(pidfile + ".tmp", pidfile)
    deadline = time.monotonic() + 10
    while not os.path.exists(switch.inner_control()) and time.monotonic() < deadline and switch.process.poll() is None:
        time.sleep(0.01)
    os.write(writer, b"1")
    os.close(writer)
    switch.loop()
    for path in [pidfile, switch.control_path, *(os.path.join(RUN, name) for name in switch.links)]:
        if os.path.lexists(path):
            os.remove(path)
    return 0


sys.exit(main())
