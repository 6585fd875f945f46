"""kazoo as a peer of the interoperation tests. The protocol is described in peer.rs.

Arguments: connect string, session timeout in milliseconds, default node data.
"""

import logging
import queue
import random
import sys
import threading
import time
import urllib.parse
import uuid

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, LockTimeout, NoNodeError
from kazoo.recipe.lock import Lock, ReadLock, WriteLock

REVOKE = b"__REVOKE__"

# --- kazoo's locks under Curator's names ---------------------------------------


class CuratorMutex(Lock):
    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


class CuratorReadLock(Lock):
    _NODE_NAME = "__READ__"
    _EXCLUDE_NAMES = ["__WRIT__"]


class CuratorWriteLock(Lock):
    _NODE_NAME = "__WRIT__"
    _EXCLUDE_NAMES = ["__READ__", "__WRIT__"]


# What kazoo's own locks must be told to recognise those of Curator's kind.
MUTEX_NAMES = ["-lock-"]
WRITE_NAMES = ["__WRIT__"]
READ_AND_WRITE_NAMES = ["__READ__", "__WRIT__"]


def locks(kind, client, path, data, naming):
    """The lock objects of a kind, by side."""
    if kind == "mutex":
        if naming == "kazoo":
            return {None: Lock(client, path, data, MUTEX_NAMES)}
        return {None: CuratorMutex(client, path, data)}
    if naming == "kazoo":
        return {
            "read": ReadLock(client, path, data, WRITE_NAMES),
            "write": WriteLock(client, path, data, READ_AND_WRITE_NAMES),
        }
    return {
        "read": CuratorReadLock(client, path, data),
        "write": CuratorWriteLock(client, path, data),
    }


# --- Recipes: `how` is the side of a read/write lock, a number of leases, or None --


def acquire_lock(lock, deadline):
    """Returns whether it got it in time."""
    try:
        if deadline is None:
            return lock.acquire()
        left = deadline - time.monotonic()
        return lock.acquire(timeout=left) if left > 0 else lock.acquire(blocking=False)
    except LockTimeout:
        return False


class Locks:
    def __init__(self, client, by_side, on_revoke):
        self.client = client
        self.by_side = by_side
        self.on_revoke = on_revoke
        self.revocable = False

    def acquire(self, how, deadline=None):
        if how == "read" and self.by_side["write"].is_acquired:
            raise NotImplementedError("kazoo cannot downgrade")
        lock = self.by_side[how]
        if not acquire_lock(lock, deadline):
            return False
        if self.revocable:
            self.watch(self.node(how))
        return True

    def release(self, how):
        if not self.by_side[how].release():
            raise RuntimeError("not held")

    def node(self, how):
        lock = self.by_side[how]
        return f"{lock.path}/{lock.node}"

    def participants(self, how):
        return self.by_side[how].contenders()

    def watch(self, node):
        """kazoo knows no revocation, but its users may watch the data of what they hold."""

        def changed(_event):
            # A callback must not ask and wait for the answer, which the same thread brings.
            threading.Thread(target=self.watch, args=[node], daemon=True).start()

        try:
            if self.client.get(node, changed)[0] == REVOKE:
                self.on_revoke()
        except NoNodeError:
            pass


class Semaphore:
    """Curator's layout, which kazoo's own semaphore does not have."""

    def __init__(self, client, path, data, permits):
        self.client = client
        self.gate = CuratorMutex(client, f"{path}/locks", data)
        self.leases = f"{path}/leases"
        self.data = data.encode()
        self.permits = permits
        self.held = []

    def acquire(self, how, deadline=None):
        got = []
        for _ in range(int(how or 1)):
            lease = self.acquire_one(deadline)
            if lease is None:
                self.give_back(got)
                return False
            got.append(lease)
        self.held += got
        return True

    def acquire_one(self, deadline):
        if not acquire_lock(self.gate, deadline):
            return None
        try:
            prefix = f"{self.leases}/{uuid.uuid4().hex}-lease-"
            lease = self.client.create(prefix, self.data, ephemeral=True, sequence=True, makepath=True)
            while True:
                changed = threading.Event()
                children = self.client.get_children(self.leases, lambda _event: changed.set())
                if len(children) <= self.permits:
                    return lease
                if not changed.wait(deadline and max(0, deadline - time.monotonic())):
                    self.client.delete(lease)
                    return None
        finally:
            self.gate.release()

    def release(self, how):
        count = int(how or len(self.held))
        returned, self.held = self.held[:count], self.held[count:]
        self.give_back(returned)

    def give_back(self, leases):
        for lease in leases:
            self.client.delete(lease)

    def participants(self, _how):
        names = self.client.get_children(self.leases)
        return [self.client.get(f"{self.leases}/{name}")[0].decode() for name in names]


class Multi:
    """One lock after the other, as Curator does it."""

    def __init__(self, members):
        self.members = members

    def acquire(self, how, deadline=None):
        for index, member in enumerate(self.members):
            if not member.acquire(how, deadline):
                for acquired in reversed(self.members[:index]):
                    acquired.release(how)
                return False
        return True

    def release(self, how):
        for member in reversed(self.members):
            member.release(how)


