"""Clients and sessions are closed while other threads use them, and programs end with objects that are still open."""
import os
import subprocess
import sys
import threading

import pytest

import lease
from harness import wait_for

SECONDS = 30.0
N_ROUNDS = 5


def wait_in_thread(function):
    """Calls it in a thread; gives the thread and a list that gets its exception."""
    ends = []

    def run():
        try:
            ends.append(function())
        except lease.Error as error:
            ends.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ends


@pytest.mark.parametrize("how", ["lock", "campaign"])
@pytest.mark.parametrize("what", ["client", "session"])
def test_whoever_waits_is_told_when_it_is_closed(any_server, prefix, how, what):
    with lease.Client(any_server.endpoint) as holder, holder.lock(prefix):
        for _ in range(N_ROUNDS):
            with lease.Client(any_server.endpoint) as client:
                session = client.session()
                acquire = session.lock if how == "lock" else lambda name, own=session: own.campaign(name, "value")
                thread, ends = wait_in_thread(lambda wait=acquire: wait(prefix))
                wait_for(lambda: holder.resource(prefix, waiters=1).waiting == 1, SECONDS, "it waits")
                if what == "client":
                    client.close()
                else:
                    session.end()
                thread.join(SECONDS)
                assert isinstance(ends[0], lease.Error)
                wait_for(lambda: holder.resource(prefix, waiters=1).waiting == 0, SECONDS, "it left the queue")


def test_a_thread_that_waits_for_instances_is_told(leased_server):
    """No server answers, so that there is nothing that ends the wait."""
    client = lease.Client("127.0.0.1:1")
    waits = [client.service("nothing").wait, client.discover("/nothing").wait]
    threads = [wait_in_thread(wait) for wait in waits]
    wait_for(lambda: len(client._calls._by_thread) == 2, SECONDS, "both wait")
    client.close()
    for thread, ends in threads:
        thread.join(SECONDS)
        assert isinstance(ends[0], lease.Error)


def test_threads_that_lock_and_release_survive_a_close(leased_server, prefix):
    for _ in range(N_ROUNDS):
        with lease.Client(leased_server.endpoint) as client:
            has_locked = threading.Event()

            def work(client=client, has_locked=has_locked):
                while True:
                    with client.lock(f"{prefix}-{threading.get_ident()}") as hold:
                        has_locked.set()
                        assert hold.valid_for >= 0

            threads = [wait_in_thread(work) for _ in range(3)]
            assert has_locked.wait(SECONDS)
            client.close()
            for thread, ends in threads:
                thread.join(SECONDS)
                assert isinstance(ends[0], lease.Error)


def test_a_registration_ends_with_its_client(leased_server, prefix):
    client = lease.Client(leased_server.endpoint)
    registration = client.register(prefix, "127.0.0.1", 1)
    client.close()
    with pytest.raises(lease.Error):
        registration.deregister()


PROGRAM = """
import sys
import lease

client = lease.Client(sys.argv[1])
registration = client.register(sys.argv[2], "127.0.0.1", 1)
service = client.service(sys.argv[2])
directory = client.discover("/")
service.wait(30)
hold = client.lock(sys.argv[2])
print("ready")
"""


def test_a_program_may_end_with_everything_open(leased_server, prefix):
    path = os.path.dirname(os.path.dirname(lease.__file__))
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, leased_server.endpoint, prefix], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ready\n", "")
