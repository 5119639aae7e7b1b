"""The front-end of a vhost-user port without offloads: frames of any length pass unchanged, tags and all.

The switch is the client (`dpdkvhostuserclient`), this end listens (vhost-user protocol, QEMU's docs/interop/vhost-user.rst;
rings: VIRTIO 1.3, section 2.7).
"""

import mmap
import os
import socket
import struct

GET_FEATURES, SET_FEATURES, SET_OWNER, SET_MEM_TABLE = 1, 2, 3, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, SET_VRING_KICK, SET_VRING_CALL = 8, 9, 10, 12, 13
VERSION_1 = 1 << 32
# The header of a frame of virtio-net, all zeros: no offload.
HEADER_BYTES = 12
SLOTS, SLOT_BYTES = 128, 16 << 10
NEXT, AVAILABLE, USED, QUEUE_BYTES = 16 * SLOTS, 16 * SLOTS, 16 * SLOTS + 1024, 16 << 10
WRITABLE, NO_INTERRUPT = 2, 1


class Queue:
    """A split virtqueue of as many buffers as descriptors, each descriptor of its own buffer."""

    def __init__(self, memory, start, buffers, is_writable):
        self.memory, self.start, self.buffers = memory, start, buffers
        self.available = self.used = 0
        self.kick, self.call = os.eventfd(0), os.eventfd(0, os.EFD_NONBLOCK)
        for slot in range(SLOTS):
            where, flags = buffers + slot * SLOT_BYTES, WRITABLE if is_writable else 0
            struct.pack_into("<QIHH", memory, start + 16 * slot, where, SLOT_BYTES, flags, 0)
        struct.pack_into("<H", memory, start + AVAILABLE, 0 if is_writable else NO_INTERRUPT)

    def offer(self, slot):
        memory, at = self.memory, self.start + AVAILABLE
        struct.pack_into("<H", memory, at + 4 + 2 * (self.available % SLOTS), slot)
        self.available = (self.available + 1) & 0xFFFF
        struct.pack_into("<H", memory, at + 2, self.available)

    def notify(self):
        os.eventfd_write(self.kick, 1)

    def returned(self):
        """The buffers that the switch has used: slot and bytes."""
        at = self.start + USED
        (end,) = struct.unpack_from("<H", self.memory, at + 2)
        while self.used != end:
            slot, length = struct.unpack_from("<II", self.memory, at + 4 + 8 * (self.used % SLOTS))
            self.used = (self.used + 1) & 0xFFFF
            yield slot, length

    def close(self):
        os.close(self.kick)
        os.close(self.call)


class FrontEnd:
    """Listens at `path`. `ready` is called when a switch has connected, `arrived` with each frame of the switch."""

    def __init__(self, owner, path, ready, arrived):
        self.owner, self.path, self.ready, self.arrived = owner, path, ready, arrived
        self.connection = None
        self.queues, self.free = [], []
        if os.path.lexists(path):
            os.remove(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        owner.watch(self.listener, self.connected)

    def connected(self, listener):
        connection, _ = listener.accept()
        self.end()
        connection.settimeout(5)
        size = 2 * (QUEUE_BYTES + SLOTS * SLOT_BYTES)
        file = os.memfd_create("frames")
        os.ftruncate(file, size)
        memory = mmap.mmap(file, size)
        first = 2 * QUEUE_BYTES
        receives = Queue(memory, 0, first, True)
        sends = Queue(memory, QUEUE_BYTES, first + SLOTS * SLOT_BYTES, False)
        self.queues, self.free = [receives, sends], list(range(SLOTS))
        for slot in range(SLOTS):
            receives.offer(slot)
        try:
            self.shake_hands(connection, file, size)
        except (OSError, struct.error) as error:
            self.owner.log(f"{self.path}: {error}")
            connection.close()
            return
        finally:
            os.close(file)
        self.connection = connection
        self.owner.watch(connection, self.over)
        self.owner.watch_number(receives.call, self.came)
        self.ready()

    def shake_hands(self, connection, file, size):
        def say(request, body=b"", files=()):
            head = struct.pack("<III", request, 1, len(body))
            socket.send_fds(connection, [head + body], list(files))

        say(GET_FEATURES)
        answer = b""
        while len(answer) < 20:
            part = connection.recv(20 - len(answer))
            if not part:
                raise OSError("the switch ended the connection")
            answer += part
        (features,) = struct.unpack_from("<Q", answer, 12)
        say(SET_OWNER)
        say(SET_FEATURES, struct.pack("<Q", features & VERSION_1))
        # Addresses of the guest and of this end are offsets in the file.
        say(SET_MEM_TABLE, struct.pack("<IIQQQQ", 1, 0, 0, size, 0, 0), [file])
        for index, queue in enumerate(self.queues):
            say(SET_VRING_NUM, struct.pack("<II", index, SLOTS))
            say(SET_VRING_BASE, struct.pack("<II", index, 0))
            start = queue.start
            say(SET_VRING_ADDR, struct.pack("<IIQQQQ", index, 0, start, start + USED, start + AVAILABLE, 0))
            say(SET_VRING_CALL, struct.pack("<Q", index), [queue.call])
            say(SET_VRING_KICK, struct.pack("<Q", index), [queue.kick])

    def over(self, _):
        # The switch says nothing without a question but the end of the connection.
        self.end()

    def end(self):
        if self.connection:
            self.owner.forget_number(self.queues[0].call)
            self.owner.forget(self.connection)
            self.connection = None
        for queue in self.queues:
            queue.close()
        self.queues = []

    def close(self):
        self.end()
        if self.listener:
            self.owner.forget(self.listener)
            self.listener = None
            os.remove(self.path)

    def send(self, frame):
        """Gives a frame to the switch; False if it has no room."""
        if not self.queues or len(frame) > SLOT_BYTES - HEADER_BYTES:
            return False
        queue = self.queues[1]
        self.free += [slot for slot, _ in queue.returned()]
        if not self.free:
            return False
        slot = self.free.pop()
        where, length = queue.buffers + slot * SLOT_BYTES, HEADER_BYTES + len(frame)
        queue.memory[where : where + length] = bytes(HEADER_BYTES) + frame
        struct.pack_into("<I", queue.memory, queue.start + 16 * slot + 8, length)
        queue.offer(slot)
        queue.notify()
        return True

    def came(self, _):
        """Takes frames from the switch."""
        queue = self.queues[0]
        try:
            os.eventfd_read(queue.call)
        except BlockingIOError:
            pass
        for slot, length in queue.returned():
            where = queue.buffers + slot * SLOT_BYTES
            frame = bytes(queue.memory[where + HEADER_BYTES : where + length])
            queue.offer(slot)
            self.arrived(frame)
        queue.notify()
