"""kazoo as a participant of a comparison. The protocol and the loads are described in load.rs."""

import logging
import os
import sys
import threading
import time

import kazoo.version
from kazoo.client import KazooClient

# One of each session queues at a time, and the next ones this much later.
QUEUEING = 0.010


def outcome(cycles, nanoseconds, latencies, grants=()):
    lists = (",".join(map(str, numbers)) for numbers in (latencies, grants))
    return " ".join([str(cycles), str(nanoseconds), *lists])


class Stage:
    """A load that was opened, with its sessions."""

    def __init__(self, servers, sessions):
        self.sessions = [KazooClient(servers, timeout=30) for _ in range(sessions)]
        for session in self.sessions:
            session.start(timeout=30)

    def close(self):
        for session in self.sessions:
            session.stop()
            session.close()


class Timed(Stage):
    def __init__(self, servers, path, operation, iterations, connections):
        super().__init__(servers, int(connections))
        if operation not in ("acquire", "acquire-new", "cycle"):
            raise ValueError(f"kazoo has no {operation}")
        self.path = path
        self.operation = operation
        self.iterations = int(iterations)
        self.locks = [session.Lock(path) for session in self.sessions]
        self.used = 0

    def run(self, number):
        connection = number % len(self.sessions)
        started = time.perf_counter_ns()
        latencies = [self.once(connection) for _ in range(self.iterations)]
        return outcome(self.iterations, time.perf_counter_ns() - started, latencies)

    def once(self, connection):
        lock = self.locks[connection]
        if self.operation == "acquire-new":
            path = f"{self.path}/{self.used}"
            self.used += 1
        started = time.perf_counter_ns()
        if self.operation == "acquire-new":
            lock = self.sessions[connection].Lock(path)
        lock.acquire()
        acquired = time.perf_counter_ns() - started
        lock.release()
        return time.perf_counter_ns() - started if self.operation == "cycle" else acquired


class Contend(Stage):
    def __init__(self, servers, path, sessions, tasks, own_locks, millis, _patience):
        super().__init__(servers, int(sessions))
        self.nanoseconds = int(millis) * 1_000_000
        # A lock object of kazoo is not for several threads at once.
        self.locks = [
            session.Lock(f"{path}/{number * int(tasks) + task}" if own_locks == "1" else path)
            for number, session in enumerate(self.sessions)
            for task in range(int(tasks))
        ]

    def run(self, number):
        results = []
        deadline = time.perf_counter_ns() + self.nanoseconds
        threads = [threading.Thread(target=self.contend, args=(lock, deadline, results)) for lock in self.locks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(results) < len(threads):
            raise RuntimeError("a contender failed")
        latencies = [latency for own, _ in results for latency in own]
        return outcome(len(latencies), self.nanoseconds, latencies, [in_time for _, in_time in results])

    def contend(self, lock, deadline, results):
        own, in_time = [], 0
        started = time.perf_counter_ns()
        while started < deadline:
            lock.acquire()
            own.append(time.perf_counter_ns() - started)
            lock.release()
            started = time.perf_counter_ns()
            in_time += started < deadline
        results.append((own, in_time))


class HandOver(Stage):
    def __init__(self, servers, path, sessions, waiters, hand_overs, hold_millis):
        super().__init__(servers, int(sessions))
        self.hand_overs = int(hand_overs)
        self.hold = int(hold_millis) / 1000
        self.latencies = []
        self.released = 0
        self.enough = threading.Event()
        self.first = self.sessions[0].Lock(path)
        self.first.acquire()
        for waiter in range(int(waiters)):
            session = waiter % len(self.sessions)
            if session == 0:
                time.sleep(QUEUEING)
            lock = self.sessions[session].Lock(path)
            threading.Thread(target=self.wait_and_hold, args=(lock,), daemon=True).start()

    def wait_and_hold(self, lock):
        while not self.enough.is_set():
            lock.acquire()
            self.latencies.append(time.perf_counter_ns() - self.released)
            if len(self.latencies) >= self.hand_overs:
                self.enough.set()
            time.sleep(self.hold)
            self.release(lock)
            # The next one has had time to get the lock then.
            time.sleep(self.hold / 2)

    def release(self, lock):
        self.released = time.perf_counter_ns()
        lock.release()

    def run(self, number):
        started = time.perf_counter_ns()
        self.release(self.first)
        if not self.enough.wait(100):
            raise RuntimeError("the queue does not move")
        latencies = list(self.latencies)
        return outcome(len(latencies), time.perf_counter_ns() - started, latencies)


STAGES = {"timed": Timed, "contend": Contend, "hand-over": HandOver}


def main():
    logging.disable()
    threading.excepthook = lambda failure: None  # waiters whose session is closed under them
    stage = None
    print("ready", kazoo.version.__version__, flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        try:
            if command == "open":
                servers, path, load, *numbers = words
                stage = STAGES[load](servers, path, *numbers)
                print("ok", flush=True)
            elif command == "run":
                print("ok", stage.run(int(words[0])), flush=True)
            elif command == "close":
                stage.close()
                print("ok", flush=True)
            else:
                raise ValueError(line)
        except Exception as failure:
            print("error", repr(failure).replace("\n", " "), flush=True)
    os._exit(0)  # whatever its threads are waiting for


main()
