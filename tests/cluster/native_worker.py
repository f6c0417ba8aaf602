"""A process that acquires and gives back one resource of the native API, again and again, and now and then dies or
falls silent.

    native_worker.py NAME WITNESS SEED TTL DEATHS ENDPOINT...

As lock_worker.py: DEATHS of a thousand holds, and as many waits, end with SIGKILL; as many holds end by silence.
"""
import random
import sys
import time

import grpc
from lock_witness import Witness
from lock_worker import IMPATIENT_SECONDS, PASSING, Endpoint, Session, Worker

from harness.cluster import QUICK_RECONNECT
from harness.native import Native, request_of, want
from harness.rpc import Rpc

CALL_SECONDS = 2.0
WAIT_IS_OVER = (grpc.StatusCode.ABORTED, grpc.StatusCode.NOT_FOUND)


class NativeSession(Session):
    """The same with a session; one renewal a stream, at whichever member answers."""

    def create(self):
        return Native(self.rpcs[0].channel).call(
            "Sessions/Create", owner="worker", ttl_ms=self.ttl * 1000, timeout_s=CALL_SECONDS
        ).session.id

    def renew(self, turn):
        requests, answers = Native(self.rpcs[turn].channel).renewals(timeout_s=self.ttl / 3)
        requests.add(request_of("Sessions/Renew", session_id=self.lease))
        requests.end()
        return next(iter(answers)).ttl_ms > 0

    def revoke(self):
        Native(self.rpcs[0].channel).call("Sessions/End", session_id=self.lease, timeout_s=CALL_SECONDS)


class OfNative(Worker):
    """A call that ends is made again with the same session, at another member."""

    session_kind = NativeSession

    def lock(self, session):
        for turn in range(1000):
            native = Native(self.rpcs[turn % len(self.rpcs)].channel)
            timeout_s = IMPATIENT_SECONDS if self.happens(50) else 10 * self.ttl
            wait_ms = 20 if self.happens(50) else -1
            try:
                call = native.begin_acquire(
                    session.lease, want(self.name.decode()), wait_ms=wait_ms, timeout_s=timeout_s
                )
                acquisition = call.result().acquisition
                return acquisition, acquisition.token
            except grpc.RpcError as error:
                if error.code() not in PASSING and error.code() not in WAIT_IS_OVER:
                    raise
                if time.monotonic() >= session.deadline:
                    raise
        raise AssertionError("a thousand calls")

    def unlock(self, key):
        Native(self.rpcs[0].channel).release(key)

    def is_passing(self, error):
        return error.code() in PASSING or error.code() in WAIT_IS_OVER


def main():
    name, witness, seed, ttl, deaths, *endpoints = sys.argv[1:]
    rpcs = [Rpc(Endpoint(endpoint), QUICK_RECONNECT) for endpoint in endpoints]
    OfNative(name.encode(), Witness(witness), random.Random(seed), int(ttl), int(deaths), rpcs).run()


if __name__ == "__main__":
    main()