class Candidate:
    """kazoo's Election, which leads for as long as its function runs. Its lock must have names that the others know."""

    def __init__(self, client, path, data, naming):
        self.election = client.Election(path, data)
        self.election.lock = locks("mutex", client, path, data, naming)[None]
        self.begun = queue.Queue()
        self.ended = queue.Queue()

    def acquire(self, _how):
        threading.Thread(target=self.election.run, args=[self.lead], daemon=True).start()
        self.begun.get()
        return True

    def lead(self):
        self.begun.put(None)
        self.ended.get()

    def release(self, _how):
        self.ended.put(None)

    def participants(self, _how):
        return self.election.contenders()


def open_recipe(client, default_data, on_revoke, kind, path, *options):
    options = dict(option.split("=", 1) for option in options)
    data = options.get("data", default_data)
    naming = options.get("naming", "curator")

    def open_locks(kind, path):
        return Locks(client, locks(kind, client, path, data, naming), on_revoke)

    if kind in ("mutex", "rw"):
        return open_locks(kind, path)
    if kind == "semaphore":
        return Semaphore(client, path, data, int(options["permits"]))
    if kind == "semaphore_mutex":
        return Semaphore(client, path, data, 1)
    if kind == "multi":
        return Multi([open_locks("mutex", member) for member in path.split(",")])
    if kind == "selector":
        return Candidate(client, path, data, naming)
    raise ValueError(f"unknown: {kind}")


# --- Sections: what is done again and again ------------------------------------

PATIENCE = 15  # seconds; after so long, one that was not woken tries again


class Sections:
    """Acquires, stays for a while and releases, until it is told to stop."""

    def __init__(self, client, recipe, report):
        self.client = client
        self.recipe = recipe
        self.report = report
        self.stays = False
        self.stopped = False

    def signal(self, word):
        self.stays = word == "stay"
        self.stopped = word == "stop"

    def run(self, longest_hold, sides):
        asked = time.monotonic_ns()
        while not self.stopped:
            how = random.choice(sides) if sides else None
            try:
                acquired = self.recipe.acquire(how, time.monotonic() + PATIENCE)
            except KazooException:
                acquired = False
            if not acquired:
                time.sleep(0.05)
                continue
            self.stay(how, asked, random.uniform(0, longest_hold))
            self.release(how)
            asked = time.monotonic_ns()

    def stay(self, how, asked, hold):
        since = time.monotonic_ns()
        time.sleep(hold)
        while self.stays:
            time.sleep(0.005)
        proven, czxid, session = 0, 0, 0
        sent = time.monotonic_ns()
        try:
            stat = self.client.retry(self.client.exists, self.recipe.node(how))
            if stat:
                proven, czxid, session = sent, stat.czxid, stat.ephemeralOwner
        except KazooException:
            pass
        until = time.monotonic_ns()
        self.report(f"{how or '-'} {asked} {since} {until} {proven} {czxid} {session}")

    def release(self, how):
        while True:
            try:
                return self.recipe.release(how)
            except KazooException:  # It believes that it still holds.
                time.sleep(0.05)


# --- The protocol --------------------------------------------------------------

stdout = threading.Lock()


def say(line):
    with stdout:
        print(line.replace("\n", " "), flush=True)


class Actor:
    """A thread with a queue of commands, and the lock that it opened."""

    def __init__(self, name, client, default_data):
        self.name = name
        self.client = client
        self.default_data = default_data
        self.recipe = None
        self.sections = None
        self.commands = queue.Queue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            op, *args = self.commands.get()
            try:
                say(f"{self.name} ok {self.obey(op, args)}".rstrip())
            except Exception as failure:
                say(f"{self.name} error {failure!r}")

    def obey(self, op, args):
        """Returns the text of the reply."""
        if op == "open":
            on_revoke = lambda: say(f"{self.name} revoked")
            self.recipe = open_recipe(self.client, self.default_data, on_revoke, *args)
            self.sections = Sections(self.client, self.recipe, lambda text: say(f"{self.name} section {text}"))
            return ""
        if op == "clock":
            return str(time.monotonic_ns())
        if op == "loop":
            self.sections.run(int(args[0]) / 1000, args[1:])
            return ""
        if op == "try":
            deadline = time.monotonic() + int(args[0]) / 1000
            how = args[1] if len(args) > 1 else None
            return str(self.recipe.acquire(how, deadline)).lower()
        if op == "revoke":
            self.client.set(args[0], REVOKE)
            return ""
        how = args[0] if args else None
        if op == "acquire":
            if not self.recipe.acquire(how):
                raise RuntimeError("not acquired")
            return ""
        if op == "release":
            self.recipe.release(how)
            return ""
        if op == "revocable":
            self.recipe.revocable = True
            return ""
        if op == "participants":
            return " ".join(urllib.parse.quote_plus(data) or "-" for data in self.recipe.participants(how))
        raise ValueError(f"unknown: {op}")


def main():
    connect_string, session_timeout, default_data = sys.argv[1:]
    logging.disable()
    client = KazooClient(connect_string, timeout=int(session_timeout) / 1000)
    client.start(timeout=30)
    actors = {}
    say("ready")
    for line in sys.stdin:
        name, *words = line.split()
        if words == ["ping"]:
            client.exists("/")
            say(f"{name} pong")
            continue
        if words in (["stay"], ["go"], ["stop"]):
            actors[name].sections.signal(words[0])
            continue
        if name not in actors:
            actors[name] = Actor(name, client, default_data)
        actors[name].commands.put(words)
    client.stop()


main()
